/* Arguments of the functions that Python sees, taken in turn; after the first bad one the rest are
   passed over. */
#ifndef HUMMINGBIT_ARGUMENTS_H
#define HUMMINGBIT_ARGUMENTS_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>

#include "kernel.h"

#include <string.h>

#define MOST_VIEWS 24

typedef struct {
    PyObject *const *items;
    Py_ssize_t n, next;
    Py_buffer views[MOST_VIEWS];
    int n_views, is_bad;
} args_t;

static inline args_t args_of(PyObject *const *items, Py_ssize_t n, Py_ssize_t wanted) {
    args_t a;
    a.items = items, a.n = n, a.next = 0, a.n_views = 0, a.is_bad = n != wanted;
    if (a.is_bad) PyErr_Format(PyExc_TypeError, "takes %zd arguments; %zd were given", wanted, n);
    return a;
}

static inline void release(args_t *a) {
    while (a->n_views) PyBuffer_Release(a->views + --a->n_views);
}

static inline void refuse(args_t *a, const char *message) {
    if (!a->is_bad) PyErr_Format(PyExc_ValueError, "argument %zd %s", a->next, message);
    a->is_bad = 1;
}

static inline size_t take_number(args_t *a, size_t least, size_t most) {
    if (a->is_bad) return least;
    const size_t number = PyLong_AsSize_t(a->items[a->next++]);
    if (number == (size_t)-1 && PyErr_Occurred())
        a->is_bad = 1;
    else if (number < least || number > most)
        refuse(a, "is out of its bounds");
    return a->is_bad ? least : number;
}

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
    /* Nothing has more items than memory has bytes, so that the product is one. */
    if (items > SIZE_MAX / 2 / size || (size_t)view->len < items * size) refuse(a, "is too short");
    return view->buf;
}

static inline const void *take_in(args_t *a, size_t items, size_t size) {
    return take_view(a, items, size, PyBUF_SIMPLE, 0);
}

static inline void *take_out(args_t *a, size_t items, size_t size) {
    return take_view(a, items, size, PyBUF_WRITABLE, 0);
}

/* ---- what searches have in common */

#define PLACES_MOST INT32_MAX

static inline source_t take_source(args_t *a) {
    source_t s = {NULL, 0, 0, NULL, NULL};
    s.n = take_number(a, 0, PLACES_MOST);
    s.words = take_number(a, 1, MAX_WORDS);
    s.groups = take_in(a, (s.n + LANES - 1) / LANES * LANES * s.words, sizeof *s.groups);
    return s;
}

#define TABLE_ITEMS 9

static inline table_t take_table(args_t *a) {
    table_t t;
    memset(&t, 0, sizeof t);
    if (a->is_bad) return t;
    t.bits = (unsigned)take_number(a, 1, MAX_TABLE_BITS);
    t.cell_bits = (unsigned)take_number(a, 1, 31);
    t.filter_bits = (unsigned)take_number(a, 6, 40);
    t.n_keys = take_number(a, 0, PLACES_MOST);
    t.keys = take_in(a, (t.n_keys + LANES - 1) / LANES * LANES, sizeof *t.keys);
    t.starts = take_in(a, t.n_keys + 1, sizeof *t.starts);
    t.n_places = a->is_bad ? 0 : t.starts[t.n_keys];
    t.places = take_in(a, t.n_places, sizeof *t.places);
    t.directory = take_in(a, ((size_t)1 << t.cell_bits) + 1, sizeof *t.directory);
    t.filter = take_in(a, (size_t)1 << (t.filter_bits - 6), sizeof *t.filter);
    return t;
}

#define SEARCH_ITEMS 9

/* `n` is how many places there are, `words` of how many numbers each query is. */
static inline search_t take_search(args_t *a, size_t n, size_t words) {
    search_t s;
    s.n_queries = take_number(a, 0, PLACES_MOST);
    s.queries = take_in(a, s.n_queries * words, sizeof *s.queries);
    s.k = take_number(a, 1, PLACES_MOST);
    s.radius = take_number(a, 0, INT32_MAX);
    s.allowed = take_view(a, (n + 7) / 8, 1, PyBUF_SIMPLE, 1);
    s.rows = take_in(a, n, sizeof *s.rows);
    s.out_rows = take_out(a, s.n_queries * s.k, sizeof *s.out_rows);
    s.out_distances = take_out(a, s.n_queries * s.k, sizeof *s.out_distances);
    s.out_counts = take_out(a, s.n_queries, sizeof *s.out_counts);
    return s;
}

static inline PyObject *searched(args_t *a, double work) {
    release(a);
    return work < 0 ? PyErr_NoMemory() : PyFloat_FromDouble(work);
}

#endif
