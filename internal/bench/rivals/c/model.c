// model.c runs a GGUF file with a prebuilt libllama. It links nothing of it: the
// libraries are opened at run time, and what is needed of their interface is declared
// here.
//
//   gcc -O2 -fno-strict-aliasing model.c -o model -ldl
//   model DIR VARIANT THREADS CONTEXT FILE.gguf
//
// It answers "ok SECONDS WORDS" once the model is loaded, then reads commands from
// standard input and answers each with one line:
//
//   clear            empties the context
//   feed ID...       computes the ids as one prompt, in steps of 512; answers seconds
//   decode ID...     computes the ids one by one; answers the seconds of each
//   logits FILE ID...  computes the ids as one step from an empty context and writes
//                    the logits of each, float32, to FILE
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// params is larger than any parameter struct of the library: those are returned
// through memory and passed as a copy on the stack, where a larger copy does no harm.
typedef struct {
    uint32_t word[128];
} params;

typedef struct {
    int32_t count;
    int32_t *token;
    float *embedding;
    int32_t *position;
    int32_t *sequences;
    int32_t **sequence;
    int8_t *logits;
} batch;

typedef void model, context, vocabulary, memory;

static void die(const char *what, const char *detail) {
    fprintf(stderr, "model: %s: %s\n", what, detail ? detail : "");
    exit(1);
}

static void *library(const char *dir, const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    void *h = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (!h) die("open", dlerror());
    return h;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

static void quiet(int level, const char *text, void *user) {
    (void)user;
    if (level == 4 || getenv("VERBOSE")) fputs(text, stderr); // 4: an error
}

enum { STEP = 512 };

static int (*llama_decode)(context *, batch);
static float *(*llama_get_logits_ith)(context *, int);
static context *ctx;
static batch step;
static int at; // positions in the context

// eval computes n ids; every: wants the logits of all, not only of the last.
static void eval(const int32_t *ids, int n, bool every) {
    step.count = n;
    for (int i = 0; i < n; i++) {
        step.token[i] = ids[i];
        step.position[i] = at++;
        step.sequences[i] = 1;
        step.sequence[i][0] = 0;
        step.logits[i] = every || i == n - 1;
    }
    if (llama_decode(ctx, step)) die("decode", "failed");
    float *l = llama_get_logits_ith(ctx, n - 1);
    if (!l || l[0] != l[0]) die("decode", "logits are not numbers");
}

int main(int argc, char **argv) {
    if (argc != 6) die("usage", "model DIR VARIANT THREADS CONTEXT FILE.gguf");
    const char *dir = argv[1];
    library(dir, "libggml-base.so");
    void *ggml = library(dir, "libggml.v0.5.0.so"), *llama = library(dir, "libllama.v0.5.0.so");
#define SYMBOL(from, ret, name, ...)                       \
    ret (*name)(__VA_ARGS__) = (ret(*)(__VA_ARGS__))dlsym(from, #name); \
    if (!name) die("symbol", #name);
    SYMBOL(ggml, void *, ggml_backend_load, const char *)
    SYMBOL(llama, void, llama_backend_init, void)
    SYMBOL(llama, void, llama_log_set, void (*)(int, const char *, void *), void *)
    SYMBOL(llama, params, llama_model_default_params, void)
    SYMBOL(llama, params, llama_context_default_params, void)
    SYMBOL(llama, model *, llama_model_load_from_file, const char *, params)
    SYMBOL(llama, context *, llama_init_from_model, model *, params)
    SYMBOL(llama, batch, llama_batch_init, int, int, int)
    SYMBOL(llama, vocabulary *, llama_model_get_vocab, const model *)
    SYMBOL(llama, int, llama_vocab_n_tokens, const vocabulary *)
    SYMBOL(llama, memory *, llama_get_memory, context *)
    SYMBOL(llama, void, llama_memory_clear, memory *, bool)
    llama_decode = (int (*)(context *, batch))dlsym(llama, "llama_decode");
    llama_get_logits_ith = (float *(*)(context *, int))dlsym(llama, "llama_get_logits_ith");
    if (!llama_decode || !llama_get_logits_ith) die("symbol", "llama_decode");

    llama_log_set(quiet, 0);
    char path[4096];
    snprintf(path, sizeof path, "%s/libggml-cpu-%s.so", dir, argv[2]);
    if (!ggml_backend_load(path)) die("backend", path);
    llama_backend_init();
    double start = now();
    model *m = llama_model_load_from_file(argv[5], llama_model_default_params());
    if (!m) die("load", argv[5]);
    int words = llama_vocab_n_tokens(llama_model_get_vocab(m));

    // The struct begins with n_ctx, n_batch, n_ubatch; the two thread counts, of which
    // the defaults are 4, follow after a few fields that versions differ in.
    params p = llama_context_default_params();
    p.word[0] = atoi(argv[4]);
    p.word[1] = p.word[2] = STEP;
    int threads = 3;
    while (threads < 12 && !(p.word[threads] == 4 && p.word[threads + 1] == 4)) threads++;
    if (threads == 12) die("context parameters", "thread counts not found");
    p.word[threads] = p.word[threads + 1] = atoi(argv[3]);
    ctx = llama_init_from_model(m, p);
    if (!ctx) die("context", argv[5]);
    step = llama_batch_init(STEP, 0, 1);
    printf("ok %.3f %d\n", now() - start, words);
    fflush(stdout);

    static char line[1 << 20];
    static int32_t ids[1 << 16];
    while (fgets(line, sizeof line, stdin)) {
        char *word = strtok(line, " \n"), *file = 0;
        if (!word) continue;
        bool logits = !strcmp(word, "logits");
        if (logits && !(file = strtok(0, " \n"))) die("logits", "no file");
        int n = 0;
        for (char *s; (s = strtok(0, " \n")) && n < (int)(sizeof ids / sizeof *ids);) ids[n++] = atoi(s);
        if (!strcmp(word, "clear") || logits) {
            llama_memory_clear(llama_get_memory(ctx), true);
            at = 0;
        }
        start = now();
        if (!strcmp(word, "feed")) {
            for (int i = 0; i < n; i += STEP) eval(ids + i, n - i < STEP ? n - i : STEP, false);
            printf("%.9f", now() - start);
        } else if (!strcmp(word, "decode")) {
            for (int i = 0; i < n; i++) {
                double t = now();
                eval(ids + i, 1, false);
                printf("%.9f ", now() - t);
            }
        } else if (logits) {
            if (n < 1 || n > STEP) die("logits", "between 1 and 512 ids");
            eval(ids, n, true);
            FILE *f = fopen(file, "wb");
            if (!f) die("write", file);
            for (int i = 0; i < n; i++)
                if (fwrite(llama_get_logits_ith(ctx, i), sizeof(float), words, f) != (size_t)words) die("write", file);
            if (fclose(f)) die("write", file);
            printf("ok");
        } else if (!strcmp(word, "clear")) {
            printf("ok");
        } else {
            die("command", word);
        }
        printf("\n");
        fflush(stdout);
    }
    return 0;
}
