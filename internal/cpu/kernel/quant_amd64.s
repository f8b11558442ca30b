//go:build !purego

#include "textflag.h"

// Products of panels of 8 rows. Lane r of a vector is row r: a chunk of weights
// holds four codes along k of every row, and the same four codes of a line are
// broadcast against it.
//
// int4: codes 0..15 times int8 are added in int16. A lane's sum of 16 products
// less its share of the offset stays within 11*16*127 + 4*16*127 = 30480, at every
// partial sum, so nothing wraps before vpmaddwd widens it.
//
// int8: |w| times x with w's sign; a pair of products is at most 2*127*127 and
// fits int16, two pairs do not, so each is widened.

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

// func int4x1AVX(groups int, w *byte, codes *int8, scales *float32, offsets *uint32, y *float32)
TEXT ·int4x1AVX(SB), NOSPLIT, $0-48
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
	PREFETCHT0 4096(SI)
	PREFETCHT0 4160(SI)
	PREFETCHT0 4224(SI)
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
	VMOVDQU OFF(SI), Y8; \
	VPSRLW $4, Y8, Y9; \
	VPAND Y15, Y8, Y8; \
	VPAND Y15, Y9, Y9; \
	INT4HALF(Y8, LOW); \
	INT4HALF(Y9, HIGH)

// The sum of a group, exact in I, times the scales of its line and of its rows.
#define SCALED(I, SCALE, ACC) \
	VCVTDQ2PS I, I; \
	VBROADCASTSS SCALE, Y10; \
	VMULPS Y10, I, I; \
	VFMADD231PS Y8, I, ACC

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

#define INT8CHUNK(C, ACC) \
	VMOVDQU (32*C)(SI), Y4; \
	VPABSB Y4, Y5; \
	VPBROADCASTD (4*C)(DI), Y6; \
	VPSIGNB Y4, Y6, Y6; \
	VPMADDUBSW Y6, Y5, Y5; \
	VPMADDWD Y14, Y5, Y5; \
	VPADDD Y5, ACC, ACC

// func int8x1AVX(groups int, w *byte, codes *int8, scales *float32, y *float32)
TEXT ·int8x1AVX(SB), NOSPLIT, $0-40
	MOVQ groups+0(FP), CX
	MOVQ w+8(FP), SI
	MOVQ codes+16(FP), DI
	MOVQ scales+24(FP), R9
	MOVQ y+32(FP), DX
	VXORPS Y0, Y0, Y0
	VPBROADCASTD nibble<>+4(SB), Y14
	XORQ AX, AX
	PCALIGN $32

loop:
	PREFETCHT0 4096(SI)
	PREFETCHT0 4160(SI)
	PREFETCHT0 4224(SI)
	PREFETCHT0 4288(SI)
	PREFETCHT0 4352(SI)
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

#define INT8FOUR(C) \
	VMOVDQU (32*C)(SI), Y8; \
	VPABSB Y8, Y9; \
	VPBROADCASTD (4*C)(DI), Y10; \
	VPBROADCASTD (4*C)(DI)(BX*8), Y11; \
	VPBROADCASTD (4*C)(R11), Y12; \
	VPBROADCASTD (4*C)(R11)(BX*8), Y13; \
	VPSIGNB Y8, Y10, Y10; \
	VPSIGNB Y8, Y11, Y11; \
	VPSIGNB Y8, Y12, Y12; \
	VPSIGNB Y8, Y13, Y13; \
	VPMADDUBSW Y10, Y9, Y10; \
	VPMADDUBSW Y11, Y9, Y11; \
	VPMADDUBSW Y12, Y9, Y12; \
	VPMADDUBSW Y13, Y9, Y13; \
	VPMADDWD Y14, Y10, Y10; \
	VPMADDWD Y14, Y11, Y11; \
	VPMADDWD Y14, Y12, Y12; \
	VPMADDWD Y14, Y13, Y13; \
	VPADDD Y10, Y4, Y4; \
	VPADDD Y11, Y5, Y5; \
	VPADDD Y12, Y6, Y6; \
	VPADDD Y13, Y7, Y7

// func int8x4AVX(groups int, w *byte, codes *int8, scales *float32, y *float32, yStride int)
TEXT ·int8x4AVX(SB), NOSPLIT, $0-48
	MOVQ groups+0(FP), CX
	MOVQ w+8(FP), SI
	MOVQ codes+16(FP), DI
	MOVQ scales+24(FP), R9
	LEAQ (CX*4), BX
	LEAQ (BX)(BX*2), R13
	MOVQ BX, R11
	SHLQ $4, R11
	ADDQ DI, R11
	VXORPS Y0, Y0, Y0
	VXORPS Y1, Y1, Y1
	VXORPS Y2, Y2, Y2
	VXORPS Y3, Y3, Y3
	VPBROADCASTD nibble<>+4(SB), Y14
	PCALIGN $32

loop:
	VPXOR Y4, Y4, Y4
	VPXOR Y5, Y5, Y5
	VPXOR Y6, Y6, Y6
	VPXOR Y7, Y7, Y7
	INT8FOUR(0)
	INT8FOUR(1)
	INT8FOUR(2)
	INT8FOUR(3)
	INT8FOUR(4)
	INT8FOUR(5)
	INT8FOUR(6)
	INT8FOUR(7)
	VCVTPH2PS 256(SI), Y8
	SCALED(Y4, (R9), Y0)
	SCALED(Y5, (R9)(BX*1), Y1)
	SCALED(Y6, (R9)(BX*2), Y2)
	SCALED(Y7, (R9)(R13*1), Y3)
	ADDQ $272, SI
	ADDQ $32, DI
	ADDQ $32, R11
	ADDQ $4, R9
	DECQ CX
	JG   loop
	MOVQ y+32(FP), DX
	MOVQ yStride+40(FP), BX
	SHLQ $2, BX
	VMOVUPS Y0, (DX)
	VMOVUPS Y1, (DX)(BX*1)
	LEAQ (DX)(BX*2), DX
	VMOVUPS Y2, (DX)
	VMOVUPS Y3, (DX)(BX*1)
	VZEROUPPER
	RET
