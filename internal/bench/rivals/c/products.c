// products.c times matrix products of a prebuilt ggml. It links nothing of ggml: the
// libraries are opened at run time, and what is needed of their interface is declared
// here.
//
//   gcc -O2 products.c -o products -ldl -lm
//   products DIR VARIANT THREADS
//
// It reads commands from standard input and answers each with one line:
//
//   dense  TYPE REPACK N K ROWS COUNT     makes COUNT weights [N, K]; a step multiplies each
//   sparse TYPE REPACK N K ROWS COUNT E U makes E experts of gate, up [N, K] and down [K, N];
//                                         a step is COUNT times the experts' block, each row
//                                         with U of E experts of its own
//   run    REPS                           answers REPS times of a step, in seconds
//   free
//
// dense and sparse answer "ok BYTES ERROR": the bytes of all weights, and the largest
// difference of checked elements from sums in double precision, over the product of
// the vectors' lengths (sparse: 0, unchecked).
#include <dlfcn.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef void tensor, context, graph, backend, buffer_type, buffer, registry, device;
struct init_params {
    size_t size;
    void *memory;
    bool no_alloc;
};

#define API(X)                                                                                              \
    X(context *, ggml_init, struct init_params)                                                             \
    X(void, ggml_free, context *)                                                                           \
    X(tensor *, ggml_new_tensor_2d, context *, int, int64_t, int64_t)                                       \
    X(tensor *, ggml_new_tensor_3d, context *, int, int64_t, int64_t, int64_t)                              \
    X(tensor *, ggml_mul_mat, context *, tensor *, tensor *)                                                \
    X(tensor *, ggml_mul_mat_id, context *, tensor *, tensor *, tensor *)                                   \
    X(tensor *, ggml_swiglu_split, context *, tensor *, tensor *)                                           \
    X(tensor *, ggml_mul, context *, tensor *, tensor *)                                                    \
    X(tensor *, ggml_add, context *, tensor *, tensor *)                                                    \
    X(tensor *, ggml_view_2d, context *, tensor *, int64_t, int64_t, size_t, size_t)                        \
    X(graph *, ggml_new_graph_custom, context *, size_t, bool)                                              \
    X(void, ggml_build_forward_expand, graph *, tensor *)                                                   \
    X(size_t, ggml_row_size, int, int64_t)                                                                  \
    X(size_t, ggml_tensor_overhead, void)                                                                   \
    X(size_t, ggml_graph_overhead_custom, size_t, bool)                                                     \
    X(size_t, ggml_quantize_chunk, int, const float *, void *, int64_t, int64_t, int64_t, const float *)    \
    X(void, ggml_fp32_to_bf16_row, const float *, void *, int64_t)                                          \
    X(void, ggml_log_set, void (*)(int, const char *, void *), void *)                                      \
    X(buffer *, ggml_backend_alloc_ctx_tensors_from_buft, context *, buffer_type *)                         \
    X(buffer *, ggml_backend_alloc_ctx_tensors, context *, backend *)                                       \
    X(void, ggml_backend_buffer_free, buffer *)                                                             \
    X(void, ggml_backend_tensor_set, tensor *, const void *, size_t, size_t)                                \
    X(void, ggml_backend_tensor_get, const tensor *, void *, size_t, size_t)                                \
    X(int, ggml_backend_graph_compute, backend *, graph *)                                                  \
    X(device *, ggml_backend_reg_dev_get, registry *, size_t)                                               \
    X(void *, ggml_backend_reg_get_proc_address, registry *, const char *)                                  \
    X(const char *, ggml_backend_buft_name, buffer_type *)
#define CPU_API(X)                                          \
    X(backend *, ggml_backend_cpu_init, void)               \
    X(void, ggml_backend_cpu_set_n_threads, backend *, int) \
    X(registry *, ggml_backend_cpu_reg, void)
#define DECLARE(ret, name, ...) static ret (*name)(__VA_ARGS__);
API(DECLARE)
CPU_API(DECLARE)

enum { F32 = 0, Q4_0 = 2, Q8_0 = 8, Q4_K = 12, I32 = 26, BF16 = 30 };

static void die(const char *what, const char *detail) {
    fprintf(stderr, "products: %s: %s\n", what, detail ? detail : "");
    exit(1);
}

static void *library(const char *dir, const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    void *h = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (!h) die("open", dlerror());
    return h;
}

static void *symbol(void *library, const char *name) {
    void *p = dlsym(library, name);
    if (!p) die("symbol", name);
    return p;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

static uint64_t state = 88172645463325252ull;
static float uniform(void) { // in [-1, 1)
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (float)((state >> 11) * (1.0 / 4503599627370496.0) - 1);
}

static float *floats(size_t n, float scale) {
    float *p = malloc(n * sizeof *p);
    for (size_t i = 0; i < n; i++) p[i] = uniform() * scale;
    return p;
}

static int type_of(const char *s) {
    static const struct {
        const char *name;
        int type;
    } types[] = {{"F32", F32}, {"BF16", BF16}, {"Q8_0", Q8_0}, {"Q4_0", Q4_0}, {"Q4_K", Q4_K}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(s, types[i].name)) return types[i].type;
    die("type", s);
    return 0;
}

static backend *cpu;
static buffer_type *repack;

// The case in hand.
static context *weights_context, *graph_context;
static buffer *weights_buffer, *graph_buffer;
static graph *work;

static context *new_context(size_t tensors, bool with_graph) {
    size_t size = ggml_tensor_overhead() * tensors;
    if (with_graph) size += ggml_graph_overhead_custom(tensors, false);
    return ggml_init((struct init_params){size, 0, true});
}

static void alloc_weights(bool use_repack) {
    if (use_repack && !repack) die("repack", "no such buffer type");
    weights_buffer = use_repack ? ggml_backend_alloc_ctx_tensors_from_buft(weights_context, repack) : ggml_backend_alloc_ctx_tensors(weights_context, cpu);
    if (!weights_buffer) die("alloc", "weights");
}

// pack returns rows * k random weights in a type; sampled rows repeat, so that a large
// case is made quickly. source receives the first row.
enum { SAMPLED = 64 };
static void *pack(int type, int64_t rows, int64_t k, float **source) {
    size_t row = ggml_row_size(type, k);
    uint8_t *out = malloc(row * rows);
    float *w = floats(SAMPLED * k, 0.05f);
    if (type == F32)
        memcpy(out, w, row * SAMPLED);
    else if (type == BF16)
        ggml_fp32_to_bf16_row(w, out, SAMPLED * k);
    else
        ggml_quantize_chunk(type, w, out, 0, SAMPLED, k, 0);
    for (int64_t r = SAMPLED; r < rows; r += SAMPLED) memcpy(out + r * row, out, row * (rows - r < SAMPLED ? rows - r : SAMPLED));
    *source = w;
    return out;
}

static void compute(void) {
    if (ggml_backend_graph_compute(cpu, work) != 0) die("compute", "failed");
}

static void dense(int type, bool use_repack, int64_t n, int64_t k, int64_t rows, int count) {
    weights_context = new_context(count + 1, false);
    tensor **w = malloc(count * sizeof *w);
    for (int i = 0; i < count; i++) w[i] = ggml_new_tensor_2d(weights_context, type, k, n);
    alloc_weights(use_repack);
    float *source;
    void *packed = pack(type, n, k, &source);
    size_t bytes = ggml_row_size(type, k) * n;
    for (int i = 0; i < count; i++) ggml_backend_tensor_set(w[i], packed, 0, bytes);

    graph_context = new_context(2 * count + 4, true);
    tensor *x = ggml_new_tensor_2d(graph_context, F32, k, rows), *first = 0;
    work = ggml_new_graph_custom(graph_context, 2 * count + 4, false);
    for (int i = 0; i < count; i++) {
        tensor *y = ggml_mul_mat(graph_context, w[i], x);
        if (!first) first = y;
        ggml_build_forward_expand(work, y);
    }
    graph_buffer = ggml_backend_alloc_ctx_tensors(graph_context, cpu);
    float *activations = floats(rows * k, 1);
    ggml_backend_tensor_set(x, activations, 0, rows * k * sizeof *activations);
    compute();

    double worst = 0;
    for (int64_t r = 0; r < rows; r++) {
        float got;
        ggml_backend_tensor_get(first, &got, r * n * sizeof got, sizeof got);
        double want = 0, a = 0, b = 0;
        for (int64_t i = 0; i < k; i++) {
            double u = source[i], v = activations[r * k + i];
            want += u * v;
            a += u * u;
            b += v * v;
        }
        worst = fmax(worst, fabs(got - want) / sqrt(a * b));
    }
    printf("ok %zu %g\n", bytes * count, worst);
    free(w);
    free(packed);
    free(source);
    free(activations);
}

static void sparse(int type, bool use_repack, int64_t n, int64_t k, int64_t rows, int count, int experts, int used) {
    weights_context = new_context(4, false);
    tensor *gate = ggml_new_tensor_3d(weights_context, type, k, n, experts);
    tensor *up = ggml_new_tensor_3d(weights_context, type, k, n, experts);
    tensor *down = ggml_new_tensor_3d(weights_context, type, n, k, experts);
    alloc_weights(use_repack);
    tensor *all[] = {gate, up, down};
    size_t bytes = 0;
    for (int i = 0; i < 3; i++) {
        int64_t width = i < 2 ? k : n, height = i < 2 ? n : k;
        float *source;
        void *packed = pack(type, height * experts, width, &source);
        size_t size = ggml_row_size(type, width) * height * experts;
        ggml_backend_tensor_set(all[i], packed, 0, size);
        bytes += size;
        free(packed);
        free(source);
    }

    size_t nodes = (size_t)count * (12 + 2 * used) + 8;
    graph_context = new_context(nodes, true);
    work = ggml_new_graph_custom(graph_context, nodes, false);
    tensor *x = ggml_new_tensor_3d(graph_context, F32, k, 1, rows);
    tensor *share = ggml_new_tensor_3d(graph_context, F32, 1, used, rows);
    tensor **ids = malloc(count * sizeof *ids);
    for (int i = 0; i < count; i++) {
        ids[i] = ggml_new_tensor_2d(graph_context, I32, used, rows);
        tensor *h = ggml_swiglu_split(graph_context, ggml_mul_mat_id(graph_context, gate, x, ids[i]), ggml_mul_mat_id(graph_context, up, x, ids[i]));
        tensor *y = ggml_mul(graph_context, ggml_mul_mat_id(graph_context, down, h, ids[i]), share);
        size_t each = k * sizeof(float);
        tensor *sum = ggml_view_2d(graph_context, y, k, rows, each * used, 0);
        for (int j = 1; j < used; j++) sum = ggml_add(graph_context, sum, ggml_view_2d(graph_context, y, k, rows, each * used, j * each));
        ggml_build_forward_expand(work, sum);
    }
    graph_buffer = ggml_backend_alloc_ctx_tensors(graph_context, cpu);
    float *values = floats(rows * k, 1);
    ggml_backend_tensor_set(x, values, 0, rows * k * sizeof *values);
    for (int64_t i = 0; i < rows * used; i++) values[i] = 1.0f / used;
    ggml_backend_tensor_set(share, values, 0, rows * used * sizeof *values);
    int32_t *chosen = malloc(rows * used * sizeof *chosen);
    for (int i = 0; i < count; i++) {
        for (int64_t r = 0; r < rows; r++)
            for (int j = 0; j < used;) { // distinct experts
                int e = (int)((uniform() + 1) / 2 * experts) % experts, seen = 0;
                for (int l = 0; l < j; l++) seen |= chosen[r * used + l] == e;
                if (!seen) chosen[r * used + j++] = e;
            }
        ggml_backend_tensor_set(ids[i], chosen, 0, rows * used * sizeof *chosen);
    }
    compute();
    printf("ok %zu 0\n", bytes);
    free(chosen);
    free(values);
    free(ids);
}

static void release(void) {
    if (!work) return;
    ggml_backend_buffer_free(graph_buffer);
    ggml_backend_buffer_free(weights_buffer);
    ggml_free(graph_context);
    ggml_free(weights_context);
    work = 0;
}

static void quiet(int level, const char *text, void *user) {
    (void)level, (void)text, (void)user;
}

int main(int argc, char **argv) {
    if (argc != 4) die("usage", "products DIR VARIANT THREADS");
    char name[256];
    snprintf(name, sizeof name, "libggml-cpu-%s.so", argv[2]);
    void *base = library(argv[1], "libggml-base.so"), *fast = library(argv[1], name);
#define LOAD_BASE(ret, name, ...) *(void **)&name = symbol(base, #name);
#define LOAD_FAST(ret, name, ...) *(void **)&name = symbol(fast, #name);
    API(LOAD_BASE)
    CPU_API(LOAD_FAST)
    ggml_log_set(quiet, 0);
    cpu = ggml_backend_cpu_init();
    ggml_backend_cpu_set_n_threads(cpu, atoi(argv[3]));
    registry *reg = ggml_backend_cpu_reg();
    buffer_type **(*extra)(device *) = (buffer_type * *(*)(device *)) ggml_backend_reg_get_proc_address(reg, "ggml_backend_dev_get_extra_bufts");
    for (buffer_type **b = extra ? extra(ggml_backend_reg_dev_get(reg, 0)) : 0; b && *b; b++)
        if (!strcmp(ggml_backend_buft_name(*b), "CPU_REPACK")) repack = *b;

    char line[256], what[16], type[16];
    while (fgets(line, sizeof line, stdin)) {
        int use_repack, count, experts, used;
        long n, k, rows;
        if (sscanf(line, "%15s", what) != 1) continue;
        if (!strcmp(what, "dense") && sscanf(line, "%*s %15s %d %ld %ld %ld %d", type, &use_repack, &n, &k, &rows, &count) == 6) {
            release();
            dense(type_of(type), use_repack, n, k, rows, count);
        } else if (!strcmp(what, "sparse") && sscanf(line, "%*s %15s %d %ld %ld %ld %d %d %d", type, &use_repack, &n, &k, &rows, &count, &experts, &used) == 8) {
            release();
            sparse(type_of(type), use_repack, n, k, rows, count, experts, used);
        } else if (!strcmp(what, "run") && work && sscanf(line, "%*s %d", &count) == 1) {
            for (int i = 0; i < count; i++) {
                double t = now();
                compute();
                printf("%.9f ", now() - t);
            }
            printf("\n");
        } else if (!strcmp(what, "free")) {
            release();
            printf("ok 0 0\n");
        } else {
            die("command", line);
        }
        fflush(stdout);
    }
    return 0;
}
