//go:build !purego

#include "textflag.h"
#include "neon_arm64.h"

// The eight partial sums of a product are two vectors, and eight elements along k
// one step.

// Four weight rows R8..R11 from w and a stride in elements of the given size; what
// R4 holds afterwards is the stride in bytes.
#define ROWS(SHIFT) \
	MOVD w+8(FP), R8; \
	MOVD stride+16(FP), R4; \
	LSL  $SHIFT, R4; \
	ADD  R4, R8, R9; \
	ADD  R4, R9, R10; \
	ADD  R4, R10, R11

// Sums of one to three lines with four rows, from or to R6, which moves on.
#define LOAD1 \
	VLD1.P 64(R6), [V0.S4, V1.S4, V2.S4, V3.S4]; \
	VLD1.P 64(R6), [V4.S4, V5.S4, V6.S4, V7.S4]

#define LOAD2 \
	LOAD1; \
	VLD1.P 64(R6), [V8.S4, V9.S4, V10.S4, V11.S4]; \
	VLD1.P 64(R6), [V12.S4, V13.S4, V14.S4, V15.S4]

#define LOAD3 \
	LOAD2; \
	VLD1.P 64(R6), [V16.S4, V17.S4, V18.S4, V19.S4]; \
	VLD1.P 64(R6), [V20.S4, V21.S4, V22.S4, V23.S4]

#define STORE1 \
	VST1.P [V0.S4, V1.S4, V2.S4, V3.S4], 64(R6); \
	VST1.P [V4.S4, V5.S4, V6.S4, V7.S4], 64(R6)

#define STORE2 \
	STORE1; \
	VST1.P [V8.S4, V9.S4, V10.S4, V11.S4], 64(R6); \
	VST1.P [V12.S4, V13.S4, V14.S4, V15.S4], 64(R6)

#define STORE3 \
	STORE2; \
	VST1.P [V16.S4, V17.S4, V18.S4, V19.S4], 64(R6); \
	VST1.P [V20.S4, V21.S4, V22.S4, V23.S4], 64(R6)

// Eight weights in V30 and V31 with those of one to three lines, V24..V29.
#define STEP1(A, B) \
	VFMLA V30.S4, V24.S4, A.S4; \
	VFMLA V31.S4, V25.S4, B.S4

#define STEP2(A, B, C, D) \
	STEP1(A, B); \
	VFMLA V30.S4, V26.S4, C.S4; \
	VFMLA V31.S4, V27.S4, D.S4

#define STEP3(A, B, C, D, E, F) \
	STEP2(A, B, C, D); \
	VFMLA V30.S4, V28.S4, E.S4; \
	VFMLA V31.S4, V29.S4, F.S4

#define F32(W) VLD1.P 32(W), [V30.S4, V31.S4]

// func mulF32x1(k int, w *float32, stride int, x *float32, acc *Sums)
TEXT ·mulF32x1(SB), NOSPLIT, $0-40
	MOVD k+0(FP), R0
	ROWS(2)
	MOVD x+24(FP), R1
	MOVD acc+32(FP), R5
	MOVD R5, R6
	LOAD1

loop:
	VLD1.P 32(R1), [V24.S4, V25.S4]
	F32(R8)
	STEP1(V0, V1)
	F32(R9)
	STEP1(V2, V3)
	F32(R10)
	STEP1(V4, V5)
	F32(R11)
	STEP1(V6, V7)
	SUBS $8, R0
	BGT  loop
	MOVD R5, R6
	STORE1
	RET

// func mulF32x2(k int, w *float32, stride int, x0, x1 *float32, acc *Sums)
TEXT ·mulF32x2(SB), NOSPLIT, $0-48
	MOVD k+0(FP), R0
	ROWS(2)
	MOVD x0+24(FP), R1
	MOVD x1+32(FP), R2
	MOVD acc+40(FP), R5
	MOVD R5, R6
	LOAD2

loop:
	VLD1.P 32(R1), [V24.S4, V25.S4]
	VLD1.P 32(R2), [V26.S4, V27.S4]
	F32(R8)
	STEP2(V0, V1, V8, V9)
	F32(R9)
	STEP2(V2, V3, V10, V11)
	F32(R10)
	STEP2(V4, V5, V12, V13)
	F32(R11)
	STEP2(V6, V7, V14, V15)
	SUBS $8, R0
	BGT  loop
	MOVD R5, R6
	STORE2
	RET

// func mulF32x3(k int, w *float32, stride int, x0, x1, x2 *float32, acc *Sums, groups, each int)
//
// Groups of four rows one after the other, each sums on.
TEXT ·mulF32x3(SB), NOSPLIT, $0-72
	MOVD k+0(FP), R12
	ROWS(2)
	LSL  $2, R12, R13 // of a row
	LSL  $2, R4
	SUB  R13, R4 // from the end of a row to the next group
	MOVD x0+24(FP), R1
	MOVD x1+32(FP), R2
	MOVD x2+40(FP), R3
	MOVD acc+48(FP), R5
	MOVD groups+56(FP), R7
	MOVD each+64(FP), R14
	LSL  $5, R14

group:
	MOVD R5, R6
	LOAD3
	MOVD R12, R0

loop:
	VLD1.P 32(R1), [V24.S4, V25.S4]
	VLD1.P 32(R2), [V26.S4, V27.S4]
	VLD1.P 32(R3), [V28.S4, V29.S4]
	F32(R8)
	STEP3(V0, V1, V8, V9, V16, V17)
	F32(R9)
	STEP3(V2, V3, V10, V11, V18, V19)
	F32(R10)
	STEP3(V4, V5, V12, V13, V20, V21)
	F32(R11)
	STEP3(V6, V7, V14, V15, V22, V23)
	SUBS $8, R0
	BGT  loop
	MOVD R5, R6
	STORE3
	ADD  R14, R5
	ADD  R4, R8
	ADD  R4, R9
	ADD  R4, R10
	ADD  R4, R11
	SUB  R13, R1
	SUB  R13, R2
	SUB  R13, R3
	SUBS $1, R7
	BGT  group
	RET

// Eight bfloat16 as the upper halves of V30 and V31.
#define BF16(W) \
	VLD1.P 16(W), [V31.H8]; \
	SHLL(31, 30); \
	SHLL2(31, 31)

// func mulBF16x1(k int, w *byte, stride int, x *float32, acc *Sums)
TEXT ·mulBF16x1(SB), NOSPLIT, $0-40
	MOVD k+0(FP), R0
	ROWS(0)
	MOVD x+24(FP), R1
	MOVD acc+32(FP), R5
	MOVD R5, R6
	LOAD1

loop:
	VLD1.P 32(R1), [V24.S4, V25.S4]
	BF16(R8)
	STEP1(V0, V1)
	BF16(R9)
	STEP1(V2, V3)
	BF16(R10)
	STEP1(V4, V5)
	BF16(R11)
	STEP1(V6, V7)
	SUBS $8, R0
	BGT  loop
	MOVD R5, R6
	STORE1
	RET

// func mulBF16x2(k int, w *byte, stride int, x0, x1 *float32, acc *Sums)
TEXT ·mulBF16x2(SB), NOSPLIT, $0-48
	MOVD k+0(FP), R0
	ROWS(0)
	MOVD x0+24(FP), R1
	MOVD x1+32(FP), R2
	MOVD acc+40(FP), R5
	MOVD R5, R6
	LOAD2

loop:
	VLD1.P 32(R1), [V24.S4, V25.S4]
	VLD1.P 32(R2), [V26.S4, V27.S4]
	BF16(R8)
	STEP2(V0, V1, V8, V9)
	BF16(R9)
	STEP2(V2, V3, V10, V11)
	BF16(R10)
	STEP2(V4, V5, V12, V13)
	BF16(R11)
	STEP2(V6, V7, V14, V15)
	SUBS $8, R0
	BGT  loop
	MOVD R5, R6
	STORE2
	RET

// func mulBF16x3(k int, w *byte, stride int, x0, x1, x2 *float32, acc *Sums)
TEXT ·mulBF16x3(SB), NOSPLIT, $0-56
	MOVD k+0(FP), R0
	ROWS(0)
	MOVD x0+24(FP), R1
	MOVD x1+32(FP), R2
	MOVD x2+40(FP), R3
	MOVD acc+48(FP), R5
	MOVD R5, R6
	LOAD3

loop:
	VLD1.P 32(R1), [V24.S4, V25.S4]
	VLD1.P 32(R2), [V26.S4, V27.S4]
	VLD1.P 32(R3), [V28.S4, V29.S4]
	BF16(R8)
	STEP3(V0, V1, V8, V9, V16, V17)
	BF16(R9)
	STEP3(V2, V3, V10, V11, V18, V19)
	BF16(R10)
	STEP3(V4, V5, V12, V13, V20, V21)
	BF16(R11)
	STEP3(V6, V7, V14, V15, V22, V23)
	SUBS $8, R0
	BGT  loop
	MOVD R5, R6
	STORE3
	RET

// func sumsx4(n int, acc *Sums, out *float32, stride int)
//
// Four products at a time: their sums are transposed, so that sum j of all four
// is one vector, and the vectors are added in order.
TEXT ·sumsx4(SB), NOSPLIT, $0-32
	MOVD n+0(FP), R0
	MOVD acc+8(FP), R6
	MOVD out+16(FP), R1
	MOVD stride+24(FP), R4
	LSL  $2, R4

loop:
	LOAD1
	VTRN1 V2.S4, V0.S4, V16.S4 // sums 0 and 2 of the first two
	VTRN2 V2.S4, V0.S4, V17.S4 // 1 and 3
	VTRN1 V6.S4, V4.S4, V18.S4 // of the last two
	VTRN2 V6.S4, V4.S4, V19.S4
	VTRN1 V3.S4, V1.S4, V20.S4 // 4 and 6
	VTRN2 V3.S4, V1.S4, V21.S4 // 5 and 7
	VTRN1 V7.S4, V5.S4, V22.S4
	VTRN2 V7.S4, V5.S4, V23.S4
	VZIP1 V18.D2, V16.D2, V0.D2
	VZIP1 V19.D2, V17.D2, V1.D2
	VZIP2 V18.D2, V16.D2, V2.D2
	VZIP2 V19.D2, V17.D2, V3.D2
	VZIP1 V22.D2, V20.D2, V4.D2
	VZIP1 V23.D2, V21.D2, V5.D2
	VZIP2 V22.D2, V20.D2, V6.D2
	VZIP2 V23.D2, V21.D2, V7.D2
	FADD4(1, 0, 0)
	FADD4(2, 0, 0)
	FADD4(3, 0, 0)
	FADD4(4, 0, 0)
	FADD4(5, 0, 0)
	FADD4(6, 0, 0)
	FADD4(7, 0, 0)
	VST1 [V0.S4], (R1)
	ADD  R4, R1
	SUBS $4, R0
	BGT  loop
	RET
