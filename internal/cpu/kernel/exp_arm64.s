//go:build !purego

#include "textflag.h"
#include "neon_arm64.h"

// exp(x) = 2^n * exp(r), n = round(x / ln 2), r = x - n ln 2 with ln 2 in two parts;
// exp(r), |r| <= 0.35, is its Taylor polynomial to r^7, whose remainder is 5e-9. 2^n
// is added to the exponent. The limits are those of exp in vector.go.

// LD4R spreads four words over four vectors, V16 and up.
DATA expConst<>+0(SB)/4, $0xc2ae999a // -87.3000031
#define LOW 16
DATA expConst<>+4(SB)/4, $0x42b0bd71 // 88.3700027
#define HIGH 17
DATA expConst<>+8(SB)/4, $0x3fb8aa3b // 1.44269502
#define LOG2E 18
DATA expConst<>+12(SB)/4, $0x3f800000 // 1
#define ONE 19
DATA expConst<>+16(SB)/4, $0x3f310000 // 0.69140625
#define LN2HI V20.S4
DATA expConst<>+20(SB)/4, $0x3ae42ff0 // 0.0017409306
#define LN2LO V21.S4
DATA expConst<>+24(SB)/4, $0x39500d01 // 0.000198412701
#define C7 V22.S4
DATA expConst<>+28(SB)/4, $0x3ab60b61 // 0.00138888892
#define C6 V23.B16
DATA expConst<>+32(SB)/4, $0x3c088889 // 0.00833333377
#define C5 V24.B16
DATA expConst<>+36(SB)/4, $0x3d2aaaab // 0.0416666679
#define C4 V25.B16
DATA expConst<>+40(SB)/4, $0x3e2aaaab // 0.166666672
#define C3 V26.B16
DATA expConst<>+44(SB)/4, $0x3f000000 // 0.5
#define C2 V27.B16
DATA expConst<>+48(SB)/4, $0x7f800000
#define INF V28.B16
DATA expConst<>+52(SB)/4, $0xff800000
#define NEGINF V29.B16
DATA expConst<>+56(SB)/4, $0
#define ZERO V30.B16
DATA expConst<>+60(SB)/4, $0
GLOBL expConst<>(SB), RODATA|NOPTR, $64

#define CONSTANTS \
	MOVD $expConst<>(SB), R5; \
	VLD4R.P 16(R5), [V16.S4, V17.S4, V18.S4, V19.S4]; \
	VLD4R.P 16(R5), [V20.S4, V21.S4, V22.S4, V23.S4]; \
	VLD4R.P 16(R5), [V24.S4, V25.S4, V26.S4, V27.S4]; \
	VLD4R (R5), [V28.S4, V29.S4, V30.S4, V31.S4]

// One step of the polynomial: (P, Q) = C + (T, U) * (V0, V1).
#define HORNER(C, T, U, P, Q) \
	VMOV  C, P.B16; \
	VMOV  C, Q.B16; \
	VFMLA T.S4, V0.S4, P.S4; \
	VFMLA U.S4, V1.S4, Q.S4

// (V0, V1) = exp of (V0, V1), by way of V2..V11.
#define EXP8 \
	FMUL4(LOG2E, 0, 2); \
	FMUL4(LOG2E, 1, 3); \
	FRINTN4(2, 2); \
	FRINTN4(3, 3); \
	FCMGT4(0, LOW, 8); \
	FCMGT4(1, LOW, 9); \
	FCMGT4(HIGH, 0, 10); \
	FCMGT4(HIGH, 1, 11); \
	VFMLS LN2HI, V2.S4, V0.S4; \
	VFMLS LN2HI, V3.S4, V1.S4; \
	VFMLS LN2LO, V2.S4, V0.S4; \
	VFMLS LN2LO, V3.S4, V1.S4; \
	FCVTNS4(2, 2); \
	FCVTNS4(3, 3); \
	VSHL  $23, V2.S4, V2.S4; \
	VSHL  $23, V3.S4, V3.S4; \
	VMOV  C6, V4.B16; \
	VMOV  C6, V5.B16; \
	VFMLA C7, V0.S4, V4.S4; \
	VFMLA C7, V1.S4, V5.S4; \
	HORNER(C5, V4, V5, V6, V7); \
	HORNER(C4, V6, V7, V4, V5); \
	HORNER(C3, V4, V5, V6, V7); \
	HORNER(C2, V6, V7, V4, V5); \
	HORNER(V19.B16, V4, V5, V6, V7); \
	HORNER(V19.B16, V6, V7, V4, V5); \
	VADD  V2.S4, V4.S4, V0.S4; \
	VADD  V3.S4, V5.S4, V1.S4; \
	VBIT  V8.B16, ZERO, V0.B16; \
	VBIT  V9.B16, ZERO, V1.B16; \
	VBIT  V10.B16, INF, V0.B16; \
	VBIT  V11.B16, INF, V1.B16

// F0 = the lanes of (V12, V13) in order.
#define ORDERED \
	VDUP  V12.S[1], V1; \
	FADDS F1, F12, F0; \
	VDUP  V12.S[2], V1; \
	FADDS F1, F0, F0; \
	VDUP  V12.S[3], V1; \
	FADDS F1, F0, F0; \
	FADDS F13, F0, F0; \
	VDUP  V13.S[1], V1; \
	FADDS F1, F0, F0; \
	VDUP  V13.S[2], V1; \
	FADDS F1, F0, F0; \
	VDUP  V13.S[3], V1; \
	FADDS F1, F0, F0

// func softmaxAsm(n int, s *float32, scale float32) (largest, sum float32)
TEXT ·softmaxAsm(SB), NOSPLIT, $0-32
	MOVD  n+0(FP), R0
	MOVD  s+8(FP), R1
	FMOVS scale+16(FP), F15
	VDUP  V15.S[0], V15.S4
	CONSTANTS
	VMOV  NEGINF, V14.B16
	VMOV  NEGINF, V13.B16
	MOVD  R1, R2
	MOVD  R0, R3

largest:
	VLD1 (R2), [V0.S4, V1.S4]
	FMUL4(15, 0, 0)
	FMUL4(15, 1, 1)
	FMAXNM4(14, 0, 14) // of a NaN and V14, V14
	FMAXNM4(13, 1, 13)
	VST1.P [V0.S4, V1.S4], 32(R2)
	SUBS $8, R3
	BGT  largest
	FMAXNM4(13, 14, 14)
	FMAXNMV(14, 14)
	FMOVS F14, largest+24(FP)
	VDUP  V14.S[0], V14.S4
	VMOV  ZERO, V12.B16
	VMOV  ZERO, V13.B16

sum:
	VLD1 (R1), [V0.S4, V1.S4]
	FSUB4(14, 0, 0)
	FSUB4(14, 1, 1)
	EXP8
	VST1.P [V0.S4, V1.S4], 32(R1)
	FADD4(0, 12, 12)
	FADD4(1, 13, 13)
	SUBS $8, R0
	BGT  sum
	ORDERED
	FMOVS F0, sum+28(FP)
	RET

// func expSumAsm(n int, x *float32, largest float32) float32
TEXT ·expSumAsm(SB), NOSPLIT, $0-28
	MOVD  n+0(FP), R0
	MOVD  x+8(FP), R1
	FMOVS largest+16(FP), F14
	VDUP  V14.S[0], V14.S4
	CONSTANTS
	VMOV  ZERO, V12.B16
	VMOV  ZERO, V13.B16

loop:
	VLD1.P 32(R1), [V0.S4, V1.S4]
	FSUB4(14, 0, 0)
	FSUB4(14, 1, 1)
	EXP8
	FADD4(0, 12, 12)
	FADD4(1, 13, 13)
	SUBS $8, R0
	BGT  loop
	ORDERED
	FMOVS F0, ret+24(FP)
	RET

// func swiGLUAsm(n int, gate, up *float32, clamp float32)
TEXT ·swiGLUAsm(SB), NOSPLIT, $0-28
	MOVD  n+0(FP), R0
	MOVD  gate+8(FP), R1
	MOVD  up+16(FP), R2
	CONSTANTS
	FMOVS clamp+24(FP), F29
	VDUP  V29.S[0], V29.S4
	FNEG4(29, 31)

loop:
	VLD1 (R1), [V12.S4, V13.S4]
	VLD1.P 32(R2), [V14.S4, V15.S4]
	FMIN4(29, 12, 12) // of a NaN and the clamp, the NaN
	FMIN4(29, 13, 13)
	FMIN4(29, 14, 14)
	FMIN4(29, 15, 15)
	FMAX4(31, 14, 14)
	FMAX4(31, 15, 15)
	FNEG4(12, 0)
	FNEG4(13, 1)
	EXP8
	FADD4(ONE, 0, 0)
	FADD4(ONE, 1, 1)
	FDIV4(0, 12, 12)
	FDIV4(1, 13, 13)
	FMUL4(14, 12, 12)
	FMUL4(15, 13, 13)
	VST1.P [V12.S4, V13.S4], 32(R1)
	SUBS $8, R0
	BGT  loop
	RET
