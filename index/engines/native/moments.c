/* Sums over the moments of codes (index/moments.py): all numbers are integers. */
#include "kernel.h"

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
