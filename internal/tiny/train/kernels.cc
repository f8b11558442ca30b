// Fused training kernels for CPUs with 512-bit vectors (GCC vector extensions;
// other widths work too, more slowly). kernels.py compiles and calls them.
//
// Activations between matrix products are bf16, the residual stream and every
// statistic is f32. One thread: the trainer runs one process per core.

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

extern "C" {

typedef float v16 __attribute__((vector_size(64), aligned(4)));
typedef int32_t i16v __attribute__((vector_size(64), aligned(4)));
typedef uint16_t bf16;
#define D 32  // dimension of a head
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

static inline v16 loadv(const bf16 *p) {
	v16 r;
	for (int l = 0; l < LANES; l++)
		r[l] = load1(p[l]);
	return r;
}

static inline void storev(bf16 *p, v16 x) {
	for (int l = 0; l < LANES; l++)
		p[l] = store1(x[l]);
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

static void unpack(const Attn *a, long b, long h, float *q, float *k, float *v) {
	long half = a->rope / 2, vw = D, kw = a->nope + vw;
	for (long t = 0; t < a->t; t++) {
		long row = b * a->t + t;
		const bf16 *qr = a->q + (row * a->heads + h) * D, *kv = a->kv + (row * a->heads + h) * kw;
		for (long j = 0; j < a->nope; j++) {
			q[t * D + j] = load1(qr[j]) * a->scale;
			k[t * D + j] = load1(kv[j]);
		}
		rotate(qr + a->nope, a->cs + t * half, a->sn + t * half, half, q + t * D + a->nope);
		for (long j = a->nope; j < D; j++)
			q[t * D + j] *= a->scale;
		rotate(a->kr + row * a->stride + a->from, a->cs + t * half, a->sn + t * half, half, k + t * D + a->nope);
		for (long j = 0; j < D; j++)
			v[t * D + j] = load1(kv[a->nope + j]);
	}
}

// qt[d] holds dimension d of 16 rows from t0 on (rows past t are zero)
static void transpose(const float *x, long t0, long t, v16 *qt) {
	for (int d = 0; d < D; d++)
		for (int l = 0; l < LANES; l++)
			qt[d][l] = t0 + l < t ? x[(t0 + l) * D + d] : 0;
}

// s[j] = sum over d of qt[d] * k[j][d] for keys [0, n)
static void products(const v16 *qt, const float *k, long n, v16 *s) {
	long j = 0;
	for (; j + 4 <= n; j += 4) {
		v16 a0 = {}, a1 = {}, a2 = {}, a3 = {};
		const float *k0 = k + j * D;
		for (int d = 0; d < D; d++) {
			v16 q = qt[d];
			a0 += q * k0[d];
			a1 += q * k0[D + d];
			a2 += q * k0[2 * D + d];
			a3 += q * k0[3 * D + d];
		}
		s[j] = a0, s[j + 1] = a1, s[j + 2] = a2, s[j + 3] = a3;
	}
	for (; j < n; j++) {
		v16 a0 = {};
		for (int d = 0; d < D; d++)
			a0 += qt[d] * k[j * D + d];
		s[j] = a0;
	}
}

// out[d] = sum over j of s[j] * v[j][d]
static void mix(const v16 *s, const float *v, long n, v16 *out) {
	for (int d = 0; d < D; d += 16) {
		v16 o[16] = {};
		for (long j = 0; j < n; j++) {
			v16 p = s[j];
			const float *r = v + j * D + d;
			for (int i = 0; i < 16; i++)
				o[i] += p * r[i];
		}
		memcpy(out + d, o, sizeof o);
	}
}

// dk[j] += sum over lanes i of s[j][i] * rows[i]; rows is 16 x D
static void outer(const v16 *s, const float *rows, long n, float *dk) {
	v16 r0[LANES], r1[LANES];
	for (int i = 0; i < LANES; i++) {
		memcpy(&r0[i], rows + i * D, 64);
		memcpy(&r1[i], rows + i * D + 16, 64);
	}
	for (long j = 0; j < n; j++) {
		v16 *d = (v16 *)(dk + j * D);
		v16 a0 = d[0], a1 = d[1], b0 = {}, b1 = {};
		const float *p = (const float *)(s + j);
		for (int i = 0; i < LANES; i += 2) {
			a0 += r0[i] * p[i];
			a1 += r1[i] * p[i];
			b0 += r0[i + 1] * p[i + 1];
			b1 += r1[i + 1] * p[i + 1];
		}
		d[0] = a0 + b0;
		d[1] = a1 + b1;
	}
}

// hides keys after the query, and keys the mask leaves out
static void hide(const Attn *a, long b, long t0, long n, v16 *s) {
	for (long j = t0; j < n; j++)
		for (int l = 0; l < LANES; l++)
			if (j > t0 + l)
				s[j][l] = -1e30f;
	if (!a->mask)
		return;
	for (long j = 0; j < n; j++) {
		const uint8_t *m = a->mask + (b * a->t + j) * a->t + t0;
		for (int l = 0; l < LANES && t0 + l < a->t; l++)
			s[j][l] = m[l] ? s[j][l] : -1e30f;
	}
}

static inline long least(long a, long b) { return a < b ? a : b; }

// o [B*T, heads*D] bf16; lse [B, heads, T] (base 2)
void attention_fwd(const Attn *a, bf16 *o, float *lse) {
	long t = a->t;
	float *q = (float *)aligned_alloc(64, 3 * t * D * 4), *k = q + t * D, *v = k + t * D;
	v16 *s = (v16 *)aligned_alloc(64, (t + LANES) * 64), qt[D], out[D];
	for (long b = 0; b < a->b; b++)
		for (long h = 0; h < a->heads; h++) {
			unpack(a, b, h, q, k, v);
			for (long t0 = 0; t0 < t; t0 += LANES) {
				long n = least(t0 + LANES, t);
				transpose(q, t0, t, qt);
				products(qt, k, n, s);
				hide(a, b, t0, n, s);
				v16 top = (v16){} - 1e30f, sum = {};
				for (long j = 0; j < n; j++)
					top = maxv(top, s[j]);
				for (long j = 0; j < n; j++) {
					s[j] = exp2v(s[j] - top);
					sum += s[j];
				}
				mix(s, v, n, out);
				for (int l = 0; l < LANES && t0 + l < t; l++) {
					bf16 *r = o + ((b * t + t0 + l) * a->heads + h) * D;
					for (int d = 0; d < D; d++)
						r[d] = store1(out[d][l] / sum[l]);
					lse[(b * a->heads + h) * t + t0 + l] = top[l] + log2f(sum[l]);
				}
			}
		}
	free(q);
	free(s);
}

// dkr [B*T, rope] f32 must be zero on entry; dq, dkv are written
void attention_bwd(const Attn *a, const bf16 *o, const float *lse, const bf16 *dout, bf16 *dq, bf16 *dkv, float *dkr) {
	long t = a->t, half = a->rope / 2, kw = a->nope + D, pad = t + LANES;
	float *q = (float *)aligned_alloc(64, 7 * pad * D * 4), *k = q + pad * D, *v = k + pad * D, *g = v + pad * D, *dk = g + pad * D, *dv = dk + pad * D, *dqf = dv + pad * D;
	v16 *s = (v16 *)aligned_alloc(64, 2 * pad * 64), *dp = s + pad, qt[D], gt[D], out[D];
	float delta[LANES], tmp[D];
	for (long b = 0; b < a->b; b++)
		for (long h = 0; h < a->heads; h++) {
			unpack(a, b, h, q, k, v);
			memset(q + t * D, 0, LANES * D * 4);
			memset(dk, 0, 2 * pad * D * 4);
			for (long i = 0; i < t; i++)
				for (int d = 0; d < D; d++)
					g[i * D + d] = load1(dout[((b * t + i) * a->heads + h) * D + d]);
			memset(g + t * D, 0, LANES * D * 4);
			for (long t0 = 0; t0 < t; t0 += LANES) {
				long n = least(t0 + LANES, t);
				v16 l2 = {}, dl = {};
				for (int l = 0; l < LANES; l++) {
					delta[l] = 0;
					if (t0 + l >= t)
						continue;
					const bf16 *r = o + ((b * t + t0 + l) * a->heads + h) * D;
					for (int d = 0; d < D; d++)
						delta[l] += load1(r[d]) * g[(t0 + l) * D + d];
					l2[l] = lse[(b * a->heads + h) * t + t0 + l];
					dl[l] = delta[l];
				}
				transpose(q, t0, t, qt);
				transpose(g, t0, t, gt);
				products(qt, k, n, s);
				hide(a, b, t0, n, s);
				products(gt, v, n, dp);
				for (long j = 0; j < n; j++) {
					v16 e = s[j] - l2;
					s[j] = exp2v(e > 0 ? (v16){} : e);
					dp[j] = s[j] * (dp[j] - dl);
				}
				outer(s, g + t0 * D, n, dv);
				outer(dp, q + t0 * D, n, dk);
				mix(dp, k, n, out);
				for (int l = 0; l < LANES && t0 + l < t; l++)
					for (int d = 0; d < D; d++)
						dqf[(t0 + l) * D + d] = out[d][l];
			}
			float natural = a->scale * 0.69314718f;  // q was scaled by scale = log2(e)/sqrt(d)
			for (long i = 0; i < t; i++) {
				long row = b * t + i;
				const float *c = a->cs + i * half, *sn = a->sn + i * half;
				bf16 *qo = dq + (row * a->heads + h) * D, *kvo = dkv + (row * a->heads + h) * kw;
				unrotate(dqf + i * D + a->nope, c, sn, half, tmp);
				for (long j = 0; j < a->nope; j++)
					qo[j] = store1(dqf[i * D + j] * natural);
				for (long j = 0; j < a->rope; j++)
					qo[a->nope + j] = store1(tmp[j] * natural);
				for (long j = 0; j < a->nope; j++)
					kvo[j] = store1(dk[i * D + j] * 0.69314718f);
				for (long j = 0; j < D; j++)
					kvo[a->nope + j] = store1(dv[i * D + j]);
				unrotate(dk + i * D + a->nope, c, sn, half, tmp);
				for (long j = 0; j < a->rope; j++)
					dkr[row * a->rope + j] += tmp[j] * 0.69314718f;
			}
		}
	free(q);
	free(s);
}

}  // extern "C"
