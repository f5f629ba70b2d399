/* Distances on 64-bit Arm; part of distances.c, which includes it. NEON counts the ones of each byte of
   four registers of two codes; the sums of a group are the eight numbers of one register. A register
   of a slice holds a byte of 16 codes. */
#include <arm_neon.h>

/* The sum of four bytes of so many words is a byte. */
#define WORDS_PER_FOURTH 7

INLINE uint16x8_t neon_some_words(const uint64_t *p, size_t words, const uint64_t *q) {
    uint8x16_t sum[4];
    for (unsigned i = 0; i < 4; i++) sum[i] = vdupq_n_u8(0);
    for (size_t w = 0; w < words; w++) {
        const uint64x2_t word = vdupq_n_u64(q[w]);
        for (unsigned i = 0; i < 4; i++) {
            const uint64x2_t x = veorq_u64(vld1q_u64(p + LANES * w + 2 * i), word);
            sum[i] = vaddq_u8(sum[i], vcntq_u8(vreinterpretq_u8_u64(x)));
        }
    }
    if (words <= WORDS_PER_FOURTH)
        return vpaddlq_u8(vpaddq_u8(vpaddq_u8(sum[0], sum[1]), vpaddq_u8(sum[2], sum[3])));
    return vpaddq_u16(vpaddq_u16(vpaddlq_u8(sum[0]), vpaddlq_u8(sum[1])),
                      vpaddq_u16(vpaddlq_u8(sum[2]), vpaddlq_u8(sum[3])));
}

INLINE uint16x8_t neon_group(const uint64_t *p, size_t words, const uint64_t *q) {
    if (words <= WORDS_PER_BYTE) return neon_some_words(p, words, q);
    uint16x8_t sum = vdupq_n_u16(0);
    for (size_t w = 0; w < words; w += WORDS_PER_BYTE) {
        const size_t n = words - w < WORDS_PER_BYTE ? words - w : WORDS_PER_BYTE;
        sum = vaddq_u16(sum, neon_some_words(p + LANES * w, n, q + w));
    }
    return sum;
}

/* No distance of MAX_WORDS is UINT16_MAX, so that number stands for all that are larger. */
INLINE uint16x8_t neon_number(uint64_t number) {
    return vdupq_n_u16((uint16_t)(number < UINT16_MAX ? number : UINT16_MAX));
}

INLINE unsigned neon_near(uint16x8_t sum, uint64_t least, uint64_t limit) {
    const uint8x8_t bits = vcreate_u8(0x8040201008040201);
    uint16x8_t near = vcleq_u16(sum, neon_number(limit));
    if (least) near = vandq_u16(near, vcgeq_u16(sum, neon_number(least)));
    return vaddv_u8(vand_u8(vmovn_u16(near), bits));
}

INLINE void neon_store(uint16x8_t sum, uint64_t distances[LANES]) {
    const uint32x4_t low = vmovl_u16(vget_low_u16(sum)), high = vmovl_high_u16(sum);
    vst1q_u64(distances, vmovl_u32(vget_low_u32(low)));
    vst1q_u64(distances + 2, vmovl_high_u32(low));
    vst1q_u64(distances + 4, vmovl_u32(vget_low_u32(high)));
    vst1q_u64(distances + 6, vmovl_high_u32(high));
}

/* Slice a word of 16 codes: of[i] holds their bytes i. */
INLINE void neon_slice_word(const uint64_t *p, size_t words, uint8x16_t of[8]) {
    /* Register i of a group has the bytes i and 4 + i of its codes. */
    const uint8x16x4_t a = vld4q_u8((const uint8_t *)p);
    const uint8x16x4_t b = vld4q_u8((const uint8_t *)(p + LANES * words));
    fetch_far_ahead(p);
    fetch_far_ahead(p + LANES * words);
    for (unsigned i = 0; i < 4; i++) {
        of[i] = vuzp1q_u8(a.val[i], b.val[i]);
        of[4 + i] = vuzp2q_u8(a.val[i], b.val[i]);
    }
}

static void neon_slice(const uint64_t *groups, size_t words, uint8_t *slice) {
    const uint8x16_t four = vdupq_n_u8(15);
    for (size_t w = 0; w < words; w++, slice += SLICE_BYTES)
        for (unsigned part = 0; part < 8; part++) {
            uint8x16_t of[8];
            neon_slice_word(groups + LANES * (2 * part * words + w), words, of);
            for (unsigned i = 0; i < 8; i++) {
                uint8_t *low = slice + SLICED * i + 16 * part;
                vst1q_u8(low, vandq_u8(of[i], four));
                vst1q_u8(low + 8 * SLICED, vshrq_n_u8(of[i], 4));
            }
        }
}

/* Sums of the units of words, of 16 bits. */
typedef struct {
    uint16x8_t low, high;
} sums128_t;

INLINE void neon_add_units(sums128_t *sums, uint8x16_t units) {
    sums->low = vaddw_u8(sums->low, vget_low_u8(units));
    sums->high = vaddw_high_u8(sums->high, units);
}

INLINE uint8x16_t neon_near_units(uint8x16_t units, uint64_t limit) {
    return vcleq_u8(units, vdupq_n_u8((uint8_t)(limit < UINT8_MAX ? limit : UINT8_MAX)));
}

INLINE uint8x16_t neon_near_sums(sums128_t sums, uint64_t limit) {
    const uint16x8_t most = neon_number(limit);
    return vcombine_u8(vmovn_u16(vcleq_u16(sums.low, most)), vmovn_u16(vcleq_u16(sums.high, most)));
}

INLINE int neon_masks(const uint8x16_t is_near[8], uint64_t near[SLICED / 64]) {
    uint8_t bytes[SLICED];
    uint8x16_t any = is_near[0];
    for (unsigned s = 1; s < 8; s++) any = vorrq_u8(any, is_near[s]);
    if (!vmaxvq_u8(any)) return 0;
    for (unsigned s = 0; s < 8; s++) vst1q_u8(bytes + 16 * s, is_near[s]);
    near[0] = near[1] = 0;
    for (unsigned i = 0; i < SLICED; i++) near[i / 64] |= (uint64_t)(bytes[i] & 1) << i % 64;
    return 1;
}

/* Return the units of a word of 16 codes. */
INLINE uint8x16_t neon_units_of_word(const uint64_t *p, size_t words,
                                     const uint8_t (*tables)[8][16]) {
    const uint8x16_t four = vdupq_n_u8(15);
    uint8x16_t of[8], units = vdupq_n_u8(0);
    neon_slice_word(p, words, of);
    for (unsigned i = 0; i < 8; i++) {
        units = vqaddq_u8(units, vqtbl1q_u8(vld1q_u8(tables[0][i]), vandq_u8(of[i], four)));
        units = vqaddq_u8(units, vqtbl1q_u8(vld1q_u8(tables[1][i]), vshrq_n_u8(of[i], 4)));
    }
    return units;
}

static int neon_near_groups(const uint64_t *groups, size_t words, const weights_t *q,
                            uint64_t limit, uint64_t near[SLICED / 64]) {
    uint8x16_t is_near[8];
    for (unsigned s = 0; s < 8; s++) {
        const uint64_t *p = groups + 2 * s * LANES * words;
        if (words == 1) {
            is_near[s] = neon_near_units(neon_units_of_word(p, 1, q->rounded[0]), limit);
            continue;
        }
        sums128_t sums = {vdupq_n_u16(0), vdupq_n_u16(0)};
        for (size_t w = 0; w < words; w++)
            neon_add_units(&sums, neon_units_of_word(p + LANES * w, words, q->rounded[w]));
        is_near[s] = neon_near_sums(sums, limit);
    }
    return neon_masks(is_near, near);
}

INLINE void neon_units_of_slice(const uint8_t *slice, const uint8_t (*tables)[16],
                                uint8x16_t units[8]) {
    for (unsigned s = 0; s < 8; s++) units[s] = vdupq_n_u8(0);
    for (unsigned n = 0; n < 16; n++) {
        const uint8x16_t table = vld1q_u8(tables[n]);
        for (unsigned s = 0; s < 8; s++)
            units[s] =
                vqaddq_u8(units[s], vqtbl1q_u8(table, vld1q_u8(slice + SLICED * n + 16 * s)));
    }
}

static int neon_near_slice(const uint8_t *slice, size_t words, const weights_t *q, uint64_t limit,
                           uint64_t near[SLICED / 64]) {
    uint8x16_t units[8], is_near[8];
    if (words == 1) {
        neon_units_of_slice(slice, q->rounded[0][0], units);
        for (unsigned s = 0; s < 8; s++) is_near[s] = neon_near_units(units[s], limit);
        return neon_masks(is_near, near);
    }
    sums128_t sums[8];
    for (unsigned s = 0; s < 8; s++) sums[s].low = sums[s].high = vdupq_n_u16(0);
    for (size_t w = 0; w < words; w++) {
        neon_units_of_slice(slice + SLICE_BYTES * w, q->rounded[w][0], units);
        for (unsigned s = 0; s < 8; s++) neon_add_units(sums + s, units[s]);
    }
    for (unsigned s = 0; s < 8; s++) is_near[s] = neon_near_sums(sums[s], limit);
    return neon_masks(is_near, near);
}

#define GROUP(p) neon_group(p, words, q)
#define NEAR(r) neon_near(r, least, limit)
#define STORE(r) neon_store(r, distances)
INLINE size_t neon_inner(PARAMETERS(uint64_t)) { FIRST_GROUP_NEAR(uint16x8_t, GROUP, NEAR, STORE) }
COUNT(neon_count, , uint16x8_t, neon_group, STORE)
#undef GROUP
#undef NEAR
#undef STORE
BY_WORDS(neon_hamming, , neon_inner, uint64_t)
