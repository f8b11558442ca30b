//go:build !purego

#include "textflag.h"

// exp(x) = 2^n * exp(r), n = round(x / ln 2), r = x - n ln 2 with ln 2 in two parts;
// exp(r), |r| <= 0.35, is its Taylor polynomial to r^7, whose remainder is 5e-9. 2^n
// is added to the exponent. The limits are those of exp in vector.go.

#define EIGHT(OFF, TWICE) \
	DATA expConst<>+(OFF+0)(SB)/8, $TWICE; \
	DATA expConst<>+(OFF+8)(SB)/8, $TWICE; \
	DATA expConst<>+(OFF+16)(SB)/8, $TWICE; \
	DATA expConst<>+(OFF+24)(SB)/8, $TWICE

EIGHT(0, 0xc2ae999ac2ae999a) // -87.3000031
#define LOW expConst<>+0(SB)
EIGHT(32, 0x42b0bd7142b0bd71) // 88.3700027
#define HIGH expConst<>+32(SB)
EIGHT(64, 0x3fb8aa3b3fb8aa3b) // 1.44269502
#define LOG2E expConst<>+64(SB)
EIGHT(96, 0x3f3100003f310000) // 0.69140625
#define LN2HI expConst<>+96(SB)
EIGHT(128, 0x3ae42ff03ae42ff0) // 0.0017409306
#define LN2LO expConst<>+128(SB)
EIGHT(160, 0x39500d0139500d01) // 0.000198412701
#define C7 expConst<>+160(SB)
EIGHT(192, 0x3ab60b613ab60b61) // 0.00138888892
#define C6 expConst<>+192(SB)
EIGHT(224, 0x3c0888893c088889) // 0.00833333377
#define C5 expConst<>+224(SB)
EIGHT(256, 0x3d2aaaab3d2aaaab) // 0.0416666679
#define C4 expConst<>+256(SB)
EIGHT(288, 0x3e2aaaab3e2aaaab) // 0.166666672
#define C3 expConst<>+288(SB)
EIGHT(320, 0x3f0000003f000000) // 0.5
#define C2 expConst<>+320(SB)
EIGHT(352, 0x3f8000003f800000) // 1
#define ONE expConst<>+352(SB)
EIGHT(384, 0x7f8000007f800000)
#define INF expConst<>+384(SB)
EIGHT(416, 0xff800000ff800000)
#define NEGINF expConst<>+416(SB)
EIGHT(448, 0x8000000080000000)
#define SIGN expConst<>+448(SB)
GLOBL expConst<>(SB), RODATA|NOPTR, $480

// X = exp(X), by way of N, P, M and H.
#define EXP8(X, N, P, M, H) \
	VMULPS LOG2E, X, N; \
	VROUNDPS $0, N, N; \
	VCMPPS $1, LOW, X, M; \
	VCMPPS $14, HIGH, X, H; \
	VFNMADD231PS LN2HI, N, X; \
	VFNMADD231PS LN2LO, N, X; \
	VCVTPS2DQ N, N; \
	VPSLLD $23, N, N; \
	VMOVUPS C7, P; \
	VFMADD213PS C6, X, P; \
	VFMADD213PS C5, X, P; \
	VFMADD213PS C4, X, P; \
	VFMADD213PS C3, X, P; \
	VFMADD213PS C2, X, P; \
	VFMADD213PS ONE, X, P; \
	VFMADD213PS ONE, X, P; \
	VPADDD N, P, P; \
	VANDNPS P, M, P; \
	VBLENDVPS H, INF, P, X

// X6 = the lanes of Y3 in order, by way of X4 and X5.
#define ORDERED \
	VEXTRACTF128 $1, Y3, X4; \
	VMOVSHDUP X3, X5; \
	VADDSS X5, X3, X6; \
	VPERMILPS $0xaa, X3, X5; \
	VADDSS X5, X6, X6; \
	VPERMILPS $0xff, X3, X5; \
	VADDSS X5, X6, X6; \
	VADDSS X4, X6, X6; \
	VMOVSHDUP X4, X5; \
	VADDSS X5, X6, X6; \
	VPERMILPS $0xaa, X4, X5; \
	VADDSS X5, X6, X6; \
	VPERMILPS $0xff, X4, X5; \
	VADDSS X5, X6, X6

// func softmaxAsm(n int, s *float32, scale float32) (largest, sum float32)
TEXT ·softmaxAsm(SB), NOSPLIT, $0-32
	MOVQ n+0(FP), CX
	MOVQ s+8(FP), SI
	VBROADCASTSS scale+16(FP), Y0
	SHLQ $2, CX
	VMOVUPS NEGINF, Y1
	XORQ AX, AX

largest:
	VMULPS (SI)(AX*1), Y0, Y2
	VMOVUPS Y2, (SI)(AX*1)
	VMAXPS Y1, Y2, Y1 // of a NaN and Y1, Y1
	ADDQ $32, AX
	CMPQ AX, CX
	JLT  largest
	VEXTRACTF128 $1, Y1, X2
	VMAXPS X2, X1, X1
	VPERMILPS $0x4e, X1, X2
	VMAXPS X2, X1, X1
	VPERMILPS $0xb1, X1, X2
	VMAXPS X2, X1, X1
	VMOVSS X1, largest+24(FP)
	VBROADCASTSS X1, Y1
	VXORPS Y3, Y3, Y3
	XORQ AX, AX

sum:
	VMOVUPS (SI)(AX*1), Y2
	VSUBPS Y1, Y2, Y2
	EXP8(Y2, Y4, Y5, Y6, Y7)
	VMOVUPS Y2, (SI)(AX*1)
	VADDPS Y2, Y3, Y3
	ADDQ $32, AX
	CMPQ AX, CX
	JLT  sum
	ORDERED
	VMOVSS X6, sum+28(FP)
	VZEROUPPER
	RET

// func expSumAsm(n int, x *float32, largest float32) float32
TEXT ·expSumAsm(SB), NOSPLIT, $0-28
	MOVQ n+0(FP), CX
	MOVQ x+8(FP), SI
	VBROADCASTSS largest+16(FP), Y1
	VXORPS Y3, Y3, Y3
	SHLQ $2, CX
	XORQ AX, AX

loop:
	VMOVUPS (SI)(AX*1), Y2
	VSUBPS Y1, Y2, Y2
	EXP8(Y2, Y4, Y5, Y6, Y7)
	VADDPS Y2, Y3, Y3
	ADDQ $32, AX
	CMPQ AX, CX
	JLT  loop
	ORDERED
	VMOVSS X6, ret+24(FP)
	VZEROUPPER
	RET

// func swiGLUAsm(n int, gate, up *float32, clamp float32)
TEXT ·swiGLUAsm(SB), NOSPLIT, $0-28
	MOVQ n+0(FP), CX
	MOVQ gate+8(FP), DI
	MOVQ up+16(FP), SI
	VBROADCASTSS clamp+24(FP), Y8
	VXORPS SIGN, Y8, Y9
	SHLQ $2, CX
	XORQ AX, AX

loop:
	VMOVUPS (DI)(AX*1), Y0
	VMOVUPS (SI)(AX*1), Y1
	VMINPS Y0, Y8, Y0 // of a NaN and the clamp, the NaN
	VMINPS Y1, Y8, Y1
	VMAXPS Y1, Y9, Y1
	VXORPS SIGN, Y0, Y2
	EXP8(Y2, Y4, Y5, Y6, Y7)
	VADDPS ONE, Y2, Y2
	VDIVPS Y2, Y0, Y0
	VMULPS Y1, Y0, Y0
	VMOVUPS Y0, (DI)(AX*1)
	ADDQ $32, AX
	CMPQ AX, CX
	JLT  loop
	VZEROUPPER
	RET
