/* The functions that Python calls (index/engines/compiled/). Their arguments are numbers and
   buffers, in the order in which each function takes them.

   Every size is checked before a buffer is read. What a table contains is trusted: it must come
   from group() and index(). The interpreter lock is released during the computation. The
   searches write rows and distances, int64[n_queries, k], in the order (distance, place), and
   the number of results, int64[n_queries]; they return their cost (scan_cost). A floor, which
   may be left out, is a distance and a place: results nearer than the distance, or as near at an
   earlier place, are skipped. */
#include "arguments.h"

#include <stdlib.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the kernel reads codes as little-endian numbers"
#endif

#define FUNCTION(name) \
    static PyObject *name(PyObject *module, PyObject *const *items, Py_ssize_t n_items)
#define RETURN_IF_BAD(a)   \
    (void)module;       \
    if ((a).is_bad) {   \
        release(&(a));  \
        return NULL;    \
    }
#define WITHOUT_LOCK(statement)  \
    Py_BEGIN_ALLOW_THREADS       \
    statement;                   \
    Py_END_ALLOW_THREADS

/* scan(*source, *search, *floor): search all codes. */
FUNCTION(scan) {
    args_t a = begin_search(items, n_items, 3 + SEARCH_ITEMS);
    source_t source = take_source(&a);
    search_t search = take_search(&a, source.n, source.words);
    take_floor(&a, &search);
    double work;
    RETURN_IF_BAD(a)
    source.allowed = search.allowed;
    WITHOUT_LOCK(work = search_scan(&source, &search))
    return finish_search(&a, work);
}

/* scan_weighted(*source, *search, weights, *floor): search all codes by weighted distance. */
FUNCTION(scan_weighted) {
    args_t a = begin_search(items, n_items, 4 + SEARCH_ITEMS);
    source_t source = take_source(&a);
    search_t search = take_search(&a, source.n, 0);
    const int64_t *weights =
        take_input(&a, search.n_queries * source.words * 64, sizeof *weights);
    take_floor(&a, &search);
    double work;
    RETURN_IF_BAD(a)
    source.allowed = search.allowed;
    WITHOUT_LOCK(work = search_scan_weighted(&source, &search, weights))
    return finish_search(&a, work);
}

/* lookup(*table, *search, *floor): search codes of at most 64 bits. */
FUNCTION(lookup) {
    args_t a = begin_search(items, n_items, TABLE_ITEMS + SEARCH_ITEMS);
    const table_t table = take_table(&a);
    search_t search = take_search(&a, table.n_places, 1);
    take_floor(&a, &search);
    double work;
    RETURN_IF_BAD(a)
    WITHOUT_LOCK(work = search_table(&table, &search))
    return finish_search(&a, work);
}

/* lookup_weighted(*table, *search, weights, *floor): search codes of at most 64 bits by
   weighted distance. */
FUNCTION(lookup_weighted) {
    args_t a = begin_search(items, n_items, 1 + TABLE_ITEMS + SEARCH_ITEMS);
    const table_t table = take_table(&a);
    search_t search = take_search(&a, table.n_places, 0);
    const int64_t *weights = take_input(&a, search.n_queries * 64, sizeof *weights);
    take_floor(&a, &search);
    double work;
    RETURN_IF_BAD(a)
    WITHOUT_LOCK(work = search_table_weighted(&table, &search, weights))
    return finish_search(&a, work);
}

/* halves(*source, *first_table, first_rest, *second_table, second_rest, *search, *floor): search
   codes of two words. */
FUNCTION(halves) {
    args_t a = begin_search(items, n_items, 3 + 2 * (TABLE_ITEMS + 1) + SEARCH_ITEMS);
    source_t source = take_source(&a);
    table_t tables[2];
    const uint64_t *rest[2];
    if (!a.is_bad && source.words != 2) reject(&a, "must be 2");
    for (int i = 0; i < 2; i++) {
        tables[i] = take_table(&a);
        /* The last bucket is read a whole register at a time. */
        rest[i] = take_input(&a, source.n + LANES, sizeof **rest);
        if (tables[i].n_places != source.n)
            reject(&a, "has another number of codes than the first");
    }
    search_t search = take_search(&a, source.n, 2);
    take_floor(&a, &search);
    double work;
    RETURN_IF_BAD(a)
    source.allowed = search.allowed;
    WITHOUT_LOCK(work = search_halves(tables, rest, &source, &search))
    return finish_search(&a, work);
}

/* group(n, bits, keys, places, starts, code_of): group the keys (table_group); return the
   number of distinct keys. code_of may be None. */
FUNCTION(group) {
    args_t a = begin_args(items, n_items, 6);
    const size_t n = take_number(&a, 0, MAX_PLACES);
    const unsigned bits = (unsigned)take_number(&a, 1, MAX_TABLE_BITS);
    uint64_t *keys = take_output(&a, n, sizeof *keys);
    int32_t *places = take_output(&a, n, sizeof *places);
    uint32_t *starts = take_output(&a, n + 1, sizeof *starts);
    int32_t *code_of = take_view(&a, n, sizeof *code_of, PyBUF_WRITABLE, 1);
    size_t n_keys = 0;
    int is_ok;
    RETURN_IF_BAD(a)
    WITHOUT_LOCK(is_ok = table_group(keys, n, bits, places, starts, code_of, &n_keys))
    release(&a);
    return is_ok ? PyLong_FromSize_t(n_keys) : PyErr_NoMemory();
}

/* index(bits, cell_bits, filter_bits, n_keys, keys, directory, filter): fill the last two,
   which begin as zeros (table_index). */
FUNCTION(index_codes) {
    args_t a = begin_args(items, n_items, 7);
    table_t t;
    memset(&t, 0, sizeof t);
    t.bits = (unsigned)take_number(&a, 1, MAX_TABLE_BITS);
    t.cell_bits = (unsigned)take_number(&a, 1, 31);
    t.filter_bits = (unsigned)take_number(&a, 6, 40);
    t.n_keys = take_number(&a, 0, MAX_PLACES);
    t.keys = take_input(&a, t.n_keys, sizeof *t.keys);
    uint32_t *directory = take_output(&a, ((size_t)1 << t.cell_bits) + 1, sizeof *directory);
    uint64_t *filter = take_output(&a, (size_t)1 << (t.filter_bits - 6), sizeof *filter);
    RETURN_IF_BAD(a)
    WITHOUT_LOCK(table_index(&t, directory, filter))
    release(&a);
    Py_RETURN_NONE;
}

/* order(n, keys, order): sort the keys stably, and write to `order` where each of them was. */
FUNCTION(order) {
    args_t a = begin_args(items, n_items, 3);
    const size_t n = take_number(&a, 0, MAX_PLACES);
    uint64_t *keys = take_output(&a, n, sizeof *keys);
    uint32_t *places = take_output(&a, n, sizeof *places);
    RETURN_IF_BAD(a)
    uint64_t *spare = PyMem_Malloc((n + 1) * sizeof *spare);
    uint32_t *spare_places = PyMem_Malloc((n + 1) * sizeof *spare_places);
    if (spare != NULL && spare_places != NULL) {
        WITHOUT_LOCK(for (size_t i = 0; i < n; i++) places[i] = (uint32_t)i;
                     radix_sort(keys, spare, places, spare_places, n))
    } else {
        PyErr_NoMemory();
    }
    PyMem_Free(spare), PyMem_Free(spare_places);
    release(&a);
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}

/* pairs(n, n_words, words, keys, radius, i, j, room, first, second, distances): write pairs
   (find_pairs); return their number and the (i, j) to continue from. i is n at the end. */
FUNCTION(pairs) {
    args_t a = begin_args(items, n_items, 11);
    pairs_t p;
    p.n = take_number(&a, 0, MAX_PLACES);
    p.n_words = take_number(&a, 1, MAX_WORDS);
    p.words = take_input(&a, p.n * p.n_words + LANES, sizeof *p.words);
    p.keys = take_input(&a, p.n, sizeof *p.keys);
    p.radius = take_number(&a, 0, INT32_MAX);
    size_t i = take_number(&a, 0, p.n), j = take_number(&a, 0, p.n + 1);
    const size_t room = take_number(&a, LANES, MAX_PLACES);
    int64_t *first = take_output(&a, room, sizeof *first);
    int64_t *second = take_output(&a, room, sizeof *second);
    uint16_t *distances = take_output(&a, room, sizeof *distances);
    size_t n_pairs;
    if (!a.is_bad && j <= i) reject(&a, "must be greater than the one before");
    RETURN_IF_BAD(a)
    WITHOUT_LOCK(n_pairs = find_pairs(&p, &i, &j, room, first, second, distances))
    release(&a);
    return Py_BuildValue("nnn", (Py_ssize_t)n_pairs, (Py_ssize_t)i, (Py_ssize_t)j);
}

/* count(n, n_words, groups, sizes, n_queries, queries, n_distances, counts): add the numbers of
   documents at each distance to the counts (count_distances). */
FUNCTION(count) {
    args_t a = begin_args(items, n_items, 8);
    const source_t source = take_source(&a);
    const int32_t *sizes = take_input(&a, source.n, sizeof *sizes);
    const size_t n_queries = take_number(&a, 0, MAX_PLACES);
    const uint64_t *queries = take_input(&a, n_queries * source.words, sizeof *queries);
    const size_t n_distances = take_number(&a, 1, 64 * MAX_WORDS + 1);
    int64_t *counts = take_output(&a, n_queries * n_distances, sizeof *counts);
    RETURN_IF_BAD(a)
    WITHOUT_LOCK(count_distances(&source, sizes, queries, n_queries, n_distances, counts))
    release(&a);
    Py_RETURN_NONE;
}

/* The number of arguments that take_coded reads. */
#define CODED_ITEMS 6

static coded_t take_coded(args_t *a) {
    coded_t c;
    c.n = take_number(a, 0, MAX_PLACES);
    c.words = take_number(a, 1, MAX_WORDS);
    const size_t n_keys = take_number(a, 0, MAX_PLACES);
    c.codes = take_input(a, (n_keys + LANES - 1) / LANES * LANES * c.words, sizeof *c.codes);
    c.code_of = take_view(a, c.n, sizeof *c.code_of, PyBUF_SIMPLE, 1);
    if (!a->is_bad && c.code_of == NULL && n_keys < c.n) reject(a, "has too few codes");
    c.rows = take_input(a, c.n, sizeof *c.rows);
    return c;
}

static PyObject *finish_rows(args_t *a, int are_held) {
    release(a);
    if (!are_held) return PyErr_Format(PyExc_ValueError, "a row is not in the index");
    Py_RETURN_NONE;
}

/* codes(n, n_words, n_keys, codes, code_of, rows_of_index, m, rows, words): write the codes of m
   rows (words_of_rows). code_of may be None. */
FUNCTION(codes) {
    args_t a = begin_args(items, n_items, CODED_ITEMS + 3);
    const coded_t c = take_coded(&a);
    const size_t m = take_number(&a, 0, MAX_PLACES);
    const int64_t *rows = take_input(&a, m, sizeof *rows);
    uint64_t *words = take_output(&a, m * c.words, sizeof *words);
    int are_held;
    RETURN_IF_BAD(a)
    WITHOUT_LOCK(are_held = words_of_rows(&c, rows, m, words))
    return finish_rows(&a, are_held);
}

/* distances(n, n_words, n_keys, codes, code_of, rows_of_index, m, rows, query, distances): write
   the Hamming distances of m rows (distances_of_rows). code_of may be None. */
FUNCTION(distances) {
    args_t a = begin_args(items, n_items, CODED_ITEMS + 4);
    const coded_t c = take_coded(&a);
    const size_t m = take_number(&a, 0, MAX_PLACES);
    const int64_t *rows = take_input(&a, m, sizeof *rows);
    const uint64_t *query = take_input(&a, c.words, sizeof *query);
    int64_t *found = take_output(&a, m, sizeof *found);
    int are_held;
    RETURN_IF_BAD(a)
    WITHOUT_LOCK(are_held = distances_of_rows(&c, rows, m, query, found))
    return finish_rows(&a, are_held);
}

/* round(n_queries, n_bits, weights, max_bits, whole, totals): round weights to whole numbers
   (round_weights). */
FUNCTION(round_) {
    args_t a = begin_args(items, n_items, 6);
    const size_t n_queries = take_number(&a, 0, MAX_PLACES);
    const size_t n_bits = take_number(&a, 1, 64 * MAX_WORDS);
    const float *weights = take_input(&a, n_queries * n_bits, sizeof *weights);
    const unsigned max_bits = (unsigned)take_number(&a, 1, 50);
    int64_t *whole = take_output(&a, n_queries * n_bits, sizeof *whole);
    int64_t *totals = take_output(&a, n_queries, sizeof *totals);
    int are_finite;
    RETURN_IF_BAD(a)
    are_finite = round_weights(weights, n_queries, n_bits, max_bits, whole, totals);
    release(&a);
    if (!are_finite) return PyErr_Format(PyExc_ValueError, "weights must be finite");
    Py_RETURN_NONE;
}

/* place(n_queries, n_bytes, weights, positions, n_words, most, placed): write weights for the
   words of codes (place_weights). */
FUNCTION(place) {
    args_t a = begin_args(items, n_items, 7);
    const size_t n_queries = take_number(&a, 0, MAX_PLACES);
    const size_t n_bytes = take_number(&a, 1, 8 * MAX_WORDS);
    const int64_t *weights = take_input(&a, n_queries * n_bytes * 8, sizeof *weights);
    const int64_t *positions = take_input(&a, n_bytes, sizeof *positions);
    const size_t words = take_number(&a, 1, MAX_WORDS);
    const int64_t most = (int64_t)take_number(&a, 0, INT32_MAX);
    int64_t *placed = take_output(&a, n_queries * words * 64, sizeof *placed);
    for (size_t i = 0; !a.is_bad && i < n_bytes; i++)
        if (positions[i] < 0 || (size_t)positions[i] >= 8 * words)
            reject(&a, "follows a position out of bounds");
    int is_within;
    RETURN_IF_BAD(a)
    is_within = place_weights(weights, n_queries, positions, n_bytes, words, most, placed);
    release(&a);
    if (!is_within)
        return PyErr_Format(PyExc_ValueError, "weights must be within +-%zd", (Py_ssize_t)most);
    Py_RETURN_NONE;
}

/* mark(n, bits, m, places, on): set the bits of m of the n places, or clear them if `on` is 0. */
FUNCTION(mark) {
    args_t a = begin_args(items, n_items, 5);
    const size_t n = take_number(&a, 0, MAX_PLACES);
    uint8_t *bits = take_output(&a, (n + 7) / 8, 1);
    const size_t m = take_number(&a, 0, MAX_PLACES);
    const int64_t *places = take_input(&a, m, sizeof *places);
    const int on = (int)take_number(&a, 0, 1);
    int is_bad = 0;
    RETURN_IF_BAD(a)
    Py_BEGIN_ALLOW_THREADS
    for (size_t i = 0; i < m; i++) {
        const uint64_t place = (uint64_t)places[i];
        if (place >= n) {
            is_bad = 1;
            break;
        }
        if (on)
            bits[place >> 3] |= (uint8_t)(1 << (place & 7));
        else
            bits[place >> 3] &= (uint8_t)~(1 << (place & 7));
    }
    Py_END_ALLOW_THREADS
    release(&a);
    if (is_bad) return PyErr_Format(PyExc_ValueError, "a place is not below the number of places");
    Py_RETURN_NONE;
}

static PyObject *finish_postings(args_t *a, int is_within) {
    release(a);
    if (!is_within) return PyErr_Format(PyExc_ValueError, "a posting is out of bounds");
    Py_RETURN_NONE;
}

/* Read the impacts of postings, and the terms of a query: 4 arguments each. */
static impacts_t take_impacts(args_t *a, const postings_t *postings) {
    impacts_t impacts;
    impacts.width = take_number(a, 1, 4);
    impacts.of_postings = take_input(a, postings->n_postings, impacts.width);
    impacts.n = take_number(a, 0, MAX_PLACES);
    impacts.saturations = take_input(a, impacts.n, sizeof *impacts.saturations);
    return impacts;
}

static query_terms_t take_terms(args_t *a) {
    query_terms_t query;
    query.n = take_number(a, 0, TERMS_AT_ONCE);
    query.terms = take_input(a, query.n, sizeof *query.terms);
    query.weights = take_input(a, query.n, sizeof *query.weights);
    query.repeats = take_input(a, query.n, sizeof *query.repeats);
    query.words = take_input(a, query.n, sizeof *query.words);
    return query;
}

/* add_terms(*scores, *postings, width, impact_of, n_impacts, saturations, n_terms, terms, weights,
   repeats, words): add the parts of the terms of a query to scores (add_terms). */
FUNCTION(add_terms_) {
    args_t a = begin_args(items, n_items, 3 + POSTINGS_ITEMS + 9);
    const scores_t scores = take_scores(&a);
    const postings_t postings = take_postings(&a);
    const impacts_t impacts = take_impacts(&a, &postings);
    const query_terms_t query = take_terms(&a);
    int is_ok;
    RETURN_IF_BAD(a)
    WITHOUT_LOCK(is_ok = add_terms(&postings, &impacts, &query, &scores))
    if (is_ok < 0) {
        release(&a);
        return PyErr_NoMemory();
    }
    return finish_postings(&a, is_ok);
}

/* Where the best of a search are written: k rows, and as many scores. */
typedef struct {
    size_t k;
    int64_t *rows;
    void *scores;
    scored_t *entries;
} best_rows_t;

static best_rows_t take_best(args_t *a) {
    best_rows_t best;
    best.k = take_number(a, 1, MAX_PLACES);
    best.rows = take_output(a, best.k, sizeof *best.rows);
    best.scores = take_output(a, best.k, 8);
    best.entries = a->is_bad ? NULL : malloc(best.k * sizeof *best.entries);
    return best;
}

/* Write n entries, whose scores are whole numbers or not, and return their number. `rows` has the
   rows of the positions in the entries; it is NULL if they have rows. */
static PyObject *finish_best(args_t *a, best_rows_t *best, size_t n, const int64_t *rows,
                             int are_whole) {
    for (size_t i = 0; i < n; i++) {
        const scored_t entry = best->entries[i];
        best->rows[i] = rows != NULL ? rows[entry.row] : entry.row;
        if (are_whole)
            ((int64_t *)best->scores)[i] = (int64_t)entry.score;
        else
            ((double *)best->scores)[i] = entry.score;
    }
    free(best->entries);
    release(a);
    return PyLong_FromSize_t(n);
}

static PyObject *no_memory(args_t *a, best_rows_t *best) {
    free(best->entries);
    release(a);
    return PyErr_NoMemory();
}

/* best_by_terms(*postings, width, impact_of, n_impacts, saturations, n_terms, terms, weights,
   repeats, words, live, rows_of_documents, k, rows, scores): write the rows of the best and their
   scores, int64; return their number (best_by_terms). live may be None. */
FUNCTION(best_by_terms_) {
    args_t a = begin_args(items, n_items, POSTINGS_ITEMS + 14);
    const postings_t postings = take_postings(&a);
    const impacts_t impacts = take_impacts(&a, &postings);
    const query_terms_t query = take_terms(&a);
    const uint8_t *live = take_view(&a, postings.n_documents, 1, PyBUF_SIMPLE, 1);
    const int64_t *rows = take_input(&a, postings.n_documents, sizeof *rows);
    best_rows_t best = take_best(&a);
    size_t n;
    int is_ok;
    RETURN_IF_BAD(a)
    if (best.entries == NULL) return no_memory(&a, &best);
    WITHOUT_LOCK(is_ok = best_by_terms(&postings, &impacts, &query, live, best.k, best.entries, &n))
    if (is_ok < 0) return no_memory(&a, &best);
    if (is_ok == 0) {
        free(best.entries);
        return finish_postings(&a, 0);
    }
    return finish_best(&a, &best, n, rows, 1);
}

static size_t n_blocks(const scores_t *s) {
    return (s->n + SCORES_AT_ONCE - 1) / SCORES_AT_ONCE;
}

/* best_by_words(*scores, live, rows_of_documents, highest, k, rows, scores): write the rows of the
   best and their scores, int64, and the highest score of each block; return the number of the best
   (best_by_words). live may be None. */
FUNCTION(best_by_words_) {
    args_t a = begin_args(items, n_items, 9);
    const scores_t scores = take_scores(&a);
    const uint8_t *live = take_view(&a, scores.n, 1, PyBUF_SIMPLE, 1);
    const int64_t *rows = take_input(&a, scores.n, sizeof *rows);
    int64_t *highest = take_output(&a, n_blocks(&scores), sizeof *highest);
    best_rows_t best = take_best(&a);
    size_t n;
    RETURN_IF_BAD(a)
    if (best.entries == NULL) return no_memory(&a, &best);
    WITHOUT_LOCK(n = best_by_words(&scores, live, highest, best.k, best.entries))
    return finish_best(&a, &best, n, rows, 1);
}

/* best_by_both(*scores, rows_of_documents, allowed, places, n_codes, n_words, n_keys, codes, code_of,
   weights, total, words_unit, codes_mean, codes_deviation, weight, only_matches, n_seeds, seed_rows,
   seed_distances, n_first, first_rows, highest, k, rows, scores): write the rows of the best
   documents and their scores, float64; return their number (best_by_both). allowed may be None. */
FUNCTION(best_by_both_) {
    args_t a = begin_args(items, n_items, 3 + 24);
    const scores_t scores = take_scores(&a);
    fusion_t f;
    memset(&f, 0, sizeof f);
    f.rows = take_input(&a, scores.n, sizeof *f.rows);
    const int64_t span = a.is_bad || !scores.n ? 0 : f.rows[scores.n - 1] - f.rows[0] + 1;
    f.has_gaps = span != (int64_t)scores.n;
    f.allowed = take_view(&a, scores.n, 1, PyBUF_SIMPLE, 1);
    f.places = take_view(&a, scores.n, sizeof *f.places, PyBUF_SIMPLE, 1);
    f.n_codes = take_number(&a, 0, MAX_PLACES);
    f.words = take_number(&a, 1, MAX_WORDS);
    const size_t n_keys = take_number(&a, 0, MAX_PLACES);
    f.codes = take_input(&a, (n_keys + LANES - 1) / LANES * LANES * f.words, sizeof *f.codes);
    f.code_of = take_view(&a, f.n_codes, sizeof *f.code_of, PyBUF_SIMPLE, 1);
    if (!a.is_bad && f.code_of == NULL && n_keys < f.n_codes) reject(&a, "has too few codes");
    f.weights = take_input(&a, f.words * 64, sizeof *f.weights);
    f.total = (int64_t)take_number(&a, 0, SIZE_MAX / 2);
    f.words_unit = take_double(&a);
    f.codes_mean = take_double(&a);
    f.codes_deviation = take_double(&a);
    f.weight = take_double(&a);
    f.only_matches = (int)take_number(&a, 0, 1);
    f.n_seeds = take_number(&a, 0, MAX_PLACES);
    f.seed_rows = take_input(&a, f.n_seeds, sizeof *f.seed_rows);
    f.seed_distances = take_input(&a, f.n_seeds, sizeof *f.seed_distances);
    f.n_first = take_number(&a, 0, MAX_PLACES);
    f.first_rows = take_input(&a, f.n_first, sizeof *f.first_rows);
    f.highest = take_view(&a, n_blocks(&scores), sizeof *f.highest, PyBUF_SIMPLE, 1);
    best_rows_t best = take_best(&a);
    size_t n;
    int is_ok;
    RETURN_IF_BAD(a)
    if (best.entries == NULL) return no_memory(&a, &best);
    WITHOUT_LOCK(is_ok = best_by_both(&f, &scores, best.k, best.entries, &n))
    return is_ok ? finish_best(&a, &best, n, NULL, 0) : no_memory(&a, &best);
}

/* split_texts(n_bytes, texts, boundary, n_texts, with_forms, lengths, totals) -> (numbers, strings):
   write how many words each text has, int64[n_texts], and how many numbers; return the numbers as
   the bytes of int32, and the distinct strings, each with a line feed behind it (split_texts). */
FUNCTION(split_texts_) {
    args_t a = begin_args(items, n_items, 7);
    split_texts_t s;
    memset(&s, 0, sizeof s);
    const size_t n_bytes = take_number(&a, 0, INT32_MAX);
    const uint8_t *texts = take_input(&a, n_bytes, 1);
    const uint8_t boundary = (uint8_t)take_number(&a, 0, UINT8_MAX);
    s.n_texts = take_number(&a, 0, MAX_PLACES);
    const int with_forms = (int)take_number(&a, 0, 1);
    int64_t *lengths = take_output(&a, s.n_texts, sizeof *lengths);
    int64_t *totals = take_output(&a, s.n_texts, sizeof *totals);
    int is_ok;
    RETURN_IF_BAD(a)
    WITHOUT_LOCK(is_ok = split_texts(&s, texts, n_bytes, boundary, with_forms, lengths, totals))
    if (!s.has_failed && !is_ok) reject(&a, "has another number of texts");
    release(&a);
    PyObject *result = NULL;
    if (s.has_failed)
        PyErr_NoMemory();
    else if (is_ok)
        result = Py_BuildValue("y#y#", s.numbers ? (char *)s.numbers : "",
                               (Py_ssize_t)(4 * s.n_numbers), s.strings ? (char *)s.strings : "",
                               (Py_ssize_t)s.n_bytes);
    free_split_texts(&s);
    return result;
}

/* near_strings(n, starts, n_bytes, text, n_bytes of the word, word, edits, positions): write the
   positions of the strings within so many edits of a word, int32[n]; return how many there are
   (near_strings). `starts` are int64[n + 1]. */
FUNCTION(near_strings_) {
    args_t a = begin_args(items, n_items, 8);
    strings_t s;
    s.n = take_number(&a, 0, MAX_PLACES);
    s.starts = take_input(&a, s.n + 1, sizeof *s.starts);
    s.n_bytes = take_number(&a, 0, SIZE_MAX / 2);
    s.text = take_input(&a, s.n_bytes, 1);
    const size_t n_bytes = take_number(&a, 0, MOST_CHARACTERS);
    const uint8_t *word = take_input(&a, n_bytes, 1);
    const size_t edits = take_number(&a, 0, MOST_EDITS);
    int32_t *positions = take_output(&a, s.n, sizeof *positions);
    size_t n;
    RETURN_IF_BAD(a)
    WITHOUT_LOCK(n = near_strings(&s, word, n_bytes, edits, positions))
    release(&a);
    if (n == SIZE_MAX) return PyErr_Format(PyExc_ValueError, "a string lies outside the text");
    return PyLong_FromSize_t(n);
}

/* with_all(*postings, n_terms, terms, room, positions): write the positions of the documents that
   have all terms; return how many (with_all_terms). */
FUNCTION(with_all) {
    args_t a = begin_args(items, n_items, POSTINGS_ITEMS + 4);
    const postings_t postings = take_postings(&a);
    const size_t n_terms = take_number(&a, 0, MAX_PLACES);
    const int64_t *terms = take_input(&a, n_terms, sizeof *terms);
    const size_t room = take_number(&a, 0, MAX_PLACES);
    int32_t *positions = take_output(&a, room, sizeof *positions);
    size_t n;
    RETURN_IF_BAD(a)
    WITHOUT_LOCK(n = with_all_terms(&postings, terms, n_terms, room, positions))
    if (n == SIZE_MAX) return finish_postings(&a, 0);
    release(&a);
    return PyLong_FromSize_t(n);
}

/* moments(n_bits, sums, products, weights): return the sum of the scores of all codes, and the sum
   of their squares as a multiple of 2^64 and the rest (moments_of_scores). */
FUNCTION(moments) {
    args_t a = begin_args(items, n_items, 4);
    const size_t n_bits = take_number(&a, 1, 64 * MAX_WORDS);
    const int64_t *sums = take_input(&a, n_bits, sizeof *sums);
    const int64_t *products = take_input(&a, n_bits * n_bits, sizeof *products);
    const int64_t *weights = take_input(&a, n_bits, sizeof *weights);
    int64_t total, high;
    uint64_t low;
    RETURN_IF_BAD(a)
    moments_of_scores(n_bits, sums, products, weights, &total, &high, &low);
    release(&a);
    return Py_BuildValue("LLK", (long long)total, (long long)high, (unsigned long long)low);
}

/* differing(n_bits, n_words, columns, differing): write in how many codes two bits differ, int64[n_bits,
   n_bits], by the columns of the bits, uint64[n_bits, n_words] (count_differing). */
FUNCTION(differing) {
    args_t a = begin_args(items, n_items, 4);
    const size_t n_bits = take_number(&a, 1, 64 * MAX_WORDS);
    const size_t n_words = take_number(&a, 0, MAX_PLACES);
    const uint64_t *columns = take_input(&a, n_bits * n_words, sizeof *columns);
    int64_t *counts = take_output(&a, n_bits * n_bits, sizeof *counts);
    RETURN_IF_BAD(a)
    WITHOUT_LOCK(count_differing(n_bits, n_words, columns, counts))
    release(&a);
    return Py_NewRef(Py_None);
}

/* paths(): return the names of the paths that this processor supports, the fastest first. */
FUNCTION(paths) {
    const path_t *supported;
    const size_t n = supported_paths(&supported);
    args_t a = begin_args(items, n_items, 0);
    RETURN_IF_BAD(a)
    PyObject *names = PyTuple_New((Py_ssize_t)n);
    for (size_t i = 0; names != NULL && i < n; i++) {
        PyObject *name = PyUnicode_FromString(supported[i].name);
        if (name == NULL || PyTuple_SetItem(names, (Py_ssize_t)i, name) < 0) {
            Py_DECREF(names);
            return NULL;
        }
    }
    return names;
}

/* use(name): use this path from now on, in all threads. */
FUNCTION(use) {
    const path_t *supported;
    const size_t n = supported_paths(&supported);
    args_t a = begin_args(items, n_items, 1);
    RETURN_IF_BAD(a)
    PyObject *name = PyUnicode_AsUTF8String(items[0]);
    if (name == NULL) return NULL;
    size_t i = 0;
    while (i < n && strcmp(supported[i].name, PyBytes_AsString(name)) != 0) i++;
    Py_DECREF(name);
    if (i == n)
        return PyErr_Format(PyExc_ValueError, "this processor does not support %A", items[0]);
    path = supported[i];
    Py_RETURN_NONE;
}

#define METHOD(name, function) \
    {name, (PyCFunction)(void (*)(void))function, METH_FASTCALL, NULL}

static PyMethodDef methods[] = {
    METHOD("scan", scan),
    METHOD("scan_weighted", scan_weighted),
    METHOD("lookup", lookup),
    METHOD("lookup_weighted", lookup_weighted),
    METHOD("halves", halves),
    METHOD("group", group),
    METHOD("index", index_codes),
    METHOD("order", order),
    METHOD("pairs", pairs),
    METHOD("count", count),
    METHOD("codes", codes),
    METHOD("distances", distances),
    METHOD("mark", mark),
    METHOD("round", round_),
    METHOD("place", place),
    METHOD("add_terms", add_terms_),
    METHOD("best_by_terms", best_by_terms_),
    METHOD("best_by_words", best_by_words_),
    METHOD("best_by_both", best_by_both_),
    METHOD("split_texts", split_texts_),
    METHOD("near_strings", near_strings_),
    METHOD("with_all", with_all),
    METHOD("moments", moments),
    METHOD("differing", differing),
    METHOD("paths", paths),
    METHOD("use", use),
    {NULL, NULL, 0, NULL},
};

static int choose_fastest_path(PyObject *module) {
    (void)module;
    const path_t *supported;
    supported_paths(&supported);
    path = supported[0];
    return 0;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, (void *)choose_fastest_path}, {0, NULL}};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "_kernel",
    .m_size = 0,
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__kernel(void) { return PyModuleDef_Init(&definition); }
