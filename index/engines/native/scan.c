/* Scans: of all codes, or of the distinct ones; by Hamming or by weighted distance. */
#include "kernel.h"

#include <stdlib.h>

/* A batch goes over a block of codes, query by query, while it lies in the cache next to the
   processor. */
#define BLOCK_BYTES (24 << 10)
/* Bounds what the nearest so far of a batch take; the codes are read once for so many queries. */
#define FOUND_BYTES (32 << 20)

/* From so many queries on, one of a batch takes such a share of what it takes alone. */
#define MANY_QUERIES 8
#define SHARE_IN_BATCH 0.25

double scan_cost(size_t n_words, size_t n_queries) {
    return (double)n_words * (n_queries < MANY_QUERIES ? 1 : SHARE_IN_BATCH);
}

void scan_groups(const source_t *s, near_fn near, const void *query, size_t g, size_t end,
                 nearest_t *found) {
    uint64_t distances[LANES];
    uint8_t hits = 0;
    for (; found->bound; g++) {
        /* Places ascend, so that a later one must be nearer; among distinct codes they do not. */
        const uint64_t least = (found->bound - (s->runs != NULL)) >> 32;
        if (s->runs == NULL && !least) return;
        const uint64_t limit = s->runs != NULL ? least : least - 1;
        g = near(s->groups, g, end, s->words, query, limit, s->runs != NULL ? NULL : s->allowed,
                 distances, &hits);
        if (g >= end) return;
        for (unsigned mask = hits; mask; mask &= mask - 1) {
            const unsigned lane = (unsigned)__builtin_ctz(mask);
            const size_t place = LANES * g + lane;
            if (place >= s->n) return;
            if (s->runs == NULL)
                nearest_offer(found, KEY(distances[lane], place));
            else
                offer_code(s->runs, place, distances[lane], s->allowed, found);
        }
    }
}

void write_found(nearest_t *found, const search_t *a, size_t query) {
    nearest_finish(found);
    int64_t *rows = a->out_rows + query * a->k, *distances = a->out_distances + query * a->k;
    for (size_t i = 0; i < found->n; i++) {
        rows[i] = a->rows[(uint32_t)found->keys[i]];
        distances[i] = (int64_t)(found->keys[i] >> 32);
    }
    a->out_counts[query] = (int64_t)found->n;
}

int scan_some(const source_t *s, const search_t *a, const size_t *which, const uint64_t *limits,
              size_t n) {
    const size_t groups = (s->n + LANES - 1) / LANES, size = nearest_size(a->k);
    size_t at_once = FOUND_BYTES / sizeof(uint64_t) / (size ? size : 1);
    at_once = at_once < 1 ? 1 : at_once > n ? n : at_once;
    const size_t step =
        at_once == 1 ? groups : BLOCK_BYTES / (LANES * sizeof(uint64_t) * s->words);
    uint64_t *memory = malloc((at_once * size + 1) * sizeof *memory);
    nearest_t *found = malloc((at_once + 1) * sizeof *found);
    if (memory == NULL || found == NULL) {
        free(memory), free(found);
        return 0;
    }
    for (size_t start = 0; start < n; start += at_once) {
        const size_t some = n - start < at_once ? n - start : at_once;
        for (size_t i = 0; i < some; i++)
            nearest_begin(found + i, memory + i * size, a->k, limits[start + i]);
        for (size_t g = 0; g < groups; g += step) {
            const size_t end = groups - g < step ? groups : g + step;
            for (size_t i = 0; i < some; i++)
                scan_groups(s, path.hamming, a->queries + which[start + i] * s->words, g, end,
                            found + i);
        }
        for (size_t i = 0; i < some; i++) write_found(found + i, a, which[start + i]);
    }
    free(memory), free(found);
    return 1;
}

double search_scan(const source_t *s, const search_t *a) {
    size_t *which = malloc((a->n_queries + 1) * sizeof *which);
    uint64_t *limits = malloc((a->n_queries + 1) * sizeof *limits);
    int done = which != NULL && limits != NULL;
    for (size_t i = 0; done && i < a->n_queries; i++) which[i] = i, limits[i] = a->radius;
    done = done && scan_some(s, a, which, limits, a->n_queries);
    free(which), free(limits);
    return done ? (double)a->n_queries * scan_cost(s->n * s->words, a->n_queries) : -1;
}

double search_scan_weighted(const source_t *s, const search_t *a, const int64_t *weights) {
    weights_t *of = malloc(sizeof *of);
    uint64_t *memory = malloc((nearest_size(a->k) + 1) * sizeof *memory);
    const int done = of != NULL && memory != NULL;
    for (size_t i = 0; done && i < a->n_queries; i++) {
        nearest_t found;
        weights_fill(of, weights + i * s->words * 64, s->words);
        nearest_begin(&found, memory, a->k, a->radius);
        scan_groups(s, path.weighted, of, 0, (s->n + LANES - 1) / LANES, &found);
        write_found(&found, a, i);
    }
    free(of), free(memory);
    return done ? (double)a->n_queries * (double)s->n * (double)s->words : -1;
}
