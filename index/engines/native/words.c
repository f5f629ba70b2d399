/* Scores by words, and the best documents by words and by words and codes together.

   The formulas are those of index/lexical.py and index/rankings.py. Scores by words are whole
   numbers, and every other number is computed by the operations of the Python code in the same
   order, so both give the same bits. Products and sums must not be fused (-ffp-contract=off).
   Posting lists can come from a file, so every position in them is checked. */
#include "kernel.h"

#include <stdlib.h>
#include <string.h>
#ifdef __linux__
#include <sys/mman.h>
#endif

/* The documents that are scored at a time. */
#define CANDIDATES_AT_ONCE 256
/* The postings that are read at a time. */
#define POSTINGS_AT_ONCE 512

/* Round a number of less than 2^51 to a whole number, ties to even, as rint() does: beside this
   number, a double has no digits after the point, and its last bits are the whole number. */
INLINE int64_t rounded(double x) {
    const double shift = 0x1.8p52, shifted = x + shift;
    int64_t bits, of_shift;
    memcpy(&bits, &shifted, sizeof bits), memcpy(&of_shift, &shift, sizeof of_shift);
    return bits - of_shift;
}

INLINE int64_t score_at(const scores_t *s, size_t i) {
    return s->is_long ? ((const int64_t *)s->scores)[i] : ((const int32_t *)s->scores)[i];
}

/* Return the first position from `at` to `end` whose number is at least `least`, or `end`. It is
   mostly near, so the steps to it begin small and double. */
INLINE size_t next_at_least(const int32_t *numbers, size_t at, size_t end, int32_t least) {
    size_t step = 1, low = at, high;
    while (low + step < end && numbers[low + step] < least) low += step, step *= 2;
    high = low + step < end ? low + step : end;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (numbers[middle] < least)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* ---- what the terms of a query add to scores */

/* Find the postings of a term; return 0 if they are not within the lists. */
static int find_postings(const postings_t *p, int64_t term, size_t *begin, size_t *end) {
    const size_t at = lower_bound(p->terms, 0, p->n_terms, term);
    *begin = *end = 0;
    if (at == p->n_terms || p->terms[at] != term) return 1;
    *begin = (size_t)p->starts[at], *end = (size_t)p->starts[at + 1];
    return *begin <= *end && *end <= p->n_postings;
}

INLINE size_t impact_at(const impacts_t *impacts, size_t i) {
    if (impacts->width == 1) return ((const uint8_t *)impacts->of_postings)[i];
    if (impacts->width == 2) return ((const uint16_t *)impacts->of_postings)[i];
    return ((const uint32_t *)impacts->of_postings)[i];
}

/* Tell whether n numbers are below a bound: all at once, so that loops over them need no branch,
   which takes two thirds of the time. */
INLINE int are_below(const uint32_t *numbers, size_t n, size_t bound) {
    uint32_t highest = 0;
    for (size_t i = 0; i < n; i++) highest = numbers[i] > highest ? numbers[i] : highest;
    return !n || highest < bound;
}

/* Write what a term adds by n postings; return 0 if an impact is unknown. */
static int find_parts(const impacts_t *impacts, double weight, size_t at, size_t n,
                      int64_t *parts) {
    uint32_t numbers[POSTINGS_AT_ONCE];
    if (impacts->width == 2)
        for (size_t i = 0; i < n; i++)
            numbers[i] = ((const uint16_t *)impacts->of_postings)[at + i];
    else
        for (size_t i = 0; i < n; i++) numbers[i] = (uint32_t)impact_at(impacts, at + i);
    if (!are_below(numbers, n, impacts->n)) return 0;
    for (size_t i = 0; i < n; i++) parts[i] = rounded(weight * impacts->saturations[numbers[i]]);
    return 1;
}

/* Turn the parts of n postings of one of several terms into what they exceed the largest part so far
   of each document, which is kept. */
INLINE void exceed_largest(const postings_t *p, size_t at, size_t n, int64_t *parts,
                           int32_t *largest) {
    const uint32_t *positions = (const uint32_t *)p->positions + at;
    for (size_t i = 0; i < n; i++) {
        const int64_t before = largest[positions[i]];
        const int64_t after = parts[i] > before ? parts[i] : before;
        largest[positions[i]] = (int32_t)after;
        parts[i] = after - before;
    }
}

/* Add the parts of a term. If it is one of several of its word, `largest` is not NULL. */
static int add_term(const postings_t *p, const impacts_t *impacts, const query_terms_t *query,
                    size_t t, const scores_t *s, int32_t *largest) {
    int64_t parts[POSTINGS_AT_ONCE];
    const size_t bound = p->n_documents < s->n ? p->n_documents : s->n;
    const int64_t repeats = query->repeats[t];
    size_t begin, end;
    if (!find_postings(p, query->terms[t], &begin, &end)) return 0;
    for (size_t at = begin; at < end; at += POSTINGS_AT_ONCE) {
        const size_t n = end - at < POSTINGS_AT_ONCE ? end - at : POSTINGS_AT_ONCE;
        const uint32_t *positions = (const uint32_t *)p->positions + at;
        if (!are_below(positions, n, bound)) return 0;
        if (!find_parts(impacts, query->weights[t], at, n, parts)) return 0;
        if (largest != NULL) exceed_largest(p, at, n, parts, largest);
        if (s->is_long)
            for (size_t i = 0; i < n; i++)
                ((int64_t *)s->scores)[positions[i]] += parts[i] * repeats;
        else
            for (size_t i = 0; i < n; i++)
                ((int32_t *)s->scores)[positions[i]] += (int32_t)(parts[i] * repeats);
    }
    return 1;
}

/* Zeros for one query, a number for each document. Where they are many, malloc asks the system for them
   each time, and getting small pages takes longer than the search (among ten million documents, 29 ms
   in all instead of 11). */
#define MAPPED_BYTES ((size_t)32 << 20)

static void *zeros(size_t bytes) {
#ifdef __linux__
    if (bytes >= MAPPED_BYTES) {
        void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) return NULL;
        madvise(memory, bytes, MADV_HUGEPAGE);
        return memory;
    }
#endif
    return calloc(bytes, 1);
}

static void free_zeros(void *memory, size_t bytes) {
#ifdef __linux__
    if (bytes >= MAPPED_BYTES) {
        munmap(memory, bytes);
        return;
    }
#endif
    (void)bytes;
    free(memory);
}

/* Forget the largest parts of the documents that have a term. */
static void forget_largest(const postings_t *p, int64_t term, int32_t *largest) {
    size_t begin, end;
    find_postings(p, term, &begin, &end);
    for (size_t at = begin; at < end; at++) largest[(uint32_t)p->positions[at]] = 0;
}

int add_terms(const postings_t *p, const impacts_t *impacts, const query_terms_t *query,
              const scores_t *s) {
    const size_t bytes = (p->n_documents + 1) * sizeof(int32_t);
    int32_t *largest = NULL;
    int is_ok = 1;
    for (size_t first = 0, end; is_ok == 1 && first < query->n; first = end) {
        for (end = first + 1; end < query->n; end++)
            if (query->words[end] != query->words[first]) break;
        if (end - first > 1 && largest == NULL) {
            largest = zeros(bytes);
            if (largest == NULL) return -1;
        }
        int32_t *of_word = end - first > 1 ? largest : NULL;
        for (size_t t = first; is_ok == 1 && t < end; t++)
            is_ok = add_term(p, impacts, query, t, s, of_word);
        for (size_t t = first; is_ok == 1 && of_word != NULL && end < query->n && t < end; t++)
            forget_largest(p, query->terms[t], largest);
    }
    if (largest != NULL) free_zeros(largest, bytes);
    return is_ok;
}

/* ---- the best of many scores */

/* A heap whose first entry is the worst: the one with the lowest score, of these the last row. */
typedef struct {
    scored_t *entries;
    size_t n, k;
} best_t;

static int is_worse(scored_t one, scored_t other) {
    return one.score < other.score || (one.score == other.score && one.row > other.row);
}

static void sift_down(scored_t *entries, size_t n, scored_t entry) {
    size_t i = 0, child;
    while ((child = 2 * i + 1) < n) {
        child += child + 1 < n && is_worse(entries[child + 1], entries[child]);
        if (!is_worse(entries[child], entry)) break;
        entries[i] = entries[child];
        i = child;
    }
    entries[i] = entry;
}

static void offer_best(best_t *best, scored_t entry) {
    if (best->n == best->k) {
        if (is_worse(best->entries[0], entry)) sift_down(best->entries, best->n, entry);
        return;
    }
    size_t i = best->n++;
    while (i && is_worse(entry, best->entries[(i - 1) / 2])) {
        best->entries[i] = best->entries[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    best->entries[i] = entry;
}

/* Sort the entries, the best first. */
static void sort_best(best_t *best) {
    for (size_t n = best->n; n > 1; n--) {
        const scored_t worst = best->entries[0];
        sift_down(best->entries, n - 1, best->entries[n - 1]);
        best->entries[n - 1] = worst;
    }
}

/* Return the end of the block of SCORES_AT_ONCE scores that has position i. */
INLINE size_t end_of_block(const scores_t *s, size_t i) {
    const size_t end = (i / SCORES_AT_ONCE + 1) * SCORES_AT_ONCE;
    return end < s->n ? end : s->n;
}

static int64_t highest_of_block(const scores_t *s, size_t start, size_t end) {
    if (s->is_long) {
        int64_t highest = INT64_MIN;
        for (size_t i = start; i < end; i++)
            if (score_at(s, i) > highest) highest = score_at(s, i);
        return highest;
    }
    const int32_t *scores = s->scores;
    int32_t highest = INT32_MIN;
    for (size_t i = start; i < end; i++) highest = scores[i] > highest ? scores[i] : highest;
    return highest;
}

/* Write positions from *start on whose scores are at least `least`, as many as whole blocks have up
   to CANDIDATES_AT_ONCE, and move *start behind these blocks; return how many there are. Blocks
   whose highest scores are known and lower are passed over. */
static size_t next_candidates(const scores_t *s, const int64_t *highest, size_t *start,
                              int64_t least, size_t *positions) {
    size_t n = 0;
    while (*start < s->n && n <= CANDIDATES_AT_ONCE - SCORES_AT_ONCE) {
        const size_t begin = *start, end = end_of_block(s, begin);
        const int64_t most = highest != NULL ? highest[begin / SCORES_AT_ONCE]
                                             : highest_of_block(s, begin, end);
        *start = end;
        if (most < least) continue;
        for (size_t i = begin; i < end; i++) {
            positions[n] = i;
            n += score_at(s, i) >= least;
        }
    }
    return n;
}

/* Offer all scores above 0 of live documents; `highest` may be NULL. */
static void offer_scores(const scores_t *s, const uint8_t *live, int64_t *highest, best_t *best) {
    int64_t least = 1;
    for (size_t i = 0; i < s->n; i += SCORES_AT_ONCE) {
        const size_t end = end_of_block(s, i);
        const int64_t most = highest_of_block(s, i, end);
        if (highest != NULL) highest[i / SCORES_AT_ONCE] = most;
        if (most < least) continue;
        for (size_t j = i; j < end; j++) {
            if (score_at(s, j) < least || (live != NULL && !live[j])) continue;
            offer_best(best, (scored_t){(double)score_at(s, j), (int64_t)j});
            if (best->n == best->k) least = (int64_t)best->entries[0].score + 1;
        }
    }
}

size_t best_by_words(const scores_t *s, const uint8_t *live, int64_t *highest, size_t k,
                     scored_t *entries) {
    best_t best = {entries, 0, k};
    offer_scores(s, live, highest, &best);
    sort_best(&best);
    return best.n;
}

int best_by_terms(const postings_t *p, const impacts_t *impacts, const query_terms_t *query,
                  const uint8_t *live, size_t k, scored_t *entries, size_t *n) {
    double most = 0;
    for (size_t t = 0; t < query->n; t++)
        most += (query->weights[t] + 1) * (double)query->repeats[t];
    const int is_long = !(most < INT32_MAX);
    const size_t bytes = (p->n_documents + 1) * (is_long ? 8 : 4);
    const scores_t s = {zeros(bytes), p->n_documents, is_long};
    if (s.scores == NULL) return -1;
    best_t best = {entries, 0, k};
    const int is_ok = add_terms(p, impacts, query, &s);
    if (is_ok == 1) offer_scores(&s, live, NULL, &best);
    sort_best(&best);
    free_zeros(s.scores, bytes);
    *n = best.n;
    return is_ok;
}

/* ---- the best by words and codes */

INLINE double standardized(int64_t score, double mean, double deviation) {
    return deviation != 0 ? ((double)score - mean) / deviation : 0;
}

INLINE double fused_score(const fusion_t *f, int64_t by_words, int64_t by_codes) {
    return (double)by_words / f->words_unit +
           f->weight * standardized(by_codes, f->codes_mean, f->codes_deviation);
}

static int64_t score_by_codes(const fusion_t *f, const weights_t *weights, size_t place) {
    int64_t distance = 0;
    for (size_t word = 0; word < f->words; word++) {
        uint64_t code = f->code_of != NULL
                            ? f->codes[f->code_of[place]]
                            : f->codes[(place / LANES * f->words + word) * LANES + place % LANES];
        for (size_t byte = 8 * word; byte < 8 * word + 8; byte++, code >>= 8)
            distance += weights->bytes[byte][code & 255];
    }
    return f->total - 2 * distance;
}

/* Return the row at a position; rows mostly have no gaps. */
INLINE int64_t row_at(const fusion_t *f, size_t i) {
    return f->has_gaps ? f->rows[i] : f->rows[0] + (int64_t)i;
}

INLINE size_t place_of(const fusion_t *f, size_t i) {
    return f->places == NULL ? i : (size_t)(uint32_t)f->places[i];
}

/* The codes of documents that match lie far from one another: have the next ones read already. */
INLINE void prefetch_code(const fusion_t *f, size_t i) {
    const size_t place = place_of(f, i);
    if (place >= f->n_codes) return;
    if (f->code_of != NULL) {
        __builtin_prefetch(&f->codes[f->code_of[place]]);
        return;
    }
    for (size_t word = 0; word < f->words; word++)
        __builtin_prefetch(&f->codes[(place / LANES * f->words + word) * LANES + place % LANES]);
}

/* Return the least score by words, above 0, with which a document could be among the best; `most` is
   the most that codes add to a score. */
static int64_t least_by_words(const fusion_t *f, const best_t *best, double most) {
    if (best->n < best->k) return 1;
    const double reached = f->words_unit * (best->entries[0].score - most);
    /* Two units cover the rounding. */
    if (!(reached >= 4)) return 1;
    return reached < 0x1p60 ? (int64_t)reached - 2 : INT64_MAX;
}

/* Return the position of the score by words of a row, or s->n. */
static size_t position_of_row(const fusion_t *f, const scores_t *s, int64_t row) {
    if (s->n && !f->has_gaps) {
        const uint64_t offset = (uint64_t)row - (uint64_t)f->rows[0];
        return offset < s->n ? (size_t)offset : s->n;
    }
    const size_t at = lower_bound(f->rows, 0, s->n, row);
    return at < s->n && f->rows[at] == row ? at : s->n;
}

/* Return the score by words of a row; 0 if it has none. */
static int64_t score_of_row(const fusion_t *f, const scores_t *s, int64_t row) {
    const size_t at = position_of_row(f, s, row);
    return at < s->n ? score_at(s, at) : 0;
}

static int compare_rows(const void *one, const void *other) {
    const int64_t a = *(const int64_t *)one, b = *(const int64_t *)other;
    return (a > b) - (a < b);
}

static int is_among(const int64_t *rows, size_t n, int64_t row) {
    const size_t at = lower_bound(rows, 0, n, row);
    return at < n && rows[at] == row;
}

/* Offer the best by words that are no seeds: the better the k-th of the best, the fewer others must
   be scored. */
static void offer_first(const fusion_t *f, const scores_t *s, const weights_t *weights,
                        const int64_t *seeds, best_t *best) {
    for (size_t i = 0; i < f->n_first; i++) {
        const int64_t row = f->first_rows[i];
        const size_t at = position_of_row(f, s, row);
        if (at == s->n || (f->allowed != NULL && !f->allowed[at])) continue;
        if (is_among(seeds, f->n_seeds, row)) continue;
        const size_t place = place_of(f, at);
        if (place >= f->n_codes) continue;
        const int64_t by_codes = score_by_codes(f, weights, place);
        offer_best(best, (scored_t){fused_score(f, score_at(s, at), by_codes), row});
    }
}

static int is_first(const fusion_t *f, int64_t row) {
    for (size_t i = 0; i < f->n_first; i++)
        if (f->first_rows[i] == row) return 1;
    return 0;
}

int best_by_both(const fusion_t *f, const scores_t *s, size_t k, scored_t *entries, size_t *n) {
    best_t best = {entries, 0, k};
    /* The seeds are the best by codes, so codes add no more to another document than to any seed. */
    double most = 0;
    for (size_t i = 0; i < f->n_seeds; i++) {
        const int64_t by_code = f->total - 2 * f->seed_distances[i];
        const double by_codes =
            f->weight * standardized(by_code, f->codes_mean, f->codes_deviation);
        if (i == 0 || by_codes < most) most = by_codes;
        const int64_t by_words = score_of_row(f, s, f->seed_rows[i]);
        if (f->only_matches && by_words <= 0) continue;
        const double score = fused_score(f, by_words, by_code);
        offer_best(&best, (scored_t){score, f->seed_rows[i]});
    }
    const size_t size = f->n_seeds * sizeof *f->seed_rows;
    weights_t *weights = malloc(sizeof *weights);
    int64_t *seeds = malloc(size + 1);
    if (weights == NULL || seeds == NULL) {
        free(weights), free(seeds);
        return 0;
    }
    memcpy(seeds, f->seed_rows, size);
    qsort(seeds, f->n_seeds, sizeof *seeds, compare_rows);
    fill_weights(weights, f->weights, f->words);
    offer_first(f, s, weights, seeds, &best);
    int64_t least = least_by_words(f, &best, most);
    size_t some[CANDIDATES_AT_ONCE];
    for (size_t i = 0; i < s->n;) {
        const size_t n_some = next_candidates(s, f->highest, &i, least, some);
        for (size_t j = 0; j < n_some; j++) prefetch_code(f, some[j]);
        for (size_t j = 0; j < n_some; j++) {
            const int64_t by_words = score_at(s, some[j]);
            const size_t place = place_of(f, some[j]);
            if (by_words < least || place >= f->n_codes) continue;
            if (f->allowed != NULL && !f->allowed[some[j]]) continue;
            const int64_t row = row_at(f, some[j]);
            const double score = fused_score(f, by_words, score_by_codes(f, weights, place));
            const scored_t entry = {score, row};
            if (best.n == k && !is_worse(best.entries[0], entry)) continue;
            if (is_first(f, row)) continue;
            if (is_among(seeds, f->n_seeds, row)) continue;
            offer_best(&best, entry);
            least = least_by_words(f, &best, most);
        }
    }
    free(weights), free(seeds);
    *n = best.n;
    sort_best(&best);
    return 1;
}

/* ---- numbers that ascending lists have in common */

size_t with_all_terms(const postings_t *p, const int64_t *terms, size_t n_terms, size_t room,
                      int32_t *positions) {
    size_t first = 0, n = SIZE_MAX;
    for (size_t t = 0; t < n_terms; t++) {
        size_t begin, end;
        if (!find_postings(p, terms[t], &begin, &end)) return SIZE_MAX;
        if (end - begin < n) first = t, n = end - begin;
    }
    if (n_terms == 0 || n > room) return n_terms == 0 ? 0 : SIZE_MAX;
    for (size_t t = 0; t <= n_terms; t++) {
        size_t begin, end, at, kept = 0;
        if (t == first + 1) continue;
        find_postings(p, terms[t ? t - 1 : first], &begin, &end);
        if (t == 0) { /* the rarest term */
            memcpy(positions, p->positions + begin, n * sizeof *positions);
            continue;
        }
        at = begin;
        for (size_t i = 0; i < n && at < end; i++) {
            at = next_at_least(p->positions, at, end, positions[i]);
            if (at < end && p->positions[at] == positions[i]) positions[kept++] = positions[i];
        }
        n = kept;
    }
    return n;
}
