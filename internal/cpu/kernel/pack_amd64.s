//go:build !purego

#include "textflag.h"

// Packing works in the halves of a vector: the order of dwords that undoes it.
DATA together<>+0(SB)/8, $0x0000000400000000
DATA together<>+8(SB)/8, $0x0000000500000001
DATA together<>+16(SB)/8, $0x0000000600000002
DATA together<>+24(SB)/8, $0x0000000700000003
GLOBL together<>(SB), RODATA|NOPTR, $32

// CODE turns elements into codes in vector q, adding to the sums of element * code in
// p and of code^2 in s.
#define CODE(at, x, q, p, s) \
	VMOVUPS at(SI), x         \
	VMULPS  Y15, x, q         \
	VROUNDPS $0, q, q         \
	VMAXPS  Y14, q, q         \
	VMINPS  Y13, q, q         \
	VFMADD231PS x, q, p       \
	VFMADD231PS q, q, s       \
	VCVTPS2DQ q, q

// func encodeAVX(x *float32, inverse, lowest, highest float32, codes *int8) (products, squares float32)
TEXT ·encodeAVX(SB), NOSPLIT, $0-40
	MOVQ x+0(FP), SI
	VBROADCASTSS inverse+8(FP), Y15
	VBROADCASTSS lowest+12(FP), Y14
	VBROADCASTSS highest+16(FP), Y13
	MOVQ codes+24(FP), DI
	VXORPS Y8, Y8, Y8
	VXORPS Y9, Y9, Y9
	VXORPS Y10, Y10, Y10
	VXORPS Y11, Y11, Y11

	CODE(0, Y0, Y4, Y8, Y9)
	CODE(32, Y1, Y5, Y10, Y11)
	CODE(64, Y2, Y6, Y8, Y9)
	CODE(96, Y3, Y7, Y10, Y11)

	VPACKSSDW Y5, Y4, Y4
	VPACKSSDW Y7, Y6, Y6
	VPACKSSWB Y6, Y4, Y4
	VMOVDQU together<>+0(SB), Y0
	VPERMD Y4, Y0, Y4
	VMOVDQU Y4, (DI)

	VADDPS Y10, Y8, Y8
	VADDPS Y11, Y9, Y9
	VHADDPS Y9, Y8, Y8 // pairs of products and of squares by turns
	VEXTRACTF128 $1, Y8, X9
	VADDPS X9, X8, X8
	VHADDPS X8, X8, X8
	VMOVSS X8, products+32(FP)
	VPSRLQ $32, X8, X8
	VMOVSS X8, squares+36(FP)
	VZEROUPPER
	RET

// MAGNITUDE moves the sign of elements below their magnitude.
#define MAGNITUDE(at, x, t) \
	VMOVDQU at(SI), x \
	VPSRLD $31, x, t  \
	VPADDD x, x, x    \
	VPOR   t, x, x

// func extremeAVX(x *float32) float32
TEXT ·extremeAVX(SB), NOSPLIT, $0-12
	MOVQ x+0(FP), SI
	MAGNITUDE(0, Y0, Y4)
	MAGNITUDE(32, Y1, Y5)
	MAGNITUDE(64, Y2, Y6)
	MAGNITUDE(96, Y3, Y7)
	VPMAXUD Y1, Y0, Y0
	VPMAXUD Y3, Y2, Y2
	VPMAXUD Y2, Y0, Y0
	VEXTRACTI128 $1, Y0, X1
	VPMAXUD X1, X0, X0
	VPSHUFD $0x4e, X0, X1
	VPMAXUD X1, X0, X0
	VPSHUFD $0xb1, X0, X1
	VPMAXUD X1, X0, X0
	VMOVD X0, AX
	RORL $1, AX
	MOVL AX, ret+8(FP)
	VZEROUPPER
	RET
