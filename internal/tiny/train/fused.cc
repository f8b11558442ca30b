// Fused training kernels for CPUs with 512-bit vectors (GCC vector extensions;
// other widths work too, more slowly). fused.py compiles and calls them.
//
// Activations between matrix products are bf16, the residual stream and every
// statistic is f32. One thread: the trainer runs one process per core.

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#ifdef __AVX512BF16__
#include <immintrin.h>
#endif

extern "C" {

typedef float v16 __attribute__((vector_size(64), aligned(4)));
typedef int32_t i16v __attribute__((vector_size(64), aligned(4)));
typedef uint16_t bf16;
typedef uint8_t b16 __attribute__((vector_size(16), aligned(1)));
#define D 64  // dimension of a head
#define PARTS (D / 16)
#define LANES 16

static inline float load1(bf16 x) {
	uint32_t u = (uint32_t)x << 16;
	float f;
	memcpy(&f, &u, 4);
	return f;
}

static inline bf16 store1(float f) {
	uint32_t u;
	memcpy(&u, &f, 4);
	return (bf16)((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}

static inline v16 exp2v(v16 x) {  // for x <= 0; relative error near 2e-7
	x = x < -126.0f ? (v16){} - 126.0f : x;
	i16v whole = __builtin_convertvector(x - 0.5f, i16v);  // rounds to nearest: x is not positive
	v16 f = x - __builtin_convertvector(whole, v16);
	v16 p = 1.535336188e-4f * f + 1.339887440e-3f;
	p = p * f + 9.618437357e-3f;
	p = p * f + 5.550332548e-2f;
	p = p * f + 2.402264791e-1f;
	p = p * f + 6.931472028e-1f;
	p = p * f + 1.0f;
	i16v bits = (i16v)p + (whole << 23);
	return (v16)bits;
}

static inline v16 maxv(v16 a, v16 b) { return a > b ? a : b; }

// ---- RMS norms ----

// xo = x + branch (branch may be 0); y = xo * rstd * w
void addnorm_fwd(long n, long h, const float *x, const bf16 *branch, const float *w, float eps, float *xo, bf16 *y, float *rstd) {
	for (long i = 0; i < n; i++) {
		const float *a = x + i * h;
		float *o = xo + i * h;
		float ss = 0;
		if (branch)
			for (long j = 0; j < h; j++) {
				o[j] = a[j] + load1(branch[i * h + j]);
				ss += o[j] * o[j];
			}
		else
			for (long j = 0; j < h; j++) {
				o[j] = a[j];
				ss += o[j] * o[j];
			}
		float r = rstd[i] = 1.0f / sqrtf(ss / h + eps);
		for (long j = 0; j < h; j++)
			y[i * h + j] = store1(o[j] * r * w[j]);
	}
}

// dx = dxo (may be 0) + gradient through the norm; dbranch = bf16(dx); dw accumulates
void addnorm_bwd(long n, long h, const float *xo, const float *w, const float *rstd, const float *dxo, const bf16 *dy, float *dx, bf16 *dbranch, float *dw) {
	for (long i = 0; i < n; i++) {
		const float *o = xo + i * h;
		const bf16 *g = dy + i * h;
		float r = rstd[i], dot = 0;
		for (long j = 0; j < h; j++) {
			float d = load1(g[j]);
			dot += d * w[j] * o[j];
			dw[j] += d * o[j] * r;
		}
		dot *= r * r * r / h;
		for (long j = 0; j < h; j++) {
			float d = load1(g[j]) * w[j] * r - o[j] * dot + (dxo ? dxo[i * h + j] : 0);
			dx[i * h + j] = d;
			if (dbranch)
				dbranch[i * h + j] = store1(d);
		}
	}
}

// y = rmsnorm over columns [from, from+h) of rows of width stride, bf16 in and out
void norm_fwd(long n, long stride, long from, long h, const bf16 *x, const float *w, float eps, bf16 *y, float *rstd) {
	for (long i = 0; i < n; i++) {
		const bf16 *a = x + i * stride + from;
		float ss = 0;
		for (long j = 0; j < h; j++) {
			float f = load1(a[j]);
			ss += f * f;
		}
		float r = rstd[i] = 1.0f / sqrtf(ss / h + eps);
		for (long j = 0; j < h; j++)
			y[i * h + j] = store1(load1(a[j]) * r * w[j]);
	}
}

void norm_bwd(long n, long stride, long from, long h, const bf16 *x, const float *w, const float *rstd, const bf16 *dy, bf16 *dx, float *dw) {
	for (long i = 0; i < n; i++) {
		const bf16 *a = x + i * stride + from, *g = dy + i * h;
		float r = rstd[i], dot = 0;
		for (long j = 0; j < h; j++) {
			float d = load1(g[j]), f = load1(a[j]);
			dot += d * w[j] * f;
			dw[j] += d * f * r;
		}
		dot *= r * r * r / h;
		for (long j = 0; j < h; j++)
			dx[i * stride + from + j] = store1(load1(g[j]) * w[j] * r - load1(a[j]) * dot);
	}
}

// ---- SwiGLU: rows [gate (h), up (h)] ----

static inline v16 sigmoidv(v16 x) {
	v16 e = exp2v((x > 0 ? -x : x) * 1.44269504f);  // exp(-|x|)
	v16 s = 1.0f / (1.0f + e);
	return x > 0 ? s : 1.0f - s;
}

typedef uint16_t h16 __attribute__((vector_size(32), aligned(2)));
typedef uint32_t u16v __attribute__((vector_size(64), aligned(4)));

static inline v16 loadv(const bf16 *p) {
	return (v16)(__builtin_convertvector(*(const h16 *)p, u16v) << 16);
}

static inline void storev(bf16 *p, v16 x) {
	u16v u = (u16v)x;
	*(h16 *)p = __builtin_convertvector((u + 0x7fff + ((u >> 16) & 1)) >> 16, h16);
}

void swiglu_fwd(long n, long h, const bf16 *x, bf16 *y) {
	for (long i = 0; i < n; i++)
		for (long j = 0; j < h; j += LANES) {
			v16 g = loadv(x + i * 2 * h + j), u = loadv(x + i * 2 * h + h + j);
			storev(y + i * h + j, g * sigmoidv(g) * u);
		}
}

void swiglu_bwd(long n, long h, const bf16 *x, const bf16 *dy, bf16 *dx) {
	for (long i = 0; i < n; i++)
		for (long j = 0; j < h; j += LANES) {
			v16 g = loadv(x + i * 2 * h + j), u = loadv(x + i * 2 * h + h + j), d = loadv(dy + i * h + j);
			v16 s = sigmoidv(g);
			storev(dx + i * 2 * h + j, d * u * s * (1.0f + g * (1.0f - s)));
			storev(dx + i * 2 * h + h + j, d * g * s);
		}
}

// ---- experts: rows by expert and back ----

void gather_rows(long n, long h, const bf16 *x, const int64_t *rows, long divide, bf16 *y) {
	for (long i = 0; i < n; i++)
		memcpy(y + i * h, x + rows[i] / divide * h, h * sizeof(bf16));
}

// dx[i] = sum over k of dy[place[i*k + j]]
void sum_rows(long n, long h, long k, const bf16 *dy, const int64_t *place, bf16 *dx) {
	for (long i = 0; i < n; i++)
		for (long j = 0; j < h; j++) {
			float s = 0;
			for (long m = 0; m < k; m++)
				s += load1(dy[place[i * k + m] * h + j]);
			dx[i * h + j] = store1(s);
		}
}

// y[i] = shared[i] + sum over k of weight[i][k] * out[place[i*k + m]]
void combine_fwd(long n, long h, long k, const bf16 *out, const int64_t *place, const float *weight, const bf16 *shared, bf16 *y) {
	for (long i = 0; i < n; i++)
		for (long j = 0; j < h; j++) {
			float s = load1(shared[i * h + j]);
			for (long m = 0; m < k; m++)
				s += weight[i * k + m] * load1(out[place[i * k + m] * h + j]);
			y[i * h + j] = store1(s);
		}
}

void combine_bwd(long n, long h, long k, const bf16 *out, const int64_t *place, const float *weight, const bf16 *dy, bf16 *dout, float *dweight) {
	for (long i = 0; i < n; i++)
		for (long m = 0; m < k; m++) {
			const bf16 *o = out + place[i * k + m] * h, *g = dy + i * h;
			bf16 *d = dout + place[i * k + m] * h;
			float dot = 0, w = weight[i * k + m];
			for (long j = 0; j < h; j++) {
				float f = load1(g[j]);
				dot += f * load1(o[j]);
				d[j] = store1(f * w);
			}
			dweight[i * k + m] = dot;
		}
}

// ---- cross entropy over bf16 logits; the gradient replaces the logits ----

void cross_entropy(long n, long v, bf16 *logits, const int64_t *target, const float *weight, float *loss) {
	float *row = (float *)malloc(v * sizeof(float));
	for (long i = 0; i < n; i++) {
		bf16 *a = logits + i * v;
		float top = -1e30f, sum = 0;
		for (long j = 0; j < v; j++) {
			row[j] = load1(a[j]);
			top = row[j] > top ? row[j] : top;
		}
		float shown = row[target[i]];
		for (long j = 0; j < v; j += LANES) {
			v16 e = exp2v((*(v16 *)(row + j) - top) * 1.44269504f);
			*(v16 *)(row + j) = e;
			for (int l = 0; l < LANES; l++)
				sum += e[l];
		}
		loss[i] = logf(sum) + top - shown;
		float scale = weight[i] / sum;
		for (long j = 0; j < v; j++)
			a[j] = store1(row[j] * scale);
		a[target[i]] = store1(row[target[i]] * scale - weight[i]);
	}
	free(row);
}

// ---- attention ----
//
// q [B*T, heads*D] rows of nope then rope; kv [B*T, heads*(nope+D)] rows of key
// nope then value; kr [B*T, stride] whose columns from `from` on hold the shared
// rope key. cs [T, rope/2] cosines, sn sines. Pairs are interleaved; rotated
// vectors keep [all first, all second] order on both sides.

typedef struct {
	long b, t, heads, nope, rope, stride, from;
	float scale;
	const bf16 *q, *kv, *kr;
	const float *cs, *sn;
	const uint8_t *mask;  // 0, or [B, T keys, T queries] bytes, 1 = visible
} Attn;

static void rotate(const bf16 *x, const float *c, const float *s, long half, float *y) {
	for (long i = 0; i < half; i++) {
		float a = load1(x[2 * i]), b = load1(x[2 * i + 1]);
		y[i] = a * c[i] - b * s[i];
		y[half + i] = b * c[i] + a * s[i];
	}
}

static void unrotate(const float *g, const float *c, const float *s, long half, float *dx) {
	for (long i = 0; i < half; i++) {
		dx[2 * i] = g[i] * c[i] + g[half + i] * s[i];
		dx[2 * i + 1] = g[half + i] * c[i] - g[i] * s[i];
	}
}

// Products run on pairs of bf16 with f32 sums (AVX512-BF16, or its emulation).
// A pair word holds two bf16; rows are D bf16 = D/2 pair words.
typedef uint32_t word;

#ifdef __AVX512BF16__
static inline v16 dot2(v16 acc, i16v a, word b) {
	return (v16)_mm512_dpbf16_ps((__m512)acc, (__m512bh)a, (__m512bh)_mm512_set1_epi32((int)b));
}
#else
static inline v16 dot2(v16 acc, i16v a, word b) {
	return acc + (v16)(a << 16) * load1((bf16)b) + (v16)(a & (int)0xffff0000) * load1((bf16)(b >> 16));
}
#endif

static inline i16v roundv(v16 x) {  // bf16 bits in the upper half of each lane
	i16v u = (i16v)x;
	return u + 0x7fff + ((u >> 16) & 1);
}

static inline i16v pairv(v16 low, v16 high) {
	i16v a = roundv(low), b = roundv(high);
#ifdef __AVX512BF16__
	a = (i16v)_mm512_srli_epi32((__m512i)a, 16);
#else
	a = (a >> 16) & 0xffff;
#endif
	return a | (b & (int)0xffff0000);
}

// Rows of q (scaled), k and v as bf16 [t][D]; rows up to the padded length are zero.
static void unpack(const Attn *a, long b, long h, long pad, bf16 *q, bf16 *k, bf16 *v) {
	long half = a->rope / 2, kw = a->nope + D;
	float tmp[D];
	for (long t = 0; t < a->t; t++) {
		long row = b * a->t + t;
		const bf16 *qr = a->q + (row * a->heads + h) * D, *kv = a->kv + (row * a->heads + h) * kw;
		for (long j = 0; j < a->nope; j++) {
			q[t * D + j] = store1(load1(qr[j]) * a->scale);
			k[t * D + j] = kv[j];
		}
		rotate(qr + a->nope, a->cs + t * half, a->sn + t * half, half, tmp);
		for (long j = 0; j < a->rope; j++)
			q[t * D + a->nope + j] = store1(tmp[j] * a->scale);
		rotate(a->kr + row * a->stride + a->from, a->cs + t * half, a->sn + t * half, half, tmp);
		for (long j = 0; j < a->rope; j++)
			k[t * D + a->nope + j] = store1(tmp[j]);
		memcpy(v + t * D, kv + a->nope, D * sizeof(bf16));
	}
	memset(q + a->t * D, 0, (pad - a->t) * D * sizeof(bf16));
	memset(k + a->t * D, 0, (pad - a->t) * D * sizeof(bf16));
	memset(v + a->t * D, 0, (pad - a->t) * D * sizeof(bf16));
}

// y[j/2][d] = (x[j][d], x[j+1][d])
static void pair_rows(const bf16 *x, long n, word *y) {
	for (long j = 0; j < n; j += 2)
		for (int d = 0; d < D; d++)
			y[j / 2 * D + d] = x[j * D + d] | (word)x[(j + 1) * D + d] << 16;
}

// y[i] lane l = pair word i of row l of 16 rows
static void pair_lanes(const bf16 *x, i16v *y) {
	const word *w = (const word *)x;
	word *o = (word *)y;
	for (int l = 0; l < LANES; l++)
		for (int i = 0; i < D / 2; i++)
			o[i * LANES + l] = w[l * D / 2 + i];
}

// s[j] lane l = row l . k[j], for keys [0, n), n a multiple of 4
static void products(const i16v *rows, const bf16 *k, long n, v16 *s) {
	for (long j = 0; j < n; j += 4) {
		v16 a0 = {}, a1 = {}, a2 = {}, a3 = {};
		const word *w = (const word *)(k + j * D);
		for (int i = 0; i < D / 2; i++) {
			i16v q = rows[i];
			a0 = dot2(a0, q, w[i]);
			a1 = dot2(a1, q, w[D / 2 + i]);
			a2 = dot2(a2, q, w[D + i]);
			a3 = dot2(a3, q, w[3 * D / 2 + i]);
		}
		s[j] = a0, s[j + 1] = a1, s[j + 2] = a2, s[j + 3] = a3;
	}
}

// out[d] = sum over j of s[j] * v[j][d]; s and v as pairs over j
static void mix(const i16v *s, const word *v, long n, v16 *out) {
	for (int d = 0; d < D; d += 16) {
		v16 o[16] = {};
		for (long j = 0; j < n / 2; j++) {
			i16v p = s[j];
			const word *r = v + j * D + d;
			for (int i = 0; i < 16; i++)
				o[i] = dot2(o[i], p, r[i]);
		}
		memcpy(out + d, o, sizeof o);
	}
}

// dk[j] += sum over lanes i of s[j][i] * rows[i]; s rounded to bf16, rows as pairs over i
static void outer(const bf16 *s, const i16v *rows, long n, float *dk) {
	for (long j = 0; j < n; j++) {
		v16 *d = (v16 *)(dk + j * D), a[PARTS];
		for (int k = 0; k < PARTS; k++)
			a[k] = d[k];
		const word *p = (const word *)(s + j * LANES);
		for (int i = 0; i < LANES / 2; i++)
			for (int k = 0; k < PARTS; k++)
				a[k] = dot2(a[k], rows[PARTS * i + k], p[i]);
		for (int k = 0; k < PARTS; k++)
			d[k] = a[k];
	}
}

// hides keys after the query, and keys the mask leaves out
static void hide(const Attn *a, long b, long t0, long n, v16 *s) {
	const i16v lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
	for (long j = t0; j < n; j++)
		s[j] = lane < (int)(j - t0) ? (v16){} - 1e30f : s[j];
	if (!a->mask)
		return;
	for (long j = 0; j < n && j < a->t; j++) {
		const uint8_t *m = a->mask + (b * a->t + j) * a->t + t0;
		uint8_t last[LANES];
		if (t0 + LANES > a->t)
			m = (const uint8_t *)memcpy(memset(last, 1, LANES), m, (size_t)(a->t - t0));
		s[j] = __builtin_convertvector(*(const b16 *)m, i16v) != 0 ? s[j] : (v16){} - 1e30f;
	}
}

// o [B*T, heads*D] bf16; lse [B, heads, T] (base 2)
void attention_fwd(const Attn *a, bf16 *o, float *lse) {
	long t = a->t, pad = (t + LANES - 1) / LANES * LANES;
	bf16 *q = (bf16 *)aligned_alloc(64, 3 * pad * D * 2), *k = q + pad * D, *v = k + pad * D;
	word *vp = (word *)aligned_alloc(64, pad * D * 2);
	v16 *s = (v16 *)aligned_alloc(64, pad * 64), out[D];
	i16v rows[D / 2], *p = (i16v *)aligned_alloc(64, pad * 32);
	for (long b = 0; b < a->b; b++)
		for (long h = 0; h < a->heads; h++) {
			unpack(a, b, h, pad, q, k, v);
			pair_rows(v, pad, vp);
			for (long t0 = 0; t0 < t; t0 += LANES) {
				long n = t0 + LANES;
				pair_lanes(q + t0 * D, rows);
				products(rows, k, n, s);
				hide(a, b, t0, n, s);
				v16 top = (v16){} - 1e30f, sum = {};
				for (long j = 0; j < n; j++)
					top = maxv(top, s[j]);
				for (long j = 0; j < n; j += 2) {
					v16 e = exp2v(s[j] - top), f = exp2v(s[j + 1] - top);
					sum += e + f;
					p[j / 2] = pairv(e, f);
				}
				mix(p, vp, n, out);
				bf16 turned[D * LANES];
				v16 inverse = 1.0f / sum;
				for (int d = 0; d < D; d++)
					storev(turned + d * LANES, out[d] * inverse);
				for (int l = 0; l < LANES && t0 + l < t; l++) {
					bf16 *r = o + ((b * t + t0 + l) * a->heads + h) * D;
					for (int d = 0; d < D; d++)
						r[d] = turned[d * LANES + l];
					lse[(b * a->heads + h) * t + t0 + l] = ((float *)&top)[l] + log2f(((float *)&sum)[l]);
				}
			}
		}
	free(q);
	free(vp);
	free(s);
	free(p);
}

// lanes over d: out[PARTS*i + k] = pairs of rows (2i, 2i+1), dimensions 16k to 16k+15
static void pair_outer(const bf16 *x, i16v *y) {
	for (int i = 0; i < LANES / 2; i++)
		for (int k = 0; k < PARTS; k++) {
			u16v low = __builtin_convertvector(*(const h16 *)(x + 2 * i * D + 16 * k), u16v);
			u16v high = __builtin_convertvector(*(const h16 *)(x + (2 * i + 1) * D + 16 * k), u16v);
			y[PARTS * i + k] = (i16v)(low | high << 16);
		}
}

// dkr [B*T, rope] f32 must be zero on entry; dq, dkv are written
void attention_bwd(const Attn *a, const bf16 *o, const float *lse, const bf16 *dout, bf16 *dq, bf16 *dkv, float *dkr) {
	long t = a->t, half = a->rope / 2, kw = a->nope + D, pad = (t + LANES - 1) / LANES * LANES;
	bf16 *q = (bf16 *)aligned_alloc(64, 4 * pad * D * 2), *k = q + pad * D, *v = k + pad * D, *g = v + pad * D;
	word *kp = (word *)aligned_alloc(64, pad * D * 2);
	float *dk = (float *)aligned_alloc(64, 3 * pad * D * 4), *dv = dk + pad * D, *dqf = dv + pad * D;
	v16 *s = (v16 *)aligned_alloc(64, 2 * pad * 64), *dp = s + pad, out[D];
	bf16 *s16 = (bf16 *)aligned_alloc(64, 2 * pad * LANES * 2), *dp16 = s16 + pad * LANES;
	i16v rows[D / 2], grows[D / 2], qo2[D / 2], go2[D / 2], *pp = (i16v *)aligned_alloc(64, pad * 32);
	float tmp[D];
	for (long b = 0; b < a->b; b++)
		for (long h = 0; h < a->heads; h++) {
			unpack(a, b, h, pad, q, k, v);
			pair_rows(k, pad, kp);
			memset(dk, 0, 2 * pad * D * 4);
			memset(g + t * D, 0, (pad - t) * D * 2);
			for (long i = 0; i < t; i++)
				memcpy(g + i * D, dout + ((b * t + i) * a->heads + h) * D, D * 2);
			for (long t0 = 0; t0 < t; t0 += LANES) {
				long n = t0 + LANES;
				v16 l2 = {}, delta = {};
				for (int l = 0; l < LANES && t0 + l < t; l++) {
					const bf16 *r = o + ((b * t + t0 + l) * a->heads + h) * D;
					float dl = 0;
					for (int d = 0; d < D; d++)
						dl += load1(r[d]) * load1(g[(t0 + l) * D + d]);
					delta[l] = dl;
					l2[l] = lse[(b * a->heads + h) * t + t0 + l];
				}
				pair_lanes(q + t0 * D, rows);
				pair_lanes(g + t0 * D, grows);
				products(rows, k, n, s);
				hide(a, b, t0, n, s);
				products(grows, v, n, dp);
				for (long j = 0; j < n; j += 2) {
					v16 e = s[j] - l2, f = s[j + 1] - l2;
					e = exp2v(e > 0 ? (v16){} : e);
					f = exp2v(f > 0 ? (v16){} : f);
					storev(s16 + j * LANES, e);
					storev(s16 + (j + 1) * LANES, f);
					e *= dp[j] - delta;
					f *= dp[j + 1] - delta;
					storev(dp16 + j * LANES, e);
					storev(dp16 + (j + 1) * LANES, f);
					pp[j / 2] = pairv(e, f);
				}
				pair_outer(g + t0 * D, go2);
				outer(s16, go2, n, dv);
				pair_outer(q + t0 * D, qo2);
				outer(dp16, qo2, n, dk);
				mix(pp, kp, n, out);
				const float *of = (const float *)out;
				for (int l = 0; l < LANES && t0 + l < t; l++)
					for (int d = 0; d < D; d++)
						dqf[(t0 + l) * D + d] = of[d * LANES + l];
			}
			const float ln2 = 0.69314718f;  // scores are base 2, and q was scaled by log2(e)/sqrt(d)
			for (long i = 0; i < t; i++) {
				long row = b * t + i;
				const float *c = a->cs + i * half, *sn = a->sn + i * half;
				bf16 *qo = dq + (row * a->heads + h) * D, *kvo = dkv + (row * a->heads + h) * kw;
				unrotate(dqf + i * D + a->nope, c, sn, half, tmp);
				for (long j = 0; j < a->nope; j++)
					qo[j] = store1(dqf[i * D + j] * a->scale * ln2);
				for (long j = 0; j < a->rope; j++)
					qo[a->nope + j] = store1(tmp[j] * a->scale * ln2);
				for (long j = 0; j < a->nope; j++)
					kvo[j] = store1(dk[i * D + j] * ln2);
				for (long j = 0; j < D; j++)
					kvo[a->nope + j] = store1(dv[i * D + j]);
				unrotate(dk + i * D + a->nope, c, sn, half, tmp);
				for (long j = 0; j < a->rope; j++)
					dkr[row * a->rope + j] += tmp[j] * ln2;
			}
		}
	free(q);
	free(kp);
	free(dk);
	free(s);
	free(s16);
	free(pp);
}

}  // extern "C"
