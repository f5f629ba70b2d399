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
    /* The instruction compares signed numbers; no distance is above `most`, so a larger limit changes
       nothing. */
    const uint64_t most = 64 * MAX_WORDS;
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

/* ---- AVX2: slices. A register holds a byte of 32 codes, or a word of four. */

/* Of eight registers, swap the highest bit of the number of a byte in its 16 with the bit `half` of the
   number of its register, as the lowest. */
AVX2 INLINE void avx2_interleave(__m256i v[8], unsigned half) {
    for (unsigned i = 0; i < 8; i++) {
        if (i & half) continue;
        const __m256i a = v[i], b = v[i + half];
        v[i] = _mm256_unpacklo_epi8(a, b);
        v[i + half] = _mm256_unpackhi_epi8(a, b);
    }
}

/* Slice a word of 32 codes: v[i] holds their bytes SLICED_BYTE(i), in the order of avx2_in_order. */
#define SLICED_BYTE(i) (((i) >> 1 & 1) << 2 | ((i) & 1) << 1 | (i) >> 2)
AVX2 INLINE void avx2_slice_word(const uint64_t *p, size_t words, __m256i v[8]) {
    for (unsigned i = 0; i < 8; i++) {
        const uint64_t *at = p + i / 2 * LANES * words + i % 2 * 4;
        v[i] = _mm256_loadu_si256((const __m256i *)at);
        if (i % 2 == 0) fetch_far_ahead(at);
    }
    /* The numbers of bytes have the bits c b2 b1 b0, c of the code and b of its byte, and those of
       registers r2 r1 r0. Then these are r2 r1 r0 c, and b0 b2 b1. */
    avx2_interleave(v, 4);
    avx2_interleave(v, 2);
    avx2_interleave(v, 1);
    avx2_interleave(v, 4);
}

/* Return a mask of codes in their order from one in the order of a slice. */
static uint64_t avx2_in_order(uint32_t mask) {
    uint64_t ordered = 0;
    for (; mask; mask &= mask - 1) {
        const unsigned i = (unsigned)__builtin_ctz(mask);
        ordered |= UINT64_C(1) << ((i >> 1 & 7) << 2 | (i >> 4) << 1 | (i & 1));
    }
    return ordered;
}

AVX2 static void avx2_slice(const uint64_t *groups, size_t words, uint8_t *slice) {
    const __m256i four = _mm256_set1_epi8(15);
    for (size_t w = 0; w < words; w++, slice += SLICE_BYTES)
        for (unsigned part = 0; part < 4; part++) {
            __m256i v[8];
            avx2_slice_word(groups + LANES * (4 * part * words + w), words, v);
            for (unsigned i = 0; i < 8; i++) {
                uint8_t *low = slice + SLICED * SLICED_BYTE(i) + 32 * part;
                _mm256_storeu_si256((__m256i *)low, _mm256_and_si256(v[i], four));
                _mm256_storeu_si256((__m256i *)(low + 8 * SLICED),
                                    _mm256_and_si256(_mm256_srli_epi16(v[i], 4), four));
            }
        }
}

AVX2 INLINE __m256i avx2_table(const uint8_t table[16]) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)table));
}

/* Sums of 16 bits of the units of words, which have bytes: of each two codes, `both` adds these up as
   one number, and `odd` the higher byte. */
typedef struct {
    __m256i both, odd;
} sums256_t;

AVX2 INLINE void avx2_add_units(sums256_t *sums, __m256i units) {
    sums->both = _mm256_add_epi16(sums->both, units);
    sums->odd = _mm256_add_epi16(sums->odd, _mm256_srli_epi16(units, 8));
}

AVX2 INLINE __m256i avx2_near_units(__m256i units, uint64_t limit) {
    const __m256i most = _mm256_set1_epi8((char)(limit < UINT8_MAX ? limit : UINT8_MAX));
    return _mm256_cmpeq_epi8(_mm256_min_epu8(units, most), units);
}

AVX2 INLINE __m256i avx2_near_sums(sums256_t sums, uint64_t limit) {
    const __m256i above = _mm256_set1_epi16((short)(limit < INT16_MAX ? limit + 1 : INT16_MAX));
    const __m256i even = _mm256_sub_epi16(sums.both, _mm256_slli_epi16(sums.odd, 8));
    return _mm256_blendv_epi8(_mm256_cmpgt_epi16(above, sums.odd),
                              _mm256_cmpgt_epi16(above, even), _mm256_set1_epi16(255));
}

AVX2 INLINE int avx2_masks(const __m256i is_near[4], uint64_t near[SLICED / 64]) {
    const __m256i any = _mm256_or_si256(_mm256_or_si256(is_near[0], is_near[1]),
                                        _mm256_or_si256(is_near[2], is_near[3]));
    if (_mm256_testz_si256(any, any)) return 0;
    for (unsigned i = 0; i < 2; i++)
        near[i] = avx2_in_order((uint32_t)_mm256_movemask_epi8(is_near[2 * i])) |
                  avx2_in_order((uint32_t)_mm256_movemask_epi8(is_near[2 * i + 1])) << 32;
    return 1;
}

/* Return the units of a word of 32 codes. */
AVX2 INLINE __m256i avx2_units_of_word(const uint64_t *p, size_t words,
                                       const uint8_t (*tables)[8][16]) {
    const __m256i four = _mm256_set1_epi8(15);
    __m256i v[8], units = _mm256_setzero_si256();
    avx2_slice_word(p, words, v);
    for (unsigned i = 0; i < 8; i++) {
        const __m256i low = _mm256_and_si256(v[i], four);
        const __m256i high = _mm256_and_si256(_mm256_srli_epi16(v[i], 4), four);
        const unsigned byte = SLICED_BYTE(i);
        units = _mm256_adds_epu8(units, _mm256_shuffle_epi8(avx2_table(tables[0][byte]), low));
        units = _mm256_adds_epu8(units, _mm256_shuffle_epi8(avx2_table(tables[1][byte]), high));
    }
    return units;
}

AVX2 static int avx2_near_groups(const uint64_t *groups, size_t words, const weights_t *q,
                                 uint64_t limit, uint64_t near[SLICED / 64]) {
    __m256i is_near[4];
    if (words == 1) {
        for (unsigned s = 0; s < 4; s++)
            is_near[s] = avx2_near_units(
                avx2_units_of_word(groups + 4 * s * LANES, 1, q->rounded[0]), limit);
        return avx2_masks(is_near, near);
    }
    for (unsigned s = 0; s < 4; s++) {
        const uint64_t *p = groups + 4 * s * LANES * words;
        sums256_t sums = {_mm256_setzero_si256(), _mm256_setzero_si256()};
        for (size_t w = 0; w < words; w++)
            avx2_add_units(&sums, avx2_units_of_word(p + LANES * w, words, q->rounded[w]));
        is_near[s] = avx2_near_sums(sums, limit);
    }
    return avx2_masks(is_near, near);
}

AVX2 INLINE void avx2_units_of_slice(const uint8_t *slice, const uint8_t (*tables)[16],
                                     __m256i units[4]) {
    for (unsigned s = 0; s < 4; s++) units[s] = _mm256_setzero_si256();
    for (unsigned n = 0; n < 16; n++) {
        const __m256i table = avx2_table(tables[n]);
        for (unsigned s = 0; s < 4; s++) {
            const __m256i at = _mm256_loadu_si256((const __m256i *)(slice + SLICED * n + 32 * s));
            units[s] = _mm256_adds_epu8(units[s], _mm256_shuffle_epi8(table, at));
        }
    }
}

AVX2 static int avx2_near_slice(const uint8_t *slice, size_t words, const weights_t *q,
                                uint64_t limit, uint64_t near[SLICED / 64]) {
    __m256i units[4], is_near[4];
    if (words == 1) {
        avx2_units_of_slice(slice, q->rounded[0][0], units);
        for (unsigned s = 0; s < 4; s++) is_near[s] = avx2_near_units(units[s], limit);
        return avx2_masks(is_near, near);
    }
    sums256_t sums[4];
    for (unsigned s = 0; s < 4; s++) sums[s].both = sums[s].odd = _mm256_setzero_si256();
    for (size_t w = 0; w < words; w++) {
        avx2_units_of_slice(slice + SLICE_BYTES * w, q->rounded[w][0], units);
        for (unsigned s = 0; s < 4; s++) avx2_add_units(sums + s, units[s]);
    }
    for (unsigned s = 0; s < 4; s++) is_near[s] = avx2_near_sums(sums[s], limit);
    return avx2_masks(is_near, near);
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
#undef NEAR
#undef STORE
BY_WORDS(avx2_hamming, AVX2, avx2_inner, uint64_t)

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

/* As avx2_near_slice; a register holds 64 codes. */
AVX512BW static int avx512bw_near_slice(const uint8_t *slice, size_t words, const weights_t *q,
                                        uint64_t limit, uint64_t near[SLICED / 64]) {
    const __m512i zero = _mm512_setzero_si512();
    __m512i units[2], both[2] = {zero, zero}, odd[2] = {zero, zero};
    for (size_t w = 0; w < words; w++) {
        units[0] = units[1] = zero;
        for (unsigned n = 0; n < 16; n++, slice += SLICED) {
            const __m512i table = _mm512_broadcast_i32x4(
                _mm_loadu_si128((const __m128i *)q->rounded[w][n / 8][n % 8]));
            for (unsigned s = 0; s < 2; s++) {
                const __m512i at = _mm512_loadu_si512(slice + 64 * s);
                units[s] = _mm512_adds_epu8(units[s], _mm512_shuffle_epi8(table, at));
            }
        }
        for (unsigned s = 0; s < 2 && words > 1; s++) {
            both[s] = _mm512_add_epi16(both[s], units[s]);
            odd[s] = _mm512_add_epi16(odd[s], _mm512_srli_epi16(units[s], 8));
        }
    }
    for (unsigned s = 0; s < 2; s++) {
        if (words == 1) {
            const uint64_t most = limit < UINT8_MAX ? limit : UINT8_MAX;
            near[s] = _mm512_cmple_epu8_mask(units[s], _mm512_set1_epi8((char)most));
            continue;
        }
        const __m512i most = _mm512_set1_epi16((short)(limit < INT16_MAX ? limit : INT16_MAX));
        const __m512i even = _mm512_sub_epi16(both[s], _mm512_slli_epi16(odd[s], 8));
        const __m512i is_near =
            _mm512_mask_blend_epi8(UINT64_C(0xaaaaaaaaaaaaaaaa),
                                   _mm512_movm_epi16(_mm512_cmple_epu16_mask(even, most)),
                                   _mm512_movm_epi16(_mm512_cmple_epu16_mask(odd[s], most)));
        near[s] = _mm512_movepi8_mask(is_near);
    }
    if (!(near[0] | near[1])) return 0;
    for (unsigned s = 0; s < 2; s++)
        near[s] = avx2_in_order((uint32_t)near[s]) | avx2_in_order((uint32_t)(near[s] >> 32)) << 32;
    return 1;
}

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

VBMI INLINE int vbmi_near_words(const uint64_t *groups, size_t words, const weights_t *q,
                                uint64_t limit, uint64_t near[SLICED / 64]) {
    const __m512i four = _mm512_set1_epi8(15), zero = _mm512_setzero_si512();
    const __m512i tables = _mm512_set1_epi64(0x7060504030201000);
    const __m512i most = _mm512_set1_epi64((long long)limit);
    uint64_t masks[SLICED / 64] = {0, 0};
    /* UNROLL groups share the registers of the tables. */
    for (unsigned g = 0; g < SLICED_GROUPS; g += UNROLL) {
        __m512i sums[UNROLL];
        for (unsigned u = 0; u < UNROLL; u++) sums[u] = zero;
        for (size_t w = 0; w < words; w++) {
            const uint8_t(*low)[16] = q->rounded[w][0], (*high)[16] = q->rounded[w][1];
            const __m512i low_a = _mm512_loadu_si512(low), low_b = _mm512_loadu_si512(low + 4);
            const __m512i high_a = _mm512_loadu_si512(high), high_b = _mm512_loadu_si512(high + 4);
            for (unsigned u = 0; u < UNROLL; u++) {
                const uint64_t *at = groups + LANES * ((g + u) * words + w);
                const __m512i x = _mm512_loadu_si512(at);
                fetch_far_ahead(at);
                const __m512i y = _mm512_srli_epi16(x, 4);
                const __m512i low_at = _mm512_or_si512(_mm512_and_si512(x, four), tables);
                const __m512i high_at = _mm512_or_si512(_mm512_and_si512(y, four), tables);
                const __m512i bytes =
                    _mm512_adds_epu8(_mm512_permutex2var_epi8(low_a, low_at, low_b),
                                     _mm512_permutex2var_epi8(high_a, high_at, high_b));
                sums[u] = _mm512_add_epi64(sums[u], _mm512_sad_epu8(bytes, zero));
            }
        }
        for (unsigned u = 0; u < UNROLL; u++)
            masks[g / 8] |= (uint64_t)_mm512_cmple_epu64_mask(sums[u], most)
                            << LANES * ((g + u) % 8);
    }
    near[0] = masks[0], near[1] = masks[1];
    return (masks[0] | masks[1]) != 0;
}

/* As in BY_WORDS, the compiler writes separate loops. */
VBMI static int vbmi_near_groups(const uint64_t *groups, size_t words, const weights_t *q,
                                 uint64_t limit, uint64_t near[SLICED / 64]) {
    if (words == 1) return vbmi_near_words(groups, 1, q, limit, near);
    if (words == 2) return vbmi_near_words(groups, 2, q, limit, near);
    return vbmi_near_words(groups, words, q, limit, near);
}
