//go:build !purego

#include "textflag.h"

// Products of four keys R8..R11 with lines, which are R13 apart from DI on: sums in
// registers from the first k to the last, then added in order and written side by
// side to DX.

// The ordered sums of A, B, C, D; Y12..Y15 are scratch.
#define DOTSUM(A, XA, B, XB, C, XC, D, XD) \
	VUNPCKLPS B, A, Y12; \
	VUNPCKHPS B, A, Y13; \
	VUNPCKLPS D, C, Y14; \
	VUNPCKHPS D, C, Y15; \
	VUNPCKLPD Y14, Y12, A; \
	VUNPCKHPD Y14, Y12, B; \
	VUNPCKLPD Y15, Y13, C; \
	VUNPCKHPD Y15, Y13, D; \
	VADDPS XB, XA, X12; \
	VADDPS XC, X12, X12; \
	VADDPS XD, X12, X12; \
	VEXTRACTF128 $1, A, XA; \
	VEXTRACTF128 $1, B, XB; \
	VEXTRACTF128 $1, C, XC; \
	VEXTRACTF128 $1, D, XD; \
	VADDPS XA, X12, X12; \
	VADDPS XB, X12, X12; \
	VADDPS XC, X12, X12; \
	VADDPS XD, X12, X12; \
	VMOVUPS X12, (DX)

#define DOTZERO(A, B, C, D) \
	VXORPS A, A, A; \
	VXORPS B, B, B; \
	VXORPS C, C, C; \
	VXORPS D, D, D

#define DOTKEY(K, A, B, C) \
	VMOVUPS (K)(AX*1), Y15; \
	VFMADD231PS Y15, Y12, A; \
	VFMADD231PS Y15, Y13, B; \
	VFMADD231PS Y15, Y14, C

// The keys that follow are fetched on the way, [ahead] bytes further on for each 32
// of a line.

// func dots4(width int, keys *float32, stride int, q *float32, qStride, lines int, out *float32, outStride, ahead int)
TEXT ·dots4(SB), NOSPLIT, $0-72
	MOVQ width+0(FP), CX
	SHLQ $2, CX
	MOVQ keys+8(FP), R8
	MOVQ stride+16(FP), BX
	SHLQ $2, BX
	LEAQ (R8)(BX*1), R9
	LEAQ (R8)(BX*2), R10
	LEAQ (R9)(BX*2), R11
	LEAQ (R8)(BX*4), R15
	MOVQ q+24(FP), DI
	MOVQ qStride+32(FP), R13
	SHLQ $2, R13
	MOVQ lines+40(FP), R14
	MOVQ out+48(FP), DX
	MOVQ outStride+56(FP), BX
	SHLQ $2, BX
	SUBQ $3, R14
	JLT  two

three:
	LEAQ (DI)(R13*1), SI
	LEAQ (DI)(R13*2), R12
	DOTZERO(Y0, Y1, Y2, Y3)
	DOTZERO(Y4, Y5, Y6, Y7)
	DOTZERO(Y8, Y9, Y10, Y11)
	XORQ AX, AX
	PCALIGN $32

loop3:
	PREFETCHT0 (R15)
	VMOVUPS (DI)(AX*1), Y12
	VMOVUPS (SI)(AX*1), Y13
	VMOVUPS (R12)(AX*1), Y14
	DOTKEY(R8, Y0, Y4, Y8)
	DOTKEY(R9, Y1, Y5, Y9)
	DOTKEY(R10, Y2, Y6, Y10)
	DOTKEY(R11, Y3, Y7, Y11)
	ADDQ ahead+64(FP), R15
	ADDQ $32, AX
	CMPQ AX, CX
	JLT  loop3
	DOTSUM(Y0, X0, Y1, X1, Y2, X2, Y3, X3)
	ADDQ BX, DX
	DOTSUM(Y4, X4, Y5, X5, Y6, X6, Y7, X7)
	ADDQ BX, DX
	DOTSUM(Y8, X8, Y9, X9, Y10, X10, Y11, X11)
	ADDQ BX, DX
	LEAQ (R12)(R13*1), DI
	SUBQ $3, R14
	JGE  three

two:
	ADDQ $3, R14 // lines left
	CMPQ R14, $2
	JLT  one
	LEAQ (DI)(R13*1), SI
	DOTZERO(Y0, Y1, Y2, Y3)
	DOTZERO(Y4, Y5, Y6, Y7)
	XORQ AX, AX
	PCALIGN $32

loop2:
	VMOVUPS (DI)(AX*1), Y12
	VMOVUPS (SI)(AX*1), Y13
	VMOVUPS (R8)(AX*1), Y8
	VMOVUPS (R9)(AX*1), Y9
	VMOVUPS (R10)(AX*1), Y10
	VMOVUPS (R11)(AX*1), Y11
	VFMADD231PS Y8, Y12, Y0
	VFMADD231PS Y8, Y13, Y4
	VFMADD231PS Y9, Y12, Y1
	VFMADD231PS Y9, Y13, Y5
	VFMADD231PS Y10, Y12, Y2
	VFMADD231PS Y10, Y13, Y6
	VFMADD231PS Y11, Y12, Y3
	VFMADD231PS Y11, Y13, Y7
	ADDQ $32, AX
	CMPQ AX, CX
	JLT  loop2
	DOTSUM(Y0, X0, Y1, X1, Y2, X2, Y3, X3)
	ADDQ BX, DX
	DOTSUM(Y4, X4, Y5, X5, Y6, X6, Y7, X7)
	VZEROUPPER
	RET

one:
	TESTQ R14, R14
	JZ   done
	DOTZERO(Y0, Y1, Y2, Y3)
	XORQ AX, AX
	PCALIGN $32

loop1:
	VMOVUPS (DI)(AX*1), Y12
	VFMADD231PS (R8)(AX*1), Y12, Y0
	VFMADD231PS (R9)(AX*1), Y12, Y1
	VFMADD231PS (R10)(AX*1), Y12, Y2
	VFMADD231PS (R11)(AX*1), Y12, Y3
	ADDQ $32, AX
	CMPQ AX, CX
	JLT  loop1
	DOTSUM(Y0, X0, Y1, X1, Y2, X2, Y3, X3)

done:
	VZEROUPPER
	RET
