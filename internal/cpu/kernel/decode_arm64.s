//go:build !purego

#include "textflag.h"
#include "neon_arm64.h"

// FP8 E4M3 by way of IEEE half: sign-extended to 16 bits and moved up by 7, the
// code's sign stands at bit 15 and its other bits at 13..7; a copy of the sign at
// bit 14 is masked out. As a half that is the value over 256, exact for
// subnormals too. The one code that is not a half of its own is NaN (0x7f):
// the largest magnitude seen is kept, and the caller told.

// V12 is the mask of a half, V13 that of a code's magnitude, V14 the largest
// magnitude, F15 256.
#define F8CONSTANTS \
	MOVD  $0xbf80, R17; \
	VDUP  R17, V12.H8; \
	VMOVI $0x7f, V13.B16; \
	VEOR  V14.B16, V14.B16, V14.B16; \
	FMOVS $256.0, F15

// Sixteen codes of row W as floats over 256 in V16..V19.
#define F8LOAD(W) \
	VLD1.P 16(W), [V16.B16]; \
	VAND   V16.B16, V13.B16, V17.B16; \
	VUMAX  V17.B16, V14.B16, V14.B16; \
	SSHLL2B(16, 18); \
	SSHLLB(16, 16); \
	VAND   V12.B16, V18.B16, V18.B16; \
	VAND   V12.B16, V16.B16, V16.B16; \
	FCVTL2(18, 19); \
	FCVTL(18, 18); \
	FCVTL2(16, 17); \
	FCVTL(16, 16)

#define F8SCALE(S) \
	FMUL4(S, 16, 16); \
	FMUL4(S, 17, 17); \
	FMUL4(S, 18, 18); \
	FMUL4(S, 19, 19)

// S = 256 times the scale at P in all lanes.
#define F8BLOCK(P, F, V) \
	FMOVS (P), F; \
	FMULS F15, F, F; \
	VDUP  V.S[0], V.S4

// Whether a NaN was seen, in R17.
#define F8SEEN \
	UMAXV(14, 14); \
	VMOV V14.B[0], R17; \
	CMP  $0x7f, R17; \
	CSET EQ, R17

// Sixteen codes of row W, scaled by S and multiplied with x, V24..V27, into A and B.
#define F8ROW(W, S, A, B) \
	F8LOAD(W); \
	F8SCALE(S); \
	VFMLA V16.S4, V24.S4, A.S4; \
	VFMLA V17.S4, V25.S4, B.S4; \
	VFMLA V18.S4, V26.S4, A.S4; \
	VFMLA V19.S4, V27.S4, B.S4

// func mulF8x1(k int, w *byte, stride int, scales *float32, rowStep, blockStep int, x *float32, acc *Sums) (nan bool)
TEXT ·mulF8x1(SB), NOSPLIT, $0-65
	MOVD k+0(FP), R0
	MOVD w+8(FP), R8
	MOVD stride+16(FP), R4
	ADD  R4, R8, R9
	ADD  R4, R9, R10
	ADD  R4, R10, R11
	MOVD scales+24(FP), R2
	MOVD rowStep+32(FP), R3
	MOVD blockStep+40(FP), R5
	MOVD x+48(FP), R1
	MOVD acc+56(FP), R6
	MOVD R6, R7
	VLD1.P 64(R7), [V0.S4, V1.S4, V2.S4, V3.S4]
	VLD1 (R7), [V4.S4, V5.S4, V6.S4, V7.S4]
	F8CONSTANTS

block:
	ADD  R3<<2, R2, R12
	ADD  R3<<2, R12, R13
	ADD  R3<<2, R13, R14
	F8BLOCK(R2, F8, V8)
	F8BLOCK(R12, F9, V9)
	F8BLOCK(R13, F10, V10)
	F8BLOCK(R14, F11, V11)
	ADD  R5<<2, R2
	MOVD $128, R15
	CMP  R0, R15
	CSEL LT, R15, R0, R15 // of the block
	SUB  R15, R0

loop:
	VLD1.P 64(R1), [V24.S4, V25.S4, V26.S4, V27.S4]
	F8ROW(R8, 8, V0, V1)
	F8ROW(R9, 9, V2, V3)
	F8ROW(R10, 10, V4, V5)
	F8ROW(R11, 11, V6, V7)
	SUBS $16, R15
	BGT  loop
	CBNZ R0, block
	F8SEEN
	MOVB R17, nan+64(FP)
	CBNZ R17, done
	VST1.P [V0.S4, V1.S4, V2.S4, V3.S4], 64(R6)
	VST1 [V4.S4, V5.S4, V6.S4, V7.S4], (R6)

done:
	RET

// func expandF8(k int, src *byte, scale float32, dst *float32) (nan bool)
TEXT ·expandF8(SB), NOSPLIT, $0-33
	MOVD  k+0(FP), R0
	MOVD  src+8(FP), R1
	MOVD  dst+24(FP), R2
	F8CONSTANTS
	FMOVS scale+16(FP), F8
	FMULS F15, F8, F8
	VDUP  V8.S[0], V8.S4

loop:
	F8LOAD(R1)
	F8SCALE(8)
	VST1.P [V16.S4, V17.S4, V18.S4, V19.S4], 64(R2)
	SUBS $16, R0
	BGT  loop
	F8SEEN
	MOVB R17, nan+32(FP)
	RET

// func expandGroupF8(k int, src *byte, stride int, scales *float32, rowStep, blockStep int, dst *float32, dstStride int) (nan bool)
TEXT ·expandGroupF8(SB), NOSPLIT, $0-65
	MOVD k+0(FP), R10
	MOVD src+8(FP), R8
	MOVD stride+16(FP), R4
	MOVD scales+24(FP), R2
	MOVD rowStep+32(FP), R3
	MOVD blockStep+40(FP), R5
	MOVD dst+48(FP), R9
	MOVD dstStride+56(FP), R6
	F8CONSTANTS
	MOVD $4, R7

row:
	MOVD R8, R11
	MOVD R9, R12
	MOVD R2, R13
	MOVD R10, R0

block:
	F8BLOCK(R13, F8, V8)
	ADD  R5<<2, R13
	MOVD $128, R15
	CMP  R0, R15
	CSEL LT, R15, R0, R15 // of the block
	SUB  R15, R0

loop:
	F8LOAD(R11)
	F8SCALE(8)
	VST1.P [V16.S4, V17.S4, V18.S4, V19.S4], 64(R12)
	SUBS $16, R15
	BGT  loop
	CBNZ R0, block
	ADD  R4, R8
	ADD  R6<<2, R9
	ADD  R3<<2, R2
	SUBS $1, R7
	BGT  row
	F8SEEN
	MOVB R17, nan+64(FP)
	RET

// func expandBF16(k int, src *byte, dst *float32)
TEXT ·expandBF16(SB), NOSPLIT, $0-24
	MOVD k+0(FP), R0
	MOVD src+8(FP), R1
	MOVD dst+16(FP), R2

loop:
	VLD1.P 16(R1), [V1.H8]
	SHLL(1, 0)
	SHLL2(1, 1)
	VST1.P [V0.S4, V1.S4], 32(R2)
	SUBS $8, R0
	BGT  loop
	RET

// func expandF16(k int, src *byte, dst *float32)
TEXT ·expandF16(SB), NOSPLIT, $0-24
	MOVD k+0(FP), R0
	MOVD src+8(FP), R1
	MOVD dst+16(FP), R2

loop:
	VLD1.P 16(R1), [V1.H8]
	FCVTL(1, 0)
	FCVTL2(1, 1)
	VST1.P [V0.S4, V1.S4], 32(R2)
	SUBS $8, R0
	BGT  loop
	RET

// func copyF32(k int, src *byte, dst *float32)
TEXT ·copyF32(SB), NOSPLIT, $0-24
	MOVD k+0(FP), R0
	MOVD src+8(FP), R1
	MOVD dst+16(FP), R2

loop:
	VLD1.P 32(R1), [V0.B16, V1.B16]
	VST1.P [V0.B16, V1.B16], 32(R2)
	SUBS $8, R0
	BGT  loop
	RET
