/* Counts how many documents lie at each Hamming distance from each query.

   Input: N codes of `words` words, the number of documents of each code (int32[N]), and Q queries.
   Output: counts, int64[Q, n_distances], to which the numbers of documents are added. Distances of
   n_distances and more are not counted. Sums of whole numbers do not depend on the order. */
#include "kernel.h"

#include <string.h>

/* The codes of a block stay in the cache while all queries are compared with them. */
#define BLOCK_GROUPS 1024
#define MAX_DISTANCE (64 * MAX_WORDS)

void count_distances(const source_t *s, const int32_t *sizes, const uint64_t *queries,
                     size_t n_queries, size_t n_distances, int64_t *counts) {
    const size_t groups = (s->n + LANES - 1) / LANES, n_possible = 64 * s->words + 1;
    const size_t n_counted = n_distances < n_possible ? n_distances : n_possible;
    int64_t sums[MAX_DISTANCE + 1][N_SUMS];
    for (size_t start = 0; start < groups; start += BLOCK_GROUPS) {
        const size_t end = groups - start < BLOCK_GROUPS ? groups : start + BLOCK_GROUPS;
        /* The last group may lack codes; its places for them have no sizes. */
        const size_t whole = LANES * end > s->n ? end - 1 : end;
        for (size_t q = 0; q < n_queries; q++) {
            const uint64_t *query = queries + q * s->words;
            memset(sums, 0, n_possible * sizeof *sums);
            path.count(s->groups + start * LANES * s->words, whole - start, s->words, query,
                       sizes + LANES * start, sums);
            if (whole < end) {
                uint64_t distances[LANES];
                uint8_t hits = 0;
                path.hamming(s->groups, whole, end, s->words, query, 0, MAX_DISTANCE, NULL,
                             distances, &hits);
                for (size_t i = 0; i < s->n % LANES; i++)
                    sums[distances[i]][0] += sizes[LANES * whole + i];
            }
            for (size_t d = 0; d < n_counted; d++)
                for (size_t i = 0; i < N_SUMS; i++)
                    counts[q * n_distances + d] += sums[d][i];
        }
    }
}

int distances_of_rows(const uint64_t *codes, const int32_t *code_of, size_t n, size_t words,
                      const int64_t *index_rows, const int64_t *rows, size_t m,
                      const uint64_t *query, int64_t *distances) {
    for (size_t i = 0; i < m; i++) {
        /* Rows mostly have no gaps. */
        const uint64_t offset = n ? (uint64_t)rows[i] - (uint64_t)index_rows[0] : 0;
        size_t place = offset < n && index_rows[offset] == rows[i]
                           ? (size_t)offset
                           : lower_bound(index_rows, 0, n, rows[i]);
        if (place >= n || index_rows[place] != rows[i]) return 0;
        int64_t distance = 0;
        for (size_t word = 0; word < words; word++) {
            const uint64_t code = code_of != NULL
                                      ? codes[code_of[place]]
                                      : codes[(place / LANES * words + word) * LANES + place % LANES];
            distance += __builtin_popcountll(code ^ query[word]);
        }
        distances[i] = distance;
    }
    return 1;
}
