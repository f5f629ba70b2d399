/* Searches by comparing each query with every code, or with every distinct code of a table.

   Input: N codes in groups of eight, and Q queries: codes for Hamming distances, weights for
   weighted ones. Output: the k nearest places of each query, in the order (distance, place). */
#include "kernel.h"

#include <stdlib.h>

/* All queries of a batch read one block of codes before the next block, so the block stays in the
   first-level cache. */
#define BLOCK_BYTES (24 << 10)
/* The nearest so far of all queries of a batch may take this much memory. It limits how many
   queries share one pass over the codes. */
#define NEAREST_BYTES (32 << 20)

/* In a batch of at least MANY_QUERIES, a query costs this share of what it costs alone. */
#define MANY_QUERIES 8
#define SHARE_IN_BATCH 0.25

double scan_cost(size_t n_words, size_t n_queries) {
    return (double)n_words * (n_queries < MANY_QUERIES ? 1 : SHARE_IN_BATCH);
}

/* Offer the codes of some groups at a distance of at least `least`. */
static void scan_from(const source_t *s, near_fn near, const void *query, uint64_t least, size_t g,
                      size_t end, nearest_t *nearest) {
    uint64_t distances[LANES];
    uint8_t hits = 0;
    for (; nearest->bound; g++) {
        /* Places ascend with the codes, so a later code must be strictly nearer than the bound.
           The places of distinct codes do not ascend, so there an equal distance may still be
           among the k nearest. */
        const uint64_t beyond =
            s->runs != NULL ? ((nearest->bound - 1) >> 32) + 1 : nearest->bound >> 32;
        if (beyond <= least) return;
        g = near(s->groups, g, end, s->words, query, least, beyond - 1,
                 s->runs != NULL ? NULL : s->allowed, distances, &hits);
        if (g >= end) return;
        for (unsigned mask = hits; mask; mask &= mask - 1) {
            const unsigned lane = (unsigned)__builtin_ctz(mask);
            const size_t place = LANES * g + lane;
            if (place >= s->n) return;
            if (s->runs == NULL)
                nearest_offer(nearest, KEY(distances[lane], place));
            else
                offer_code(s->runs, place, distances[lane], s->allowed, nearest);
        }
    }
}

void scan_groups(const source_t *s, near_fn near, const void *query, size_t g, size_t end,
                 nearest_t *nearest) {
    const uint64_t least = nearest->floor >> 32;
    if (s->runs == NULL) {
        /* Codes before the place of the floor are below it if they have its distance. */
        const size_t first = (uint32_t)nearest->floor / LANES, stop = first < end ? first : end;
        if (g < stop) {
            scan_from(s, near, query, least + 1, g, stop, nearest);
            g = stop;
        }
    }
    if (g < end) scan_from(s, near, query, least, g, end, nearest);
}

void write_results(nearest_t *nearest, const search_t *a, size_t query) {
    nearest_finish(nearest);
    int64_t *rows = a->out_rows + query * a->k, *distances = a->out_distances + query * a->k;
    for (size_t i = 0; i < nearest->n; i++) {
        rows[i] = a->rows[(uint32_t)nearest->keys[i]];
        distances[i] = (int64_t)(nearest->keys[i] >> 32);
    }
    a->out_counts[query] = (int64_t)nearest->n;
}

int scan_queries(const source_t *s, const search_t *a, const size_t *which, const uint64_t *limits,
                 size_t n) {
    const size_t groups = (s->n + LANES - 1) / LANES, size = nearest_size(a->k);
    size_t batch_size = NEAREST_BYTES / sizeof(uint64_t) / (size ? size : 1);
    batch_size = batch_size < 1 ? 1 : batch_size > n ? n : batch_size;
    const size_t step =
        batch_size == 1 ? groups : BLOCK_BYTES / (LANES * sizeof(uint64_t) * s->words);
    uint64_t *memory = malloc((batch_size * size + 1) * sizeof *memory);
    nearest_t *nearest = malloc((batch_size + 1) * sizeof *nearest);
    if (memory == NULL || nearest == NULL) {
        free(memory), free(nearest);
        return 0;
    }
    for (size_t start = 0; start < n; start += batch_size) {
        const size_t n_batch = n - start < batch_size ? n - start : batch_size;
        for (size_t i = 0; i < n_batch; i++)
            nearest_begin(nearest + i, memory + i * size, a->k, limits[start + i], a->floor);
        for (size_t g = 0; g < groups; g += step) {
            const size_t end = groups - g < step ? groups : g + step;
            for (size_t i = 0; i < n_batch; i++)
                scan_groups(s, path.hamming, a->queries + which[start + i] * s->words, g, end,
                            nearest + i);
        }
        for (size_t i = 0; i < n_batch; i++) write_results(nearest + i, a, which[start + i]);
    }
    free(memory), free(nearest);
    return 1;
}

double search_scan(const source_t *s, const search_t *a) {
    size_t *which = malloc((a->n_queries + 1) * sizeof *which);
    uint64_t *limits = malloc((a->n_queries + 1) * sizeof *limits);
    int is_ok = which != NULL && limits != NULL;
    for (size_t i = 0; is_ok && i < a->n_queries; i++) which[i] = i, limits[i] = a->radius;
    is_ok = is_ok && scan_queries(s, a, which, limits, a->n_queries);
    free(which), free(limits);
    return is_ok ? (double)a->n_queries * scan_cost(s->n * s->words, a->n_queries) : -1;
}

/* ---- weighted distances

   A scan reads bounds of the distances, and computes the distances of a group only if the bound
   of one of its codes is near enough. Where bounds exclude too few groups, as before k codes are
   near or with a large k, some blocks are scanned without them. */

#define WEIGHTED_BLOCK_BYTES (256 << 10)
/* Bounds pay if at most one of so many groups is not excluded. */
#define GROUPS_PER_CHECK 6
#define MAX_WAITS 64
#define FIRST_GROUPS 64
/* The queries of a batch that read each block together. */
#define WEIGHTED_BATCH 16

typedef struct {
    const weights_t *weights;
    size_t n_checks; /* the groups that bounds did not exclude */
} bounded_t;

/* A near_fn whose query is a bounded_t. */
static size_t near_by_bounds(const uint64_t *groups, size_t g, size_t end, size_t words,
                             const void *query, uint64_t least, uint64_t limit,
                             const uint8_t *allowed, uint64_t distances[LANES], uint8_t *hits) {
    bounded_t *bounded = (bounded_t *)query;
    const weights_t *weights = bounded->weights;
    for (; g < end; g++) {
        g = path.bounds(groups, g, end, words, weights, 0, limit / weights->unit, allowed,
                        distances, hits);
        if (g >= end) break;
        bounded->n_checks++;
        if (path.weighted(groups, g, g + 1, words, weights, least, limit, allowed, distances,
                          hits) == g)
            return g;
    }
    return end;
}

void begin_weighted(weighted_scan_t *scan, const int64_t *weights, size_t words) {
    fill_weights(&scan->weights, weights, words);
    /* The first groups give a limit, without which bounds exclude nothing. */
    scan->n_exact = 1;
    scan->n_waits = 0;
}

static size_t block_of(const source_t *s) {
    return WEIGHTED_BLOCK_BYTES / (LANES * sizeof(uint64_t) * s->words);
}

void scan_by_weights(const source_t *s, weighted_scan_t *scan, size_t g, size_t end,
                   nearest_t *nearest) {
    for (size_t stop; g < end; g = stop) {
        const size_t step = g ? block_of(s) : FIRST_GROUPS;
        stop = end - g < step ? end : g + step;
        if (path.bounds == NULL || scan->n_exact) {
            scan_groups(s, path.weighted, &scan->weights, g, stop, nearest);
            if (scan->n_exact) scan->n_exact--;
            continue;
        }
        bounded_t bounded = {&scan->weights, 0};
        scan_groups(s, near_by_bounds, &bounded, g, stop, nearest);
        if (bounded.n_checks * GROUPS_PER_CHECK <= stop - g) {
            scan->n_waits = 0;
        } else {
            scan->n_waits = !scan->n_waits ? 1 : 2 * scan->n_waits;
            if (scan->n_waits > MAX_WAITS) scan->n_waits = MAX_WAITS;
            scan->n_exact = scan->n_waits;
        }
    }
}

double search_scan_weighted(const source_t *s, const search_t *a, const int64_t *weights) {
    const size_t groups = (s->n + LANES - 1) / LANES, size = nearest_size(a->k);
    size_t batch_size = NEAREST_BYTES / sizeof(uint64_t) / (size ? size : 1);
    batch_size = batch_size > WEIGHTED_BATCH ? WEIGHTED_BATCH : batch_size ? batch_size : 1;
    if (batch_size > a->n_queries) batch_size = a->n_queries;
    const size_t step = batch_size == 1 ? groups : block_of(s);
    weighted_scan_t *scans = malloc((batch_size + 1) * sizeof *scans);
    uint64_t *memory = malloc((batch_size * size + 1) * sizeof *memory);
    nearest_t *nearest = malloc((batch_size + 1) * sizeof *nearest);
    const int is_ok = scans != NULL && memory != NULL && nearest != NULL;
    for (size_t start = 0; is_ok && start < a->n_queries; start += batch_size) {
        const size_t left = a->n_queries - start, n = left < batch_size ? left : batch_size;
        for (size_t i = 0; i < n; i++) {
            begin_weighted(scans + i, weights + (start + i) * s->words * 64, s->words);
            nearest_begin(nearest + i, memory + i * size, a->k, a->radius, a->floor);
        }
        for (size_t g = 0; g < groups; g += step) {
            const size_t end = groups - g < step ? groups : g + step;
            for (size_t i = 0; i < n; i++) scan_by_weights(s, scans + i, g, end, nearest + i);
        }
        for (size_t i = 0; i < n; i++) write_results(nearest + i, a, start + i);
    }
    free(scans), free(memory), free(nearest);
    return is_ok ? (double)a->n_queries * (double)s->n * (double)s->words : -1;
}
