//go:build !purego

#include "textflag.h"

// Weighted sums of rows, 32 columns at a time: accumulators for one to three
// lines stay in registers while the rows pass by. They begin with what the lines are,
// or with zeros without waiting for them.

#define YLOAD(Y, A, B, C, D) \
	VMOVUPS (Y), A; \
	VMOVUPS 32(Y), B; \
	VMOVUPS 64(Y), C; \
	VMOVUPS 96(Y), D

#define YZERO(A, B, C, D) \
	VXORPS A, A, A; \
	VXORPS B, B, B; \
	VXORPS C, C, C; \
	VXORPS D, D, D

#define YSTORE(Y, A, B, C, D) \
	VMOVUPS A, (Y); \
	VMOVUPS B, 32(Y); \
	VMOVUPS C, 64(Y); \
	VMOVUPS D, 96(Y)

// func weigh3(n int, v *float32, stride int, p *float32, pStride int, y *float32, yStride int, add bool)
TEXT ·weigh3(SB), NOSPLIT, $0-57
	MOVQ n+0(FP), CX
	MOVQ v+8(FP), R8
	MOVQ stride+16(FP), BX
	SHLQ $2, BX
	MOVQ p+24(FP), SI
	MOVQ pStride+32(FP), AX
	LEAQ (SI)(AX*4), R9
	LEAQ (R9)(AX*4), R10
	MOVQ y+40(FP), DI
	MOVQ yStride+48(FP), AX
	LEAQ (DI)(AX*4), R11
	LEAQ (R11)(AX*4), R12
	XORQ AX, AX
	CMPB add+56(FP), $0
	JEQ  zero
	YLOAD(DI, Y0, Y1, Y2, Y3)
	YLOAD(R11, Y4, Y5, Y6, Y7)
	YLOAD(R12, Y8, Y9, Y10, Y11)
	JMP  loop

zero:
	YZERO(Y0, Y1, Y2, Y3)
	YZERO(Y4, Y5, Y6, Y7)
	YZERO(Y8, Y9, Y10, Y11)
	PCALIGN $32

loop:
	VBROADCASTSS (SI)(AX*4), Y12
	VBROADCASTSS (R9)(AX*4), Y13
	VBROADCASTSS (R10)(AX*4), Y14
	VMOVUPS (R8), Y15
	VFMADD231PS Y15, Y12, Y0
	VFMADD231PS Y15, Y13, Y4
	VFMADD231PS Y15, Y14, Y8
	VMOVUPS 32(R8), Y15
	VFMADD231PS Y15, Y12, Y1
	VFMADD231PS Y15, Y13, Y5
	VFMADD231PS Y15, Y14, Y9
	VMOVUPS 64(R8), Y15
	VFMADD231PS Y15, Y12, Y2
	VFMADD231PS Y15, Y13, Y6
	VFMADD231PS Y15, Y14, Y10
	VMOVUPS 96(R8), Y15
	VFMADD231PS Y15, Y12, Y3
	VFMADD231PS Y15, Y13, Y7
	VFMADD231PS Y15, Y14, Y11
	ADDQ BX, R8
	INCQ AX
	CMPQ AX, CX
	JLT  loop
	YSTORE(DI, Y0, Y1, Y2, Y3)
	YSTORE(R11, Y4, Y5, Y6, Y7)
	YSTORE(R12, Y8, Y9, Y10, Y11)
	VZEROUPPER
	RET

// func weigh2(n int, v *float32, stride int, p *float32, pStride int, y *float32, yStride int, add bool)
TEXT ·weigh2(SB), NOSPLIT, $0-57
	MOVQ n+0(FP), CX
	MOVQ v+8(FP), R8
	MOVQ stride+16(FP), BX
	SHLQ $2, BX
	MOVQ p+24(FP), SI
	MOVQ pStride+32(FP), AX
	LEAQ (SI)(AX*4), R9
	MOVQ y+40(FP), DI
	MOVQ yStride+48(FP), AX
	LEAQ (DI)(AX*4), R11
	XORQ AX, AX
	CMPB add+56(FP), $0
	JEQ  zero
	YLOAD(DI, Y0, Y1, Y2, Y3)
	YLOAD(R11, Y4, Y5, Y6, Y7)
	JMP  loop

zero:
	YZERO(Y0, Y1, Y2, Y3)
	YZERO(Y4, Y5, Y6, Y7)
	PCALIGN $32

loop:
	VBROADCASTSS (SI)(AX*4), Y12
	VBROADCASTSS (R9)(AX*4), Y13
	VMOVUPS (R8), Y8
	VMOVUPS 32(R8), Y9
	VMOVUPS 64(R8), Y10
	VMOVUPS 96(R8), Y11
	VFMADD231PS Y8, Y12, Y0
	VFMADD231PS Y8, Y13, Y4
	VFMADD231PS Y9, Y12, Y1
	VFMADD231PS Y9, Y13, Y5
	VFMADD231PS Y10, Y12, Y2
	VFMADD231PS Y10, Y13, Y6
	VFMADD231PS Y11, Y12, Y3
	VFMADD231PS Y11, Y13, Y7
	ADDQ BX, R8
	INCQ AX
	CMPQ AX, CX
	JLT  loop
	YSTORE(DI, Y0, Y1, Y2, Y3)
	YSTORE(R11, Y4, Y5, Y6, Y7)
	VZEROUPPER
	RET

// func weigh1(n int, v *float32, stride int, p, y *float32, add bool)
TEXT ·weigh1(SB), NOSPLIT, $0-41
	MOVQ n+0(FP), CX
	MOVQ v+8(FP), R8
	MOVQ stride+16(FP), BX
	SHLQ $2, BX
	MOVQ p+24(FP), SI
	MOVQ y+32(FP), DI
	XORQ AX, AX
	CMPB add+40(FP), $0
	JEQ  zero
	YLOAD(DI, Y0, Y1, Y2, Y3)
	JMP  loop

zero:
	YZERO(Y0, Y1, Y2, Y3)
	PCALIGN $32

loop:
	VBROADCASTSS (SI)(AX*4), Y12
	VFMADD231PS (R8), Y12, Y0
	VFMADD231PS 32(R8), Y12, Y1
	VFMADD231PS 64(R8), Y12, Y2
	VFMADD231PS 96(R8), Y12, Y3
	ADDQ BX, R8
	INCQ AX
	CMPQ AX, CX
	JLT  loop
	YSTORE(DI, Y0, Y1, Y2, Y3)
	VZEROUPPER
	RET

// func weighLanes(n int, v *float32, stride int, p, y *float32, add bool)
TEXT ·weighLanes(SB), NOSPLIT, $0-41
	MOVQ n+0(FP), CX
	MOVQ v+8(FP), R8
	MOVQ stride+16(FP), BX
	SHLQ $2, BX
	MOVQ p+24(FP), SI
	MOVQ y+32(FP), DI
	XORQ AX, AX
	VXORPS Y0, Y0, Y0
	CMPB add+40(FP), $0
	JEQ  loop
	VMOVUPS (DI), Y0

loop:
	VBROADCASTSS (SI)(AX*4), Y12
	VFMADD231PS (R8), Y12, Y0
	ADDQ BX, R8
	INCQ AX
	CMPQ AX, CX
	JLT  loop
	VMOVUPS Y0, (DI)
	VZEROUPPER
	RET

// func addScaledAsm(n int, y *float32, c float32, x *float32)
TEXT ·addScaledAsm(SB), NOSPLIT, $0-32
	MOVQ n+0(FP), CX
	MOVQ y+8(FP), DI
	VBROADCASTSS c+16(FP), Y0
	MOVQ x+24(FP), SI
	SHLQ $2, CX
	XORQ AX, AX

loop:
	VMOVUPS (DI)(AX*1), Y1
	VFMADD231PS (SI)(AX*1), Y0, Y1
	VMOVUPS Y1, (DI)(AX*1)
	ADDQ $32, AX
	CMPQ AX, CX
	JLT  loop
	VZEROUPPER
	RET

// func blendAsm(n int, y *float32, a float32, x *float32, c float32)
TEXT ·blendAsm(SB), NOSPLIT, $0-36
	MOVQ n+0(FP), CX
	MOVQ y+8(FP), DI
	VBROADCASTSS a+16(FP), Y0
	MOVQ x+24(FP), SI
	VBROADCASTSS c+32(FP), Y1
	SHLQ $2, CX
	XORQ AX, AX

loop:
	VMULPS (DI)(AX*1), Y0, Y2
	VFMADD231PS (SI)(AX*1), Y1, Y2
	VMOVUPS Y2, (DI)(AX*1)
	ADDQ $32, AX
	CMPQ AX, CX
	JLT  loop
	VZEROUPPER
	RET

// func scaleMulAsm(n int, dst, x *float32, s float32, w *float32)
TEXT ·scaleMulAsm(SB), NOSPLIT, $0-40
	MOVQ n+0(FP), CX
	MOVQ dst+8(FP), DI
	MOVQ x+16(FP), SI
	VBROADCASTSS s+24(FP), Y0
	MOVQ w+32(FP), R8
	SHLQ $2, CX
	XORQ AX, AX

loop:
	VMULPS (SI)(AX*1), Y0, Y1
	VMULPS (R8)(AX*1), Y1, Y1
	VMOVUPS Y1, (DI)(AX*1)
	ADDQ $32, AX
	CMPQ AX, CX
	JLT  loop
	VZEROUPPER
	RET

// func reluSumAsm(n int, out, d, w *float32, scale float32)
TEXT ·reluSumAsm(SB), NOSPLIT, $0-36
	MOVQ n+0(FP), CX
	MOVQ out+8(FP), DI
	MOVQ d+16(FP), SI
	MOVQ w+24(FP), R8
	VBROADCASTSS scale+32(FP), X0
	VXORPS X1, X1, X1
	VXORPS X2, X2, X2

loop:
	VMULPS (SI), X0, X3
	VMAXPS X3, X1, X3 // of a NaN and 0, the NaN
	VBROADCASTSS (R8), X4
	VFMADD231PS X3, X4, X2
	ADDQ $16, SI
	ADDQ $4, R8
	DECQ CX
	JG   loop
	VMOVUPS X2, (DI)
	VZEROUPPER
	RET

// func addLanesAsm(n int, s *Sums, a, b *float32)
TEXT ·addLanesAsm(SB), NOSPLIT, $0-32
	MOVQ n+0(FP), CX
	MOVQ s+8(FP), DX
	MOVQ a+16(FP), SI
	MOVQ b+24(FP), DI
	VMOVUPS (DX), Y0
	SHLQ $2, CX
	XORQ AX, AX

loop:
	VMOVUPS (SI)(AX*1), Y1
	VFMADD231PS (DI)(AX*1), Y1, Y0
	ADDQ $32, AX
	CMPQ AX, CX
	JLT  loop
	VMOVUPS Y0, (DX)
	VZEROUPPER
	RET
