//go:build !purego

#include "textflag.h"
#include "neon_arm64.h"

// Weighted sums of rows, 32 columns at a time: accumulators for one to three
// lines, V0..V23, stay in registers while the rows pass by.

// Columns of a line, eight vectors, from or to Y, which moves on by half of them.
#define YLOAD(Y, A, B, C, D, E, F, G, H) \
	VLD1.P 64(Y), [A.S4, B.S4, C.S4, D.S4]; \
	VLD1   (Y), [E.S4, F.S4, G.S4, H.S4]

// Y has been moved by YLOAD.
#define YSTORE(Y, A, B, C, D, E, F, G, H) \
	VST1 [E.S4, F.S4, G.S4, H.S4], (Y); \
	SUB  $64, Y; \
	VST1 [A.S4, B.S4, C.S4, D.S4], (Y)

// YLOAD's zeros, which leave Y where it does.
#define YZERO(Y, A, B, C, D, E, F, G, H) \
	ADD  $64, Y; \
	VEOR A.B16, A.B16, A.B16; \
	VEOR B.B16, B.B16, B.B16; \
	VEOR C.B16, C.B16, C.B16; \
	VEOR D.B16, D.B16, D.B16; \
	VEOR E.B16, E.B16, E.B16; \
	VEOR F.B16, F.B16, F.B16; \
	VEOR G.B16, G.B16, G.B16; \
	VEOR H.B16, H.B16, H.B16

#define YLOAD1(Y) YLOAD(Y, V0, V1, V2, V3, V4, V5, V6, V7)
#define YLOAD2(Y) YLOAD(Y, V8, V9, V10, V11, V12, V13, V14, V15)
#define YLOAD3(Y) YLOAD(Y, V16, V17, V18, V19, V20, V21, V22, V23)
#define YSTORE1(Y) YSTORE(Y, V0, V1, V2, V3, V4, V5, V6, V7)
#define YSTORE2(Y) YSTORE(Y, V8, V9, V10, V11, V12, V13, V14, V15)
#define YSTORE3(Y) YSTORE(Y, V16, V17, V18, V19, V20, V21, V22, V23)

// Half a row of v in V28..V31, times the weight P.
#define ADDROW(P, A, B, C, D) \
	VFMLA V28.S4, P.S4, A.S4; \
	VFMLA V29.S4, P.S4, B.S4; \
	VFMLA V30.S4, P.S4, C.S4; \
	VFMLA V31.S4, P.S4, D.S4

// The halves of a row; after the second R8 stands at the next row.
#define VHALF1 VLD1.P 64(R8), [V28.S4, V29.S4, V30.S4, V31.S4]
#define VHALF2 VLD1.P (R8)(R4), [V28.S4, V29.S4, V30.S4, V31.S4]

// func weigh3(n int, v *float32, stride int, p *float32, pStride int, y *float32, yStride int, add bool)
TEXT ·weigh3(SB), NOSPLIT, $0-57
	MOVD n+0(FP), R0
	MOVD v+8(FP), R8
	MOVD stride+16(FP), R4
	LSL  $2, R4
	SUB  $64, R4
	MOVD p+24(FP), R1
	MOVD pStride+32(FP), R5
	ADD  R5<<2, R1, R2
	ADD  R5<<2, R2, R3
	MOVD y+40(FP), R9
	MOVD yStride+48(FP), R5
	ADD  R5<<2, R9, R10
	ADD  R5<<2, R10, R11
	MOVBU add+56(FP), R6
	CBZ  R6, zero
	YLOAD1(R9)
	YLOAD2(R10)
	YLOAD3(R11)
	B    loop

zero:
	YZERO(R9, V0, V1, V2, V3, V4, V5, V6, V7)
	YZERO(R10, V8, V9, V10, V11, V12, V13, V14, V15)
	YZERO(R11, V16, V17, V18, V19, V20, V21, V22, V23)

loop:
	VLD1R.P 4(R1), [V24.S4]
	VLD1R.P 4(R2), [V25.S4]
	VLD1R.P 4(R3), [V26.S4]
	VHALF1
	ADDROW(V24, V0, V1, V2, V3)
	ADDROW(V25, V8, V9, V10, V11)
	ADDROW(V26, V16, V17, V18, V19)
	VHALF2
	ADDROW(V24, V4, V5, V6, V7)
	ADDROW(V25, V12, V13, V14, V15)
	ADDROW(V26, V20, V21, V22, V23)
	SUBS $1, R0
	BGT  loop
	YSTORE1(R9)
	YSTORE2(R10)
	YSTORE3(R11)
	RET

// func weigh2(n int, v *float32, stride int, p *float32, pStride int, y *float32, yStride int, add bool)
TEXT ·weigh2(SB), NOSPLIT, $0-57
	MOVD n+0(FP), R0
	MOVD v+8(FP), R8
	MOVD stride+16(FP), R4
	LSL  $2, R4
	SUB  $64, R4
	MOVD p+24(FP), R1
	MOVD pStride+32(FP), R5
	ADD  R5<<2, R1, R2
	MOVD y+40(FP), R9
	MOVD yStride+48(FP), R5
	ADD  R5<<2, R9, R10
	MOVBU add+56(FP), R6
	CBZ  R6, zero
	YLOAD1(R9)
	YLOAD2(R10)
	B    loop

zero:
	YZERO(R9, V0, V1, V2, V3, V4, V5, V6, V7)
	YZERO(R10, V8, V9, V10, V11, V12, V13, V14, V15)

loop:
	VLD1R.P 4(R1), [V24.S4]
	VLD1R.P 4(R2), [V25.S4]
	VHALF1
	ADDROW(V24, V0, V1, V2, V3)
	ADDROW(V25, V8, V9, V10, V11)
	VHALF2
	ADDROW(V24, V4, V5, V6, V7)
	ADDROW(V25, V12, V13, V14, V15)
	SUBS $1, R0
	BGT  loop
	YSTORE1(R9)
	YSTORE2(R10)
	RET

// func weigh1(n int, v *float32, stride int, p, y *float32, add bool)
TEXT ·weigh1(SB), NOSPLIT, $0-41
	MOVD n+0(FP), R0
	MOVD v+8(FP), R8
	MOVD stride+16(FP), R4
	LSL  $2, R4
	SUB  $64, R4
	MOVD p+24(FP), R1
	MOVD y+32(FP), R9
	MOVBU add+40(FP), R6
	CBZ  R6, zero
	YLOAD1(R9)
	B    loop

zero:
	YZERO(R9, V0, V1, V2, V3, V4, V5, V6, V7)

loop:
	VLD1R.P 4(R1), [V24.S4]
	VHALF1
	ADDROW(V24, V0, V1, V2, V3)
	VHALF2
	ADDROW(V24, V4, V5, V6, V7)
	SUBS $1, R0
	BGT  loop
	YSTORE1(R9)
	RET

// func weighLanes(n int, v *float32, stride int, p, y *float32, add bool)
TEXT ·weighLanes(SB), NOSPLIT, $0-41
	MOVD n+0(FP), R0
	MOVD v+8(FP), R8
	MOVD stride+16(FP), R4
	LSL  $2, R4
	MOVD p+24(FP), R1
	MOVD y+32(FP), R9
	VEOR V0.B16, V0.B16, V0.B16
	VEOR V1.B16, V1.B16, V1.B16
	MOVBU add+40(FP), R6
	CBZ  R6, loop
	VLD1 (R9), [V0.S4, V1.S4]

loop:
	VLD1R.P 4(R1), [V24.S4]
	VLD1.P (R8)(R4), [V2.S4, V3.S4]
	VFMLA V2.S4, V24.S4, V0.S4
	VFMLA V3.S4, V24.S4, V1.S4
	SUBS $1, R0
	BGT  loop
	VST1 [V0.S4, V1.S4], (R9)
	RET

// func addScaledAsm(n int, y *float32, c float32, x *float32)
TEXT ·addScaledAsm(SB), NOSPLIT, $0-32
	MOVD  n+0(FP), R0
	MOVD  y+8(FP), R1
	FMOVS c+16(FP), F0
	VDUP  V0.S[0], V0.S4
	MOVD  x+24(FP), R2

loop:
	VLD1 (R1), [V1.S4, V2.S4]
	VLD1.P 32(R2), [V3.S4, V4.S4]
	VFMLA V3.S4, V0.S4, V1.S4
	VFMLA V4.S4, V0.S4, V2.S4
	VST1.P [V1.S4, V2.S4], 32(R1)
	SUBS $8, R0
	BGT  loop
	RET

// func blendAsm(n int, y *float32, a float32, x *float32, c float32)
TEXT ·blendAsm(SB), NOSPLIT, $0-36
	MOVD  n+0(FP), R0
	MOVD  y+8(FP), R1
	FMOVS a+16(FP), F5
	VDUP  V5.S[0], V5.S4
	MOVD  x+24(FP), R2
	FMOVS c+32(FP), F0
	VDUP  V0.S[0], V0.S4

loop:
	VLD1 (R1), [V1.S4, V2.S4]
	VLD1.P 32(R2), [V3.S4, V4.S4]
	FMUL4(5, 1, 1)
	FMUL4(5, 2, 2)
	VFMLA V3.S4, V0.S4, V1.S4
	VFMLA V4.S4, V0.S4, V2.S4
	VST1.P [V1.S4, V2.S4], 32(R1)
	SUBS $8, R0
	BGT  loop
	RET

// func scaleMulAsm(n int, dst, x *float32, s float32, w *float32)
TEXT ·scaleMulAsm(SB), NOSPLIT, $0-40
	MOVD  n+0(FP), R0
	MOVD  dst+8(FP), R1
	MOVD  x+16(FP), R2
	FMOVS s+24(FP), F0
	VDUP  V0.S[0], V0.S4
	MOVD  w+32(FP), R3

loop:
	VLD1.P 32(R2), [V1.S4, V2.S4]
	VLD1.P 32(R3), [V3.S4, V4.S4]
	FMUL4(0, 1, 1)
	FMUL4(0, 2, 2)
	FMUL4(3, 1, 1)
	FMUL4(4, 2, 2)
	VST1.P [V1.S4, V2.S4], 32(R1)
	SUBS $8, R0
	BGT  loop
	RET

// func reluSumAsm(n int, out, d, w *float32, scale float32)
TEXT ·reluSumAsm(SB), NOSPLIT, $0-36
	MOVD  n+0(FP), R0
	MOVD  out+8(FP), R1
	MOVD  d+16(FP), R2
	MOVD  w+24(FP), R3
	FMOVS scale+32(FP), F0
	VDUP  V0.S[0], V0.S4
	VEOR  V1.B16, V1.B16, V1.B16
	VEOR  V2.B16, V2.B16, V2.B16

loop:
	VLD1.P 16(R2), [V3.S4]
	VLD1R.P 4(R3), [V4.S4]
	FMUL4(0, 3, 3)
	FMAX4(1, 3, 3) // of a NaN and 0, the NaN
	VFMLA V3.S4, V4.S4, V2.S4
	SUBS $1, R0
	BGT  loop
	VST1 [V2.S4], (R1)
	RET

// func addLanesAsm(n int, s *Sums, a, b *float32)
TEXT ·addLanesAsm(SB), NOSPLIT, $0-32
	MOVD n+0(FP), R0
	MOVD s+8(FP), R1
	MOVD a+16(FP), R2
	MOVD b+24(FP), R3
	VLD1 (R1), [V0.S4, V1.S4]

loop:
	VLD1.P 32(R2), [V2.S4, V3.S4]
	VLD1.P 32(R3), [V4.S4, V5.S4]
	VFMLA V4.S4, V2.S4, V0.S4
	VFMLA V5.S4, V3.S4, V1.S4
	SUBS $8, R0
	BGT  loop
	VST1 [V0.S4, V1.S4], (R1)
	RET
