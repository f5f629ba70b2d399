/* Distances of eight codes at a time, each way that a processor offers. */
#include "kernel.h"

#include <string.h>

#define UNROLL 4
#define INLINE static inline __attribute__((always_inline))

/* A loop over groups: GROUP(p) makes a register of eight distances, NEAR(r) a mask of those within
   the limit, STORE(r) writes them. Several groups are looked at before the first branch. */
#define FIRST_NEAR(REGISTER, GROUP, NEAR, STORE)                                              \
    const size_t step = LANES * words;                                                        \
    for (;;) {                                                                                \
        size_t stop = end;                                                                    \
        for (; g + UNROLL <= end; g += UNROLL) {                                              \
            const uint64_t *p = groups + g * step;                                            \
            unsigned any = 0;                                                                 \
            for (unsigned u = 0; u < UNROLL; u++) any |= NEAR(GROUP(p + u * step));           \
            if (any) {                                                                        \
                stop = g + UNROLL;                                                            \
                break;                                                                        \
            }                                                                                 \
        }                                                                                     \
        for (; g < stop; g++) {                                                               \
            const REGISTER found = GROUP(groups + g * step);                                  \
            unsigned mask = NEAR(found);                                                      \
            if (allowed != NULL) mask &= allowed[g];                                          \
            if (mask) {                                                                       \
                STORE(found);                                                                 \
                *hits = (uint8_t)mask;                                                        \
                return g;                                                                     \
            }                                                                                 \
        }                                                                                     \
        if (g >= end) return end;                                                             \
    }

/* The compiler makes a loop of its own for codes of one and of two words. */
#define BY_WORDS(NAME, TARGET, INNER, QUERY)                                                  \
    TARGET static size_t NAME(const uint64_t *groups, size_t g, size_t end, size_t words,     \
                              const void *query, uint64_t limit, const uint8_t *allowed,      \
                              uint64_t distances[LANES], uint8_t *hits) {                     \
        const QUERY *q = query;                                                               \
        if (words == 1) return INNER(groups, g, end, 1, q, limit, allowed, distances, hits);  \
        if (words == 2) return INNER(groups, g, end, 2, q, limit, allowed, distances, hits);  \
        return INNER(groups, g, end, words, q, limit, allowed, distances, hits);              \
    }

#define PARAMETERS(QUERY)                                                                     \
    const uint64_t *groups, size_t g, size_t end, size_t words, const QUERY *q,               \
        uint64_t limit, const uint8_t *allowed, uint64_t distances[LANES], uint8_t *hits

/* ---- any processor */

INLINE unsigned ones(uint64_t x) {
    x -= x >> 1 & 0x5555555555555555u;
    x = (x & 0x3333333333333333u) + (x >> 2 & 0x3333333333333333u);
    x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0fu;
    return (unsigned)(x * 0x0101010101010101u >> 56);
}

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

INLINE unsigned eight_near(eight_t sum, uint64_t limit) {
    unsigned mask = 0;
    for (unsigned i = 0; i < LANES; i++) mask |= (unsigned)(sum.of[i] <= limit) << i;
    return mask;
}

#define NEAR(r) eight_near(r, limit)
#define STORE(r) memcpy(distances, (r).of, sizeof(r).of)
INLINE size_t scalar_inner(PARAMETERS(uint64_t)) {
#define GROUP(p) eight_hamming(p, words, q)
    FIRST_NEAR(eight_t, GROUP, NEAR, STORE)
#undef GROUP
}
INLINE size_t scalar_weighted_inner(PARAMETERS(weights_t)) {
#define GROUP(p) eight_weighted(p, words, q)
    FIRST_NEAR(eight_t, GROUP, NEAR, STORE)
#undef GROUP
}
#undef NEAR
#undef STORE
BY_WORDS(scalar_hamming, , scalar_inner, uint64_t)
BY_WORDS(scalar_weighted, , scalar_weighted_inner, weights_t)

#if defined(__x86_64__)
#include "distances_x86.h"
#elif defined(__aarch64__)
#include "distances_neon.h"
#endif

/* ---- what this processor has */

path_t path = {"scalar", scalar_hamming, scalar_weighted};

size_t paths_here(const path_t **found) {
    static path_t here[4];
    size_t n = 0;
#if defined(__x86_64__)
    __builtin_cpu_init();
    const int bw = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw");
    if (bw && __builtin_cpu_supports("avx512vpopcntdq"))
        here[n++] = (path_t){"vpopcntdq", vpopcnt_hamming, avx512bw_weighted};
    if (bw) here[n++] = (path_t){"avx512bw", avx512bw_hamming, avx512bw_weighted};
    if (__builtin_cpu_supports("avx2"))
        here[n++] = (path_t){"avx2", avx2_hamming, scalar_weighted};
#elif defined(__aarch64__)
    here[n++] = (path_t){"neon", neon_hamming, scalar_weighted};
#endif
    here[n++] = (path_t){"scalar", scalar_hamming, scalar_weighted};
    *found = here;
    return n;
}

void weights_fill(weights_t *t, const int64_t *weights, size_t words) {
    for (size_t byte = 0; byte < 8 * words; byte++) {
        const int64_t *of = weights + 8 * byte;
        int32_t *to = t->bytes[byte];
        to[0] = 0;
        for (unsigned bit = 0; bit < 8; bit++) to[0] += (int32_t)(of[bit] > 0 ? of[bit] : 0);
        for (unsigned v = 1; v < 256; v++)
            to[v] = to[v & (v - 1)] - (int32_t)of[__builtin_ctz(v)];
    }
    for (size_t part = 0; part < 16 * words; part++) {
        const int64_t *of = weights + 4 * part;
        int32_t *to = t->nibbles[part / 16][part % 8][part % 16 / 8];
        to[0] = 0;
        for (unsigned bit = 0; bit < 4; bit++) to[0] += (int32_t)(of[bit] > 0 ? of[bit] : 0);
        for (unsigned v = 1; v < 16; v++)
            to[v] = to[v & (v - 1)] - (int32_t)of[__builtin_ctz(v)];
    }
}
