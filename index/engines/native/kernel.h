/* Types and functions that the files of the kernel share.

   A code is `words` little-endian numbers of 64 bits, filled up with zero bits. Codes lie in
   groups of eight, uint64[words, 8]: the first words of eight codes, then their second words,
   and so on, so a register holds one word of each. A place is the number of a code, counted
   from 0. `rows` maps places to the rows that a search returns, and ascends with them. Results
   have the order (distance, place).

   A function that allocates memory says what it returns when memory runs out; it never raises.

       distances.c  distances of eight codes at a time, for each instruction set
       nearest.c    the k smallest keys; sorting
       scan.c       search over all codes, or over all distinct codes
       table.c      search by looking up the codes around a query
       halves.c     search by looking up both halves of codes of two words
       weighted.c   search by weighted distance, by looking up codes; weights as whole numbers
       counts.c     the number of documents at each distance
       pairs.c      pairs of codes within a radius
       words.c      scores by words; the best by words, and by words and codes
       module.c     the functions that Python calls; arguments.h reads their arguments */
#ifndef HUMMINGBIT_KERNEL_H
#define HUMMINGBIT_KERNEL_H

#include <stddef.h>
#include <stdint.h>

#define LANES 8
#define MAX_WORDS 64
#define MAX_TABLE_BITS 64
#define INLINE static inline __attribute__((always_inline))

/* ---- the k smallest keys; a key holds the distance above the place, so keys sort as results
   do */

typedef struct {
    uint64_t *keys;
    uint64_t *spare; /* as long as `keys`; used only if k is large */
    size_t n, k;
    uint64_t bound; /* a key that is not below it is not among the k smallest */
    uint64_t floor; /* a key below it is not collected */
} nearest_t;

#define KEY(distance, place) ((uint64_t)(distance) << 32 | (uint32_t)(place))

/* Return how many numbers of memory nearest_begin needs. */
size_t nearest_size(size_t k);
/* Begin to collect keys from `floor` on with a distance of at most `limit`. */
void nearest_begin(nearest_t *t, uint64_t *memory, size_t k, uint64_t limit, uint64_t floor);
/* Add a key that is below the bound, unless it is below the floor. */
void nearest_push(nearest_t *t, uint64_t key);
/* Lower `bound` as far as the keys allow; return whether there are k of them. */
int nearest_tighten(nearest_t *t);
/* Sort the keys; the first t->n of t->keys are the result. */
void nearest_finish(nearest_t *t);

static inline void nearest_offer(nearest_t *t, uint64_t key) {
    if (key < t->bound) nearest_push(t, key);
}

/* Sort keys stably, and the value of each with it unless `values` is NULL. The spare arrays are
   as long as those that are sorted. */
void radix_sort(uint64_t *keys, uint64_t *spare, uint32_t *values, uint32_t *spare_values,
                size_t n);

/* ---- distances */

/* Return the number of ones (Warren, "Hacker's Delight", 2nd edition, section 5-1). */
INLINE unsigned ones(uint64_t x) {
    x -= x >> 1 & 0x5555555555555555u;
    x = (x & 0x3333333333333333u) + (x >> 2 & 0x3333333333333333u);
    x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0fu;
    return (unsigned)(x * 0x0101010101010101u >> 56);
}

/* Return the first group from g on and before end that has a code at a distance from `least` to
   `limit`, or end if there is none. Write its eight distances and a mask of those codes. `least`
   must not exceed `limit`. A code whose bit in `allowed` is 0 is passed over; `allowed` may be
   NULL. The type of `query` depends on the function: uint64_t[words] for Hamming distances,
   weights_t for weighted ones. */
typedef size_t (*near_fn)(const uint64_t *groups, size_t g, size_t end, size_t words,
                          const void *query, uint64_t least, uint64_t limit,
                          const uint8_t *allowed, uint64_t distances[LANES], uint8_t *hits);

/* Add the int32[n, LANES] `sizes` of the codes of n groups to the sums of their Hamming distances
   from a query: the sums of distance d are sums[d][0] to sums[d][N_SUMS - 1]. */
#define N_SUMS 4
typedef void count_fn(const uint64_t *groups, size_t n, size_t words, const uint64_t *query,
                      const int32_t *sizes, int64_t (*sums)[N_SUMS]);

/* Weighted distances of parts of a code from one query. */
typedef struct {
    /* For each byte. */
    int32_t bytes[MAX_WORDS * 8][256];
    /* For each word and each four bits of its halves: 16 entries for the lower half, 16 for the
       upper. */
    int32_t nibbles[MAX_WORDS][8][2][16];
    /* A bound is the sum of the entries for the lower and for the upper four bits of each byte, in
       multiples of `unit`: the distances of these bits, rounded down. */
    uint64_t unit;
    uint8_t rounded[MAX_WORDS][2][8][16];
    uint64_t total, most_of_word; /* the sums of the absolute weights of all words and of one */
} weights_t;

/* Bounds are computed of SLICED codes at a time, those of SLICED_GROUPS groups. A slice holds them byte by
   byte: for each word, uint8[2, 8, SLICED] has the lower, and then the upper, four bits of each byte. */
#define SLICED 128
#define SLICED_GROUPS (SLICED / LANES)
#define SLICE_BYTES (16 * SLICED)

/* Return whether the bounds of some of the codes are at most `limit` units, and if so write a mask of
   these codes. The bounds may count a word as 255 units if it has more. */
typedef int near_groups_fn(const uint64_t *groups, size_t words, const weights_t *query,
                           uint64_t limit, uint64_t near[SLICED / 64]);
typedef int near_slice_fn(const uint8_t *slice, size_t words, const weights_t *query,
                          uint64_t limit, uint64_t near[SLICED / 64]);
typedef void slice_fn(const uint64_t *groups, size_t words, uint8_t *slice);

/* The functions for one instruction set. */
typedef struct {
    const char *name;
    near_fn hamming;
    count_fn *count;
    near_fn weighted;
    /* Lower bounds of weighted distances, of groups for a single query and of slices for several; or
       NULL. */
    near_groups_fn *near_groups;
    slice_fn *slice;
    near_slice_fn *near_slice;
} path_t;

/* Fill the tables from int64[words * 64] weights, one for each bit, the lowest bit first. */
void fill_weights(weights_t *t, const int64_t *weights, size_t words);
/* Fill the tables of the bounds. Their unit is such that 255 units are at least `reach`. */
void fill_bounds(weights_t *t, size_t words, uint64_t reach);
/* Return the weighted distance of a code, whose words lie LANES numbers apart. */
uint64_t weighted_distance(const weights_t *t, const uint64_t *code, size_t words);

/* The path in use. */
extern path_t path;
/* Return the number of paths that this processor supports, and point to them, the fastest
   first. */
size_t supported_paths(const path_t **paths);

/* ---- tables of codes of at most 64 bits */

/* The distinct codes, ordered by hash. Code c has the places places[starts[c]] to
   places[starts[c + 1] - 1]. */
typedef struct {
    unsigned bits;
    /* The directory has 2^cell_bits + 1 items: where the codes begin whose hashes begin with each
       number of cell_bits bits. */
    unsigned cell_bits;
    /* The filter has 2^filter_bits bits: whether the hash of some code begins with each number of
       filter_bits bits. */
    unsigned filter_bits;
    size_t n_keys, n_places;
    const uint64_t *keys;
    const uint32_t *starts;
    const int32_t *places;
    const uint32_t *directory;
    const uint64_t *filter;
} table_t;

/* Group n keys of `bits` bits: the first *n_keys keys become the distinct ones, ordered by
   hash, with places[n] and starts[*n_keys + 1] as in table_t. code_of[n], unless NULL, becomes
   the code of each place. Return 0 if memory ran out. */
int table_group(uint64_t *keys, size_t n, unsigned bits, int32_t *places, uint32_t *starts,
                int32_t *code_of, size_t *n_keys);
/* Fill the directory and the filter, which begin as zeros. */
void table_index(const table_t *t, uint32_t *directory, uint64_t *filter);
/* Return the number of a code, or -1 if the table does not hold it. */
int64_t table_find(const table_t *t, uint64_t key);

/* A lookup takes as long as reading this many words in a scan. */
#define WORDS_PER_LOOKUP 25.0

typedef struct {
    uint32_t *items;
    size_t n, room;
} list_t;

/* Add to `codes` the numbers of the codes that differ from `key` in exactly r bits; return 0 if
   memory ran out. */
int table_shell(const table_t *t, uint64_t key, unsigned r, list_t *codes);
/* Return how many codes of so many bits differ from a code in exactly r of them. */
double shell_size(unsigned bits, unsigned r);

static inline int is_allowed(const uint8_t *allowed, int32_t place) {
    return allowed == NULL || (allowed[place >> 3] >> (place & 7) & 1);
}

/* Offer the places of one code. They ascend, so those below the floor come first, and none after
   the first refused one can be among the k nearest. */
static inline void offer_code(const table_t *t, size_t code, uint64_t distance,
                              const uint8_t *allowed, nearest_t *nearest) {
    const uint32_t end = t->starts[code + 1];
    uint32_t i = t->starts[code];
    if (KEY(distance, 0) < nearest->floor)
        for (uint32_t high = end; i < high;) {
            const uint32_t middle = i + (high - i) / 2;
            if (KEY(distance, t->places[middle]) < nearest->floor)
                i = middle + 1;
            else
                high = middle;
        }
    for (; i < end; i++) {
        const uint64_t key = KEY(distance, t->places[i]);
        if (key >= nearest->bound) return;
        if (is_allowed(allowed, t->places[i])) nearest_push(nearest, key);
    }
}

/* ---- searches */

/* The codes of a scan. With `runs` they are the distinct codes of that table, each of which has
   places; otherwise a code is at the place of its number. `allowed` has a bit for each place. */
typedef struct {
    const uint64_t *groups;
    size_t n, words;
    const uint8_t *allowed;
    const table_t *runs;
} source_t;

/* Offer the codes of the groups from g on and before end to the nearest so far. */
void scan_groups(const source_t *s, near_fn near, const void *query, size_t g, size_t end,
                 nearest_t *nearest);

/* The queries of a search and the arrays for its results. */
typedef struct {
    const uint64_t *queries; /* uint64[n_queries, words] */
    size_t n_queries, k;
    uint64_t radius;         /* results lie at most this far away */
    uint64_t floor;          /* the keys of results are not below it */
    const uint8_t *allowed;  /* a bit for each place, or NULL */
    const int64_t *rows;     /* the row of each place */
    int64_t *out_rows;       /* int64[n_queries, k] */
    int64_t *out_distances;  /* int64[n_queries, k] */
    int64_t *out_counts;     /* int64[n_queries]: the number of results */
} search_t;

/* Each of these returns its cost in the unit of scan_cost, or a negative number if memory ran
   out. */
double search_scan(const source_t *s, const search_t *a);
double search_table(const table_t *t, const search_t *a);
/* `tables` hold the first and the second halves of the codes `all`; `rest` holds the other half of
   each code, in the order of the places of the table. */
double search_halves(const table_t tables[2], const uint64_t *const rest[2], const source_t *all,
                     const search_t *a);
/* A scan for one query by weighted distance. */
typedef struct {
    weights_t weights;
    uint64_t reach;        /* what 255 units of the bounds reach; 0 before there are bounds */
    uint64_t limit, units; /* the last limit, and how many units it has */
} weighted_scan_t;
void begin_weighted(weighted_scan_t *scan, const int64_t *weights, size_t words);
/* Offer all codes to the nearest to each of n queries so far; return 0 if memory ran out. */
int scan_by_weights(const source_t *s, weighted_scan_t *scans, size_t n, nearest_t *nearest);
/* `weights` is int64[n_queries, words * 64]: one for each bit of a code and 0 for the bits that
   fill it up, the lowest bit first. The radius bounds the weighted distance. */
double search_scan_weighted(const source_t *s, const search_t *a, const int64_t *weights);
double search_table_weighted(const table_t *t, const search_t *a, const int64_t *weights);

/* ---- weights of bits, in the order of the bits of a packed code */

/* Write weights as whole numbers, int64[n_queries, n_bits], and the sum of their absolute values,
   int64[n_queries]. Each query's are multiplied by the largest power of two that keeps them below
   2^max_bits, and rounded, halves to even. Return whether all are finite. */
int round_weights(const float *weights, size_t n_queries, size_t n_bits, unsigned max_bits,
                  int64_t *whole, int64_t *totals);
/* Write weights for the words of codes, int64[n_queries, 64 * words], lowest bit first: those of
   the byte i of a code go to byte positions[i], and all other bits weigh 0. Return whether all
   weights are within +-most. */
int place_weights(const int64_t *weights, size_t n_queries, const int64_t *positions,
                  size_t n_bytes, size_t words, int64_t most, int64_t *placed);

/* Return the cost of a scan for each query, as the number of words that a scan for one query
   reads in that time. */
double scan_cost(size_t n_words, size_t n_queries);
/* Scan for the n queries whose numbers are in `which`, each within its own limit, and write their
   results. Return 0 if memory ran out. */
int scan_queries(const source_t *s, const search_t *a, const size_t *which, const uint64_t *limits,
                 size_t n);
/* Write the results of one query. */
void write_results(nearest_t *nearest, const search_t *a, size_t query);

/* ---- codes of rows */

/* Return the first position from `low` to `high` whose number is at least `least`, or `high`. */
static inline size_t lower_bound(const int64_t *numbers, size_t low, size_t high, int64_t least) {
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (numbers[middle] < least)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The rows of an index, ascending, and the code of each: code_of holds the numbers of distinct
   codes, of one word, or is NULL for codes in groups. */
typedef struct {
    size_t n, words;
    const uint64_t *codes;
    const int32_t *code_of;
    const int64_t *rows;
} coded_t;

/* Write the codes of m rows, uint64[m, words], or their Hamming distances from a query. Return 0 if
   the index does not hold a row. */
int words_of_rows(const coded_t *c, const int64_t *rows, size_t m, uint64_t *words);
int distances_of_rows(const coded_t *c, const int64_t *rows, size_t m, const uint64_t *query,
                      int64_t *distances);

/* ---- counts */

/* Add to counts[q * n_distances + d] the sizes of all codes at distance d from query q. */
void count_distances(const source_t *s, const int32_t *sizes, const uint64_t *queries,
                     size_t n_queries, size_t n_distances, int64_t *counts);

/* ---- pairs */

typedef struct {
    const uint64_t *words; /* uint64[n_words, n], and LANES more that may be read */
    const uint64_t *keys;  /* uint64[n]; equal keys lie side by side */
    size_t n, n_words;
    uint64_t radius;
} pairs_t;

/* Write the pairs (first, second) of codes with equal keys within the radius, with their
   distances, in the order (first, second), from the pair (*i, *j) on. Return their number. The
   call ends after some milliseconds or before there is no room; (*i, *j) is then the pair to
   continue from, and *i == n at the end. */
size_t find_pairs(const pairs_t *p, size_t *i, size_t *j, size_t room, int64_t *first,
                  int64_t *second, uint16_t *distances);

/* ---- scores by words */

/* int32[n], or int64[n] if `is_long`. */
typedef struct {
    void *scores;
    size_t n;
    int is_long;
} scores_t;

/* The postings of the term terms[i] are those from starts[i] to starts[i + 1]. */
typedef struct {
    size_t n_documents, n_terms, n_postings;
    const int64_t *terms, *starts;
    const int32_t *positions;
} postings_t;

/* The number of the impact of each posting, of `width` bytes, and the saturations by number. */
typedef struct {
    const void *of_postings;
    size_t width, n;
    const double *saturations;
} impacts_t;

/* The weights in units. Terms with equal numbers in `words` follow one another and stand for one
   word. */
typedef struct {
    size_t n;
    const int64_t *terms, *repeats;
    const double *weights;
    const int64_t *words;
} query_terms_t;

typedef struct {
    double score;
    int64_t row;
} scored_t;

/* The scores whose highest is kept. */
#define SCORES_AT_ONCE 64

/* A query by words and codes. The code of document i is that at places[i], or at i; code_of holds
   the numbers of distinct codes, of one word, or is NULL for codes in groups. Seeds are the nearest
   by codes, with their weighted distances. The first rows are those of some of the best by words.
   `highest` is that of best_by_words, or NULL. `allowed` tells which documents are offered, beside
   the seeds; NULL means all. */
typedef struct {
    const int64_t *rows;
    int has_gaps; /* whether the rows do not follow one another */
    const uint8_t *allowed;
    const int32_t *places, *code_of;
    size_t n_codes, words;
    const uint64_t *codes;
    const int64_t *weights;
    int64_t total;
    double words_unit, codes_mean, codes_deviation, weight;
    int only_matches;
    size_t n_seeds;
    const int64_t *seed_rows, *seed_distances;
    size_t n_first;
    const int64_t *first_rows;
    const int64_t *highest;
} fusion_t;

/* Return 0 if a posting is out of bounds, and -1 if memory ran out. Of the terms of a word, the one
   with the largest part counts. */
int add_terms(const postings_t *p, const impacts_t *impacts, const query_terms_t *query,
              const scores_t *s);
/* Write the k best scores above 0 of live documents, or fewer, and their positions; return their
   number. `live` may be NULL. `highest` receives the highest of each SCORES_AT_ONCE scores. */
size_t best_by_words(const scores_t *s, const uint8_t *live, int64_t *highest, size_t k,
                     scored_t *entries);
/* Write the k best live documents for at most TERMS_AT_ONCE terms, as scores and positions, and their
   number. Return 0 if a posting is out of bounds, -1 if memory ran out. */
#define TERMS_AT_ONCE 64
int best_by_terms(const postings_t *p, const impacts_t *impacts, const query_terms_t *query,
                  const uint8_t *live, size_t k, scored_t *entries, size_t *n);
/* Write the k best documents and their number; return 0 if memory ran out. */
int best_by_both(const fusion_t *f, const scores_t *s, size_t k, scored_t *entries, size_t *n);

/* ---- the distinct words of texts */

/* Texts as the numbers of their words and of other forms, and the distinct ones, each with a line feed
   behind it, in the order of their first place. It begins as zeros but for the number of texts. */
typedef struct {
    size_t n_texts;
    uint8_t *strings;
    size_t *ends; /* where each distinct string ends, with its line feed */
    int32_t *numbers;
    size_t n_bytes, n_strings, n_numbers;
    size_t strings_room, ends_room, numbers_room;
    uint64_t *cells;
    size_t n_cells;
    int has_failed; /* memory ran out */
} split_texts_t;

/* Split ASCII texts, each with a boundary behind it. Write how many words each has, and how many of
   its numbers there are with those of other forms, which follow the words; return 0 if there are not
   `n_texts`, or if memory ran out. */
int split_texts(split_texts_t *s, const uint8_t *joined, size_t n_bytes, uint8_t boundary,
                int with_forms, int64_t *lengths, int64_t *totals);
void free_split_texts(split_texts_t *s);

/* ---- words that are spelt alike */

#define MOST_CHARACTERS 64
#define MOST_EDITS 2

/* Strings in UTF-8; string i ends one byte before starts[i + 1]. */
typedef struct {
    size_t n, n_bytes;
    const uint8_t *text;
    const int64_t *starts; /* n + 1 */
} strings_t;

/* Write the positions of the strings within so many edits of a word of at most MOST_CHARACTERS, in
   ascending order, and return how many there are; SIZE_MAX means that a start is out of bounds.
   `positions` has room for all strings. */
size_t near_strings(const strings_t *s, const uint8_t *word, size_t n_bytes, size_t edits,
                    int32_t *positions);

/* ---- moments of codes */

/* Write the sum of the scores of all codes, and the sum of their squares in two parts, the high one
   in units of 2^64. `products` is symmetric. No number in it or in `sums` reaches 2^31, nor does
   the sum of the absolute weights. */
void moments_of_scores(size_t n_bits, const int64_t *sums, const int64_t *products,
                       const int64_t *weights, int64_t *total, int64_t *high, uint64_t *low);

/* Write in how many codes two bits differ, for each pair. The columns are those of the bits, each with
   the bit of every code in n_words words. */
void count_differing(size_t n_bits, size_t n_words, const uint64_t *columns, int64_t *differing);

/* ---- ascending lists */

/* Write the positions of the documents that have all terms; return how many. `positions` has `room`
   for those of the rarest term. SIZE_MAX means that a list is out of bounds. */
size_t with_all_terms(const postings_t *p, const int64_t *terms, size_t n_terms, size_t room,
                      int32_t *positions);

#endif
