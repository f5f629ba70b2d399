/* Searches by comparing each query with every code, or with every distinct code of a table.

   Input: N codes in groups of eight, and Q queries: codes for Hamming distances, weights for
   weighted ones. Output: the k nearest places of each query, in the order (distance, place). */
#include "kernel.h"

#include <stdlib.h>
#include <string.h>

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

   A scan reads bounds of the distances, and computes the distances of the few codes whose bounds are
   near enough. */

/* Slices stay in the first-level cache while the queries of a batch read them; so many queries share
   what it takes to make them. */
#define SLICES_BYTES (16 << 10)
#define WEIGHTED_BATCH 64
#define CACHE_LINE 64
/* If bounds exclude less, the distances of whole groups take less time. */
#define MOST_NEAR (SLICED / 4)

void begin_weighted(weighted_scan_t *scan, const int64_t *weights, size_t words) {
    fill_weights(&scan->weights, weights, words);
    scan->reach = 0;
}

/* Return how many units a limit has. Once it is much less than before, the bounds need not reach as far,
   and a smaller unit is more exact. Without a limit, five eighths of the weights of a word are more than
   uniform codes have. */
static uint64_t units_of(weighted_scan_t *scan, size_t words, uint64_t limit) {
    if (scan->reach && limit == scan->limit) return scan->units;
    const uint64_t most = scan->weights.most_of_word * 5 / 8 + 1;
    const uint64_t reach = limit < most ? limit + 1 : most;
    if (!scan->reach || 4 * reach < 3 * scan->reach) {
        fill_bounds(&scan->weights, words, reach);
        scan->reach = reach;
    }
    scan->limit = limit;
    return scan->units = limit / scan->weights.unit;
}

/* Offer the codes of SLICED_GROUPS groups from g on. `slice` has them as a slice, or is NULL; `groups`
   has them as groups, behind which it may be read. */
static void scan_slice(const source_t *s, weighted_scan_t *scan, const uint64_t *groups,
                       const uint8_t *slice, size_t g, nearest_t *nearest) {
    const weights_t *weights = &scan->weights;
    if (nearest->bound <= nearest->floor) return;
    /* As in scan_from, a later code must be strictly nearer if places ascend with the codes. */
    const uint64_t beyond =
        s->runs != NULL ? ((nearest->bound - 1) >> 32) + 1 : nearest->bound >> 32;
    if (!beyond) return;
    uint64_t near[SLICED / 64] = {UINT64_MAX, UINT64_MAX};
    if (beyond <= weights->total) {
        const uint64_t units = units_of(scan, s->words, beyond - 1);
        if (slice == NULL ? !path.near_groups(groups, s->words, weights, units, near)
                          : !path.near_slice(slice, s->words, weights, units, near))
            return;
    }
    if (ones(near[0]) + ones(near[1]) > MOST_NEAR) {
        const size_t all = (s->n + LANES - 1) / LANES;
        const size_t end = all - g < SLICED_GROUPS ? all : g + SLICED_GROUPS;
        scan_groups(s, path.weighted, weights, g, end, nearest);
        return;
    }
    for (size_t i = 0; i < SLICED / 64; i++)
        for (uint64_t mask = near[i]; mask; mask &= mask - 1) {
            const size_t at = 64 * i + (size_t)__builtin_ctzll(mask), place = LANES * g + at;
            if (place >= s->n) return;
            if (s->runs == NULL && !is_allowed(s->allowed, (int32_t)place)) continue;
            const uint64_t *code = groups + at / LANES * LANES * s->words + at % LANES;
            const uint64_t distance = weighted_distance(weights, code, s->words);
            if (s->runs == NULL)
                nearest_offer(nearest, KEY(distance, place));
            else
                offer_code(s->runs, place, distance, s->allowed, nearest);
        }
}

int scan_by_weights(const source_t *s, weighted_scan_t *scans, size_t n, nearest_t *nearest) {
    const size_t groups = (s->n + LANES - 1) / LANES;
    if (path.near_groups == NULL) {
        for (size_t i = 0; i < n; i++)
            scan_groups(s, path.weighted, &scans[i].weights, 0, groups, nearest + i);
        return 1;
    }
    const size_t size = SLICE_BYTES * s->words, most = size < SLICES_BYTES ? SLICES_BYTES / size : 1;
    /* The last groups, if they are too few, are copied and followed by zeros. */
    const size_t padded_size = LANES * SLICED_GROUPS * sizeof(uint64_t) * s->words;
    uint8_t *memory = malloc(CACHE_LINE + padded_size + most * size);
    if (memory == NULL) return 0;
    uint8_t *lines = memory + (CACHE_LINE - (uintptr_t)memory % CACHE_LINE);
    uint64_t *padded = (uint64_t *)lines;
    uint8_t *slices = lines + padded_size;
    for (size_t g = 0; g < groups; g += most * SLICED_GROUPS) {
        const uint64_t *at[SLICES_BYTES / SLICE_BYTES];
        size_t made = 0;
        for (size_t i = g; made < most && i < groups; i += SLICED_GROUPS, made++) {
            at[made] = s->groups + i * LANES * s->words;
            if (groups - i < SLICED_GROUPS) {
                memset(padded, 0, padded_size);
                memcpy(padded, at[made], (groups - i) * LANES * s->words * sizeof *padded);
                at[made] = padded;
            }
            if (n > 1) path.slice(at[made], s->words, slices + made * size);
        }
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < made; j++)
                scan_slice(s, scans + i, at[j], n > 1 ? slices + j * size : NULL,
                           g + j * SLICED_GROUPS, nearest + i);
    }
    free(memory);
    return 1;
}

double search_scan_weighted(const source_t *s, const search_t *a, const int64_t *weights) {
    const size_t size = nearest_size(a->k);
    size_t batch_size = NEAREST_BYTES / sizeof(uint64_t) / (size ? size : 1);
    batch_size = batch_size > WEIGHTED_BATCH ? WEIGHTED_BATCH : batch_size ? batch_size : 1;
    if (batch_size > a->n_queries) batch_size = a->n_queries;
    weighted_scan_t *scans = malloc((batch_size + 1) * sizeof *scans);
    uint64_t *memory = malloc((batch_size * size + 1) * sizeof *memory);
    nearest_t *nearest = malloc((batch_size + 1) * sizeof *nearest);
    int is_ok = scans != NULL && memory != NULL && nearest != NULL;
    for (size_t start = 0; is_ok && start < a->n_queries; start += batch_size) {
        const size_t left = a->n_queries - start, n = left < batch_size ? left : batch_size;
        for (size_t i = 0; i < n; i++) {
            begin_weighted(scans + i, weights + (start + i) * s->words * 64, s->words);
            nearest_begin(nearest + i, memory + i * size, a->k, a->radius, a->floor);
        }
        is_ok = scan_by_weights(s, scans, n, nearest);
        for (size_t i = 0; is_ok && i < n; i++) write_results(nearest + i, a, start + i);
    }
    free(scans), free(memory), free(nearest);
    return is_ok ? (double)a->n_queries * (double)s->n * (double)s->words : -1;
}
