/* Computes the distances of a query from eight codes at a time, with the instructions that the
   processor has.

   A group holds the words of eight codes, uint64[words, 8]. A Hamming distance is the number of
   ones in code XOR query. A weighted distance is the sum over the bits in which a code differs
   from the best code, of the absolute weight of each; the best code has a one where the weight
   is positive. Tables of these sums for every byte and every four bits of a code replace the
   loop over its bits. A lower bound of it costs a sixth to a third of that: the sums of four bits
   are rounded down to bytes, of which an instruction looks up 64; or the weights are rounded down
   to PLANES binary digits, and the ones of each digit are counted as in a Hamming distance.

   distances_x86.h and distances_neon.h hold the loops for single instruction sets:

       path       processor    Hamming distance    weighted distance    its bounds
       vpopcntdq  x86-64       VPOPCNTQ            as avx512bw          tables of four bits
       avx512bw   x86-64       table of four bits  tables of four bits  planes
       avx2       x86-64       table of four bits  scalar               planes
       neon       64-bit Arm   CNT                 scalar               planes
       scalar     any          shifts and masks    tables of bytes      none

   All paths return the same distances. Tables of four bits count ones as in Mula, Kurz and
   Lemire, "Faster population counts using AVX2 instructions", 2018. */
#include "kernel.h"

#include <math.h>
#include <string.h>

#define UNROLL 4

#define MAX_DIGIT ((1u << PLANES) - 1)
#define MAX_ROUNDED 127

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

INLINE eight_t eight_weighted(const uint64_t *p, size_t words, const weights_t *q) {
    eight_t sum = {{0}};
    for (size_t w = 0; w < words; w++)
        for (unsigned i = 0; i < LANES; i++) {
            const uint64_t x = p[LANES * w + i];
            const int32_t(*t)[256] = q->bytes + 8 * w;
            sum.of[i] += (uint64_t)(t[0][x & 255] + t[1][x >> 8 & 255] + t[2][x >> 16 & 255] +
                                    t[3][x >> 24 & 255] + t[4][x >> 32 & 255] +
                                    t[5][x >> 40 & 255] + t[6][x >> 48 & 255] + t[7][x >> 56]);
        }
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

#if defined(__x86_64__)
/* Bounds by tables: each distance of four bits is rounded down to a byte, of which two can be added
   without a carry. */
static void fill_rounded(weights_t *t, const int64_t *weights, size_t words) {
    (void)weights;
    int32_t largest = 0;
    for (size_t part = 0; part < 16 * words; part++)
        for (unsigned v = 0; v < 16; v++) {
            const int32_t sum = t->nibbles[part / 16][part % 8][part % 16 / 8][v];
            largest = sum > largest ? sum : largest;
        }
    t->unit = (uint64_t)largest / MAX_ROUNDED + 1;
    for (size_t part = 0; part < 16 * words; part++) {
        const int32_t *sums = t->nibbles[part / 16][part % 8][part % 16 / 8];
        uint8_t *rounded = t->rounded[part / 16][part % 2][part % 16 / 2];
        for (unsigned v = 0; v < 16; v++) rounded[v] = (uint8_t)((uint64_t)sums[v] / t->unit);
    }
}
#endif

/* Return what a bound loses with a unit, each bit weighed by how often near codes differ in it:
   the smaller its weight, the more often. */
static double lost_by(uint64_t unit, const int64_t *weights, size_t n, double mean) {
    double lost = 0;
    for (size_t b = 0; b < n; b++) {
        const uint64_t size = (uint64_t)(weights[b] < 0 ? -weights[b] : weights[b]);
        const uint64_t digit = size / unit < MAX_DIGIT ? size / unit : MAX_DIGIT;
        const double relative = (double)size / mean;
        lost += (double)(size - digit * unit) / (1 + relative * relative);
    }
    return lost;
}

/* Bounds by planes: an absolute weight is at least `unit` times its digit, the quotient by the unit or MAX_DIGIT if
   that is less. A smaller unit makes the digits of most bits more exact, and those of the largest
   weights less, in which near codes hardly differ. */
static void fill_planes(weights_t *t, const int64_t *weights, size_t words) {
    uint64_t largest = 0, total = 0;
    for (size_t b = 0; b < 64 * words; b++) {
        const uint64_t size = (uint64_t)(weights[b] < 0 ? -weights[b] : weights[b]);
        largest = size > largest ? size : largest;
        total += size;
    }
    const double mean = total ? (double)total / (double)(64 * words) : 1;
    double least = HUGE_VAL;
    for (unsigned eighths = 2; eighths <= 8; eighths++) {
        const uint64_t unit = largest * eighths / (8 * MAX_DIGIT) + 1;
        const double lost = lost_by(unit, weights, 64 * words, mean);
        if (lost < least) least = lost, t->unit = unit;
    }
    for (size_t w = 0; w < words; w++) {
        t->best[w] = 0;
        memset(t->planes[w], 0, sizeof t->planes[w]);
        for (unsigned b = 0; b < 64; b++) {
            const int64_t weight = weights[64 * w + b];
            const uint64_t quotient = (uint64_t)(weight < 0 ? -weight : weight) / t->unit;
            const uint64_t digit = quotient < MAX_DIGIT ? quotient : MAX_DIGIT;
            t->best[w] |= (uint64_t)(weight > 0) << b;
            for (unsigned j = 0; j < PLANES; j++) t->planes[w][j] |= (digit >> j & 1) << b;
        }
    }
}

#if defined(__x86_64__)
#include "distances_x86.h"
#elif defined(__aarch64__)
#include "distances_neon.h"
#endif

/* ---- the choice */

path_t path = {"scalar", scalar_hamming, scalar_count, scalar_weighted, NULL, NULL};

size_t supported_paths(const path_t **paths) {
    static path_t supported[4];
    size_t n = 0;
#if defined(__x86_64__)
    __builtin_cpu_init();
    const int bw = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw");
    if (bw && __builtin_cpu_supports("avx512vpopcntdq") && __builtin_cpu_supports("avx512vbmi"))
        supported[n++] = (path_t){"vpopcntdq", vpopcnt_hamming, vpopcnt_count, avx512bw_weighted,
                                   vbmi_bounds, fill_rounded};
    if (bw) supported[n++] = (path_t){"avx512bw", avx512bw_hamming, avx512bw_count, avx512bw_weighted,
                                   avx512bw_bounds, fill_planes};
    if (__builtin_cpu_supports("avx2"))
        supported[n++] = (path_t){"avx2", avx2_hamming, avx2_count, scalar_weighted, avx2_bounds, fill_planes};
#elif defined(__aarch64__)
    supported[n++] = (path_t){"neon", neon_hamming, neon_count, scalar_weighted, neon_bounds, fill_planes};
#endif
    supported[n++] = (path_t){"scalar", scalar_hamming, scalar_count, scalar_weighted, NULL, NULL};
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
    if (path.fill_bounds != NULL) path.fill_bounds(t, weights, words);
}
