//go:build !purego

package kernel

// encode writes the codes of a group, elements * inverse to the nearest and no
// further than lowest and highest, and returns the sums of element * code and of
// code^2.
func encode(x *[Group]float32, inverse, lowest, highest float32, codes *[Group]int8) (products, squares float32) {
	if !fast {
		return encodeGroup(x, inverse, lowest, highest, codes)
	}
	return encodeAVX(&x[0], inverse, lowest, highest, &codes[0])
}

// extreme returns the element of the largest magnitude; it is not finite if one of
// them is not.
func extreme(x *[Group]float32) float32 {
	if !fast {
		return extremeGroup(x)
	}
	return extremeAVX(&x[0])
}

//go:noescape
func extremeAVX(x *float32) float32

//go:noescape
func encodeAVX(x *float32, inverse, lowest, highest float32, codes *int8) (products, squares float32)
