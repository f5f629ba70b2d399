/* Sums over the moments of codes (index/moments.py): all numbers are integers, or rounded by the
   operations of the Python code in the same order, so both give the same bits. */
#include "kernel.h"

#include <math.h>

void discriminant(const uint8_t *codes, size_t n_codes, size_t n_bits, const int64_t *sums,
                  double n_all, double unit, const int64_t *precision, int64_t *whole,
                  double *weights) {
    const size_t size = n_bits / 8;
    for (size_t b = 0; b < n_bits; b++) {
        int64_t sum = 0;
        for (size_t i = 0; i < n_codes; i++)
            sum += 2 * (codes[i * size + b / 8] >> (7 - b % 8) & 1) - 1;
        const double expected = (double)n_codes * ((double)sums[b] / n_all);
        whole[b] = (int64_t)rint(((double)sum - expected) * unit);
    }
    for (size_t b = 0; b < n_bits; b++) {
        uint64_t sum = 0; /* unsigned numbers may overflow */
        for (size_t c = 0; c < n_bits; c++)
            sum += (uint64_t)precision[b * n_bits + c] * (uint64_t)whole[c];
        weights[b] = (double)(int64_t)sum;
    }
}

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

/* Return the sum of the squares of n numbers, added exactly and rounded once. Source: Shewchuk,
   "Adaptive precision floating-point arithmetic and fast robust geometric predicates" (1997). */
static double sum_of_squares(const double *x, size_t n) {
    /* Parts that do not overlap, the smallest first; a double has few of them. */
    double parts[64];
    size_t n_parts = 0;
    for (size_t i = 0; i < n; i++) {
        double more = x[i] * x[i];
        size_t kept = 0;
        for (size_t j = 0; j < n_parts; j++) {
            double large = more, small = parts[j];
            if (fabs(large) < fabs(small)) large = parts[j], small = more;
            more = large + small;
            const double rest = small - (more - large);
            if (rest != 0) parts[kept++] = rest;
        }
        parts[kept++] = more;
        n_parts = kept;
    }
    double sum = 0, rest = 0;
    while (n_parts && rest == 0) {
        const double before = sum, part = parts[--n_parts];
        sum = before + part;
        rest = part - (sum - before);
    }
    /* Half-way between two doubles, the parts that are left decide. */
    if (n_parts && ((rest < 0 && parts[n_parts - 1] < 0) || (rest > 0 && parts[n_parts - 1] > 0))) {
        const double twice = rest * 2, other = sum + twice;
        if (twice == other - sum) sum = other;
    }
    return sum;
}

void unite(const float *q, const double *l, size_t n, double factor, float *weights) {
    double query[64 * MAX_WORDS];
    for (size_t b = 0; b < n; b++) query[b] = q[b];
    const double of_query = sqrt(sum_of_squares(query, n)), of_learned = sqrt(sum_of_squares(l, n));
    for (size_t b = 0; b < n; b++) {
        const double one = of_query != 0 ? query[b] / of_query : query[b];
        const double other = of_learned != 0 ? l[b] / of_learned : l[b];
        weights[b] = (float)(one + factor * other);
    }
}
