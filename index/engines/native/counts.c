/* How many documents lie at each distance from a query. */
#include "kernel.h"

#include <string.h>

/* Codes of a block stay in the cache while every query is compared with them. */
#define BLOCK_GROUPS 1024
#define MOST_DISTANCE (64 * MAX_WORDS)
/* Neighbours often lie at the same distance, and to add to what was just written takes long. */
#define WAYS 4

void count_distances(const source_t *s, const int32_t *sizes, const uint64_t *queries,
                     size_t n_queries, size_t n_distances, int64_t *counts) {
    const size_t groups = (s->n + LANES - 1) / LANES, used = 64 * s->words + 1;
    const size_t kept = n_distances < used ? n_distances : used;
    int64_t sums[MOST_DISTANCE + 1][WAYS];
    for (size_t start = 0; start < groups; start += BLOCK_GROUPS) {
        const size_t end = groups - start < BLOCK_GROUPS ? groups : start + BLOCK_GROUPS;
        for (size_t q = 0; q < n_queries; q++) {
            const uint64_t *query = queries + q * s->words;
            memset(sums, 0, used * sizeof *sums);
            for (size_t g = start; g < end; g++) {
                uint64_t distances[LANES];
                uint8_t hits = 0;
                const size_t left = s->n - LANES * g, lanes = left < LANES ? left : LANES;
                path.hamming(s->groups, g, g + 1, s->words, query, MOST_DISTANCE, NULL, distances,
                             &hits);
                if (lanes == LANES)
                    for (size_t i = 0; i < LANES; i++)
                        sums[distances[i]][i % WAYS] += sizes[LANES * g + i];
                else
                    for (size_t i = 0; i < lanes; i++)
                        sums[distances[i]][0] += sizes[LANES * g + i];
            }
            for (size_t d = 0; d < kept; d++)
                for (size_t way = 0; way < WAYS; way++)
                    counts[q * n_distances + d] += sums[d][way];
        }
    }
}
