//go:build !purego

#include "textflag.h"

// FP8 E4M3 by way of IEEE half: with the code in the upper byte of a word, an
// arithmetic shift by 1 leaves its sign at bit 15 and its other bits at 13..7; a
// copy of the sign at bit 14 is masked out. As a half that is the value over 256,
// exact for subnormals too, which as f32 would cost the multiplier dearly. The one
// code that is not a half of its own is NaN (0x7f): the largest magnitude seen is
// kept, and the caller told.

DATA f8half<>+0(SB)/8, $0xbf80bf80bf80bf80 // of a half: sign and magnitude
DATA f8half<>+8(SB)/8, $0xbf80bf80bf80bf80
DATA f8half<>+16(SB)/8, $0xbf80bf80bf80bf80
DATA f8half<>+24(SB)/8, $0xbf80bf80bf80bf80
GLOBL f8half<>(SB), RODATA|NOPTR, $32

DATA f8code<>+0(SB)/8, $0x7f7f7f7f7f7f7f7f // of a code: magnitude
DATA f8code<>+8(SB)/8, $0x7f7f7f7f7f7f7f7f
DATA f8code<>+16(SB)/8, $0x7f7f7f7f7f7f7f7f
DATA f8code<>+24(SB)/8, $0x7f7f7f7f7f7f7f7f
GLOBL f8code<>(SB), RODATA|NOPTR, $32

DATA f8unit<>+0(SB)/4, $0x43800000 // 256
GLOBL f8unit<>(SB), RODATA|NOPTR, $4

// Y13 holds the largest magnitudes seen. BX is set where one was 0x7f.
#define F8SEEN(W, T) \
	VMOVDQU (W)(AX*1), T; \
	VPAND f8code<>+0(SB), T, T; \
	VPMAXUB T, Y13, Y13

#define F8FOUND \
	VPCMPEQB f8code<>+0(SB), Y13, Y13; \
	VPMOVMSKB Y13, BX; \
	TESTL BX, BX

// BX is the end of the block of scales that starts at AX.
#define F8BLOCKEND \
	LEAQ 128(AX), BX; \
	CMPQ BX, CX; \
	CMOVQGT CX, BX

// The scales, times 256, of four rows R13 apart in the block at SI.
#define F8SCALES \
	VBROADCASTSS f8unit<>+0(SB), Y15; \
	LEAQ (SI)(R13*1), BX; \
	VBROADCASTSS (SI), Y8; \
	VBROADCASTSS (BX), Y9; \
	VBROADCASTSS (BX)(R13*1), Y10; \
	VBROADCASTSS (BX)(R13*2), Y11; \
	VMULPS Y15, Y8, Y8; \
	VMULPS Y15, Y9, Y9; \
	VMULPS Y15, Y10, Y10; \
	VMULPS Y15, Y11, Y11; \
	MOVQ blockStep+40(FP), BX; \
	LEAQ (SI)(BX*4), SI

#define F8ROWS \
	MOVQ k+0(FP), CX; \
	MOVQ w+8(FP), R8; \
	MOVQ stride+16(FP), BX; \
	LEAQ (R8)(BX*1), R9; \
	LEAQ (R8)(BX*2), R10; \
	LEAQ (R9)(BX*2), R11; \
	LEAQ (BX*4), R12; \
	MOVQ scales+24(FP), SI; \
	MOVQ rowStep+32(FP), R13; \
	SHLQ $2, R13; \
	XORQ AX, AX; \
	VPXOR Y13, Y13, Y13

// A row against one line: the words of codes 0..7 and 16..23 in Y5, 8..15 and
// 24..31 in Y6; Y12 is zero.
#define F8ROW1(W, S, A) \
	VMOVDQU (W)(AX*1), Y4; \
	VPUNPCKLBW Y4, Y12, Y5; \
	VPUNPCKHBW Y4, Y12, Y6; \
	VPAND f8code<>+0(SB), Y4, Y4; \
	VPMAXUB Y4, Y13, Y13; \
	VPSRAW $1, Y5, Y5; \
	VPSRAW $1, Y6, Y6; \
	VPAND f8half<>+0(SB), Y5, Y5; \
	VPAND f8half<>+0(SB), Y6, Y6; \
	VCVTPH2PS X5, Y4; \
	VCVTPH2PS X6, Y7; \
	VEXTRACTI128 $1, Y5, X5; \
	VEXTRACTI128 $1, Y6, X6; \
	VMULPS S, Y4, Y4; \
	VMULPS S, Y7, Y7; \
	VCVTPH2PS X5, Y5; \
	VCVTPH2PS X6, Y6; \
	VFMADD231PS (DI)(AX*4), Y4, A; \
	VFMADD231PS 32(DI)(AX*4), Y7, A; \
	VMULPS S, Y5, Y5; \
	VMULPS S, Y6, Y6; \
	VFMADD231PS 64(DI)(AX*4), Y5, A; \
	VFMADD231PS 96(DI)(AX*4), Y6, A

// func mulF8x1(k int, w *byte, stride int, scales *float32, rowStep, blockStep int, x *float32, acc *Sums) (nan bool)
TEXT ·mulF8x1(SB), NOSPLIT, $0-65
	F8ROWS
	MOVQ x+48(FP), DI
	MOVQ acc+56(FP), DX
	VMOVUPS 0(DX), Y0
	VMOVUPS 32(DX), Y1
	VMOVUPS 64(DX), Y2
	VMOVUPS 96(DX), Y3
	VPXOR Y12, Y12, Y12

block:
	F8SCALES
	F8BLOCKEND
	PCALIGN $32

loop:
	PREFETCHT1 (R8)(R12*1)
	PREFETCHT1 (R9)(R12*1)
	PREFETCHT1 (R10)(R12*1)
	PREFETCHT1 (R11)(R12*1)
	F8ROW1(R8, Y8, Y0)
	F8ROW1(R9, Y9, Y1)
	F8ROW1(R10, Y10, Y2)
	F8ROW1(R11, Y11, Y3)
	ADDQ $32, R12
	ADDQ $32, AX
	CMPQ AX, BX
	JLT  loop
	CMPQ AX, CX
	JLT  block
	F8FOUND
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

// Sixteen codes of row W, scaled by S: the first eight in U, the others in T.
#define F8SIXTEEN(OFF, W, S, T, XT, U) \
	VPMOVSXBW OFF(W)(AX*1), T; \
	VPSLLW $7, T, T; \
	VPAND f8half<>+0(SB), T, T; \
	VCVTPH2PS XT, U; \
	VEXTRACTI128 $1, T, XT; \
	VCVTPH2PS XT, T; \
	VMULPS S, U, U; \
	VMULPS S, T, T

#define F8ROW2(OFF, W, S, T, XT, U, A, B) \
	F8SIXTEEN(OFF, W, S, T, XT, U); \
	VFMADD231PS (4*OFF)(DI)(AX*4), U, A; \
	VFMADD231PS (4*OFF)(DX)(AX*4), U, B; \
	VFMADD231PS (4*OFF+32)(DI)(AX*4), T, A; \
	VFMADD231PS (4*OFF+32)(DX)(AX*4), T, B

// func mulF8x2(k int, w *byte, stride int, scales *float32, rowStep, blockStep int, x0, x1 *float32, acc *Sums) (nan bool)
TEXT ·mulF8x2(SB), NOSPLIT, $0-73
	F8ROWS
	MOVQ x0+48(FP), DI
	MOVQ acc+64(FP), DX
	VMOVUPS 0(DX), Y0
	VMOVUPS 32(DX), Y1
	VMOVUPS 64(DX), Y2
	VMOVUPS 96(DX), Y3
	VMOVUPS 128(DX), Y4
	VMOVUPS 160(DX), Y5
	VMOVUPS 192(DX), Y6
	VMOVUPS 224(DX), Y7
	MOVQ x1+56(FP), DX

block:
	F8SCALES
	F8BLOCKEND
	PCALIGN $32

loop:
	PREFETCHT1 (R8)(R12*1)
	PREFETCHT1 (R9)(R12*1)
	PREFETCHT1 (R10)(R12*1)
	PREFETCHT1 (R11)(R12*1)
	F8SEEN(R8, Y12)
	F8ROW2(0, R8, Y8, Y14, X14, Y15, Y0, Y4)
	F8ROW2(16, R8, Y8, Y14, X14, Y15, Y0, Y4)
	F8SEEN(R9, Y12)
	F8ROW2(0, R9, Y9, Y14, X14, Y15, Y1, Y5)
	F8ROW2(16, R9, Y9, Y14, X14, Y15, Y1, Y5)
	F8SEEN(R10, Y12)
	F8ROW2(0, R10, Y10, Y14, X14, Y15, Y2, Y6)
	F8ROW2(16, R10, Y10, Y14, X14, Y15, Y2, Y6)
	F8SEEN(R11, Y12)
	F8ROW2(0, R11, Y11, Y14, X14, Y15, Y3, Y7)
	F8ROW2(16, R11, Y11, Y14, X14, Y15, Y3, Y7)
	ADDQ $32, R12
	ADDQ $32, AX
	CMPQ AX, BX
	JLT  loop
	CMPQ AX, CX
	JLT  block
	F8FOUND
	JNZ  found
	MOVQ acc+64(FP), DX
	VMOVUPS Y0, 0(DX)
	VMOVUPS Y1, 32(DX)
	VMOVUPS Y2, 64(DX)
	VMOVUPS Y3, 96(DX)
	VMOVUPS Y4, 128(DX)
	VMOVUPS Y5, 160(DX)
	VMOVUPS Y6, 192(DX)
	VMOVUPS Y7, 224(DX)
	VZEROUPPER
	MOVB $0, nan+72(FP)
	RET

found:
	VZEROUPPER
	MOVB $1, nan+72(FP)
	RET

// The same k of two rows, in P and Q, against four lines.
#define F8LINES(OFF, P, Q) \
	VMOVUPS OFF(DI)(AX*4), Y12; \
	VFMADD231PS Y12, P, Y0; \
	VFMADD231PS Y12, Q, Y1; \
	VMOVUPS OFF(R13)(AX*4), Y12; \
	VFMADD231PS Y12, P, Y2; \
	VFMADD231PS Y12, Q, Y3; \
	VMOVUPS OFF(R14)(AX*4), Y12; \
	VFMADD231PS Y12, P, Y4; \
	VFMADD231PS Y12, Q, Y5; \
	VMOVUPS OFF(R15)(AX*4), Y12; \
	VFMADD231PS Y12, P, Y6; \
	VFMADD231PS Y12, Q, Y7

#define F8STEP4(OFF) \
	F8SIXTEEN(OFF, R8, Y8, Y10, X10, Y11); \
	F8SIXTEEN(OFF, R9, Y9, Y14, X14, Y15); \
	F8LINES(4*OFF, Y11, Y15); \
	F8LINES(4*OFF+32, Y10, Y14)

// func mulF8x4(k int, w *byte, stride int, scales *float32, rowStep, blockStep int, x0, x1, x2, x3 *float32, acc *Sums) (nan bool)
//
// Two rows at a time; the first two rows' sums wait until the others are sure.
TEXT ·mulF8x4(SB), NOSPLIT, $256-89
	MOVQ k+0(FP), CX
	MOVQ w+8(FP), R8
	MOVQ stride+16(FP), R12
	LEAQ (R8)(R12*1), R9
	SHLQ $1, R12 // the next two rows
	MOVQ scales+24(FP), SI
	MOVQ x0+48(FP), DI
	MOVQ x1+56(FP), R13
	MOVQ x2+64(FP), R14
	MOVQ x3+72(FP), R15
	MOVQ acc+80(FP), DX
	MOVQ $2, R11
	VPXOR Y13, Y13, Y13

pair:
	VMOVUPS 0(DX), Y0
	VMOVUPS 32(DX), Y1
	VMOVUPS 128(DX), Y2
	VMOVUPS 160(DX), Y3
	VMOVUPS 256(DX), Y4
	VMOVUPS 288(DX), Y5
	VMOVUPS 384(DX), Y6
	VMOVUPS 416(DX), Y7
	XORQ AX, AX
	MOVQ SI, R10

block:
	VBROADCASTSS f8unit<>+0(SB), Y15
	MOVQ rowStep+32(FP), BX
	VBROADCASTSS (R10), Y8
	VBROADCASTSS (R10)(BX*4), Y9
	VMULPS Y15, Y8, Y8
	VMULPS Y15, Y9, Y9
	MOVQ blockStep+40(FP), BX
	LEAQ (R10)(BX*4), R10
	F8BLOCKEND
	PCALIGN $32

loop:
	PREFETCHT1 (R8)(R12*1)
	PREFETCHT1 (R9)(R12*1)
	F8SEEN(R8, Y14)
	F8SEEN(R9, Y15)
	F8STEP4(0)
	F8STEP4(16)
	ADDQ $32, R12
	ADDQ $32, AX
	CMPQ AX, BX
	JLT  loop
	CMPQ AX, CX
	JLT  block
	DECQ R11
	JZ   last
	VMOVUPS Y0, s0-256(SP)
	VMOVUPS Y1, s1-224(SP)
	VMOVUPS Y2, s2-192(SP)
	VMOVUPS Y3, s3-160(SP)
	VMOVUPS Y4, s4-128(SP)
	VMOVUPS Y5, s5-96(SP)
	VMOVUPS Y6, s6-64(SP)
	VMOVUPS Y7, s7-32(SP)
	SUBQ CX, R12
	ADDQ R12, R8
	ADDQ R12, R9
	MOVQ rowStep+32(FP), BX
	LEAQ (SI)(BX*8), SI
	ADDQ $64, DX
	JMP  pair

last:
	F8FOUND
	JNZ  found
	VMOVUPS Y0, 0(DX)
	VMOVUPS Y1, 32(DX)
	VMOVUPS Y2, 128(DX)
	VMOVUPS Y3, 160(DX)
	VMOVUPS Y4, 256(DX)
	VMOVUPS Y5, 288(DX)
	VMOVUPS Y6, 384(DX)
	VMOVUPS Y7, 416(DX)
	VMOVUPS s0-256(SP), Y0
	VMOVUPS s1-224(SP), Y1
	VMOVUPS s2-192(SP), Y2
	VMOVUPS s3-160(SP), Y3
	VMOVUPS s4-128(SP), Y4
	VMOVUPS s5-96(SP), Y5
	VMOVUPS s6-64(SP), Y6
	VMOVUPS s7-32(SP), Y7
	VMOVUPS Y0, -64(DX)
	VMOVUPS Y1, -32(DX)
	VMOVUPS Y2, 64(DX)
	VMOVUPS Y3, 96(DX)
	VMOVUPS Y4, 192(DX)
	VMOVUPS Y5, 224(DX)
	VMOVUPS Y6, 320(DX)
	VMOVUPS Y7, 352(DX)
	VZEROUPPER
	MOVB $0, nan+88(FP)
	RET

found:
	VZEROUPPER
	MOVB $1, nan+88(FP)
	RET

// Thirty-two codes from (SI)(AX*1) to (DI)(AX*4), scaled by Y8; Y12 is zero.
#define F8EXPAND \
	VMOVDQU (SI)(AX*1), Y4; \
	VPUNPCKLBW Y4, Y12, Y0; \
	VPUNPCKHBW Y4, Y12, Y1; \
	VPAND f8code<>+0(SB), Y4, Y4; \
	VPMAXUB Y4, Y13, Y13; \
	VPSRAW $1, Y0, Y0; \
	VPSRAW $1, Y1, Y1; \
	VPAND f8half<>+0(SB), Y0, Y0; \
	VPAND f8half<>+0(SB), Y1, Y1; \
	VCVTPH2PS X0, Y2; \
	VEXTRACTI128 $1, Y0, X0; \
	VCVTPH2PS X1, Y3; \
	VEXTRACTI128 $1, Y1, X1; \
	VCVTPH2PS X0, Y0; \
	VCVTPH2PS X1, Y1; \
	VMULPS Y8, Y2, Y2; \
	VMULPS Y8, Y3, Y3; \
	VMULPS Y8, Y0, Y0; \
	VMULPS Y8, Y1, Y1; \
	VMOVUPS Y2, (DI)(AX*4); \
	VMOVUPS Y3, 32(DI)(AX*4); \
	VMOVUPS Y0, 64(DI)(AX*4); \
	VMOVUPS Y1, 96(DI)(AX*4)

// func expandF8(k int, src *byte, scale float32, dst *float32) (nan bool)
TEXT ·expandF8(SB), NOSPLIT, $0-33
	MOVQ k+0(FP), CX
	MOVQ src+8(FP), SI
	VBROADCASTSS scale+16(FP), Y8
	MOVQ dst+24(FP), DI
	VPXOR Y12, Y12, Y12
	VPXOR Y13, Y13, Y13
	VBROADCASTSS f8unit<>+0(SB), Y15
	VMULPS Y15, Y8, Y8
	XORQ AX, AX
	PCALIGN $32

loop:
	F8EXPAND
	ADDQ $32, AX
	CMPQ AX, CX
	JLT  loop
	F8FOUND
	VZEROUPPER
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
	VPXOR Y12, Y12, Y12
	VPXOR Y13, Y13, Y13
	VBROADCASTSS f8unit<>+0(SB), Y15
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
	F8BLOCKEND
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
	F8FOUND
	VZEROUPPER
	SETNE nan+64(FP)
	RET
