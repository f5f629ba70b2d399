/* Sums over the moments of codes (index/moments.py): all numbers are integers. */
#include "kernel.h"

#include <string.h>

void moments_of_scores(size_t n_bits, const int64_t *sums, const int64_t *products,
                       const int64_t *weights, int64_t *total, int64_t *high, uint64_t *low) {
    __int128 squares = 0;
    uint64_t of_sums = 0;
    for (size_t b = 0; b < n_bits; b++) {
        const int64_t *own = products + b * n_bits;
        uint64_t after = 0;
        for (size_t c = b + 1; c < n_bits; c++) after += (uint64_t)own[c] * (uint64_t)weights[c];
        squares += (__int128)weights[b] * ((__int128)own[b] * weights[b]);
        squares += (__int128)weights[b] * (int64_t)after * 2;
        of_sums += (uint64_t)sums[b] * (uint64_t)weights[b];
    }
    *total = (int64_t)of_sums;
    *high = (int64_t)(squares >> 64);
    *low = (uint64_t)squares;
}

/* The words of columns whose pairs are compared in the cache. */
#define WORDS_AT_ONCE 64

#define COUNT_PAIRS                                                                            \
    for (size_t b = 0; b < n_bits; b++)                                                         \
        for (size_t c = 0; c < b; c++) {                                                        \
            const uint64_t *one = columns + b * n_words, *other = columns + c * n_words;        \
            uint64_t count = 0;                                                                 \
            for (size_t w = start; w < end; w++)                                                \
                count += (uint64_t)__builtin_popcountll(one[w] ^ other[w]);                     \
            differing[b * n_bits + c] += (int64_t)count;                                        \
        }

typedef void pairs_fn(size_t n_bits, size_t n_words, const uint64_t *columns, size_t start,
                      size_t end, int64_t *differing);

static void count_pairs(size_t n_bits, size_t n_words, const uint64_t *columns, size_t start,
                        size_t end, int64_t *differing) {
    COUNT_PAIRS
}

#if defined(__x86_64__)
__attribute__((target("popcnt"))) static void popcnt_pairs(size_t n_bits, size_t n_words,
                                                           const uint64_t *columns, size_t start,
                                                           size_t end, int64_t *differing) {
    COUNT_PAIRS
}

__attribute__((target("avx512f,avx512vpopcntdq"))) static void vpopcntdq_pairs(
    size_t n_bits, size_t n_words, const uint64_t *columns, size_t start, size_t end,
    int64_t *differing) {
    COUNT_PAIRS
}

static pairs_fn *fastest_pairs(void) {
    if (__builtin_cpu_supports("avx512vpopcntdq")) return vpopcntdq_pairs;
    return __builtin_cpu_supports("popcnt") ? popcnt_pairs : count_pairs;
}
#else
static pairs_fn *fastest_pairs(void) { return count_pairs; }
#endif

void count_differing(size_t n_bits, size_t n_words, const uint64_t *columns, int64_t *differing) {
    pairs_fn *const count = fastest_pairs();
    memset(differing, 0, n_bits * n_bits * sizeof *differing);
    for (size_t start = 0; start < n_words; start += WORDS_AT_ONCE) {
        const size_t end = start + WORDS_AT_ONCE < n_words ? start + WORDS_AT_ONCE : n_words;
        count(n_bits, n_words, columns, start, end, differing);
    }
    for (size_t b = 0; b < n_bits; b++)
        for (size_t c = 0; c < b; c++) differing[c * n_bits + b] = differing[b * n_bits + c];
}
