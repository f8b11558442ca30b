//go:build !purego

#include "textflag.h"

DATA quant<>+0(SB)/4, $0x7fffffff // magnitude
DATA quant<>+4(SB)/4, $0x42fe0000 // 127
DATA quant<>+8(SB)/4, $0x0d800000 // tiny, 2^-100
DATA quant<>+12(SB)/4, $0x7fc00000 // NaN
GLOBL quant<>(SB), RODATA|NOPTR, $16

// Packing works in the halves of a vector: the order of dwords that undoes it.
DATA unpack<>+0(SB)/8, $0x0000000400000000
DATA unpack<>+8(SB)/8, $0x0000000500000001
DATA unpack<>+16(SB)/8, $0x0000000600000002
DATA unpack<>+24(SB)/8, $0x0000000700000003
GLOBL unpack<>(SB), RODATA|NOPTR, $32

// func quantizeAVX(groups int, x *float32, codes *int8, scales *float32, offsets *uint32)
TEXT ·quantizeAVX(SB), NOSPLIT, $0-40
	MOVQ groups+0(FP), CX
	MOVQ x+8(FP), SI
	MOVQ codes+16(FP), DI
	MOVQ scales+24(FP), R8
	MOVQ offsets+32(FP), R9
	VBROADCASTSS quant<>+0(SB), Y15
	VMOVDQU unpack<>+0(SB), Y14
	VMOVSS quant<>+4(SB), X13

loop:
	VMOVUPS (SI), Y0
	VMOVUPS 32(SI), Y1
	VMOVUPS 64(SI), Y2
	VMOVUPS 96(SI), Y3

	// x - x is NaN where x is not finite.
	VSUBPS Y0, Y0, Y4
	VSUBPS Y1, Y1, Y5
	VSUBPS Y2, Y2, Y6
	VSUBPS Y3, Y3, Y7
	VADDPS Y5, Y4, Y4
	VADDPS Y7, Y6, Y6
	VADDPS Y6, Y4, Y4
	VCMPPS $3, Y4, Y4, Y4
	VMOVMSKPS Y4, AX
	TESTL AX, AX
	JNZ  bad

	VANDPS Y0, Y15, Y4
	VANDPS Y1, Y15, Y5
	VANDPS Y2, Y15, Y6
	VANDPS Y3, Y15, Y7
	VMAXPS Y5, Y4, Y4
	VMAXPS Y7, Y6, Y6
	VMAXPS Y6, Y4, Y4
	VEXTRACTF128 $1, Y4, X5
	VMAXPS X5, X4, X4
	VPERMILPS $0x4e, X4, X5
	VMAXPS X5, X4, X4
	VPERMILPS $0xb1, X4, X5
	VMAXPS X5, X4, X4
	VUCOMISS quant<>+8(SB), X4
	JCS  zero // below tiny
	VDIVSS X13, X4, X6
	VMOVSS X6, (R8)
	VDIVSS X4, X13, X5
	VBROADCASTSS X5, Y5

	VMULPS Y5, Y0, Y0
	VMULPS Y5, Y1, Y1
	VMULPS Y5, Y2, Y2
	VMULPS Y5, Y3, Y3
	VCVTPS2DQ Y0, Y0
	VCVTPS2DQ Y1, Y1
	VCVTPS2DQ Y2, Y2
	VCVTPS2DQ Y3, Y3
	VPADDD Y1, Y0, Y4
	VPADDD Y3, Y2, Y5
	VPADDD Y5, Y4, Y4
	VPACKSSDW Y1, Y0, Y0
	VPACKSSDW Y3, Y2, Y2
	VPACKSSWB Y2, Y0, Y0
	VPERMD Y0, Y14, Y0
	VMOVDQU Y0, (DI)

	VEXTRACTI128 $1, Y4, X5
	VPADDD X5, X4, X4
	VPSHUFD $0x4e, X4, X5
	VPADDD X5, X4, X4
	VPSHUFD $0xb1, X4, X5
	VPADDD X5, X4, X4
	VMOVD X4, AX
	NEGL AX
	SHLL $2, AX
	MOVWLZX AX, BX
	SHLL $16, AX
	ORL  BX, AX
	MOVL AX, (R9)

next:
	SUBQ $-128, SI
	ADDQ $32, DI
	ADDQ $4, R8
	ADDQ $4, R9
	DECQ CX
	JG   loop
	VZEROUPPER
	RET

bad:
	MOVL quant<>+12(SB), AX
	JMP  without

zero:
	XORL AX, AX

without:
	MOVL AX, (R8)
	MOVL $0, (R9)
	VPXOR Y0, Y0, Y0
	VMOVDQU Y0, (DI)
	JMP  next
