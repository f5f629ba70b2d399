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

int words_of_rows(const coded_t *c, const int64_t *rows, size_t m, uint64_t *words) {
    for (size_t i = 0; i < m; i++) {
        /* Rows mostly have no gaps. */
        const uint64_t offset = c->n ? (uint64_t)rows[i] - (uint64_t)c->rows[0] : 0;
        const size_t place = offset < c->n && c->rows[offset] == rows[i]
                                 ? (size_t)offset
                                 : lower_bound(c->rows, 0, c->n, rows[i]);
        if (place >= c->n || c->rows[place] != rows[i]) return 0;
        for (size_t word = 0; word < c->words; word++)
            words[i * c->words + word] =
                c->code_of != NULL
                    ? c->codes[c->code_of[place]]
                    : c->codes[(place / LANES * c->words + word) * LANES + place % LANES];
    }
    return 1;
}

int distances_of_rows(const coded_t *c, const int64_t *rows, size_t m, const uint64_t *query,
                      int64_t *distances) {
    uint64_t words[MAX_WORDS];
    for (size_t i = 0; i < m; i++) {
        if (!words_of_rows(c, rows + i, 1, words)) return 0;
        distances[i] = 0;
        for (size_t word = 0; word < c->words; word++)
            distances[i] += __builtin_popcountll(words[word] ^ query[word]);
    }
    return 1;
}
