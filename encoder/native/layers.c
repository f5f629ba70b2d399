/* The weights of a query's terms, and its forward pass through fully connected layers.

   A layer computes act(x W + b). Its sums begin at 0 and add x[i] W[i][j] in the order of i,
   leaving out inputs that are 0, and every product is rounded before it is added. So the result
   does not depend on the processor, and numpy gives the same, bit for bit, by multiplying rows and
   adding them up (layers.py). This file must be compiled without fusing products and sums
   (-ffp-contract=off).

   Leaving out an input that is 0 saves reading its row; behind a rectifier, about half are. */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "terms.h"

#define MAX_LAYERS 16
/* Longer computations let other threads of Python run. */
#define FEW_PRODUCTS (1 << 20)

typedef struct {
    const float *weight, *bias;
    size_t inputs, outputs;
    int is_rectified;
} layer_t;

/* The inputs of a layer that are not 0, in ascending order. */
typedef struct {
    int64_t *rows;
    float *values;
    size_t n;
} inputs_t;

/* The floats in a line of the cache. */
#define LINE 16

/* Write the sums of a layer. Four rows are added in one pass over the sums, one after the other.
   Meanwhile the next four are fetched: they are rarely in the cache, and lie anywhere in memory. */
static void add_rows(const layer_t *layer, const inputs_t *x, float *restrict sums) {
    const size_t n = layer->outputs;
    const int64_t *rows = x->rows;
    const float *v = x->values, *weight = layer->weight;
    memset(sums, 0, n * sizeof *sums);
    size_t i = 0;
    for (; i + 4 <= x->n; i += 4) {
        const float *a = weight + (size_t)rows[i] * n, *b = weight + (size_t)rows[i + 1] * n;
        const float *c = weight + (size_t)rows[i + 2] * n, *d = weight + (size_t)rows[i + 3] * n;
        const float va = v[i], vb = v[i + 1], vc = v[i + 2], vd = v[i + 3];
        const float *next[4];
        for (size_t r = 0; r < 4; r++)
            next[r] = weight + (size_t)rows[i + 4 + r < x->n ? i + 4 + r : i] * n;
        size_t j = 0;
        for (; j + LINE <= n; j += LINE) {
            for (size_t r = 0; r < 4; r++) __builtin_prefetch(next[r] + j);
            for (size_t l = j; l < j + LINE; l++)
                sums[l] = (((sums[l] + va * a[l]) + vb * b[l]) + vc * c[l]) + vd * d[l];
        }
        for (; j < n; j++)
            sums[j] = (((sums[j] + va * a[j]) + vb * b[j]) + vc * c[j]) + vd * d[j];
    }
    for (; i < x->n; i++) {
        const float *row = weight + (size_t)rows[i] * n, value = v[i];
        for (size_t j = 0; j < n; j++) sums[j] += value * row[j];
    }
}

/* Compute all layers; the inputs of the first are in `x`. Its arrays have room for any layer's. */
static void run(const layer_t *layers, size_t n_layers, inputs_t *x, float *between, float *out) {
    for (size_t l = 0; l < n_layers; l++) {
        const layer_t *layer = layers + l;
        const int is_last = l + 1 == n_layers;
        float *sums = is_last ? out : between;
        add_rows(layer, x, sums);
        for (size_t j = 0; j < layer->outputs; j++) {
            const float sum = sums[j] + layer->bias[j];
            sums[j] = layer->is_rectified && sum < 0 ? 0 : sum;
        }
        if (is_last) return;
        x->n = 0;
        for (size_t j = 0; j < layer->outputs; j++)
            if (sums[j] != 0) {
                x->rows[x->n] = (int64_t)j;
                x->values[x->n++] = sums[j];
            }
    }
}

#define MAX_VIEWS (4 + 2 * MAX_LAYERS)

typedef struct {
    Py_buffer items[MAX_VIEWS];
    size_t n;
} views_t;

/* Return the memory of a buffer of 4-byte or 8-byte items and their number, or NULL. */
static void *take(views_t *views, PyObject *item, int flags, size_t size, size_t *n) {
    Py_buffer *view = views->items + views->n;
    if (PyObject_GetBuffer(item, view, flags) < 0) return NULL;
    views->n++;
    *n = (size_t)view->len / size;
    return view->buf;
}

static void release(views_t *views) {
    while (views->n) PyBuffer_Release(views->items + --views->n);
}

/* Read the weight, the bias and the activation of each layer; return the most outputs that one has,
   or 0 with an exception set. `inputs` is the number of inputs that the first must have at least. */
static size_t take_layers(views_t *views, PyObject *const *items, size_t n_layers, layer_t *layers) {
    size_t most = 0;
    for (size_t l = 0; l < n_layers; l++, items += 3) {
        layer_t *layer = layers + l;
        size_t n_weights;
        layer->weight = take(views, items[0], PyBUF_SIMPLE, sizeof(float), &n_weights);
        if (layer->weight == NULL) return 0;
        layer->bias = take(views, items[1], PyBUF_SIMPLE, sizeof(float), &layer->outputs);
        if (layer->bias == NULL) return 0;
        layer->is_rectified = PyObject_IsTrue(items[2]);
        layer->inputs = layer->outputs ? n_weights / layer->outputs : 0;
        const int fits = l == 0 || layer->inputs == layers[l - 1].outputs;
        if (!fits || !layer->outputs || layer->inputs * layer->outputs != n_weights) {
            PyErr_Format(PyExc_ValueError, "the size of layer %zu does not fit the others", l);
            return 0;
        }
        if (layer->outputs > most) most = layer->outputs;
    }
    return most;
}

static int are_below(const int64_t *rows, size_t n, size_t end) {
    for (size_t i = 0; i < n; i++)
        if (rows[i] < 0 || (size_t)rows[i] >= end) return 0;
    return 1;
}

/* forward(out, rows, values, thresholds, weight, bias, is_rectified, ...): write the outputs of the
   last layer minus `thresholds`, float32, for inputs that are 0 but for `values`, float32[M], at the
   ascending `rows`, int64[M]. Each layer has a weight, float32[inputs, outputs], a bias,
   float32[outputs], and a truth value. */
static PyObject *forward(PyObject *module, PyObject *const *items, Py_ssize_t n_items) {
    (void)module;
    if (n_items < 7 || n_items % 3 != 1 || n_items > 4 + 3 * MAX_LAYERS)
        return PyErr_Format(PyExc_TypeError, "%zd arguments are not those of layers", n_items);
    const size_t n_layers = (size_t)n_items / 3 - 1;
    layer_t layers[MAX_LAYERS];
    views_t views = {.n = 0};
    PyObject *result = NULL;
    char *memory = NULL;
    size_t n_out, n_rows, n_values, n_thresholds, products = 0;
    float *out = take(&views, items[0], PyBUF_WRITABLE, sizeof(float), &n_out);
    const int64_t *rows = out ? take(&views, items[1], PyBUF_SIMPLE, 8, &n_rows) : NULL;
    const float *values = rows ? take(&views, items[2], PyBUF_SIMPLE, 4, &n_values) : NULL;
    const float *thresholds = values ? take(&views, items[3], PyBUF_SIMPLE, 4, &n_thresholds) : NULL;
    const size_t most = thresholds ? take_layers(&views, items + 4, n_layers, layers) : 0;
    if (!most) goto end;
    if (n_rows != n_values || !are_below(rows, n_rows, layers[0].inputs) ||
        n_out != layers[n_layers - 1].outputs || n_out != n_thresholds) {
        PyErr_SetString(PyExc_ValueError, "the rows, values or outputs do not fit the layers");
        goto end;
    }
    const size_t room = n_rows > most ? n_rows : most;
    memory = PyMem_Malloc(room * (sizeof(int64_t) + 2 * sizeof(float)));
    if (memory == NULL) {
        PyErr_NoMemory();
        goto end;
    }
    inputs_t x = {(int64_t *)memory, (float *)(memory + room * sizeof(int64_t)), n_rows};
    memcpy(x.rows, rows, n_rows * sizeof *rows);
    memcpy(x.values, values, n_rows * sizeof *values);
    for (size_t l = 0; l < n_layers; l++)
        products += (l ? layers[l].inputs : n_rows) * layers[l].outputs;
    PyThreadState *state = products > FEW_PRODUCTS ? PyEval_SaveThread() : NULL;
    run(layers, n_layers, &x, x.values + room, out);
    if (state != NULL) PyEval_RestoreThread(state);
    for (size_t j = 0; j < n_out; j++) out[j] -= thresholds[j];
    result = Py_NewRef(Py_None);
end:
    PyMem_Free(memory);
    release(&views);
    return result;
}

/* The terms that one call of `weigh` takes at most. */
#define MOST_TERMS 64

/* Read a list of integers below `end` into `sorted`, in ascending order; return 0 with an exception
   set if it holds anything else. */
static int take_columns(PyObject *list, size_t n, size_t end, int64_t *sorted) {
    for (size_t i = 0; i < n; i++) {
        const long long column = PyLong_AsLongLong(PyList_GetItem(list, (Py_ssize_t)i));
        if (column == -1 && PyErr_Occurred()) return 0;
        if (column < 0 || (size_t)column >= end) {
            PyErr_SetString(PyExc_ValueError, "a column is outside the vocabulary");
            return 0;
        }
        size_t place = i;
        for (; place && sorted[place - 1] > column; place--) sorted[place] = sorted[place - 1];
        sorted[place] = column;
    }
    return 1;
}

/* Write each distinct column and gains[count] idf[column]; return their number. */
static size_t weigh_counts(const int64_t *sorted, size_t n, const float *gains, const float *idf,
                           int64_t *rows, float *values) {
    size_t n_rows = 0;
    for (size_t i = 0, next; i < n; i = next) {
        for (next = i + 1; next < n && sorted[next] == sorted[i]; next++) continue;
        rows[n_rows] = sorted[i];
        values[n_rows++] = gains[next - i] * idf[sorted[i]];
    }
    return n_rows;
}

/* The squares are floats and are added up as doubles, in order, as in unit_length.py. */
static void scale_to_unit_length(float *values, size_t n) {
    double squares = 0;
    for (size_t i = 0; i < n; i++) {
        const float square = values[i] * values[i];
        squares += square;
    }
    const float length = (float)sqrt(squares);
    for (size_t i = 0; i < n; i++) values[i] /= length ? length : 1;
}

/* weigh(rows, values, columns, gains, idf, is_scaled) -> int: write the features of a text whose
   known terms have the `columns`, a list of fewer than len(gains) integers, repeats included. `rows`,
   int64, and `values`, float32, have room for all of them; the number of distinct ones is returned.
   A column that occurs c times has the value gains[c] idf[column]; then the values are scaled to
   unit length, if `is_scaled`. */
static PyObject *weigh(PyObject *module, PyObject *const *items, Py_ssize_t n_items) {
    (void)module;
    if (n_items != 6 || !PyList_Check(items[2]))
        return PyErr_Format(PyExc_TypeError, "weigh takes 6 arguments, the third a list");
    views_t views = {.n = 0};
    PyObject *result = NULL;
    int64_t sorted[MOST_TERMS];
    size_t n_rows, n_values, n_gains, n_idf;
    const size_t n = (size_t)PyList_Size(items[2]);
    int64_t *rows = take(&views, items[0], PyBUF_WRITABLE, 8, &n_rows);
    float *values = rows ? take(&views, items[1], PyBUF_WRITABLE, 4, &n_values) : NULL;
    const float *gains = values ? take(&views, items[3], PyBUF_SIMPLE, 4, &n_gains) : NULL;
    const float *idf = gains ? take(&views, items[4], PyBUF_SIMPLE, 4, &n_idf) : NULL;
    if (idf == NULL) goto end;
    if (n > n_rows || n > n_values || n >= n_gains || n > MOST_TERMS) {
        PyErr_SetString(PyExc_ValueError, "there are more columns than rows, values or gains");
        goto end;
    }
    if (!take_columns(items[2], n, n_idf, sorted)) goto end;
    const size_t n_distinct = weigh_counts(sorted, n, gains, idf, rows, values);
    if (PyObject_IsTrue(items[5])) scale_to_unit_length(values, n_distinct);
    result = PyLong_FromSize_t(n_distinct);
end:
    release(&views);
    return result;
}

/* fit_signs(signs, weights, covariance, diagonal, least): write the signs, float64[W], by which
   codewords are about as near as by the weights, float32[W]. The covariance of the codewords is
   float64[W, W], and no sign is changed for a gain of at most `least` (class_code.py). */
static PyObject *fit_signs(PyObject *module, PyObject *const *items, Py_ssize_t n_items) {
    (void)module;
    if (n_items != 5) return PyErr_Format(PyExc_TypeError, "fit_signs takes 5 arguments");
    views_t views = {.n = 0};
    PyObject *result = NULL;
    size_t n, n_weights, n_products, n_diagonal;
    double *z = take(&views, items[0], PyBUF_WRITABLE, 8, &n);
    const float *w = z ? take(&views, items[1], PyBUF_SIMPLE, 4, &n_weights) : NULL;
    const double *covariance = w ? take(&views, items[2], PyBUF_SIMPLE, 8, &n_products) : NULL;
    const double *own = covariance ? take(&views, items[3], PyBUF_SIMPLE, 8, &n_diagonal) : NULL;
    const double least = own ? PyFloat_AsDouble(items[4]) : 0;
    if (own == NULL || PyErr_Occurred()) goto end;
    if (!n || n_weights != n || n_diagonal != n || n_products / n != n || n_products % n) {
        PyErr_SetString(PyExc_ValueError, "the signs, weights or covariances do not fit");
        goto end;
    }
    for (size_t b = 0; b < n; b++) z[b] = w[b] > 0 ? 1 : -1;
    for (;;) {
        size_t best = 0;
        double highest = 0;
        for (size_t b = 0; b < n; b++) {
            double sum = 0;
            for (size_t c = 0; c < n; c++) sum += (z[c] - w[c]) * covariance[c * n + b];
            const double gain = sum * z[b] - own[b];
            if (b == 0 || gain > highest) best = b, highest = gain;
        }
        if (!(4 * highest > least)) break;
        z[best] = -z[best];
    }
    result = Py_NewRef(Py_None);
end:
    release(&views);
    return result;
}

/* Add to each count the bits in which n signs differ from one. */
__attribute__((always_inline)) static inline void
count_bits(uint16_t *restrict counts, const uint64_t *restrict signs, size_t n, uint64_t sign) {
    for (size_t i = 0; i < n; i++)
        counts[i] = (uint16_t)(counts[i] + __builtin_popcountll(signs[i] ^ sign));
}

typedef void count_t(uint16_t *counts, const uint64_t *signs, size_t n, uint64_t sign);

#define COUNT(name)                                                                                \
    static void name(uint16_t *counts, const uint64_t *signs, size_t n, uint64_t sign) {           \
        count_bits(counts, signs, n, sign);                                                        \
    }

COUNT(count_plainly)
#ifdef __x86_64__
__attribute__((target("popcnt"))) COUNT(count_by_popcnt)
__attribute__((target("avx512f,avx512bw,avx512vl,avx512vpopcntdq"))) COUNT(count_by_vpopcnt)
#endif

static count_t *fastest_count(void) {
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512vpopcntdq"))
        return count_by_vpopcnt;
    if (__builtin_cpu_supports("popcnt")) return count_by_popcnt;
#endif
    return count_plainly;
}

#define MOST_BITS (1 << 14)

/* count_differing(counts, signs, own, most) -> int: write in how many bits each of n vectors of
   signs, uint64[D / 64, n], differs from its own, uint64[D / 64], to `counts`, uint16[n]. Return the
   least number of bits within which `most` of them lie, or all. */
static PyObject *count_differing(PyObject *module, PyObject *const *items, Py_ssize_t n_items) {
    (void)module;
    if (n_items != 4) return PyErr_Format(PyExc_TypeError, "count_differing takes 4 arguments");
    views_t views = {.n = 0};
    PyObject *result = NULL;
    size_t n, n_signs, n_words;
    uint16_t *counts = take(&views, items[0], PyBUF_WRITABLE, 2, &n);
    const uint64_t *signs = counts ? take(&views, items[1], PyBUF_SIMPLE, 8, &n_signs) : NULL;
    const uint64_t *own = signs ? take(&views, items[2], PyBUF_SIMPLE, 8, &n_words) : NULL;
    const size_t most = own ? PyLong_AsSize_t(items[3]) : 0;
    if (own == NULL || PyErr_Occurred()) goto end;
    if (n_words * 64 > MOST_BITS || n_signs != n_words * n) {
        PyErr_SetString(PyExc_ValueError, "the signs, or those of one, do not fit the counts");
        goto end;
    }
    count_t *const count = fastest_count();
    size_t with_bits[MOST_BITS + 1];
    memset(with_bits, 0, (n_words * 64 + 1) * sizeof *with_bits);
    memset(counts, 0, n * sizeof *counts);
    for (size_t word = 0; word < n_words; word++) count(counts, signs + word * n, n, own[word]);
    for (size_t i = 0; i < n; i++) with_bits[counts[i]]++;
    size_t bits = 0, n_within = with_bits[0];
    while (n_within < most && bits < n_words * 64) n_within += with_bits[++bits];
    result = PyLong_FromSize_t(bits);
end:
    release(&views);
    return result;
}

/* Read the text of a vocabulary, where its terms start, and its cells; return 0 with an exception set
   if they do not fit. */
static int take_terms(views_t *views, PyObject *const *items, int flags, terms_t *terms) {
    size_t n_bytes, n_starts;
    terms->text = take(views, items[0], PyBUF_SIMPLE, 1, &n_bytes);
    terms->starts = terms->text ? take(views, items[1], PyBUF_SIMPLE, 4, &n_starts) : NULL;
    terms->cells = terms->starts ? take(views, items[2], flags, 8, &terms->n_cells) : NULL;
    if (terms->cells == NULL) return 0;
    terms->n_terms = n_starts ? n_starts - 1 : 0;
    int fits = n_starts && terms->starts[0] == 0 && terms->n_cells >= 2 * terms->n_terms + 1;
    fits = fits && !(terms->n_cells & (terms->n_cells - 1));
    for (size_t i = 0; fits && i < terms->n_terms; i++)
        fits = terms->starts[i] < terms->starts[i + 1] && (size_t)terms->starts[i + 1] <= n_bytes;
    if (!fits) PyErr_SetString(PyExc_ValueError, "the terms or their cells do not fit");
    return fits;
}

/* fill_cells(text, starts, cells): fill the cells, uint64[a power of two], all 0, with the terms,
   which begin at `starts`, int32[V + 1], in the text (fill_cells). */
static PyObject *fill_cells_(PyObject *module, PyObject *const *items, Py_ssize_t n_items) {
    (void)module;
    if (n_items != 3) return PyErr_Format(PyExc_TypeError, "fill_cells takes 3 arguments");
    views_t views = {.n = 0};
    terms_t terms;
    const int is_ok = take_terms(&views, items, PyBUF_WRITABLE, &terms);
    if (is_ok) fill_cells(&terms);
    release(&views);
    return is_ok ? Py_NewRef(Py_None) : NULL;
}

/* known_terms(text, starts, cells, max_words, with_pieces, joined, boundary, columns, lengths) -> int:
   write the numbers of the known terms of joined texts, int32[len(joined) * max_words], and how many
   each text has, int64[N]; return how many there are (known_terms). */
static PyObject *known_terms_(PyObject *module, PyObject *const *items, Py_ssize_t n_items) {
    (void)module;
    if (n_items != 9) return PyErr_Format(PyExc_TypeError, "known_terms takes 9 arguments");
    views_t views = {.n = 0};
    terms_t terms;
    PyObject *result = NULL;
    uint8_t *words = NULL;
    size_t n_bytes, n_columns, n_texts, n = 0;
    const reading_t reading = {PyLong_AsSize_t(items[3]), PyObject_IsTrue(items[4])};
    const size_t boundary = PyLong_AsSize_t(items[6]);
    if (PyErr_Occurred() || !take_terms(&views, items, PyBUF_SIMPLE, &terms)) goto end;
    const uint8_t *joined = take(&views, items[5], PyBUF_SIMPLE, 1, &n_bytes);
    int32_t *columns = joined ? take(&views, items[7], PyBUF_WRITABLE, 4, &n_columns) : NULL;
    int64_t *lengths = columns ? take(&views, items[8], PyBUF_WRITABLE, 8, &n_texts) : NULL;
    if (lengths == NULL) goto end;
    if (!reading.max_words || boundary > UINT8_MAX || n_columns / reading.max_words < n_bytes) {
        PyErr_SetString(PyExc_ValueError, "there is no room for the columns");
        goto end;
    }
    words = PyMem_Malloc(n_bytes + 1);
    if (words == NULL) {
        PyErr_NoMemory();
        goto end;
    }
    PyThreadState *state = PyEval_SaveThread();
    n = known_terms(&terms, reading, joined, n_bytes, (uint8_t)boundary, words, n_texts, columns,
                    lengths);
    PyEval_RestoreThread(state);
    if (n == SIZE_MAX)
        PyErr_SetString(PyExc_ValueError, "there is another number of texts");
    else
        result = PyLong_FromSize_t(n);
end:
    PyMem_Free(words);
    release(&views);
    return result;
}

static PyMethodDef methods[] = {
    {"count_differing", (PyCFunction)(void (*)(void))count_differing, METH_FASTCALL, NULL},
    {"fill_cells", (PyCFunction)(void (*)(void))fill_cells_, METH_FASTCALL, NULL},
    {"known_terms", (PyCFunction)(void (*)(void))known_terms_, METH_FASTCALL, NULL},
    {"fit_signs", (PyCFunction)(void (*)(void))fit_signs, METH_FASTCALL, NULL},
    {"weigh", (PyCFunction)(void (*)(void))weigh, METH_FASTCALL, NULL},
    {"forward", (PyCFunction)(void (*)(void))forward, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "_layers",
    .m_size = 0,
    .m_methods = methods,
};

PyMODINIT_FUNC PyInit__layers(void) { return PyModuleDef_Init(&definition); }
