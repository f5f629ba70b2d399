/* Finds the pairs of codes within a radius, among codes that have the same key.

   Input: N codes as uint64[words, N], and their keys, uint64[N], with equal keys side by side. The
   first words of a code and of eight others are compared at a time; the other words only of those
   that are within the radius so far. Pairs (i, j) have i < j and the order (i, j). index/engines/
   self_join.py chooses the keys. */
#include "kernel.h"

/* A call ends after about this many comparisons, which take some milliseconds. */
#define COMPARISONS_PER_CALL ((size_t)1 << 24)

size_t find_pairs(const pairs_t *p, size_t *next_i, size_t *next_j, size_t room, int64_t *first,
                  int64_t *second, uint16_t *distances) {
    size_t found = 0, compared = 0, end = *next_i;
    for (; *next_i < p->n && compared < COMPARISONS_PER_CALL; (*next_i)++, *next_j = *next_i + 1) {
        const size_t i = *next_i;
        const uint64_t *others = p->words + *next_j;
        for (end = end < i ? i : end; end < p->n && p->keys[end] == p->keys[i];) end++;
        const size_t n = end > *next_j ? end - *next_j : 0, groups = (n + LANES - 1) / LANES;
        compared += n + 1;
        /* The first words alone rule most pairs out. */
        for (size_t g = 0; g < groups; g++) {
            uint64_t near[LANES];
            uint8_t hits = 0;
            g = path.hamming(others, g, groups, 1, p->words + i, 0, p->radius, NULL, near, &hits);
            if (g >= groups) break;
            if (room - found < LANES) {
                *next_j += LANES * g;
                return found;
            }
            for (unsigned mask = hits; mask; mask &= mask - 1) {
                const unsigned lane = (unsigned)__builtin_ctz(mask);
                const size_t j = *next_j + LANES * g + lane;
                uint64_t distance = near[lane];
                if (j >= end) break;
                for (size_t w = 1; w < p->n_words && distance <= p->radius; w++)
                    distance += ones(p->words[w * p->n + i] ^ p->words[w * p->n + j]);
                if (distance > p->radius) continue;
                first[found] = (int64_t)i;
                second[found] = (int64_t)j;
                distances[found++] = (uint16_t)distance;
            }
        }
    }
    return found;
}
