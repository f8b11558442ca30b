//go:build !purego

#include "textflag.h"

// Products of panels of 8 rows of int8. Lane r of a vector is row r: a chunk of
// weights holds four codes along k of every row.
//
// One line: |w| times x with w's sign. A pair of products is at most 2*127*127 and
// fits int16, two pairs do not, so each is widened.
//
// Several lines: giving x w's sign takes the multiplier, for every line. Instead a
// chunk is widened once, codes 0 and 2 of a row to one pair of int16 and 1 and 3 to
// another, and lines come as such pairs already (widenAVX).

DATA ones<>+0(SB)/4, $0x00010001
GLOBL ones<>(SB), RODATA|NOPTR, $4

// The rest of a group for a line: its exact sum in I times the scales of the line
// and, in Y8, of the rows.
#define SCALED(I, SCALE, ACC) \
	VCVTDQ2PS I, I; \
	VBROADCASTSS SCALE, Y10; \
	VMULPS Y10, I, I; \
	VFMADD231PS Y8, I, ACC

#define INT8CHUNK(C, ACC) \
	VMOVDQU (32*C)(SI), Y4; \
	VPABSB Y4, Y5; \
	VPBROADCASTD (4*C)(DI), Y6; \
	VPSIGNB Y4, Y6, Y6; \
	VPMADDUBSW Y6, Y5, Y5; \
	VPMADDWD Y14, Y5, Y5; \
	VPADDD Y5, ACC, ACC

// func int8x1AVX(groups int, w *byte, codes *int8, scales *float32, y *float32, yStride int)
TEXT ·int8x1AVX(SB), NOSPLIT, $0-48
	MOVQ groups+0(FP), CX
	MOVQ w+8(FP), SI
	MOVQ codes+16(FP), DI
	MOVQ scales+24(FP), R9
	MOVQ y+32(FP), DX
	VXORPS Y0, Y0, Y0
	VPBROADCASTD ones<>+0(SB), Y14
	XORQ AX, AX
	PCALIGN $32

loop:
	PREFETCHT0 8192(SI)
	PREFETCHT0 8256(SI)
	PREFETCHT0 8320(SI)
	PREFETCHT0 8384(SI)
	PREFETCHT0 8448(SI)
	VPXOR Y2, Y2, Y2
	VPXOR Y3, Y3, Y3
	INT8CHUNK(0, Y2)
	INT8CHUNK(1, Y3)
	INT8CHUNK(2, Y2)
	INT8CHUNK(3, Y3)
	INT8CHUNK(4, Y2)
	INT8CHUNK(5, Y3)
	INT8CHUNK(6, Y2)
	INT8CHUNK(7, Y3)
	VPADDD Y3, Y2, Y2
	VCVTPH2PS 256(SI), Y8
	SCALED(Y2, (R9)(AX*4), Y0)
	ADDQ $272, SI
	ADDQ $32, DI
	INCQ AX
	CMPQ AX, CX
	JLT  loop
	VMOVUPS Y0, (DX)
	VZEROUPPER
	RET

// The pairs of chunk C of all rows, in Y12 and Y13.
#define WIDECHUNK(C) \
	VMOVDQU (32*C)(SI), Y12; \
	VPSRAW $8, Y12, Y13; \
	VPSLLW $8, Y12, Y12; \
	VPSRAW $8, Y12, Y12

#define WIDEPAIRS(X, I, C) \
	VPBROADCASTD (4*C)(X)(I), Y14; \
	VPBROADCASTD (4*C+32)(X)(I), Y15

#define WIDEFIRST(X, I, C, ACC) \
	WIDEPAIRS(X, I, C); \
	VPMADDWD Y12, Y14, ACC; \
	VPMADDWD Y13, Y15, Y15; \
	VPADDD Y15, ACC, ACC

#define WIDELINE(X, I, C, ACC) \
	WIDEPAIRS(X, I, C); \
	VPMADDWD Y12, Y14, Y14; \
	VPMADDWD Y13, Y15, Y15; \
	VPADDD Y14, ACC, ACC; \
	VPADDD Y15, ACC, ACC

#define WIDESCALED(X, I, ACC, SUM) \
	VBROADCASTSS (X)(I), Y13; \
	VCVTDQ2PS ACC, ACC; \
	VMULPS Y13, ACC, ACC; \
	VFMADD231PS Y12, ACC, SUM

#define INT8TWO(LINE, C) \
	WIDECHUNK(C); \
	LINE(DI, AX*1, C, Y6); \
	LINE(DI, BX*1, C, Y7)

// func int8x2AVX(groups int, w *byte, wide *int16, scales *float32, y *float32, yStride int)
TEXT ·int8x2AVX(SB), NOSPLIT, $0-48
	MOVQ groups+0(FP), CX
	MOVQ w+8(FP), SI
	MOVQ wide+16(FP), DI
	MOVQ scales+24(FP), R9
	MOVQ CX, BX
	SHLQ $6, BX // from line to line of codes
	LEAQ (CX*4), R13 // and of scales
	VXORPS Y0, Y0, Y0
	VXORPS Y1, Y1, Y1
	XORQ AX, AX
	PCALIGN $32

loop:
	PREFETCHT1 8192(SI)
	PREFETCHT1 8256(SI)
	PREFETCHT1 8320(SI)
	PREFETCHT1 8384(SI)
	PREFETCHT1 8448(SI)
	INT8TWO(WIDEFIRST, 0)
	INT8TWO(WIDELINE, 1)
	INT8TWO(WIDELINE, 2)
	INT8TWO(WIDELINE, 3)
	INT8TWO(WIDELINE, 4)
	INT8TWO(WIDELINE, 5)
	INT8TWO(WIDELINE, 6)
	INT8TWO(WIDELINE, 7)
	VCVTPH2PS 256(SI), Y12
	WIDESCALED(R9, AX*1, Y6, Y0)
	WIDESCALED(R9, R13*1, Y7, Y1)
	ADDQ $272, SI
	ADDQ $64, DI
	ADDQ $4, R9
	DECQ CX
	JG   loop
	MOVQ y+32(FP), DX
	MOVQ yStride+40(FP), BX
	VMOVUPS Y0, (DX)
	VMOVUPS Y1, (DX)(BX*4)
	VZEROUPPER
	RET

#define INT8FOUR(LINE, C) \
	WIDECHUNK(C); \
	LINE(DI, AX*1, C, Y6); \
	LINE(DI, BX*1, C, Y7); \
	LINE(R11, AX*1, C, Y8); \
	LINE(R11, BX*1, C, Y9)

// func int8x4AVX(groups int, w *byte, wide *int16, scales *float32, y *float32, yStride int)
TEXT ·int8x4AVX(SB), NOSPLIT, $0-48
	MOVQ groups+0(FP), CX
	MOVQ w+8(FP), SI
	MOVQ wide+16(FP), DI
	MOVQ scales+24(FP), R9
	MOVQ CX, BX
	SHLQ $6, BX // from line to line of codes
	LEAQ (CX*4), R13 // and of scales
	LEAQ (DI)(BX*2), R11
	LEAQ (R9)(R13*2), R12
	VXORPS Y0, Y0, Y0
	VXORPS Y1, Y1, Y1
	VXORPS Y2, Y2, Y2
	VXORPS Y3, Y3, Y3
	XORQ AX, AX
	PCALIGN $32

loop:
	PREFETCHT1 8192(SI)
	PREFETCHT1 8256(SI)
	PREFETCHT1 8320(SI)
	PREFETCHT1 8384(SI)
	PREFETCHT1 8448(SI)
	INT8FOUR(WIDEFIRST, 0)
	INT8FOUR(WIDELINE, 1)
	INT8FOUR(WIDELINE, 2)
	INT8FOUR(WIDELINE, 3)
	INT8FOUR(WIDELINE, 4)
	INT8FOUR(WIDELINE, 5)
	INT8FOUR(WIDELINE, 6)
	INT8FOUR(WIDELINE, 7)
	VCVTPH2PS 256(SI), Y12
	WIDESCALED(R9, AX*1, Y6, Y0)
	WIDESCALED(R9, R13*1, Y7, Y1)
	WIDESCALED(R12, AX*1, Y8, Y2)
	WIDESCALED(R12, R13*1, Y9, Y3)
	ADDQ $272, SI
	ADDQ $64, DI
	ADDQ $64, R11
	ADDQ $4, R12
	ADDQ $4, R9
	DECQ CX
	JG   loop
	MOVQ y+32(FP), DX
	MOVQ yStride+40(FP), BX
	VMOVUPS Y0, (DX)
	VMOVUPS Y1, (DX)(BX*4)
	LEAQ (DX)(BX*8), DX
	VMOVUPS Y2, (DX)
	VMOVUPS Y3, (DX)(BX*4)
	VZEROUPPER
	RET

#define INT8SIX(LINE, C) \
	WIDECHUNK(C); \
	LINE(DI, AX*1, C, Y6); \
	LINE(DI, BX*1, C, Y7); \
	LINE(DI, BX*2, C, Y8); \
	LINE(R11, AX*1, C, Y9); \
	LINE(R11, BX*1, C, Y10); \
	LINE(R11, BX*2, C, Y11)

// func int8x6AVX(groups int, w *byte, wide *int16, scales *float32, y *float32, yStride int)
TEXT ·int8x6AVX(SB), NOSPLIT, $0-48
	MOVQ groups+0(FP), CX
	MOVQ w+8(FP), SI
	MOVQ wide+16(FP), DI
	MOVQ scales+24(FP), R9
	MOVQ CX, BX
	SHLQ $6, BX // from line to line of codes
	LEAQ (CX*4), R13 // and of scales
	LEAQ (DI)(BX*2), R11
	ADDQ BX, R11
	LEAQ (R9)(R13*2), R12
	ADDQ R13, R12
	VXORPS Y0, Y0, Y0
	VXORPS Y1, Y1, Y1
	VXORPS Y2, Y2, Y2
	VXORPS Y3, Y3, Y3
	VXORPS Y4, Y4, Y4
	VXORPS Y5, Y5, Y5
	XORQ AX, AX
	PCALIGN $32

loop:
	PREFETCHT1 8192(SI)
	PREFETCHT1 8256(SI)
	PREFETCHT1 8320(SI)
	PREFETCHT1 8384(SI)
	PREFETCHT1 8448(SI)
	INT8SIX(WIDEFIRST, 0)
	INT8SIX(WIDELINE, 1)
	INT8SIX(WIDELINE, 2)
	INT8SIX(WIDELINE, 3)
	INT8SIX(WIDELINE, 4)
	INT8SIX(WIDELINE, 5)
	INT8SIX(WIDELINE, 6)
	INT8SIX(WIDELINE, 7)
	VCVTPH2PS 256(SI), Y12
	WIDESCALED(R9, AX*1, Y6, Y0)
	WIDESCALED(R9, R13*1, Y7, Y1)
	WIDESCALED(R9, R13*2, Y8, Y2)
	WIDESCALED(R12, AX*1, Y9, Y3)
	WIDESCALED(R12, R13*1, Y10, Y4)
	WIDESCALED(R12, R13*2, Y11, Y5)
	ADDQ $272, SI
	ADDQ $64, DI
	ADDQ $64, R11
	ADDQ $4, R12
	ADDQ $4, R9
	DECQ CX
	JG   loop
	MOVQ y+32(FP), DX
	MOVQ yStride+40(FP), BX
	VMOVUPS Y0, (DX)
	VMOVUPS Y1, (DX)(BX*4)
	LEAQ (DX)(BX*8), DX
	VMOVUPS Y2, (DX)
	VMOVUPS Y3, (DX)(BX*4)
	LEAQ (DX)(BX*8), DX
	VMOVUPS Y4, (DX)
	VMOVUPS Y5, (DX)(BX*4)
	VZEROUPPER
	RET

// func widenAVX(groups int, codes *int8, wide *int16)
TEXT ·widenAVX(SB), NOSPLIT, $0-24
	MOVQ groups+0(FP), CX
	MOVQ codes+8(FP), SI
	MOVQ wide+16(FP), DI

loop:
	VMOVDQU (SI), Y0
	VPSRAW $8, Y0, Y1
	VPSLLW $8, Y0, Y0
	VPSRAW $8, Y0, Y0
	VMOVDQU Y0, (DI)
	VMOVDQU Y1, 32(DI)
	ADDQ $32, SI
	ADDQ $64, DI
	DECQ CX
	JG   loop
	VZEROUPPER
	RET
