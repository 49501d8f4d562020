/* bench_find - compares finding the rows of keys through an index with a hand-written loop.
 *
 *     bench_find [int64|string [keys [rounds [threads]]]]
 *     bench_find serve keys threads
 *
 * Random keys (10 million), in huge pages if possible, get an index. One thread builds it, then
 * all threads (2). The program writes the index to a file and opens it from there. A batch is a
 * call of the op find with 10,000 queries; nine in ten queries have a row. There are 100 different
 * batches, so the data they read is not in the caches. "hand" is a table written only for int64
 * keys and 32-bit rows, with the same size, prefetches, SSE2 and threads. The two alternate. A
 * figure is the median over the rounds, in ns per query. The ratio is hand / find, the median of
 * the rounds' ratios. Strings have no hand-written table.
 *
 * find.py uses "serve": for each line "go" on standard input, the program runs one round and
 * prints "ns" and the figures of find and hand. */
#include "kernels/find/find.h"
#include "kernels/key_index/key_index.h"
#include "kernels/op_check.h"
#include "tests/bench/measure.h"
#include "tests/bench/on_pool.h"
#include "tests/support/random.h"

#include <sys/mman.h>

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define BATCH      ((int64_t)10000)
#define BATCHES    100
#define MAX_ROUNDS 101
#define SEED       0x243F6A8885A308D3u

struct bench {
    struct td_exec *exec;
    bool serve, strings;
    int64_t n_keys;
    int rounds, threads;
    struct td_tensor keys, queries[BATCHES];
    void *image;
    struct td_key_index index;
    struct hand *hand; /* NULL: strings */
    int64_t *rows;
    int batch; /* of a call */
};

static void fail(const char *why)
{
    fprintf(stderr, "bench_find: %s\n", why);
    exit(1);
}

static void check(td_status status, const struct td_error *err)
{
    if (status != TD_OK)
        fail(err->message);
}

/* ---- The hand-written table -------------------------------------------------------------- */

struct hand_block {
    uint8_t tags[12];
    uint32_t passed;
    uint32_t rows[12];
};

struct hand {
    struct hand_block *blocks;
    uint64_t n_blocks;
    const uint64_t *keys;
};

static inline uint64_t hand_hash(uint64_t key)
{
    uint64_t hash = key ^ SEED;
    hash = (hash ^ hash >> 33) * 0xFF51AFD7ED558CCDu;
    hash = (hash ^ hash >> 33) * 0xC4CEB9FE1A85EC53u;
    return hash ^ hash >> 33;
}

static inline uint8_t hand_tag(uint64_t hash)
{
    return (uint8_t)hash ? (uint8_t)hash : 1;
}

static inline uint64_t hand_home(const struct hand *hand, uint64_t hash)
{
    return (uint64_t)(((unsigned __int128)hash * hand->n_blocks) >> 64);
}

/* Returns a bit mask; bit i is set if slot i has the tag. */
static inline unsigned hand_slots(const struct hand_block *block, uint8_t tag)
{
#ifdef __SSE2__
    const __m128i tags = _mm_load_si128((const __m128i *)(const void *)block);
    return (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(tags, _mm_set1_epi8((char)tag))) & 0xFFF;
#else
    unsigned slots = 0;
    for (int i = 0; i < 12; i++)
        slots |= (unsigned)(block->tags[i] == tag) << i;
    return slots;
#endif
}

static void hand_build(struct hand *hand, const struct td_tensor *keys)
{
    hand->n_blocks = (uint64_t)keys->numel * 10 / 99 + 1;
    hand->blocks = huge_pages(hand->n_blocks * sizeof(hand->blocks[0]));
    hand->keys = keys->data;
    memset(hand->blocks, 0, hand->n_blocks * sizeof(hand->blocks[0]));
    for (int64_t i = 0; i < keys->numel; i++) {
        const uint64_t hash = hand_hash(hand->keys[i]);
        uint64_t at = hand_home(hand, hash);
        if (i + 32 < keys->numel)
            __builtin_prefetch(&hand->blocks[hand_home(hand, hand_hash(hand->keys[i + 32]))], 1);
        while (!hand_slots(&hand->blocks[at], 0)) {
            hand->blocks[at].passed++;
            at = at + 1 < hand->n_blocks ? at + 1 : 0;
        }
        const int slot = __builtin_ctz(hand_slots(&hand->blocks[at], 0));
        hand->blocks[at].tags[slot] = hand_tag(hash);
        hand->blocks[at].rows[slot] = (uint32_t)i;
    }
}

static int64_t hand_search(const struct hand *hand, uint64_t query, uint64_t hash)
{
    for (uint64_t at = hand_home(hand, hash);; at = at + 1 < hand->n_blocks ? at + 1 : 0) {
        const struct hand_block *block = &hand->blocks[at];
        for (unsigned slots = hand_slots(block, hand_tag(hash)); slots; slots &= slots - 1) {
            const uint32_t row = block->rows[__builtin_ctz(slots)];
            if (hand->keys[row] == query)
                return row;
        }
        if (block->passed == 0)
            return -1;
    }
}

#define TOGETHER 128

static void hand_find(const struct hand *hand, const uint64_t *queries, int64_t n, int64_t *rows)
{
    uint64_t hashes[TOGETHER];
    for (int64_t begin = 0; begin < n; begin += TOGETHER) {
        const int64_t count = n - begin < TOGETHER ? n - begin : TOGETHER;
        const uint64_t *query = queries + begin;
        int64_t *row = rows + begin;
        for (int64_t k = 0; k < count; k++) {
            hashes[k] = hand_hash(query[k]);
            __builtin_prefetch(&hand->blocks[hand_home(hand, hashes[k])], 0, 2);
        }
        for (int64_t k = 0; k < count; k++) {
            const struct hand_block *block = &hand->blocks[hand_home(hand, hashes[k])];
            const unsigned slots = hand_slots(block, hand_tag(hashes[k]));
            row[k] = slots ? (int64_t)block->rows[__builtin_ctz(slots)] : block->passed ? -2 : -1;
            if (slots)
                __builtin_prefetch(&hand->keys[row[k]], 0, 2);
        }
        for (int64_t k = 0; k < count; k++)
            if (row[k] == -2 || (row[k] >= 0 && hand->keys[row[k]] != query[k]))
                row[k] = hand_search(hand, query[k], hashes[k]);
    }
}

/* ---- Calls ------------------------------------------------------------------------------- */

static void call_find(struct bench *b)
{
    char space[2048];
    struct td_arena arena;
    struct td_op_args args;
    struct td_error err;
    memset(&args, 0, sizeof(args));
    td_arena_init(&arena, space, sizeof(space), td_memory_heap());
    args.inputs[0] = (struct td_operand){ &b->keys, 1 };
    args.inputs[1] = (struct td_operand){ &b->queries[b->batch], 1 };
    check(td_op_infer(&td_op_find, &args, &arena, &err), &err);
    args.outputs[0].data = b->rows;
    b->exec->arena = &arena;
    check(td_op_find.run(&args, b->exec, &err), &err);
    td_arena_reset(&arena);
}

static void hand_range(void *context, int64_t begin, int64_t end)
{
    struct bench *b = context;
    hand_find(b->hand, (const uint64_t *)b->queries[b->batch].data + begin, end - begin,
              b->rows + begin);
}

static void call_hand(struct bench *b)
{
    struct td_error err;
    check(td_exec_for(b->exec, BATCH, (BATCH - 1) / b->threads + 1, hand_range, b, &err), &err);
}

/* Returns the ns per query over all batches. */
static double time_of(void (*call)(struct bench *), struct bench *b)
{
    const double begin = now_ns();
    for (b->batch = 0; b->batch < BATCHES; b->batch++)
        call(b);
    return (now_ns() - begin) / (double)(BATCHES * BATCH);
}

static void expect_same(struct bench *b)
{
    int64_t *rows = b->rows;
    for (b->batch = 0; b->hand && b->batch < BATCHES; b->batch++) {
        b->rows = rows;
        call_find(b);
        b->rows = rows + BATCH;
        call_hand(b);
        if (memcmp(rows, rows + BATCH, (size_t)BATCH * sizeof(rows[0])) != 0)
            fail("find and hand differ");
    }
    b->rows = rows;
}

static void measure(struct bench *b)
{
    double find[MAX_ROUNDS], hand[MAX_ROUNDS], ratio[MAX_ROUNDS];
    expect_same(b);
    for (int r = 0; r < b->rounds; r++) {
        find[r] = time_of(call_find, b);
        hand[r] = b->hand ? time_of(call_hand, b) : 0;
        ratio[r] = hand[r] / find[r];
    }
    printf("find in batches of %" PRId64 ", %d threads: %.1f ns a query", BATCH, b->threads,
           median(find, b->rounds));
    if (b->hand)
        printf(", hand %.1f, hand/find %.2f", median(hand, b->rounds), median(ratio, b->rounds));
    printf("\n");
}

static void serve(struct bench *b)
{
    char line[16];
    expect_same(b);
    printf("ready\n");
    fflush(stdout);
    while (fgets(line, sizeof(line), stdin)) {
        const double find = time_of(call_find, b);
        printf("ns %.3f %.3f\n", find, time_of(call_hand, b));
        fflush(stdout);
    }
}

/* ---- Keys and their index ---------------------------------------------------------------- */

/* One to one. */
static uint64_t key_of(uint64_t i)
{
    uint64_t z = (i + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static struct td_tensor vector(td_dtype dtype, int64_t n)
{
    struct td_tensor t;
    struct td_error err;
    check(td_tensor_describe(&t, "benchmark", dtype, &(struct td_shape){ .rank = 1, .dim = { n } },
                             &err),
          &err);
    if (dtype != TD_DTYPE_STRING) {
        t.data = huge_pages(t.bytes);
        return t;
    }
    t.offsets = huge_pages(((size_t)n + 1) * sizeof(t.offsets[0]));
    t.data = huge_pages((size_t)n * 24);
    t.offsets[0] = 0;
    return t;
}

/* Sets element `i` of the vector to the key itself, or to its digits. */
static void set(struct td_tensor *t, int64_t i, uint64_t key)
{
    if (t->dtype != TD_DTYPE_STRING) {
        ((uint64_t *)t->data)[i] = key;
        return;
    }
    const int length = snprintf((char *)t->data + t->offsets[i], 24, "%" PRIx64, key);
    t->offsets[i + 1] = t->offsets[i] + (uint64_t)length;
    t->bytes = t->offsets[i + 1];
}

static void make_keys(struct bench *b)
{
    const td_dtype dtype = b->strings ? TD_DTYPE_STRING : TD_DTYPE_INT64;
    b->keys = vector(dtype, b->n_keys);
    for (int64_t i = 0; i < b->n_keys; i++)
        set(&b->keys, i, key_of((uint64_t)i));
    for (int q = 0; q < BATCHES; q++) {
        b->queries[q] = vector(dtype, BATCH);
        for (int64_t i = 0; i < BATCH; i++) {
            const uint64_t row = random_next() % (uint64_t)b->n_keys;
            set(&b->queries[q], i, key_of(i % 10 == 9 ? row + (uint64_t)b->n_keys : row));
        }
    }
}

static void build(struct bench *b, struct td_exec *exec, const char *threads)
{
    struct td_error err;
    const double begin = now_ns();
    check(td_key_index_build(&b->keys, "keys", SEED, b->image, exec, &err), &err);
    const double ns = now_ns() - begin;
    if (!b->serve)
        printf("build, %s: %.2f s, %.1f ns a key, %.1f million keys/s\n", threads, ns / 1e9,
               ns / (double)b->n_keys, (double)b->n_keys / ns * 1e3);
}

/* Opens an index in a file and finds the first batch through it. */
static void open_file(struct bench *b, const char *path, const char *what)
{
    const size_t bytes = td_key_index_bytes(b->n_keys);
    struct td_key_index index;
    const double begin = now_ns();
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    void *image = file < 0 ? MAP_FAILED : mmap(NULL, bytes, PROT_READ, MAP_SHARED, file, 0);
    if (image == MAP_FAILED || !td_key_index_open(image, bytes, &b->keys, &index))
        fail("the index in the file is not valid");
    const double opened = now_ns();
    td_key_index_find(&index, &b->queries[0], 0, BATCH, b->rows);
    printf("open, %s: %.3f ms; then the first batch %.1f ms\n", what, (opened - begin) / 1e6,
           (now_ns() - opened) / 1e6);
    munmap(image, bytes);
    close(file);
}

static void measure_open(struct bench *b)
{
    char path[] = "/var/tmp/bench_find.XXXXXX";
    const char *from = b->image;
    const int file = mkstemp(path);
    for (size_t left = td_key_index_bytes(b->n_keys); left > 0;) {
        const ssize_t done = write(file, from, left);
        if (done <= 0)
            fail("cannot write the index to a file");
        from += done;
        left -= (size_t)done;
    }
    open_file(b, path, "in the page cache");
    if (fsync(file) != 0 || posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) != 0)
        fail("cannot remove the file from the page cache");
    open_file(b, path, "not in the page cache");
    close(file);
    unlink(path);
}

static void run(struct bench *b)
{
    struct td_exec one;
    struct hand hand;
    const size_t bytes = td_key_index_bytes(b->n_keys);
    td_exec_serial(&one, NULL);
    make_keys(b);
    b->rows = huge_pages(2 * (size_t)BATCH * sizeof(b->rows[0]));
    b->image = huge_pages(bytes);
    if (!b->serve)
        printf("%" PRId64 " %s keys, %.2f bytes a key for the index\n", b->n_keys,
               b->strings ? "string" : "int64", (double)bytes / (double)b->n_keys);
    if (!b->serve)
        build(b, &one, "1 thread");
    build(b, b->exec, "all threads");
    if (!td_key_index_open(b->image, bytes, &b->keys, &b->index))
        fail("the index is not valid");
    b->keys.key_index = &b->index;
    if (!b->serve)
        measure_open(b);
    if (!b->strings) {
        hand_build(&hand, &b->keys);
        b->hand = &hand;
    }
    if (b->serve)
        serve(b);
    else
        measure(b);
}

/* ---- On the worker pool ------------------------------------------------------------------ */

static void on_pool(struct td_exec *exec, void *context)
{
    struct bench *bench = context;
    bench->exec = exec;
    run(bench);
}

int main(int argc, char **argv)
{
    static struct bench bench;
    struct bench *b = &bench;
    b->serve = argc > 1 && strcmp(argv[1], "serve") == 0;
    b->strings = argc > 1 && strcmp(argv[1], "string") == 0;
    b->n_keys = argc > 2 ? strtoll(argv[2], NULL, 10) : 10000000;
    b->rounds = argc > 3 && !b->serve ? (int)strtol(argv[3], NULL, 10) : 7;
    b->threads = argc > 3 + !b->serve ? (int)strtol(argv[3 + !b->serve], NULL, 10) : 2;
    if (b->rounds < 1 || b->rounds > MAX_ROUNDS || b->threads < 1 || b->n_keys < 1) {
        fprintf(stderr,
                "usage: bench_find [int64|string [keys [rounds [threads]]]], 1 to %d rounds\n"
                "       bench_find serve keys threads\n",
                MAX_ROUNDS);
        return 2;
    }
    if (!b->serve)
        print_cpu("cpu");
    random_seed(1);
    measure_on_pool(b->threads, on_pool, &bench);
    return 0;
}
