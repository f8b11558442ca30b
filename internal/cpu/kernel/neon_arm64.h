// Vector instructions that Go's assembler does not know, by their encodings in the
// Arm Architecture Reference Manual. Registers are given by number and, as in Go's
// own mnemonics, the destination comes last: FSUB4(2, 1, 0) is fsub v0.4s, v1.4s,
// v2.4s. A 4 at the end of a name counts its lanes.

#define TWO(OP, N, D) WORD $((OP) | (N)<<5 | (D))
#define THREE(OP, M, N, D) WORD $((OP) | (M)<<16 | (N)<<5 | (D))

#define FADD4(M, N, D) THREE(0x4e20d400, M, N, D)
#define FSUB4(M, N, D) THREE(0x4ea0d400, M, N, D) // N - M
#define FMUL4(M, N, D) THREE(0x6e20dc00, M, N, D)
#define FDIV4(M, N, D) THREE(0x6e20fc00, M, N, D) // N / M
#define FMAX4(M, N, D) THREE(0x4e20f400, M, N, D) // NaN if either is
#define FMIN4(M, N, D) THREE(0x4ea0f400, M, N, D)
#define FMAXNM4(M, N, D) THREE(0x4e20c400, M, N, D) // of a NaN and a number, the number
#define FCMGT4(M, N, D) THREE(0x6ea0e400, M, N, D) // all ones where N > M

#define FABS4(N, D) TWO(0x4ea0f800, N, D)
#define FNEG4(N, D) TWO(0x6ea0f800, N, D)
#define FRINTN4(N, D) TWO(0x4e218800, N, D) // to the nearest whole number, ties to even
#define FCVTNS4(N, D) TWO(0x4e21a800, N, D) // the same, as int32
#define SCVTF4(N, D) TWO(0x4e21d800, N, D) // of int32
#define FMAXNMV(N, D) TWO(0x6e30c800, N, D) // the largest of four lanes
#define FMAXV(N, D) TWO(0x6e30f800, N, D) // so, but NaN if any is

#define SHLL(N, D) TWO(0x2e613800, N, D) // four 16-bit lanes moved up by 16 into 32 bits
#define SHLL2(N, D) TWO(0x6e613800, N, D) // the upper four lanes

#define SSHLLB(N, D) TWO(0x0f0fa400, N, D) // eight int8 as int16, moved up by 7
#define SSHLL2B(N, D) TWO(0x4f0fa400, N, D) // the upper eight
#define FCVTL(N, D) TWO(0x0e217800, N, D) // four IEEE halves as float32
#define FCVTL2(N, D) TWO(0x4e217800, N, D) // the upper four
#define UMAXV(N, D) TWO(0x6e30a800, N, D) // the largest of sixteen bytes

#define SSHLLH(N, D) TWO(0x0f11a400, N, D) // four int16 as int32, doubled

// Lane r of D takes bytes 4r..4r+3 of N times the four bytes of lane I of M. The
// processor has it if dot is set.
#define SDOT(I, M, N, D) THREE(0x4f80e000 | ((I)&1)<<21 | ((I)>>1)<<11, M, N, D)

#define SMULL(M, N, D) THREE(0x0e20c000, M, N, D) // eight products of int8 as int16
#define SMULL2(M, N, D) THREE(0x4e20c000, M, N, D) // of the upper eight
#define SMLAL(M, N, D) THREE(0x0e208000, M, N, D) // added to D
#define SMLAL2(M, N, D) THREE(0x4e208000, M, N, D)
#define SADDLP(N, D) TWO(0x4e602800, N, D) // sums of neighbouring int16 as int32
#define SADALP(N, D) TWO(0x4e606800, N, D) // added to D
