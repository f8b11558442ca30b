//go:build !purego

#include "textflag.h"

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
