/* What the parts of the kernel share.

   A code is `words` numbers of 64 bits, zero bits added. Codes lie in groups of eight, transposed:
   the first words of eight codes, then their second words, so that a register holds one word of
   each. A place is the number of a code, from 0. */
#ifndef HUMMINGBIT_KERNEL_H
#define HUMMINGBIT_KERNEL_H

#include <stddef.h>
#include <stdint.h>

#define LANES 8
#define MAX_WORDS 16
#define MAX_TABLE_BITS 64

/* ---- the k smallest of some keys: distance above place, so that (distance, place) is the order */

typedef struct {
    uint64_t *keys;
    uint64_t *spare; /* as long as keys; only where k is large */
    size_t n, k;
    uint64_t bound; /* what is not below it is not among the k smallest */
} nearest_t;

#define KEY(distance, place) ((uint64_t)(distance) << 32 | (uint32_t)(place))

size_t nearest_size(size_t k);
void nearest_begin(nearest_t *t, uint64_t *memory, size_t k, uint64_t limit);
void nearest_push(nearest_t *t, uint64_t key);
/* Make `bound` as small as what was pushed allows; return whether there are k. */
int nearest_settle(nearest_t *t);
/* Sort what was found; there are t->n of it then. */
void nearest_finish(nearest_t *t);

static inline void nearest_offer(nearest_t *t, uint64_t key) {
    if (key < t->bound) nearest_push(t, key);
}

/* Sort numbers, and with them, unless it is NULL, what belongs to each, stably. */
void radix_sort(uint64_t *keys, uint64_t *spare, uint32_t *with, uint32_t *spare_with, size_t n);

/* ---- distances */

/* Return the first group from g on, before end, of which some code lies within limit, or end. Its
   distances and a mask of those codes are written. Codes whose bit in `allowed` is 0 are passed
   over; it may be NULL. What `query` is depends on the function. */
typedef size_t (*near_fn)(const uint64_t *groups, size_t g, size_t end, size_t words,
                          const void *query, uint64_t limit, const uint8_t *allowed,
                          uint64_t distances[LANES], uint8_t *hits);

/* One way through the processor: by Hamming distance the query is uint64_t[words], by weighted
   distance it is a weights_t. */
typedef struct {
    const char *name;
    near_fn hamming;
    near_fn weighted;
} path_t;

/* What a query's weights make of parts of a code: of bytes, and of four bits at a time. */
typedef struct {
    int32_t bytes[MAX_WORDS * 8][256];
    /* By word, then by four bits of both halves of it: 16 entries for the lower, 16 for the upper. */
    int32_t nibbles[MAX_WORDS][8][2][16];
} weights_t;

void weights_fill(weights_t *t, const int64_t *weights, size_t words);

extern path_t path;                       /* the one that is used */
size_t paths_here(const path_t **found);  /* those that this processor has, fastest first */

/* ---- tables of codes of at most 64 bits */

/* The distinct codes by their hashes; code c is at places[starts[c]] to places[starts[c + 1]]. */
typedef struct {
    unsigned bits;
    unsigned cell_bits;   /* directory: 2^cell_bits + 1 numbers of codes */
    unsigned filter_bits; /* filter: 2^filter_bits bits, 1 where there is a code */
    size_t n_keys, n_places;
    const uint64_t *keys;
    const uint32_t *starts;
    const int32_t *places;
    const uint32_t *directory;
    const uint64_t *filter;
} table_t;

int table_group(uint64_t *keys, size_t n, unsigned bits, int32_t *places, uint32_t *starts,
                int32_t *code_of, size_t *n_keys);
void table_index(const table_t *t, uint32_t *directory, uint64_t *filter);
int64_t table_find(const table_t *t, uint64_t key);

/* A scan reads so many words in the time of one lookup. */
#define WORDS_PER_LOOKUP 25.0

typedef struct {
    uint32_t *items;
    size_t n, room;
} list_t;

/* Add to `found` the numbers of the codes that differ from `key` in exactly r bits; 0 if there is
   no memory for them. */
int table_shell(const table_t *t, uint64_t key, unsigned r, list_t *found);
double shell_size(unsigned bits, unsigned r);

static inline int is_allowed(const uint8_t *allowed, int32_t place) {
    return allowed == NULL || (allowed[place >> 3] >> (place & 7) & 1);
}

/* Offer the places of one code. They ascend, so that the first that is too far ends it. */
static inline void offer_code(const table_t *t, size_t code, uint64_t distance,
                              const uint8_t *allowed, nearest_t *found) {
    for (uint32_t i = t->starts[code]; i < t->starts[code + 1]; i++) {
        const uint64_t key = KEY(distance, t->places[i]);
        if (key >= found->bound) return;
        if (is_allowed(allowed, t->places[i])) nearest_push(found, key);
    }
}

/* ---- searches */

/* What is scanned: codes, or where `runs` is given its distinct codes, each of which has places.
   `allowed` has a bit for each place. */
typedef struct {
    const uint64_t *groups;
    size_t n, words;
    const uint8_t *allowed;
    const table_t *runs;
} source_t;

void scan_groups(const source_t *s, near_fn near, const void *query, size_t g, size_t end,
                 nearest_t *found);

/* What is asked of a search, and where its answers go: k rows and distances for each query. */
typedef struct {
    const uint64_t *queries; /* words of each */
    size_t n_queries, k;
    uint64_t radius;
    const uint8_t *allowed;
    const int64_t *rows;
    int64_t *out_rows, *out_distances, *out_counts;
} search_t;

/* Each returns what it took, counted as for scan_cost; below 0: out of memory. */
double search_scan(const source_t *s, const search_t *a);
double search_table(const table_t *t, const search_t *a);
/* `rest` of both are the other halves, in the order of the places. */
double search_halves(const table_t tables[2], const uint64_t *const rest[2], const source_t *all,
                     const search_t *a);
/* `weights` has one number for each bit of a code, zero bits included, lowest bit first. */
double search_scan_weighted(const source_t *s, const search_t *a, const int64_t *weights);
double search_table_weighted(const table_t *t, const search_t *a, const int64_t *weights);

/* What a scan takes for each query, in words that one for a single query reads in that time. */
double scan_cost(size_t n_words, size_t n_queries);
/* Scan for some of the queries, each from its own limit on; 0 if there is no memory for it. */
int scan_some(const source_t *s, const search_t *a, const size_t *which, const uint64_t *limits,
              size_t n);
void write_found(nearest_t *found, const search_t *a, size_t query);

/* ---- counts */

/* Add to counts[q * n_distances + d] the sizes of the codes at distance d from query q. */
void count_distances(const source_t *s, const int32_t *sizes, const uint64_t *queries,
                     size_t n_queries, size_t n_distances, int64_t *counts);

/* ---- pairs */

typedef struct {
    const uint64_t *words; /* by word, then by code */
    const uint64_t *keys;  /* of each code; equal ones lie side by side */
    size_t n, n_words;
    uint64_t radius;
} pairs_t;

/* Find the pairs of equal keys within the radius from (*i, *j) on, as many as there is room for
   and as some milliseconds find; (*i, *j) is where to go on, *i == n at the end. */
size_t find_pairs(const pairs_t *p, size_t *i, size_t *j, size_t room, int64_t *first,
                  int64_t *second, uint16_t *distances);

#endif
