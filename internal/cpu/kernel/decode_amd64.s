//go:build !purego

#include "textflag.h"

// FP8 E4M3 by way of IEEE half: sign-extended to 16 bits and moved up by 7, the
// code's sign stands at bit 15 and its other bits at 13..7; a copy of the sign at
// bit 14 is masked out. As a half that is the value over 256, exact for
// subnormals too. The one code that is not a half of its own is NaN (0x7f):
// the largest magnitude seen is kept, and the caller told.

DATA f8mask<>+0(SB)/4, $0xbf80bf80 // of a half: sign and magnitude
DATA f8mask<>+4(SB)/4, $0x7f7f7f7f // of a code: magnitude
DATA f8mask<>+8(SB)/4, $0x43800000 // 256
GLOBL f8mask<>(SB), RODATA|NOPTR, $12

// Sixteen codes of row W, OFF elements on: scaled by S and multiplied with x into A.
#define F8HALF(OFF, W, S, A) \
	VPMOVSXBW OFF(W)(AX*1), Y4; \
	VPSLLW $7, Y4, Y4; \
	VPAND Y12, Y4, Y4; \
	VCVTPH2PS X4, Y5; \
	VEXTRACTI128 $1, Y4, X6; \
	VCVTPH2PS X6, Y6; \
	VMULPS S, Y5, Y5; \
	VMULPS S, Y6, Y6; \
	VFMADD231PS (4*OFF)(DI)(AX*4), Y5, A; \
	VFMADD231PS (4*OFF+32)(DI)(AX*4), Y6, A

#define F8SEEN(W) \
	VPAND (W)(AX*1), Y13, Y7; \
	VPMAXUB Y7, Y14, Y14

// func mulF8x1(k int, w *byte, stride int, scales *float32, rowStep, blockStep int, x *float32, acc *Sums) (nan bool)
TEXT ·mulF8x1(SB), NOSPLIT, $0-65
	MOVQ k+0(FP), CX
	MOVQ w+8(FP), R8
	MOVQ stride+16(FP), BX
	LEAQ (R8)(BX*1), R9
	LEAQ (R8)(BX*2), R10
	LEAQ (R9)(BX*2), R11
	LEAQ (BX*4), R12 // the next four rows
	MOVQ scales+24(FP), SI
	MOVQ rowStep+32(FP), R13
	SHLQ $2, R13
	MOVQ x+48(FP), DI
	MOVQ acc+56(FP), DX
	VMOVUPS 0(DX), Y0
	VMOVUPS 32(DX), Y1
	VMOVUPS 64(DX), Y2
	VMOVUPS 96(DX), Y3
	VPBROADCASTD f8mask<>+0(SB), Y12
	VPBROADCASTD f8mask<>+4(SB), Y13
	VBROADCASTSS f8mask<>+8(SB), Y15
	VPXOR Y14, Y14, Y14
	XORQ AX, AX

block:
	LEAQ (SI)(R13*1), BX
	VBROADCASTSS (SI), Y8
	VBROADCASTSS (BX), Y9
	VBROADCASTSS (BX)(R13*1), Y10
	VBROADCASTSS (BX)(R13*2), Y11
	VMULPS Y15, Y8, Y8
	VMULPS Y15, Y9, Y9
	VMULPS Y15, Y10, Y10
	VMULPS Y15, Y11, Y11
	MOVQ blockStep+40(FP), BX
	LEAQ (SI)(BX*4), SI
	LEAQ 128(AX), BX // the end of the block
	CMPQ BX, CX
	CMOVQGT CX, BX
	PCALIGN $32

loop:
	PREFETCHT1 (R8)(R12*1)
	PREFETCHT1 (R9)(R12*1)
	PREFETCHT1 (R10)(R12*1)
	PREFETCHT1 (R11)(R12*1)
	F8SEEN(R8)
	F8HALF(0, R8, Y8, Y0)
	F8SEEN(R9)
	F8HALF(0, R9, Y9, Y1)
	F8SEEN(R10)
	F8HALF(0, R10, Y10, Y2)
	F8SEEN(R11)
	F8HALF(0, R11, Y11, Y3)
	F8HALF(16, R8, Y8, Y0)
	F8HALF(16, R9, Y9, Y1)
	F8HALF(16, R10, Y10, Y2)
	F8HALF(16, R11, Y11, Y3)
	ADDQ $32, R12
	ADDQ $32, AX
	CMPQ AX, BX
	JLT  loop
	CMPQ AX, CX
	JLT  block
	VPCMPEQB Y13, Y14, Y14
	VPMOVMSKB Y14, BX
	TESTL BX, BX
	JNZ  found
	VMOVUPS Y0, 0(DX)
	VMOVUPS Y1, 32(DX)
	VMOVUPS Y2, 64(DX)
	VMOVUPS Y3, 96(DX)
	VZEROUPPER
	MOVB $0, nan+64(FP)
	RET

found:
	VZEROUPPER
	MOVB $1, nan+64(FP)
	RET

// Thirty-two codes from (SI)(AX*1) to (DI)(AX*4), scaled by Y8.
#define F8EXPAND \
	VPAND (SI)(AX*1), Y13, Y7; \
	VPMAXUB Y7, Y14, Y14; \
	VPMOVSXBW (SI)(AX*1), Y0; \
	VPMOVSXBW 16(SI)(AX*1), Y1; \
	VPSLLW $7, Y0, Y0; \
	VPSLLW $7, Y1, Y1; \
	VPAND Y12, Y0, Y0; \
	VPAND Y12, Y1, Y1; \
	VCVTPH2PS X0, Y2; \
	VEXTRACTI128 $1, Y0, X0; \
	VCVTPH2PS X1, Y4; \
	VEXTRACTI128 $1, Y1, X1; \
	VCVTPH2PS X0, Y3; \
	VCVTPH2PS X1, Y5; \
	VMULPS Y8, Y2, Y2; \
	VMULPS Y8, Y3, Y3; \
	VMULPS Y8, Y4, Y4; \
	VMULPS Y8, Y5, Y5; \
	VMOVUPS Y2, (DI)(AX*4); \
	VMOVUPS Y3, 32(DI)(AX*4); \
	VMOVUPS Y4, 64(DI)(AX*4); \
	VMOVUPS Y5, 96(DI)(AX*4)

// func expandF8(k int, src *byte, scale float32, dst *float32) (nan bool)
TEXT ·expandF8(SB), NOSPLIT, $0-33
	MOVQ k+0(FP), CX
	MOVQ src+8(FP), SI
	VBROADCASTSS scale+16(FP), Y8
	MOVQ dst+24(FP), DI
	VPBROADCASTD f8mask<>+0(SB), Y12
	VPBROADCASTD f8mask<>+4(SB), Y13
	VBROADCASTSS f8mask<>+8(SB), Y15
	VPXOR Y14, Y14, Y14
	VMULPS Y15, Y8, Y8
	XORQ AX, AX
	PCALIGN $32

loop:
	F8EXPAND
	ADDQ $32, AX
	CMPQ AX, CX
	JLT  loop
	VPCMPEQB Y13, Y14, Y14
	VPMOVMSKB Y14, BX
	VZEROUPPER
	TESTL BX, BX
	SETNE nan+32(FP)
	RET

// func expandGroupF8(k int, src *byte, stride int, scales *float32, rowStep, blockStep int, dst *float32, dstStride int) (nan bool)
TEXT ·expandGroupF8(SB), NOSPLIT, $0-65
	MOVQ k+0(FP), CX
	MOVQ src+8(FP), SI
	MOVQ stride+16(FP), R8
	MOVQ scales+24(FP), R9
	MOVQ rowStep+32(FP), R10
	MOVQ blockStep+40(FP), R11
	MOVQ dst+48(FP), DI
	MOVQ dstStride+56(FP), R12
	VPBROADCASTD f8mask<>+0(SB), Y12
	VPBROADCASTD f8mask<>+4(SB), Y13
	VBROADCASTSS f8mask<>+8(SB), Y15
	VPXOR Y14, Y14, Y14
	MOVQ $4, R13
	LEAQ (SI)(R8*4), R14 // the next four rows

row:
	LEAQ (SI)(CX*1), R15 // what follows in the row
	XORQ AX, AX
	MOVQ R9, DX

block:
	VBROADCASTSS (DX), Y8
	VMULPS Y15, Y8, Y8
	LEAQ (DX)(R11*4), DX
	LEAQ 128(AX), BX // the end of the block
	CMPQ BX, CX
	CMOVQGT CX, BX
	PCALIGN $32

loop:
	PREFETCHT1 (R14)(AX*1)
	PREFETCHT1 (R15)(AX*1)
	F8EXPAND
	ADDQ $32, AX
	CMPQ AX, BX
	JLT  loop
	CMPQ AX, CX
	JLT  block
	ADDQ R8, SI
	ADDQ R8, R14
	LEAQ (DI)(R12*4), DI
	LEAQ (R9)(R10*4), R9
	DECQ R13
	JG   row
	VPCMPEQB Y13, Y14, Y14
	VPMOVMSKB Y14, BX
	VZEROUPPER
	TESTL BX, BX
	SETNE nan+64(FP)
	RET

// func expandBF16(k int, src *byte, dst *float32)
TEXT ·expandBF16(SB), NOSPLIT, $0-24
	MOVQ k+0(FP), CX
	MOVQ src+8(FP), SI
	MOVQ dst+16(FP), DI
	SHLQ $1, CX
	XORQ AX, AX
	LEAQ (SI)(CX*1), R8 // what follows in the row
	PCALIGN $32

loop:
	PREFETCHT1 (R8)(AX*1)
	VPMOVZXWD (SI)(AX*1), Y0
	VPSLLD $16, Y0, Y0
	VMOVUPS Y0, (DI)(AX*2)
	ADDQ $16, AX
	CMPQ AX, CX
	JLT  loop
	VZEROUPPER
	RET

// func expandF16(k int, src *byte, dst *float32)
TEXT ·expandF16(SB), NOSPLIT, $0-24
	MOVQ k+0(FP), CX
	MOVQ src+8(FP), SI
	MOVQ dst+16(FP), DI
	SHLQ $1, CX
	XORQ AX, AX
	PCALIGN $32

loop:
	VCVTPH2PS (SI)(AX*1), Y0
	VMOVUPS Y0, (DI)(AX*2)
	ADDQ $16, AX
	CMPQ AX, CX
	JLT  loop
	VZEROUPPER
	RET

// func copyF32(k int, src *byte, dst *float32)
TEXT ·copyF32(SB), NOSPLIT, $0-24
	MOVQ k+0(FP), CX
	MOVQ src+8(FP), SI
	MOVQ dst+16(FP), DI
	SHLQ $2, CX
	XORQ AX, AX
	LEAQ (SI)(CX*1), R8 // what follows in the row

loop:
	PREFETCHT1 (R8)(AX*1)
	VMOVUPS (SI)(AX*1), Y0
	VMOVUPS Y0, (DI)(AX*1)
	ADDQ $32, AX
	CMPQ AX, CX
	JLT  loop
	VZEROUPPER
	RET
