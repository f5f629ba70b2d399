/* Counts how many documents lie at each Hamming distance from each query.

   Input: N codes of `words` words, the number of documents of each code (int32[N]), and Q queries.
   Output: counts, int64[Q, n_distances], to which the numbers of documents are added. Distances of
   n_distances and more are not counted. Sums of whole numbers do not depend on the order. */
#include "kernel.h"

#include <string.h>

/* The codes of a block stay in the cache while all queries are compared with them. */
#define BLOCK_GROUPS 1024
#define MAX_DISTANCE (64 * MAX_WORDS)
/* Each distance has several sums, and consecutive codes use different ones. Codes that lie side by
   side are often equally far away, and adding to a number that was only just written is slow. */
#define N_SUMS 4

void count_distances(const source_t *s, const int32_t *sizes, const uint64_t *queries,
                     size_t n_queries, size_t n_distances, int64_t *counts) {
    const size_t groups = (s->n + LANES - 1) / LANES, n_possible = 64 * s->words + 1;
    const size_t n_counted = n_distances < n_possible ? n_distances : n_possible;
    int64_t sums[MAX_DISTANCE + 1][N_SUMS];
    for (size_t start = 0; start < groups; start += BLOCK_GROUPS) {
        const size_t end = groups - start < BLOCK_GROUPS ? groups : start + BLOCK_GROUPS;
        for (size_t q = 0; q < n_queries; q++) {
            const uint64_t *query = queries + q * s->words;
            memset(sums, 0, n_possible * sizeof *sums);
            for (size_t g = start; g < end; g++) {
                uint64_t distances[LANES];
                uint8_t hits = 0;
                const size_t left = s->n - LANES * g, lanes = left < LANES ? left : LANES;
                path.hamming(s->groups, g, g + 1, s->words, query, 0, MAX_DISTANCE, NULL,
                             distances, &hits);
                if (lanes == LANES)
                    for (size_t i = 0; i < LANES; i++)
                        sums[distances[i]][i % N_SUMS] += sizes[LANES * g + i];
                else
                    for (size_t i = 0; i < lanes; i++)
                        sums[distances[i]][0] += sizes[LANES * g + i];
            }
            for (size_t d = 0; d < n_counted; d++)
                for (size_t i = 0; i < N_SUMS; i++)
                    counts[q * n_distances + d] += sums[d][i];
        }
    }
}
