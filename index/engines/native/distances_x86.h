/* Distances on x86-64; part of distances.c, which includes it. */
#include <immintrin.h>

/* ---- AVX2: a table holds the number of ones of each four bits, and the instruction that adds up
   absolute differences from zero adds up the bytes of each code. A group takes two registers. */

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

AVX2 INLINE two256_t avx2_some_words(const uint64_t *p, size_t words, const uint64_t *q) {
    __m256i low = _mm256_setzero_si256(), high = low;
    for (size_t w = 0; w < words; w++) {
        const __m256i word = _mm256_set1_epi64x((long long)q[w]);
        const __m256i *at = (const __m256i *)(p + LANES * w);
        low = _mm256_add_epi8(low, avx2_ones(_mm256_xor_si256(_mm256_loadu_si256(at), word)));
        high = _mm256_add_epi8(high, avx2_ones(_mm256_xor_si256(_mm256_loadu_si256(at + 1), word)));
    }
    const __m256i zero = _mm256_setzero_si256();
    const two256_t sum = {_mm256_sad_epu8(low, zero), _mm256_sad_epu8(high, zero)};
    return sum;
}

AVX2 INLINE two256_t avx2_group(const uint64_t *p, size_t words, const uint64_t *q) {
    if (words <= WORDS_PER_BYTE) return avx2_some_words(p, words, q);
    two256_t sum = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    for (size_t w = 0; w < words; w += WORDS_PER_BYTE) {
        const size_t n = words - w < WORDS_PER_BYTE ? words - w : WORDS_PER_BYTE;
        const two256_t some = avx2_some_words(p + LANES * w, n, q + w);
        sum.low = _mm256_add_epi64(sum.low, some.low);
        sum.high = _mm256_add_epi64(sum.high, some.high);
    }
    return sum;
}

AVX2 INLINE unsigned avx2_near(two256_t sum, uint64_t least, uint64_t limit) {
    /* The instruction compares signed numbers; no distance or bound is above `most`, so a
       larger limit changes nothing. */
    const uint64_t most = 64 * MAX_WORDS * MAX_DIGIT;
    const __m256i above = _mm256_set1_epi64x((long long)(limit < most ? limit + 1 : most + 1));
    __m256i low = _mm256_cmpgt_epi64(above, sum.low);
    __m256i high = _mm256_cmpgt_epi64(above, sum.high);
    if (least) {
        const __m256i below = _mm256_set1_epi64x((long long)(least - 1));
        low = _mm256_and_si256(low, _mm256_cmpgt_epi64(sum.low, below));
        high = _mm256_and_si256(high, _mm256_cmpgt_epi64(sum.high, below));
    }
    return (unsigned)_mm256_movemask_pd(_mm256_castsi256_pd(low)) |
           (unsigned)_mm256_movemask_pd(_mm256_castsi256_pd(high)) << 4;
}

/* Of each word, the bytes hold the sums over the planes, at most 8 MAX_DIGIT. */
AVX2 INLINE two256_t avx2_bound_group(const uint64_t *p, size_t words, const weights_t *q) {
    const __m256i zero = _mm256_setzero_si256();
    two256_t sum = {zero, zero};
    for (size_t w = 0; w < words; w++) {
        const __m256i best = _mm256_set1_epi64x((long long)q->best[w]);
        const __m256i *at = (const __m256i *)(p + LANES * w);
        const __m256i x = _mm256_xor_si256(_mm256_loadu_si256(at), best);
        const __m256i y = _mm256_xor_si256(_mm256_loadu_si256(at + 1), best);
        __m256i low = zero, high = zero;
        for (unsigned j = PLANES; j-- > 0;) {
            const __m256i plane = _mm256_set1_epi64x((long long)q->planes[w][j]);
            low = _mm256_add_epi8(_mm256_add_epi8(low, low), avx2_ones(_mm256_and_si256(x, plane)));
            high =
                _mm256_add_epi8(_mm256_add_epi8(high, high), avx2_ones(_mm256_and_si256(y, plane)));
        }
        sum.low = _mm256_add_epi64(sum.low, _mm256_sad_epu8(low, zero));
        sum.high = _mm256_add_epi64(sum.high, _mm256_sad_epu8(high, zero));
    }
    return sum;
}

#define GROUP(p) avx2_group(p, words, q)
#define NEAR(r) avx2_near(r, least, limit)
#define STORE(r)                                          \
    _mm256_storeu_si256((__m256i *)distances, (r).low);   \
    _mm256_storeu_si256((__m256i *)(distances + 4), (r).high)
AVX2 INLINE size_t avx2_inner(PARAMETERS(uint64_t)) {
    FIRST_GROUP_NEAR(two256_t, GROUP, NEAR, STORE)
}
COUNT(avx2_count, AVX2, two256_t, avx2_group, STORE)
#undef GROUP
#define GROUP(p) avx2_bound_group(p, words, q)
AVX2 INLINE size_t avx2_bound_inner(PARAMETERS(weights_t)) {
    FIRST_GROUP_NEAR(two256_t, GROUP, NEAR, STORE)
}
#undef GROUP
#undef NEAR
#undef STORE
BY_WORDS(avx2_hamming, AVX2, avx2_inner, uint64_t)
BY_WORDS(avx2_bounds, AVX2, avx2_bound_inner, weights_t)

/* ---- AVX-512BW: as with AVX2, with all eight codes in one register */

#define AVX512BW __attribute__((target("avx512f,avx512bw")))
#define NEAR(r)                                                                                \
    (unsigned)_mm512_cmple_epu64_mask(_mm512_sub_epi64(r, _mm512_set1_epi64((long long)least)), \
                                      _mm512_set1_epi64((long long)(limit - least)))
#define STORE(r) _mm512_storeu_si512(distances, r)

AVX512BW INLINE __m512i avx512bw_ones(__m512i x) {
    const __m512i table = _mm512_broadcast_i32x4(
        _mm_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4));
    const __m512i four = _mm512_set1_epi8(15);
    const __m512i low = _mm512_shuffle_epi8(table, _mm512_and_si512(x, four));
    const __m512i high =
        _mm512_shuffle_epi8(table, _mm512_and_si512(_mm512_srli_epi16(x, 4), four));
    return _mm512_add_epi8(low, high);
}

AVX512BW INLINE __m512i avx512bw_some_words(const uint64_t *p, size_t words,
                                             const uint64_t *q) {
    __m512i sum = _mm512_setzero_si512();
    for (size_t w = 0; w < words; w++)
        sum = _mm512_add_epi8(
            sum, avx512bw_ones(_mm512_xor_si512(_mm512_loadu_si512(p + LANES * w),
                                                _mm512_set1_epi64((long long)q[w]))));
    return _mm512_sad_epu8(sum, _mm512_setzero_si512());
}

AVX512BW INLINE __m512i avx512bw_group(const uint64_t *p, size_t words, const uint64_t *q) {
    if (words <= WORDS_PER_BYTE) return avx512bw_some_words(p, words, q);
    __m512i sum = _mm512_setzero_si512();
    for (size_t w = 0; w < words; w += WORDS_PER_BYTE) {
        const size_t n = words - w < WORDS_PER_BYTE ? words - w : WORDS_PER_BYTE;
        sum = _mm512_add_epi64(sum, avx512bw_some_words(p + LANES * w, n, q + w));
    }
    return sum;
}

#define GROUP(p) avx512bw_group(p, words, q)
AVX512BW INLINE size_t avx512bw_inner(PARAMETERS(uint64_t)) {
    FIRST_GROUP_NEAR(__m512i, GROUP, NEAR, STORE)
}
#undef GROUP
COUNT(avx512bw_count, AVX512BW, __m512i, avx512bw_group, STORE)
BY_WORDS(avx512bw_hamming, AVX512BW, avx512bw_inner, uint64_t)

/* One instruction looks up 32-bit lanes in a table of 32 entries, which two registers hold: 16
   entries for four bits of the lower half of each word, and 16 for the same four bits of the
   upper half. */
AVX512BW INLINE __m512i avx512bw_weighted_group(const uint64_t *p, size_t words,
                                                  const weights_t *q) {
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

#define GROUP(p) avx512bw_weighted_group(p, words, q)
AVX512BW INLINE size_t avx512bw_weighted_inner(PARAMETERS(weights_t)) {
    FIRST_GROUP_NEAR(__m512i, GROUP, NEAR, STORE)
}
#undef GROUP
BY_WORDS(avx512bw_weighted, AVX512BW, avx512bw_weighted_inner, weights_t)

AVX512BW INLINE __m512i avx512bw_bound_group(const uint64_t *p, size_t words,
                                              const weights_t *q) {
    const __m512i zero = _mm512_setzero_si512();
    __m512i sum = zero;
    for (size_t w = 0; w < words; w++) {
        const __m512i x = _mm512_xor_si512(_mm512_loadu_si512(p + LANES * w),
                                           _mm512_set1_epi64((long long)q->best[w]));
        __m512i bytes = zero;
        for (unsigned j = PLANES; j-- > 0;) {
            const __m512i plane = _mm512_set1_epi64((long long)q->planes[w][j]);
            bytes = _mm512_add_epi8(_mm512_add_epi8(bytes, bytes),
                                    avx512bw_ones(_mm512_and_si512(x, plane)));
        }
        sum = _mm512_add_epi64(sum, _mm512_sad_epu8(bytes, zero));
    }
    return sum;
}

#define GROUP(p) avx512bw_bound_group(p, words, q)
AVX512BW INLINE size_t avx512bw_bound_inner(PARAMETERS(weights_t)) {
    FIRST_GROUP_NEAR(__m512i, GROUP, NEAR, STORE)
}
#undef GROUP
BY_WORDS(avx512bw_bounds, AVX512BW, avx512bw_bound_inner, weights_t)

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
    FIRST_GROUP_NEAR(__m512i, GROUP, NEAR, STORE)
}
COUNT(vpopcnt_count, VPOPCNT, __m512i, vpopcnt_group, STORE)
#undef GROUP

#undef NEAR
#undef STORE
BY_WORDS(vpopcnt_hamming, VPOPCNT, vpopcnt_inner, uint64_t)

/* ---- AVX-512 VBMI: an instruction looks up 64 bytes in a table of 128 bytes: 16 for the lower, or
   for the upper, four bits of each of the eight bytes of a word */

#define VBMI __attribute__((target("avx512f,avx512bw,avx512vbmi")))
#define NEAR(r)                                                                                \
    (unsigned)_mm512_cmple_epu64_mask(_mm512_sub_epi64(r, _mm512_set1_epi64((long long)least)), \
                                      _mm512_set1_epi64((long long)(limit - least)))
#define STORE(r) _mm512_storeu_si512(distances, r)

/* Compute the bounds of n groups, which share the registers of the tables. */
VBMI INLINE void vbmi_bound_groups(const uint64_t *p, size_t n, size_t words, const weights_t *q,
                                   __m512i *sums) {
    const __m512i four = _mm512_set1_epi8(15), zero = _mm512_setzero_si512();
    const __m512i tables = _mm512_set1_epi64(0x7060504030201000);
    for (size_t u = 0; u < n; u++) sums[u] = zero;
    for (size_t w = 0; w < words; w++) {
        const uint8_t(*low)[16] = q->rounded[w][0], (*high)[16] = q->rounded[w][1];
        const __m512i low_a = _mm512_loadu_si512(low), low_b = _mm512_loadu_si512(low + 4);
        const __m512i high_a = _mm512_loadu_si512(high), high_b = _mm512_loadu_si512(high + 4);
        for (size_t u = 0; u < n; u++) {
            const uint64_t *at = p + LANES * (u * words + w);
            const __m512i x = _mm512_loadu_si512(at);
            fetch_far_ahead(at);
            const __m512i y = _mm512_srli_epi16(x, 4);
            const __m512i low_at = _mm512_or_si512(_mm512_and_si512(x, four), tables);
            const __m512i high_at = _mm512_or_si512(_mm512_and_si512(y, four), tables);
            const __m512i bytes =
                _mm512_add_epi8(_mm512_permutex2var_epi8(low_a, low_at, low_b),
                                _mm512_permutex2var_epi8(high_a, high_at, high_b));
            sums[u] = _mm512_add_epi64(sums[u], _mm512_sad_epu8(bytes, zero));
        }
    }
}

VBMI INLINE __m512i vbmi_bound_group(const uint64_t *p, size_t words, const weights_t *q) {
    __m512i sum;
    vbmi_bound_groups(p, 1, words, q, &sum);
    return sum;
}

#define GROUPS(p, r) vbmi_bound_groups(p, UNROLL, words, q, r)
#define GROUP(p) vbmi_bound_group(p, words, q)
VBMI INLINE size_t vbmi_bound_inner(PARAMETERS(weights_t)) {
    FIRST_GROUP_OF(__m512i, GROUPS, GROUP, NEAR, STORE)
}
#undef GROUPS
#undef GROUP
#undef NEAR
#undef STORE
BY_WORDS(vbmi_bounds, VBMI, vbmi_bound_inner, weights_t)
