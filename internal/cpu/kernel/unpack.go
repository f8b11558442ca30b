package kernel

// UnpackInt4 writes the first len(dst) elements of a row of a panel.
func UnpackInt4(dst []float32, panel []byte, row int) {
	for k := range dst {
		block, i := panel[k/Group*Int4Bytes:], k%Group
		b := block[i%16/4*32+4*row+i%4]
		if i >= 16 {
			b >>= 4
		}
		dst[k] = float32(int(b&15)-8) * panelScale(block[PanelRows*Group/2:], row)
	}
}

// UnpackInt8 is UnpackInt4 for a panel of int8.
func UnpackInt8(dst []float32, panel []byte, row int) {
	for k := range dst {
		block, i := panel[k/Group*Int8Bytes:], k%Group
		dst[k] = float32(int8(block[i/4*32+4*row+i%4])) * panelScale(block[PanelRows*Group:], row)
	}
}
