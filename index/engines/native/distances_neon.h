/* Hamming distances on 64-bit Arm; part of distances.c, which includes it. NEON counts the ones
   of each byte; a group takes four registers of two codes. */
#include <arm_neon.h>

typedef struct {
    uint64x2_t of[4];
} four128_t;

INLINE four128_t neon_some_words(const uint64_t *p, size_t words, const uint64_t *q) {
    uint8x16_t sum[4];
    four128_t distances;
    for (unsigned i = 0; i < 4; i++) sum[i] = vdupq_n_u8(0);
    for (size_t w = 0; w < words; w++) {
        const uint64x2_t word = vdupq_n_u64(q[w]);
        for (unsigned i = 0; i < 4; i++) {
            const uint64x2_t x = veorq_u64(vld1q_u64(p + LANES * w + 2 * i), word);
            sum[i] = vaddq_u8(sum[i], vcntq_u8(vreinterpretq_u8_u64(x)));
        }
    }
    for (unsigned i = 0; i < 4; i++)
        distances.of[i] = vpaddlq_u32(vpaddlq_u16(vpaddlq_u8(sum[i])));
    return distances;
}

INLINE four128_t neon_group(const uint64_t *p, size_t words, const uint64_t *q) {
    if (words <= WORDS_PER_BYTE) return neon_some_words(p, words, q);
    four128_t sum;
    for (unsigned i = 0; i < 4; i++) sum.of[i] = vdupq_n_u64(0);
    for (size_t w = 0; w < words; w += WORDS_PER_BYTE) {
        const size_t n = words - w < WORDS_PER_BYTE ? words - w : WORDS_PER_BYTE;
        const four128_t some = neon_some_words(p + LANES * w, n, q + w);
        for (unsigned i = 0; i < 4; i++) sum.of[i] = vaddq_u64(sum.of[i], some.of[i]);
    }
    return sum;
}

INLINE unsigned neon_near(four128_t sum, uint64_t least, uint64_t limit) {
    const uint64x2_t from = vdupq_n_u64(least), most = vdupq_n_u64(limit - least);
    unsigned mask = 0;
    for (unsigned i = 0; i < 4; i++) {
        const uint64x2_t near = vcleq_u64(vsubq_u64(sum.of[i], from), most);
        mask |= (unsigned)(vgetq_lane_u64(near, 0) & 1) << (2 * i);
        mask |= (unsigned)(vgetq_lane_u64(near, 1) & 1) << (2 * i + 1);
    }
    return mask;
}

/* Of each word, the bytes hold the sums over the planes, at most 8 MAX_DIGIT. */
INLINE four128_t neon_bound_group(const uint64_t *p, size_t words, const weights_t *q) {
    four128_t sum;
    for (unsigned i = 0; i < 4; i++) sum.of[i] = vdupq_n_u64(0);
    for (size_t w = 0; w < words; w++) {
        const uint64x2_t best = vdupq_n_u64(q->best[w]);
        for (unsigned i = 0; i < 4; i++) {
            const uint64x2_t x = veorq_u64(vld1q_u64(p + LANES * w + 2 * i), best);
            uint8x16_t bytes = vdupq_n_u8(0);
            for (unsigned j = PLANES; j-- > 0;) {
                const uint64x2_t masked = vandq_u64(x, vdupq_n_u64(q->planes[w][j]));
                bytes = vaddq_u8(vaddq_u8(bytes, bytes), vcntq_u8(vreinterpretq_u8_u64(masked)));
            }
            sum.of[i] = vaddq_u64(sum.of[i], vpaddlq_u32(vpaddlq_u16(vpaddlq_u8(bytes))));
        }
    }
    return sum;
}

#define GROUP(p) neon_group(p, words, q)
#define NEAR(r) neon_near(r, least, limit)
#define STORE(r) \
    for (unsigned i = 0; i < 4; i++) vst1q_u64(distances + 2 * i, (r).of[i])
INLINE size_t neon_inner(PARAMETERS(uint64_t)) { FIRST_GROUP_NEAR(four128_t, GROUP, NEAR, STORE) }
COUNT(neon_count, , four128_t, neon_group, STORE)
#undef GROUP
#define GROUP(p) neon_bound_group(p, words, q)
INLINE size_t neon_bound_inner(PARAMETERS(weights_t)) {
    FIRST_GROUP_NEAR(four128_t, GROUP, NEAR, STORE)
}
#undef GROUP
#undef NEAR
#undef STORE
BY_WORDS(neon_hamming, , neon_inner, uint64_t)
BY_WORDS(neon_bounds, , neon_bound_inner, weights_t)
