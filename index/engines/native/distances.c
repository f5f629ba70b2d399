/* Distances of eight codes at a time, each way that a processor offers. */
#include "kernel.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

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
/* ---- AVX2: the ones of four bits from a table, bytes added up by a difference from zero */

#define AVX2 __attribute__((target("avx2")))

typedef struct {
    __m256i low, high;
} two256_t;

AVX2 INLINE __m256i avx2_ones(__m256i x) {
    const __m256i table = _mm256_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4, 0, 1, 1,
                                           2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4);
    const __m256i four = _mm256_set1_epi8(15);
    const __m256i low = _mm256_shuffle_epi8(table, _mm256_and_si256(x, four));
    const __m256i high =
        _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16(x, 4), four));
    return _mm256_add_epi8(low, high);
}

AVX2 INLINE two256_t avx2_group(const uint64_t *p, size_t words, const uint64_t *q) {
    __m256i low = _mm256_setzero_si256(), high = low;
    for (size_t w = 0; w < words; w++) {
        const __m256i word = _mm256_set1_epi64x((long long)q[w]);
        const __m256i *at = (const __m256i *)(p + LANES * w);
        /* At most 8 a word and 16 words: a byte holds the sum. */
        low = _mm256_add_epi8(low, avx2_ones(_mm256_xor_si256(_mm256_loadu_si256(at), word)));
        high = _mm256_add_epi8(high, avx2_ones(_mm256_xor_si256(_mm256_loadu_si256(at + 1), word)));
    }
    const __m256i zero = _mm256_setzero_si256();
    const two256_t sum = {_mm256_sad_epu8(low, zero), _mm256_sad_epu8(high, zero)};
    return sum;
}

AVX2 INLINE unsigned avx2_near(two256_t sum, uint64_t limit) {
    /* A distance is at most 1024, so the limit need not be more either. */
    const __m256i above = _mm256_set1_epi64x((long long)(limit < 2048 ? limit + 1 : 2048));
    const __m256i low = _mm256_cmpgt_epi64(above, sum.low);
    const __m256i high = _mm256_cmpgt_epi64(above, sum.high);
    return (unsigned)_mm256_movemask_pd(_mm256_castsi256_pd(low)) |
           (unsigned)_mm256_movemask_pd(_mm256_castsi256_pd(high)) << 4;
}

#define GROUP(p) avx2_group(p, words, q)
#define NEAR(r) avx2_near(r, limit)
#define STORE(r)                                          \
    _mm256_storeu_si256((__m256i *)distances, (r).low);   \
    _mm256_storeu_si256((__m256i *)(distances + 4), (r).high)
AVX2 INLINE size_t avx2_inner(PARAMETERS(uint64_t)) { FIRST_NEAR(two256_t, GROUP, NEAR, STORE) }
#undef GROUP
#undef NEAR
#undef STORE
BY_WORDS(avx2_hamming, AVX2, avx2_inner, uint64_t)

/* ---- AVX-512BW: the same, eight codes in one register */

#define AVX512BW __attribute__((target("avx512f,avx512bw")))
#define NEAR(r) (unsigned)_mm512_cmple_epu64_mask(r, _mm512_set1_epi64((long long)limit))
#define STORE(r) _mm512_storeu_si512(distances, r)

AVX512BW INLINE __m512i avx512bw_group(const uint64_t *p, size_t words, const uint64_t *q) {
    const __m512i table = _mm512_broadcast_i32x4(
        _mm_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4));
    const __m512i four = _mm512_set1_epi8(15);
    __m512i sum = _mm512_setzero_si512();
    for (size_t w = 0; w < words; w++) {
        const __m512i x = _mm512_xor_si512(_mm512_loadu_si512(p + LANES * w),
                                           _mm512_set1_epi64((long long)q[w]));
        const __m512i low = _mm512_shuffle_epi8(table, _mm512_and_si512(x, four));
        const __m512i high =
            _mm512_shuffle_epi8(table, _mm512_and_si512(_mm512_srli_epi16(x, 4), four));
        sum = _mm512_add_epi8(sum, _mm512_add_epi8(low, high));
    }
    return _mm512_sad_epu8(sum, _mm512_setzero_si512());
}

#define GROUP(p) avx512bw_group(p, words, q)
AVX512BW INLINE size_t avx512bw_inner(PARAMETERS(uint64_t)) {
    FIRST_NEAR(__m512i, GROUP, NEAR, STORE)
}
#undef GROUP
BY_WORDS(avx512bw_hamming, AVX512BW, avx512bw_inner, uint64_t)

/* Sixteen entries for four bits of the lower half of each word and sixteen for those of the upper
   one are one table of 32 in two registers. */
AVX512BW INLINE __m512i avx512bw_weighed(const uint64_t *p, size_t words, const weights_t *q) {
    const __m512i upper = _mm512_set1_epi64((long long)(UINT64_C(16) << 32));
    const __m512i four = _mm512_set1_epi32(15);
    __m512i sum = _mm512_setzero_si512();
    for (size_t w = 0; w < words; w++) {
        __m512i x = _mm512_loadu_si512(p + LANES * w);
        for (unsigned n = 0; n < 8; n++) {
            const __m512i at = _mm512_or_si512(_mm512_and_si512(x, four), upper);
            const __m512i low = _mm512_loadu_si512(q->nibbles[w][n][0]);
            const __m512i high = _mm512_loadu_si512(q->nibbles[w][n][1]);
            sum = _mm512_add_epi32(sum, _mm512_permutex2var_epi32(low, at, high));
            x = _mm512_srli_epi32(x, 4);
        }
    }
    return _mm512_add_epi64(_mm512_and_si512(sum, _mm512_set1_epi64(0xffffffffLL)),
                            _mm512_srli_epi64(sum, 32));
}

#define GROUP(p) avx512bw_weighed(p, words, q)
AVX512BW INLINE size_t avx512bw_weighted_inner(PARAMETERS(weights_t)) {
    FIRST_NEAR(__m512i, GROUP, NEAR, STORE)
}
#undef GROUP
BY_WORDS(avx512bw_weighted, AVX512BW, avx512bw_weighted_inner, weights_t)

/* ---- AVX-512 VPOPCNTDQ: the processor counts the ones */

#define VPOPCNT __attribute__((target("avx512f,avx512vpopcntdq")))

VPOPCNT INLINE __m512i vpopcnt_group(const uint64_t *p, size_t words, const uint64_t *q) {
    __m512i sum = _mm512_setzero_si512();
    for (size_t w = 0; w < words; w++) {
        const __m512i x = _mm512_xor_si512(_mm512_loadu_si512(p + LANES * w),
                                           _mm512_set1_epi64((long long)q[w]));
        sum = _mm512_add_epi64(sum, _mm512_popcnt_epi64(x));
    }
    return sum;
}

#define GROUP(p) vpopcnt_group(p, words, q)
VPOPCNT INLINE size_t vpopcnt_inner(PARAMETERS(uint64_t)) {
    FIRST_NEAR(__m512i, GROUP, NEAR, STORE)
}
#undef GROUP
#undef NEAR
#undef STORE
BY_WORDS(vpopcnt_hamming, VPOPCNT, vpopcnt_inner, uint64_t)

#elif defined(__aarch64__)
/* ---- NEON */

typedef struct {
    uint64x2_t of[4];
} four128_t;

INLINE four128_t neon_group(const uint64_t *p, size_t words, const uint64_t *q) {
    uint8x16_t sum[4];
    four128_t found;
    for (unsigned i = 0; i < 4; i++) sum[i] = vdupq_n_u8(0);
    for (size_t w = 0; w < words; w++) {
        const uint64x2_t word = vdupq_n_u64(q[w]);
        for (unsigned i = 0; i < 4; i++) {
            const uint64x2_t x = veorq_u64(vld1q_u64(p + LANES * w + 2 * i), word);
            sum[i] = vaddq_u8(sum[i], vcntq_u8(vreinterpretq_u8_u64(x)));
        }
    }
    for (unsigned i = 0; i < 4; i++)
        found.of[i] = vpaddlq_u32(vpaddlq_u16(vpaddlq_u8(sum[i])));
    return found;
}

INLINE unsigned neon_near(four128_t sum, uint64_t limit) {
    const uint64x2_t most = vdupq_n_u64(limit);
    unsigned mask = 0;
    for (unsigned i = 0; i < 4; i++) {
        const uint64x2_t near = vcleq_u64(sum.of[i], most);
        mask |= (unsigned)(vgetq_lane_u64(near, 0) & 1) << (2 * i);
        mask |= (unsigned)(vgetq_lane_u64(near, 1) & 1) << (2 * i + 1);
    }
    return mask;
}

#define GROUP(p) neon_group(p, words, q)
#define NEAR(r) neon_near(r, limit)
#define STORE(r) \
    for (unsigned i = 0; i < 4; i++) vst1q_u64(distances + 2 * i, (r).of[i])
INLINE size_t neon_inner(PARAMETERS(uint64_t)) { FIRST_NEAR(four128_t, GROUP, NEAR, STORE) }
#undef GROUP
#undef NEAR
#undef STORE
BY_WORDS(neon_hamming, , neon_inner, uint64_t)
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
