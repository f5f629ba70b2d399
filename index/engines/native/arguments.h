/* Reads the arguments of the functions that Python calls, one after the other.

   Every take_ function checks the next argument: a number against its bounds, a buffer against the
   least number of items that it must hold. The first bad argument sets a Python exception and
   `is_bad`; the take_ functions after it return empty values and check nothing. Buffers stay
   acquired until release(). */
#ifndef HUMMINGBIT_ARGUMENTS_H
#define HUMMINGBIT_ARGUMENTS_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>

#include "kernel.h"

#include <string.h>

#define MAX_VIEWS 24
/* The number of arguments that take_floor reads; a search may leave them out. */
#define FLOOR_ITEMS 2

typedef struct {
    PyObject *const *items;
    Py_ssize_t n, next;
    Py_buffer views[MAX_VIEWS];
    int n_views, is_bad;
} args_t;

static inline args_t begin_args(PyObject *const *items, Py_ssize_t n, Py_ssize_t expected) {
    args_t a;
    a.items = items, a.n = n, a.next = 0, a.n_views = 0, a.is_bad = n != expected;
    if (a.is_bad) PyErr_Format(PyExc_TypeError, "expected %zd arguments, not %zd", expected, n);
    return a;
}

/* Begin the arguments of a search, which FLOOR_ITEMS more may follow. */
static inline args_t begin_search(PyObject *const *items, Py_ssize_t n, Py_ssize_t expected) {
    return begin_args(items, n, n == expected + FLOOR_ITEMS ? n : expected);
}

static inline void release(args_t *a) {
    while (a->n_views) PyBuffer_Release(a->views + --a->n_views);
}

static inline void reject(args_t *a, const char *message) {
    if (!a->is_bad) PyErr_Format(PyExc_ValueError, "argument %zd %s", a->next, message);
    a->is_bad = 1;
}

static inline void reject_number(args_t *a, size_t number, size_t least, size_t most) {
    PyErr_Format(PyExc_ValueError, "argument %zd is %zu; it must be from %zu to %zu", a->next,
                 number, least, most);
    a->is_bad = 1;
}

/* Return the next argument, a number from `least` to `most`. */
static inline size_t take_number(args_t *a, size_t least, size_t most) {
    if (a->is_bad) return least;
    const size_t number = PyLong_AsSize_t(a->items[a->next++]);
    if (number == (size_t)-1 && PyErr_Occurred())
        a->is_bad = 1;
    else if (number < least || number > most)
        reject_number(a, number, least, most);
    return a->is_bad ? least : number;
}

/* Return the next argument, a float. */
static inline double take_double(args_t *a) {
    if (a->is_bad) return 0;
    const double number = PyFloat_AsDouble(a->items[a->next++]);
    if (number == -1 && PyErr_Occurred()) a->is_bad = 1;
    return number;
}

/* Return the memory of the next argument, a buffer of at least `items` items of `size` bytes, or
   NULL for None if that is allowed. `flags` are those of PyObject_GetBuffer. */
static inline void *take_view(args_t *a, size_t items, size_t size, int flags, int may_be_none) {
    if (a->is_bad) return NULL;
    PyObject *item = a->items[a->next++];
    if (may_be_none && item == Py_None) return NULL;
    Py_buffer *view = a->views + a->n_views;
    if (PyObject_GetBuffer(item, view, flags) < 0) {
        a->is_bad = 1;
        return NULL;
    }
    a->n_views++;
    /* The first comparison keeps the product of the second from overflowing. */
    if (items > SIZE_MAX / 2 / size || (size_t)view->len < items * size) reject(a, "is too short");
    return view->buf;
}

static inline const void *take_input(args_t *a, size_t items, size_t size) {
    return take_view(a, items, size, PyBUF_SIMPLE, 0);
}

static inline void *take_output(args_t *a, size_t items, size_t size) {
    return take_view(a, items, size, PyBUF_WRITABLE, 0);
}

/* ---- groups of arguments that several functions take */

#define MAX_PLACES INT32_MAX

/* Return the codes to scan: their number, their words, and the groups of eight. */
static inline source_t take_source(args_t *a) {
    source_t s = {NULL, 0, 0, NULL, NULL};
    s.n = take_number(a, 0, MAX_PLACES);
    s.words = take_number(a, 1, MAX_WORDS);
    s.groups = take_input(a, (s.n + LANES - 1) / LANES * LANES * s.words, sizeof *s.groups);
    return s;
}

/* The number of arguments that take_table reads. */
#define TABLE_ITEMS 9

static inline table_t take_table(args_t *a) {
    table_t t;
    memset(&t, 0, sizeof t);
    if (a->is_bad) return t;
    t.bits = (unsigned)take_number(a, 1, MAX_TABLE_BITS);
    t.cell_bits = (unsigned)take_number(a, 1, 31);
    t.filter_bits = (unsigned)take_number(a, 6, 40);
    t.n_keys = take_number(a, 0, MAX_PLACES);
    t.keys = take_input(a, (t.n_keys + LANES - 1) / LANES * LANES, sizeof *t.keys);
    t.starts = take_input(a, t.n_keys + 1, sizeof *t.starts);
    t.n_places = a->is_bad ? 0 : t.starts[t.n_keys];
    t.places = take_input(a, t.n_places, sizeof *t.places);
    t.directory = take_input(a, ((size_t)1 << t.cell_bits) + 1, sizeof *t.directory);
    t.filter = take_input(a, (size_t)1 << (t.filter_bits - 6), sizeof *t.filter);
    return t;
}

/* The number of arguments that take_search reads. */
#define SEARCH_ITEMS 9

/* `n` is the number of places, and a query is `words` numbers: 0 for a search by weights, which
   takes no codes as queries. */
static inline search_t take_search(args_t *a, size_t n, size_t words) {
    search_t s;
    s.n_queries = take_number(a, 0, MAX_PLACES);
    s.queries = take_input(a, s.n_queries * words, sizeof *s.queries);
    s.k = take_number(a, 1, MAX_PLACES);
    s.radius = take_number(a, 0, INT32_MAX);
    s.floor = 0;
    s.allowed = take_view(a, (n + 7) / 8, 1, PyBUF_SIMPLE, 1);
    s.rows = take_input(a, n, sizeof *s.rows);
    s.out_rows = take_output(a, s.n_queries * s.k, sizeof *s.out_rows);
    s.out_distances = take_output(a, s.n_queries * s.k, sizeof *s.out_distances);
    s.out_counts = take_output(a, s.n_queries, sizeof *s.out_counts);
    return s;
}

/* Read a distance and a place: results are farther, or as far and not before that place. */
static inline void take_floor(args_t *a, search_t *s) {
    if (a->is_bad || a->next == a->n) return;
    const size_t distance = take_number(a, 0, INT32_MAX);
    s->floor = KEY(distance, take_number(a, 0, MAX_PLACES));
}

/* Return scores by words: their number, whether they have 64 bits, and the scores. */
static inline scores_t take_scores(args_t *a) {
    scores_t s;
    s.n = take_number(a, 0, MAX_PLACES);
    s.is_long = (int)take_number(a, 0, 1);
    s.scores = take_output(a, s.n, s.is_long ? sizeof(int64_t) : sizeof(int32_t));
    return s;
}

/* The number of arguments that take_postings reads. */
#define POSTINGS_ITEMS 6

static inline postings_t take_postings(args_t *a) {
    postings_t p;
    p.n_documents = take_number(a, 0, MAX_PLACES);
    p.n_terms = take_number(a, 0, MAX_PLACES);
    p.n_postings = take_number(a, 0, SIZE_MAX / 16);
    p.terms = take_input(a, p.n_terms, sizeof *p.terms);
    p.starts = take_input(a, p.n_terms + 1, sizeof *p.starts);
    p.positions = take_input(a, p.n_postings, sizeof *p.positions);
    return p;
}

/* Return the cost of a search as a float; a negative one means that memory ran out. */
static inline PyObject *finish_search(args_t *a, double work) {
    release(a);
    return work < 0 ? PyErr_NoMemory() : PyFloat_FromDouble(work);
}

#endif
