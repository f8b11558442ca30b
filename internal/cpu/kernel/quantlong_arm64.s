//go:build !purego

#include "textflag.h"
#include "neon_arm64.h"

// Products of panels of 8 rows without the dot product: codes are multiplied to 16
// bits, where the four of a row lie side by side, and neighbours added on the way
// to 32 bits. V0 and V1 are the results, V30 four codes of a line, again and again.

// Four codes of each row, in N, times V30: two rows in the lanes of A, two in B.
#define LONG(N, A, B) \
	SMLAL(30, N, A); \
	SMLAL2(30, N, B)

// The scales of a line and of its rows times the sums in V6 and V7, into V0 and V1.
#define SCALED \
	VLD1.P 16(R8), [V28.H8]; \
	FCVTL2(28, 29); \
	FCVTL(28, 28); \
	VLD1R.P 4(R2), [V30.S4]; \
	SCVTF4(6, 6); \
	SCVTF4(7, 7); \
	FMUL4(30, 6, 6); \
	FMUL4(30, 7, 7); \
	VFMLA V28.S4, V6.S4, V0.S4; \
	VFMLA V29.S4, V7.S4, V1.S4

#define CLEAR(A) VEOR A.B16, A.B16, A.B16

// A chunk of int4: the low nibbles with codes I of V4, the high ones with those of V5.
// Sixteen bits hold 8 products of at most 15*127.
#define INT4CHUNK(I) \
	VLD1.P 32(R8), [V24.B16, V25.B16]; \
	VAND  V31.B16, V24.B16, V26.B16; \
	VAND  V31.B16, V25.B16, V27.B16; \
	VUSHR $4, V24.B16, V24.B16; \
	VUSHR $4, V25.B16, V25.B16; \
	VDUP  V4.S[I], V30.S4; \
	LONG(26, 16, 17); \
	LONG(27, 18, 19); \
	VDUP  V5.S[I], V30.S4; \
	LONG(24, 16, 17); \
	LONG(25, 18, 19)

// func int4x1Long(groups int, w *byte, codes *int8, scales *float32, offsets *uint32, y *float32)
TEXT ·int4x1Long(SB), NOSPLIT, $0-48
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
	CLEAR(V16)
	CLEAR(V17)
	CLEAR(V18)
	CLEAR(V19)
	INT4CHUNK(0)
	INT4CHUNK(1)
	INT4CHUNK(2)
	INT4CHUNK(3)
	SADDLP(16, 16)
	SADDLP(17, 17)
	SADDLP(18, 18)
	SADDLP(19, 19)
	VADDP V17.S4, V16.S4, V6.S4
	VADDP V19.S4, V18.S4, V7.S4
	VLD1R.P 4(R3), [V30.S4] // -4 times the sum of the codes, in halves
	SSHLLH(30, 30)
	VADD  V30.S4, V6.S4, V6.S4
	VADD  V30.S4, V7.S4, V7.S4
	SCALED
	SUBS  $1, R0
	BGT   loop
	VST1  [V0.S4, V1.S4], (R4)
	RET

// Two chunks of int8 with codes I and J of X: sixteen bits hold two products.
#define INT8CHUNKS(I, J, X) \
	VLD1.P 64(R8), [V24.B16, V25.B16, V26.B16, V27.B16]; \
	VDUP  X.S[I], V30.S4; \
	SMULL(30, 24, 20); \
	SMULL2(30, 24, 21); \
	SMULL(30, 25, 22); \
	SMULL2(30, 25, 23); \
	VDUP  X.S[J], V30.S4; \
	LONG(26, 20, 21); \
	LONG(27, 22, 23); \
	SADALP(20, 16); \
	SADALP(21, 17); \
	SADALP(22, 18); \
	SADALP(23, 19)

// func int8x1Long(groups int, w *byte, codes *int8, scales *float32, y *float32)
TEXT ·int8x1Long(SB), NOSPLIT, $0-40
	MOVD groups+0(FP), R0
	MOVD w+8(FP), R8
	MOVD codes+16(FP), R1
	MOVD scales+24(FP), R2
	MOVD y+32(FP), R4
	CLEAR(V0)
	CLEAR(V1)

loop:
	VLD1.P 32(R1), [V4.B16, V5.B16]
	CLEAR(V16)
	CLEAR(V17)
	CLEAR(V18)
	CLEAR(V19)
	INT8CHUNKS(0, 1, V4)
	INT8CHUNKS(2, 3, V4)
	INT8CHUNKS(0, 1, V5)
	INT8CHUNKS(2, 3, V5)
	VADDP V17.S4, V16.S4, V6.S4
	VADDP V19.S4, V18.S4, V7.S4
	SCALED
	SUBS  $1, R0
	BGT   loop
	VST1  [V0.S4, V1.S4], (R4)
	RET
