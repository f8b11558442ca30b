//go:build !purego

#include "textflag.h"
#include "neon_arm64.h"

// func quantizeNEON(groups int, x *float32, codes *int8, scales *float32, offsets *uint32)
TEXT ·quantizeNEON(SB), NOSPLIT, $0-40
	MOVD  groups+0(FP), R0
	MOVD  x+8(FP), R1
	MOVD  codes+16(FP), R2
	MOVD  scales+24(FP), R3
	MOVD  offsets+32(FP), R4
	FMOVS $127.0, F28
	MOVD  $0x7f800000, R5
	FMOVS R5, F29 // infinity
	MOVD  $0x0d800000, R5
	FMOVS R5, F30 // tiny, 2^-100

loop:
	VLD1.P 64(R1), [V0.S4, V1.S4, V2.S4, V3.S4]
	VLD1.P 64(R1), [V4.S4, V5.S4, V6.S4, V7.S4]
	FABS4(0, 16)
	FABS4(1, 17)
	FABS4(2, 18)
	FABS4(3, 19)
	FABS4(4, 20)
	FABS4(5, 21)
	FABS4(6, 22)
	FABS4(7, 23)
	FMAX4(17, 16, 16)
	FMAX4(19, 18, 18)
	FMAX4(21, 20, 20)
	FMAX4(23, 22, 22)
	FMAX4(18, 16, 16)
	FMAX4(22, 20, 20)
	FMAX4(20, 16, 16)
	FMAXV(16, 16)
	FCMPS F29, F16
	BPL   bad // infinite or NaN
	FCMPS F30, F16
	BMI   zero // below tiny
	FDIVS F28, F16, F17
	FMOVS F17, (R3)
	FDIVS F16, F28, F17
	VDUP  V17.S[0], V17.S4

	FMUL4(17, 0, 0)
	FMUL4(17, 1, 1)
	FMUL4(17, 2, 2)
	FMUL4(17, 3, 3)
	FMUL4(17, 4, 4)
	FMUL4(17, 5, 5)
	FMUL4(17, 6, 6)
	FMUL4(17, 7, 7)
	FCVTNS4(0, 0)
	FCVTNS4(1, 1)
	FCVTNS4(2, 2)
	FCVTNS4(3, 3)
	FCVTNS4(4, 4)
	FCVTNS4(5, 5)
	FCVTNS4(6, 6)
	FCVTNS4(7, 7)

	// Codes fit their lowest bytes: even halves, then even bytes.
	VUZP1 V1.H8, V0.H8, V0.H8
	VUZP1 V3.H8, V2.H8, V2.H8
	VUZP1 V5.H8, V4.H8, V4.H8
	VUZP1 V7.H8, V6.H8, V6.H8
	VADD  V2.H8, V0.H8, V16.H8
	VADD  V6.H8, V4.H8, V17.H8
	VADD  V17.H8, V16.H8, V16.H8
	VADDV V16.H8, V16 // at most 32*127
	VUZP1 V2.B16, V0.B16, V0.B16
	VUZP1 V6.B16, V4.B16, V1.B16
	VST1.P [V0.B16, V1.B16], 32(R2)
	VMOV  V16.H[0], R5
	NEG   R5<<2, R5
	AND   $0xffff, R5
	ORR   R5<<16, R5
	MOVW  R5, (R4)

next:
	ADD  $4, R3
	ADD  $4, R4
	SUBS $1, R0
	BGT  loop
	RET

bad:
	MOVW $0x7fc00000, R5 // NaN
	JMP  without

zero:
	MOVW ZR, R5

without:
	MOVW R5, (R3)
	MOVW ZR, (R4)
	VEOR V0.B16, V0.B16, V0.B16
	VEOR V1.B16, V1.B16, V1.B16
	VST1.P [V0.B16, V1.B16], 32(R2)
	JMP  next
