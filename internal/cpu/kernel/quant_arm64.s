//go:build !purego

#include "textflag.h"
#include "neon_arm64.h"

// Products of panels of 8 rows. A chunk of weights, two vectors, holds four codes
// along k of each row; the dot product multiplies them with the same four codes of
// a line, one lane of its vector, and adds them to a lane per row.
//
// int4: codes 0..15 are multiplied, and what is 8 too much in each is in the
// offset of the group.

// Eight scales as floats in V28 and V29.
#define ROWSCALES \
	VLD1.P 16(R8), [V28.H8]; \
	FCVTL2(28, 29); \
	FCVTL(28, 28)

// The sums of a group, exact in I and J, times the scales of its line and of its
// rows, into A and B.
#define SCALED(FROM, I, J, VI, VJ, A, B) \
	VLD1R.P 4(FROM), [V30.S4]; \
	SCVTF4(I, I); \
	SCVTF4(J, J); \
	FMUL4(30, I, I); \
	FMUL4(30, J, J); \
	VFMLA V28.S4, VI.S4, A.S4; \
	VFMLA V29.S4, VJ.S4, B.S4

#define CLEAR(A) VEOR A.B16, A.B16, A.B16

// -8 times the sum of a line's codes in all lanes, from -4 times it in halves.
#define OFFSET(FROM, N, V, W) \
	VLD1R.P 4(FROM), [V.S4]; \
	SSHLLH(N, N); \
	VMOV V.B16, W.B16

// Lanes I of a line's vector times four codes of the rows in W and V.
#define INT4CHUNK(I, W, V, NW, NV) \
	VUSHR $4, W.B16, V26.B16; \
	VUSHR $4, V.B16, V27.B16; \
	VAND  V31.B16, W.B16, W.B16; \
	VAND  V31.B16, V.B16, V.B16; \
	SDOT(I, 4, NW, 6); \
	SDOT(I, 4, NV, 7); \
	SDOT(I, 5, 26, 2); \
	SDOT(I, 5, 27, 3)

// func int4x1Dot(groups int, w *byte, codes *int8, scales *float32, offsets *uint32, y *float32)
TEXT ·int4x1Dot(SB), NOSPLIT, $0-48
	MOVD  groups+0(FP), R0
	MOVD  w+8(FP), R8
	MOVD  codes+16(FP), R1
	MOVD  scales+24(FP), R2
	MOVD  offsets+32(FP), R3
	MOVD  y+40(FP), R4
	CLEAR(V0)
	CLEAR(V1)
	VMOVI $15, V31.B16

loop:
	VLD1.P 32(R1), [V4.B16, V5.B16]
	OFFSET(R3, 6, V6, V7)
	CLEAR(V2)
	CLEAR(V3)
	VLD1.P 64(R8), [V16.B16, V17.B16, V18.B16, V19.B16]
	VLD1.P 64(R8), [V20.B16, V21.B16, V22.B16, V23.B16]
	INT4CHUNK(0, V16, V17, 16, 17)
	INT4CHUNK(1, V18, V19, 18, 19)
	INT4CHUNK(2, V20, V21, 20, 21)
	INT4CHUNK(3, V22, V23, 22, 23)
	VADD V2.S4, V6.S4, V6.S4
	VADD V3.S4, V7.S4, V7.S4
	ROWSCALES
	SCALED(R2, 6, 7, V6, V7, V0, V1)
	SUBS $1, R0
	BGT  loop
	VST1 [V0.S4, V1.S4], (R4)
	RET

// Lines of codes from R1, of scales from R5: four of each, R9 groups long.
#define LINES \
	ADD R9<<5, R1, R2; \
	ADD R9<<5, R2, R3; \
	ADD R9<<5, R3, R4; \
	ADD R9<<2, R5, R6; \
	ADD R9<<2, R6, R7; \
	ADD R9<<2, R7, R9

#define CODES \
	VLD1.P 32(R1), [V16.B16, V17.B16]; \
	VLD1.P 32(R2), [V18.B16, V19.B16]; \
	VLD1.P 32(R3), [V20.B16, V21.B16]; \
	VLD1.P 32(R4), [V22.B16, V23.B16]

// Lanes I of the vectors A..D of four lines times four codes of the rows in W and V.
#define FOUR(I, A, B, C, D, W, V) \
	SDOT(I, A, W, 8); \
	SDOT(I, A, V, 9); \
	SDOT(I, B, W, 10); \
	SDOT(I, B, V, 11); \
	SDOT(I, C, W, 12); \
	SDOT(I, C, V, 13); \
	SDOT(I, D, W, 14); \
	SDOT(I, D, V, 15)

#define SCALEDFOUR \
	SCALED(R5, 8, 9, V8, V9, V0, V1); \
	SCALED(R6, 10, 11, V10, V11, V2, V3); \
	SCALED(R7, 12, 13, V12, V13, V4, V5); \
	SCALED(R9, 14, 15, V14, V15, V6, V7)

// Four lines of results to R10, R11 bytes apart.
#define WRITEFOUR \
	VST1.P [V0.S4, V1.S4], (R10)(R11); \
	VST1.P [V2.S4, V3.S4], (R10)(R11); \
	VST1.P [V4.S4, V5.S4], (R10)(R11); \
	VST1   [V6.S4, V7.S4], (R10)

#define INT4FOUR(I) \
	VLD1.P 32(R8), [V24.B16, V25.B16]; \
	VAND   V31.B16, V24.B16, V26.B16; \
	VAND   V31.B16, V25.B16, V27.B16; \
	VUSHR  $4, V24.B16, V24.B16; \
	VUSHR  $4, V25.B16, V25.B16; \
	FOUR(I, 16, 18, 20, 22, 26, 27); \
	FOUR(I, 17, 19, 21, 23, 24, 25)

// func int4x4Dot(groups int, w *byte, codes *int8, scales *float32, offsets *uint32, y *float32, yStride int)
TEXT ·int4x4Dot(SB), NOSPLIT, $0-56
	MOVD groups+0(FP), R0
	MOVD w+8(FP), R8
	MOVD codes+16(FP), R1
	MOVD scales+24(FP), R5
	MOVD offsets+32(FP), R12
	ADD  R0<<2, R12, R13
	ADD  R0<<2, R13, R14
	ADD  R0<<2, R14, R15
	MOVD R0, R9
	LINES
	CLEAR(V0)
	CLEAR(V1)
	CLEAR(V2)
	CLEAR(V3)
	CLEAR(V4)
	CLEAR(V5)
	CLEAR(V6)
	CLEAR(V7)
	VMOVI $15, V31.B16

loop:
	CODES
	OFFSET(R12, 8, V8, V9)
	OFFSET(R13, 10, V10, V11)
	OFFSET(R14, 12, V12, V13)
	OFFSET(R15, 14, V14, V15)
	INT4FOUR(0)
	INT4FOUR(1)
	INT4FOUR(2)
	INT4FOUR(3)
	ROWSCALES
	SCALEDFOUR
	SUBS $1, R0
	BGT  loop
	MOVD y+40(FP), R10
	MOVD yStride+48(FP), R11
	LSL  $2, R11
	WRITEFOUR
	RET

#define INT8CHUNK(I, X, W, V, A, B) \
	SDOT(I, X, W, A); \
	SDOT(I, X, V, B)

// func int8x1Dot(groups int, w *byte, codes *int8, scales *float32, y *float32)
TEXT ·int8x1Dot(SB), NOSPLIT, $0-40
	MOVD groups+0(FP), R0
	MOVD w+8(FP), R8
	MOVD codes+16(FP), R1
	MOVD scales+24(FP), R2
	MOVD y+32(FP), R4
	CLEAR(V0)
	CLEAR(V1)

loop:
	VLD1.P 32(R1), [V4.B16, V5.B16]
	CLEAR(V2)
	CLEAR(V3)
	CLEAR(V6)
	CLEAR(V7)
	VLD1.P 64(R8), [V16.B16, V17.B16, V18.B16, V19.B16]
	VLD1.P 64(R8), [V20.B16, V21.B16, V22.B16, V23.B16]
	VLD1.P 64(R8), [V24.B16, V25.B16, V26.B16, V27.B16]
	VLD1.P 64(R8), [V28.B16, V29.B16, V30.B16, V31.B16]
	INT8CHUNK(0, 4, 16, 17, 2, 3)
	INT8CHUNK(1, 4, 18, 19, 6, 7)
	INT8CHUNK(2, 4, 20, 21, 2, 3)
	INT8CHUNK(3, 4, 22, 23, 6, 7)
	INT8CHUNK(0, 5, 24, 25, 2, 3)
	INT8CHUNK(1, 5, 26, 27, 6, 7)
	INT8CHUNK(2, 5, 28, 29, 2, 3)
	INT8CHUNK(3, 5, 30, 31, 6, 7)
	VADD V2.S4, V6.S4, V6.S4
	VADD V3.S4, V7.S4, V7.S4
	ROWSCALES
	SCALED(R2, 6, 7, V6, V7, V0, V1)
	SUBS $1, R0
	BGT  loop
	VST1 [V0.S4, V1.S4], (R4)
	RET

#define INT8FOUR(I, A, B, C, D) \
	VLD1.P 32(R8), [V24.B16, V25.B16]; \
	FOUR(I, A, B, C, D, 24, 25)

// func int8x4Dot(groups int, w *byte, codes *int8, scales *float32, y *float32, yStride int)
TEXT ·int8x4Dot(SB), NOSPLIT, $0-48
	MOVD groups+0(FP), R0
	MOVD w+8(FP), R8
	MOVD codes+16(FP), R1
	MOVD scales+24(FP), R5
	MOVD R0, R9
	LINES
	CLEAR(V0)
	CLEAR(V1)
	CLEAR(V2)
	CLEAR(V3)
	CLEAR(V4)
	CLEAR(V5)
	CLEAR(V6)
	CLEAR(V7)

loop:
	CODES
	CLEAR(V8)
	CLEAR(V9)
	CLEAR(V10)
	CLEAR(V11)
	CLEAR(V12)
	CLEAR(V13)
	CLEAR(V14)
	CLEAR(V15)
	INT8FOUR(0, 16, 18, 20, 22)
	INT8FOUR(1, 16, 18, 20, 22)
	INT8FOUR(2, 16, 18, 20, 22)
	INT8FOUR(3, 16, 18, 20, 22)
	INT8FOUR(0, 17, 19, 21, 23)
	INT8FOUR(1, 17, 19, 21, 23)
	INT8FOUR(2, 17, 19, 21, 23)
	INT8FOUR(3, 17, 19, 21, 23)
	ROWSCALES
	SCALEDFOUR
	SUBS $1, R0
	BGT  loop
	MOVD y+32(FP), R10
	MOVD yStride+40(FP), R11
	LSL  $2, R11
	WRITEFOUR
	RET
