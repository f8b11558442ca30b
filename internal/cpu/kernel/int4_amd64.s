//go:build !purego

#include "textflag.h"

// Products of panels of 8 rows of int4. Lane r of a vector is row r: a chunk of
// weights holds four codes along k of every row, low nibbles and high ones, and the
// same four codes of a line are broadcast against each.
//
// Codes 0..15 times int8 are added in int16. A lane's sum of 16 products less its
// share of the offset stays within 11*16*127 + 4*16*127 = 30480, at every partial
// sum, so nothing wraps before vpmaddwd widens it.

DATA nibble<>+0(SB)/4, $0x0f0f0f0f
DATA nibble<>+4(SB)/4, $0x00010001 // ones, for vpmaddwd
GLOBL nibble<>(SB), RODATA|NOPTR, $8

#define INT4CHUNK(OFF, LOW, HIGH) \
	VMOVDQU OFF(SI), Y4; \
	VPSRLW $4, Y4, Y5; \
	VPAND Y15, Y4, Y4; \
	VPAND Y15, Y5, Y5; \
	VPBROADCASTD LOW(DI), Y6; \
	VPBROADCASTD HIGH(DI), Y7; \
	VPMADDUBSW Y6, Y4, Y4; \
	VPMADDUBSW Y7, Y5, Y5; \
	VPADDW Y4, Y2, Y2; \
	VPADDW Y5, Y3, Y3

// func int4x1AVX(groups int, w *byte, codes *int8, scales *float32, offsets *uint32, y *float32, yStride int)
TEXT ·int4x1AVX(SB), NOSPLIT, $0-56
	MOVQ groups+0(FP), CX
	MOVQ w+8(FP), SI
	MOVQ codes+16(FP), DI
	MOVQ scales+24(FP), R9
	MOVQ offsets+32(FP), R10
	MOVQ y+40(FP), DX
	VXORPS Y0, Y0, Y0
	VPBROADCASTD nibble<>+0(SB), Y15
	VPBROADCASTD nibble<>+4(SB), Y14
	XORQ AX, AX
	PCALIGN $32

loop:
	PREFETCHT0 8192(SI)
	PREFETCHT0 8256(SI)
	PREFETCHT0 8320(SI)
	VPBROADCASTD (R10)(AX*4), Y2
	VPXOR Y3, Y3, Y3
	INT4CHUNK(0, 0, 16)
	INT4CHUNK(32, 4, 20)
	INT4CHUNK(64, 8, 24)
	INT4CHUNK(96, 12, 28)
	VPADDW Y3, Y2, Y2
	VPMADDWD Y14, Y2, Y2
	VCVTPH2PS 128(SI), Y8
	VCVTDQ2PS Y2, Y2
	VBROADCASTSS (R9)(AX*4), Y9
	VMULPS Y9, Y2, Y2
	VFMADD231PS Y8, Y2, Y0
	ADDQ $144, SI
	ADDQ $32, DI
	INCQ AX
	CMPQ AX, CX
	JLT  loop
	VMOVUPS Y0, (DX)
	VZEROUPPER
	RET

// The rest of a group for a line: its exact sum in I times the scales of the line
// and, in Y8, of the rows.
#define SCALED(I, SCALE, ACC) \
	VCVTDQ2PS I, I; \
	VBROADCASTSS SCALE, Y10; \
	VMULPS Y10, I, I; \
	VFMADD231PS Y8, I, ACC

#define INT4NIBBLES(OFF) \
	VMOVDQU OFF(SI), Y8; \
	VPSRLW $4, Y8, Y9; \
	VPAND Y15, Y8, Y8; \
	VPAND Y15, Y9, Y9

#define INT4TWO(OFF, LOW, HIGH) \
	INT4NIBBLES(OFF); \
	VPBROADCASTD LOW(DI), Y10; \
	VPBROADCASTD LOW(R11), Y11; \
	VPBROADCASTD HIGH(DI), Y12; \
	VPBROADCASTD HIGH(R11), Y13; \
	VPMADDUBSW Y10, Y8, Y10; \
	VPMADDUBSW Y11, Y8, Y11; \
	VPMADDUBSW Y12, Y9, Y12; \
	VPMADDUBSW Y13, Y9, Y13; \
	VPADDW Y10, Y4, Y4; \
	VPADDW Y11, Y5, Y5; \
	VPADDW Y12, Y6, Y6; \
	VPADDW Y13, Y7, Y7

// func int4x2AVX(groups int, w *byte, codes *int8, scales *float32, offsets *uint32, y *float32, yStride int)
TEXT ·int4x2AVX(SB), NOSPLIT, $0-56
	MOVQ groups+0(FP), CX
	MOVQ w+8(FP), SI
	MOVQ codes+16(FP), DI
	MOVQ scales+24(FP), R9
	MOVQ offsets+32(FP), R10
	LEAQ (CX*4), BX // from line to line of scales; an eighth of that of codes
	LEAQ (DI)(BX*8), R11
	VXORPS Y0, Y0, Y0
	VXORPS Y1, Y1, Y1
	VPBROADCASTD nibble<>+0(SB), Y15
	VPBROADCASTD nibble<>+4(SB), Y14
	PCALIGN $32

loop:
	PREFETCHT1 8192(SI)
	PREFETCHT1 8256(SI)
	PREFETCHT1 8320(SI)
	VPBROADCASTD (R10), Y4
	VPBROADCASTD (R10)(BX*1), Y5
	VPXOR Y6, Y6, Y6
	VPXOR Y7, Y7, Y7
	INT4TWO(0, 0, 16)
	INT4TWO(32, 4, 20)
	INT4TWO(64, 8, 24)
	INT4TWO(96, 12, 28)
	VPADDW Y6, Y4, Y4
	VPADDW Y7, Y5, Y5
	VCVTPH2PS 128(SI), Y8
	VPMADDWD Y14, Y4, Y4
	VPMADDWD Y14, Y5, Y5
	SCALED(Y4, (R9), Y0)
	SCALED(Y5, (R9)(BX*1), Y1)
	ADDQ $144, SI
	ADDQ $32, DI
	ADDQ $32, R11
	ADDQ $4, R9
	ADDQ $4, R10
	DECQ CX
	JG   loop
	MOVQ y+40(FP), DX
	MOVQ yStride+48(FP), BX
	VMOVUPS Y0, (DX)
	VMOVUPS Y1, (DX)(BX*4)
	VZEROUPPER
	RET

#define INT4THIRD(W, X) \
	VPBROADCASTD X(DI), Y10; \
	VPBROADCASTD X(R11), Y11; \
	VPBROADCASTD X(R12), Y12; \
	VPMADDUBSW Y10, W, Y10; \
	VPMADDUBSW Y11, W, Y11; \
	VPMADDUBSW Y12, W, Y12; \
	VPADDW Y10, Y4, Y4; \
	VPADDW Y11, Y5, Y5; \
	VPADDW Y12, Y6, Y6

#define INT4THREE(OFF, LOW, HIGH) \
	INT4NIBBLES(OFF); \
	INT4THIRD(Y8, LOW); \
	INT4THIRD(Y9, HIGH)

// func int4x3AVX(groups int, w *byte, codes *int8, scales *float32, offsets *uint32, y *float32, yStride int)
TEXT ·int4x3AVX(SB), NOSPLIT, $0-56
	MOVQ groups+0(FP), CX
	MOVQ w+8(FP), SI
	MOVQ codes+16(FP), DI
	MOVQ scales+24(FP), R9
	MOVQ offsets+32(FP), R10
	LEAQ (CX*4), BX
	LEAQ (DI)(BX*8), R11
	LEAQ (R11)(BX*8), R12
	VXORPS Y0, Y0, Y0
	VXORPS Y1, Y1, Y1
	VXORPS Y2, Y2, Y2
	VPBROADCASTD nibble<>+0(SB), Y15
	VPBROADCASTD nibble<>+4(SB), Y14
	PCALIGN $32

loop:
	PREFETCHT1 8192(SI)
	PREFETCHT1 8256(SI)
	PREFETCHT1 8320(SI)
	VPBROADCASTD (R10), Y4
	VPBROADCASTD (R10)(BX*1), Y5
	VPBROADCASTD (R10)(BX*2), Y6
	INT4THREE(0, 0, 16)
	INT4THREE(32, 4, 20)
	INT4THREE(64, 8, 24)
	INT4THREE(96, 12, 28)
	VCVTPH2PS 128(SI), Y8
	VPMADDWD Y14, Y4, Y4
	VPMADDWD Y14, Y5, Y5
	VPMADDWD Y14, Y6, Y6
	SCALED(Y4, (R9), Y0)
	SCALED(Y5, (R9)(BX*1), Y1)
	SCALED(Y6, (R9)(BX*2), Y2)
	ADDQ $144, SI
	ADDQ $32, DI
	ADDQ $32, R11
	ADDQ $32, R12
	ADDQ $4, R9
	ADDQ $4, R10
	DECQ CX
	JG   loop
	MOVQ y+40(FP), DX
	MOVQ yStride+48(FP), BX
	VMOVUPS Y0, (DX)
	VMOVUPS Y1, (DX)(BX*4)
	VMOVUPS Y2, (DX)(BX*8)
	VZEROUPPER
	RET

// One chunk of weights, low and high nibbles, against four lines.
#define INT4HALF(W, X) \
	VPBROADCASTD X(DI), Y10; \
	VPBROADCASTD X(DI)(BX*8), Y11; \
	VPBROADCASTD X(R11), Y12; \
	VPBROADCASTD X(R11)(BX*8), Y13; \
	VPMADDUBSW Y10, W, Y10; \
	VPMADDUBSW Y11, W, Y11; \
	VPMADDUBSW Y12, W, Y12; \
	VPMADDUBSW Y13, W, Y13; \
	VPADDW Y10, Y4, Y4; \
	VPADDW Y11, Y5, Y5; \
	VPADDW Y12, Y6, Y6; \
	VPADDW Y13, Y7, Y7

#define INT4FOUR(OFF, LOW, HIGH) \
	INT4NIBBLES(OFF); \
	INT4HALF(Y8, LOW); \
	INT4HALF(Y9, HIGH)

// func int4x4AVX(groups int, w *byte, codes *int8, scales *float32, offsets *uint32, y *float32, yStride int)
TEXT ·int4x4AVX(SB), NOSPLIT, $0-56
	MOVQ groups+0(FP), CX
	MOVQ w+8(FP), SI
	MOVQ codes+16(FP), DI
	MOVQ scales+24(FP), R9
	MOVQ offsets+32(FP), R10
	LEAQ (CX*4), BX // from line to line of scales; an eighth of that of codes
	LEAQ (BX)(BX*2), R13
	MOVQ BX, R11
	SHLQ $4, R11
	ADDQ DI, R11
	VXORPS Y0, Y0, Y0
	VXORPS Y1, Y1, Y1
	VXORPS Y2, Y2, Y2
	VXORPS Y3, Y3, Y3
	VPBROADCASTD nibble<>+0(SB), Y15
	VPBROADCASTD nibble<>+4(SB), Y14
	PCALIGN $32

loop:
	PREFETCHT1 8192(SI)
	PREFETCHT1 8256(SI)
	PREFETCHT1 8320(SI)
	VPBROADCASTD (R10), Y4
	VPBROADCASTD (R10)(BX*1), Y5
	VPBROADCASTD (R10)(BX*2), Y6
	VPBROADCASTD (R10)(R13*1), Y7
	INT4FOUR(0, 0, 16)
	INT4FOUR(32, 4, 20)
	INT4FOUR(64, 8, 24)
	INT4FOUR(96, 12, 28)
	VCVTPH2PS 128(SI), Y8
	VPMADDWD Y14, Y4, Y4
	VPMADDWD Y14, Y5, Y5
	VPMADDWD Y14, Y6, Y6
	VPMADDWD Y14, Y7, Y7
	SCALED(Y4, (R9), Y0)
	SCALED(Y5, (R9)(BX*1), Y1)
	SCALED(Y6, (R9)(BX*2), Y2)
	SCALED(Y7, (R9)(R13*1), Y3)
	ADDQ $144, SI
	ADDQ $32, DI
	ADDQ $32, R11
	ADDQ $4, R9
	ADDQ $4, R10
	DECQ CX
	JG   loop
	MOVQ y+40(FP), DX
	MOVQ yStride+48(FP), BX
	SHLQ $2, BX
	VMOVUPS Y0, (DX)
	VMOVUPS Y1, (DX)(BX*1)
	LEAQ (DX)(BX*2), DX
	VMOVUPS Y2, (DX)
	VMOVUPS Y3, (DX)(BX*1)
	VZEROUPPER
	RET
