//go:build !purego

#include "textflag.h"

// func Pause(n int)
TEXT ·Pause(SB), NOSPLIT, $0-8
	MOVD n+0(FP), R0

loop:
	ISB  $15
	SUBS $1, R0
	BGT  loop
	RET
