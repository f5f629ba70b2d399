/* Computes the distances of a query from eight codes at a time, with the instructions that the
   processor has.

   A group holds the words of eight codes, uint64[words, 8]. A Hamming distance is the number of
   ones in code XOR query. A weighted distance is the sum over the bits in which a code differs
   from the best code, of the absolute weight of each; the best code has a one where the weight
   is positive. Tables of these sums for every byte and every four bits of a code replace the
   loop over its bits. A lower bound of it costs a tenth of that: the sums of four bits are rounded down
   to bytes, of which an instruction looks up 16 to 64. It looks up the same four bits of all codes in
   one table, so codes are sliced before: their first bytes come to lie side by side, then their second
   bytes, and so on. One slice serves all queries of a batch (the codes of André, Kermarrec and Le
   Scouarnec, "Cache locality is not enough: high-performance nearest neighbor search with product
   quantization fast scan", 2015, are stored that way). For a single query, VBMI needs no slices.

   distances_x86.h and distances_neon.h hold the loops for single instruction sets:

       path       processor    Hamming distance    weighted distance    its bounds
       vpopcntdq  x86-64       VPOPCNTQ            as avx512bw          VBMI, and as avx512bw
       avx512bw   x86-64       table of four bits  tables of four bits  tables of four bits
       avx2       x86-64       table of four bits  scalar               tables of four bits
       neon       64-bit Arm   CNT                 scalar               tables of four bits
       scalar     any          shifts and masks    tables of bytes      none

   All paths return the same distances. Tables of four bits count ones as in Mula, Kurz and
   Lemire, "Faster population counts using AVX2 instructions", 2018. */
#include "kernel.h"

#include <string.h>

#define UNROLL 4


/* A word adds at most 8 to a byte, so a byte holds the sum of this many. */
#define WORDS_PER_BYTE 31

/* Processors fetch ahead within a page of memory only. So the loops fetch what comes so many bytes
   later; behind the last code, that does nothing. Loops that compute more leave the processor less
   room to read ahead: they fetch from farther ahead, into the second-level cache (a million codes
   of 384 bits by bounds of weighted distances: 1.6 ms instead of 2.7). */
#define FETCHED_AHEAD 2048
#define FETCHED_FAR_AHEAD 6144

INLINE void fetch_ahead(const uint64_t *p) {
    __builtin_prefetch((const char *)p + FETCHED_AHEAD);
}

INLINE void fetch_far_ahead(const uint64_t *p) {
    __builtin_prefetch((const char *)p + FETCHED_FAR_AHEAD, 0, 2);
}

/* The body of a near_fn: a loop over groups. GROUP(p) computes the eight distances of the group
   at p, NEAR(r) a mask of those from `least` to `limit`, and STORE(r) writes them. UNROLL
   groups are compared before the first branch, because few groups hold a code that near:
   GROUPS(p, r) computes the distances of the groups from p on. */
#define FIRST_GROUP_NEAR(REGISTER, GROUP, NEAR, STORE)                                        \
    FIRST_GROUP_OF(REGISTER, EACH_GROUP, GROUP, NEAR, STORE)
#define EACH_GROUP(p, r)                                                                      \
    for (size_t line = 0; line < UNROLL * step; line += LANES) fetch_ahead(p + line);         \
    for (unsigned u = 0; u < UNROLL; u++) r[u] = GROUP(p + u * step)
#define FIRST_GROUP_OF(REGISTER, GROUPS, GROUP, NEAR, STORE)                                        \
    const size_t step = LANES * words;                                                        \
    for (;;) {                                                                                \
        size_t stop = end;                                                                    \
        for (; g + UNROLL <= end; g += UNROLL) {                                              \
            const uint64_t *p = groups + g * step;                                            \
            REGISTER some[UNROLL];                                                            \
            unsigned any = 0;                                                                 \
            GROUPS(p, some);                                                                  \
            for (unsigned u = 0; u < UNROLL; u++) any |= NEAR(some[u]);                       \
            if (any) {                                                                        \
                stop = g + UNROLL;                                                            \
                break;                                                                        \
            }                                                                                 \
        }                                                                                     \
        for (; g < stop; g++) {                                                               \
            const REGISTER eight = GROUP(groups + g * step);                                  \
            unsigned mask = NEAR(eight);                                                      \
            if (allowed != NULL) mask &= allowed[g];                                          \
            if (mask) {                                                                       \
                STORE(eight);                                                                 \
                *hits = (uint8_t)mask;                                                        \
                return g;                                                                     \
            }                                                                                 \
        }                                                                                     \
        if (g >= end) return end;                                                             \
    }

/* Define a near_fn. With constants for the number of words and for `least`, the compiler writes
   separate loops for codes of one and of two words, with a lower limit and without. */
#define BY_WORDS(NAME, TARGET, INNER, QUERY)                                                  \
    TARGET static size_t NAME(const uint64_t *groups, size_t g, size_t end, size_t words,     \
                              const void *query, uint64_t least, uint64_t limit,              \
                              const uint8_t *allowed, uint64_t distances[LANES],              \
                              uint8_t *hits) {                                                \
        const QUERY *q = query;                                                               \
        if (words == 1 && !least)                                                             \
            return INNER(groups, g, end, 1, q, 0, limit, allowed, distances, hits);           \
        if (words == 1)                                                                       \
            return INNER(groups, g, end, 1, q, least, limit, allowed, distances, hits);       \
        if (words == 2 && !least)                                                             \
            return INNER(groups, g, end, 2, q, 0, limit, allowed, distances, hits);           \
        if (words == 2)                                                                       \
            return INNER(groups, g, end, 2, q, least, limit, allowed, distances, hits);       \
        return INNER(groups, g, end, words, q, least, limit, allowed, distances, hits);       \
    }

/* Define a count_fn: a loop over whole groups, written separately for codes of one word. Each
   distance has several sums, and consecutive codes use different ones. Codes that lie side by side
   are often equally far away, and adding to a number that was only just written is slow. */
#define COUNT(NAME, TARGET, REGISTER, GROUP_OF, STORE)                                        \
    TARGET INLINE void NAME##_inner(const uint64_t *groups, size_t n, size_t words,           \
                                    const uint64_t *q, const int32_t *sizes,                  \
                                    int64_t (*sums)[N_SUMS]) {                                \
        for (size_t g = 0; g < n; g++, sizes += LANES) {                                      \
            uint64_t distances[LANES];                                                        \
            const REGISTER eight = GROUP_OF(groups + g * LANES * words, words, q);            \
            STORE(eight);                                                                     \
            for (unsigned i = 0; i < LANES; i++) sums[distances[i]][i % N_SUMS] += sizes[i];  \
        }                                                                                     \
    }                                                                                         \
    TARGET static void NAME(const uint64_t *groups, size_t n, size_t words,                   \
                            const uint64_t *q, const int32_t *sizes,                          \
                            int64_t (*sums)[N_SUMS]) {                                        \
        if (words == 1)                                                                       \
            NAME##_inner(groups, n, 1, q, sizes, sums);                                       \
        else                                                                                  \
            NAME##_inner(groups, n, words, q, sizes, sums);                                   \
    }

#define PARAMETERS(QUERY)                                                                     \
    const uint64_t *groups, size_t g, size_t end, size_t words, const QUERY *q,               \
        uint64_t least, uint64_t limit, const uint8_t *allowed, uint64_t distances[LANES],    \
        uint8_t *hits

/* ---- scalar: any processor */

typedef struct {
    uint64_t of[LANES];
} eight_t;

INLINE eight_t eight_hamming(const uint64_t *p, size_t words, const uint64_t *q) {
    eight_t sum = {{0}};
    for (size_t w = 0; w < words; w++)
        for (unsigned i = 0; i < LANES; i++) sum.of[i] += ones(p[LANES * w + i] ^ q[w]);
    return sum;
}

INLINE uint64_t weighted_word(uint64_t x, const int32_t (*t)[256]) {
    return (uint64_t)(t[0][x & 255] + t[1][x >> 8 & 255] + t[2][x >> 16 & 255] +
                      t[3][x >> 24 & 255] + t[4][x >> 32 & 255] + t[5][x >> 40 & 255] +
                      t[6][x >> 48 & 255] + t[7][x >> 56]);
}

INLINE eight_t eight_weighted(const uint64_t *p, size_t words, const weights_t *q) {
    eight_t sum = {{0}};
    for (size_t w = 0; w < words; w++)
        for (unsigned i = 0; i < LANES; i++)
            sum.of[i] += weighted_word(p[LANES * w + i], q->bytes + 8 * w);
    return sum;
}

INLINE unsigned eight_near(eight_t sum, uint64_t least, uint64_t limit) {
    unsigned mask = 0;
    for (unsigned i = 0; i < LANES; i++)
        mask |= (unsigned)(sum.of[i] - least <= limit - least) << i;
    return mask;
}

#define NEAR(r) eight_near(r, least, limit)
#define STORE(r) memcpy(distances, (r).of, sizeof(r).of)
INLINE size_t scalar_inner(PARAMETERS(uint64_t)) {
#define GROUP(p) eight_hamming(p, words, q)
    FIRST_GROUP_NEAR(eight_t, GROUP, NEAR, STORE)
#undef GROUP
}
INLINE size_t scalar_weighted_inner(PARAMETERS(weights_t)) {
#define GROUP(p) eight_weighted(p, words, q)
    FIRST_GROUP_NEAR(eight_t, GROUP, NEAR, STORE)
#undef GROUP
}
COUNT(scalar_count, , eight_t, eight_hamming, STORE)
#undef NEAR
#undef STORE
BY_WORDS(scalar_hamming, , scalar_inner, uint64_t)
BY_WORDS(scalar_weighted, , scalar_weighted_inner, weights_t)

/* ---- bounds of weighted distances */

void fill_bounds(weights_t *t, size_t words, uint64_t reach) {
    t->unit = (reach + UINT8_MAX - 1) / UINT8_MAX;
    if (!t->unit) t->unit = 1;
    /* A product with the reciprocal, rounded down, is at most the quotient. */
    const uint64_t reciprocal = (UINT64_C(1) << 32) / t->unit;
    for (size_t part = 0; part < 16 * words; part++) {
        const int32_t *sums = t->nibbles[part / 16][part % 8][part % 16 / 8];
        uint8_t *rounded = t->rounded[part / 16][part % 2][part % 16 / 2];
        for (unsigned v = 0; v < 16; v++) {
            const uint64_t units = (uint64_t)sums[v] * reciprocal >> 32;
            rounded[v] = (uint8_t)(units < UINT8_MAX ? units : UINT8_MAX);
        }
    }
}

uint64_t weighted_distance(const weights_t *t, const uint64_t *code, size_t words) {
    uint64_t sum = 0;
    for (size_t w = 0; w < words; w++) sum += weighted_word(code[LANES * w], t->bytes + 8 * w);
    return sum;
}

#if defined(__x86_64__)
#include "distances_x86.h"
#elif defined(__aarch64__)
#include "distances_neon.h"
#endif

/* ---- the choice */

path_t path = {"scalar", scalar_hamming, scalar_count, scalar_weighted, NULL, NULL, NULL};

size_t supported_paths(const path_t **paths) {
    static path_t supported[4];
    size_t n = 0;
#if defined(__x86_64__)
    __builtin_cpu_init();
    const int avx2 = __builtin_cpu_supports("avx2");
    const int bw = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw");
    if (bw && __builtin_cpu_supports("avx512vpopcntdq") && __builtin_cpu_supports("avx512vbmi"))
        supported[n++] = (path_t){"vpopcntdq",       vpopcnt_hamming,  vpopcnt_count,
                                  avx512bw_weighted, vbmi_near_groups, avx2_slice,
                                  avx512bw_near_slice};
    if (bw)
        supported[n++] = (path_t){"avx512bw",        avx512bw_hamming, avx512bw_count,
                                  avx512bw_weighted, avx2_near_groups, avx2_slice,
                                  avx512bw_near_slice};
    if (avx2)
        supported[n++] = (path_t){"avx2",           avx2_hamming,     avx2_count,
                                  scalar_weighted,  avx2_near_groups, avx2_slice,
                                  avx2_near_slice};
#elif defined(__aarch64__)
    supported[n++] = (path_t){"neon",          neon_hamming,     neon_count,
                              scalar_weighted, neon_near_groups, neon_slice,
                              neon_near_slice};
#endif
    supported[n++] =
        (path_t){"scalar", scalar_hamming, scalar_count, scalar_weighted, NULL, NULL, NULL};
    *paths = supported;
    return n;
}

/* An entry v of a table is the sum for the bits of v: entry 0 differs from the best code in
   every bit with a positive weight, and a bit that is set changes the sum by minus its weight. */
void fill_weights(weights_t *t, const int64_t *weights, size_t words) {
    for (size_t byte = 0; byte < 8 * words; byte++) {
        const int64_t *own = weights + 8 * byte;
        int32_t *sums = t->bytes[byte];
        sums[0] = 0;
        for (unsigned bit = 0; bit < 8; bit++) sums[0] += (int32_t)(own[bit] > 0 ? own[bit] : 0);
        for (unsigned v = 1; v < 256; v++)
            sums[v] = sums[v & (v - 1)] - (int32_t)own[__builtin_ctz(v)];
    }
    for (size_t part = 0; part < 16 * words; part++) {
        const int64_t *own = weights + 4 * part;
        int32_t *sums = t->nibbles[part / 16][part % 8][part % 16 / 8];
        sums[0] = 0;
        for (unsigned bit = 0; bit < 4; bit++) sums[0] += (int32_t)(own[bit] > 0 ? own[bit] : 0);
        for (unsigned v = 1; v < 16; v++)
            sums[v] = sums[v & (v - 1)] - (int32_t)own[__builtin_ctz(v)];
    }
    t->total = t->most_of_word = 0;
    for (size_t w = 0; w < words; w++) {
        uint64_t of_word = 0;
        for (unsigned b = 0; b < 64; b++) {
            const int64_t weight = weights[64 * w + b];
            of_word += (uint64_t)(weight < 0 ? -weight : weight);
        }
        t->total += of_word;
        t->most_of_word = of_word > t->most_of_word ? of_word : t->most_of_word;
    }
}
