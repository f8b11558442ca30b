//go:build !amd64 || purego

package kernel

// encode writes the codes of a group, elements * inverse to the nearest and no
// further than lowest and highest, and returns the sums of element * code and of
// code^2.
func encode(x *[Group]float32, inverse, lowest, highest float32, codes *[Group]int8) (products, squares float32) {
	return encodeGroup(x, inverse, lowest, highest, codes)
}

// extreme returns the element of the largest magnitude; it is not finite if one of
// them is not.
func extreme(x *[Group]float32) float32 {
	return extremeGroup(x)
}
