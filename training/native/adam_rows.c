/* Adam's update of some rows of a matrix, in place.

   Every operation is on single numbers of float32 and rounded on its own. So the result does not
   depend on the processor, and torch gives the same, bit for bit, one operation after the other
   (sparse_adam.py). This file must be compiled without fusing products and sums
   (-ffp-contract=off), and with square roots that set no errno (-fno-math-errno), or compilers
   compute one root at a time. */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>

#include <math.h>
#include <stdint.h>

#define LINE 64
/* The rows of a batch are scattered, so the processor does not fetch them ahead by itself. */
#define ROWS_AHEAD 2

typedef struct {
    float *weight, *mean, *square;
    const float *gradient;
    const int64_t *rows;
    size_t n_rows, n_columns;
} matrices_t;

/* The factors of the update: 1 - beta1, 1 - beta2, the corrected step size, and epsilon. */
typedef struct {
    float of_gradient, of_square, step, epsilon;
} factors_t;

static void fetch(const float *row, size_t n_columns) {
    for (size_t j = 0; j < n_columns; j += LINE / sizeof *row) __builtin_prefetch(row + j, 1);
}

static void update_row(float *restrict weight, float *restrict mean, float *restrict square,
                       const float *restrict gradient, size_t n_columns, factors_t by) {
    for (size_t j = 0; j < n_columns; j++) {
        const float g = gradient[j];
        const float m = mean[j] + by.of_gradient * (g - mean[j]);
        const float v = square[j] + by.of_square * (g * g - square[j]);
        mean[j] = m;
        square[j] = v;
        weight[j] -= by.step * m / (sqrtf(v) + by.epsilon);
    }
}

static void update_rows(const matrices_t *of, factors_t by) {
    for (size_t i = 0; i < of->n_rows; i++) {
        if (i + ROWS_AHEAD < of->n_rows) {
            const size_t ahead = (size_t)of->rows[i + ROWS_AHEAD] * of->n_columns;
            fetch(of->weight + ahead, of->n_columns);
            fetch(of->mean + ahead, of->n_columns);
            fetch(of->square + ahead, of->n_columns);
        }
        const size_t at = (size_t)of->rows[i] * of->n_columns;
        update_row(of->weight + at, of->mean + at, of->square + at,
                   of->gradient + i * of->n_columns, of->n_columns, by);
    }
}

static int are_below(const int64_t *rows, size_t n, size_t end) {
    for (size_t i = 0; i < n; i++)
        if (rows[i] < 0 || (size_t)rows[i] >= end) return 0;
    return 1;
}

/* Return whether the matrices have one size, a whole number of rows, and the rows are theirs. */
static int fit(const Py_buffer *views, matrices_t *of) {
    const size_t n_numbers = (size_t)views[0].len / sizeof(float);
    const size_t n_gradients = (size_t)views[3].len / sizeof(float);
    of->n_rows = (size_t)views[4].len / sizeof(int64_t);
    if (views[1].len != views[0].len || views[2].len != views[0].len) return 0;
    if (!of->n_rows || !n_gradients || n_gradients % of->n_rows) return 0;
    of->n_columns = n_gradients / of->n_rows;
    if (n_numbers % of->n_columns) return 0;
    return are_below(of->rows, of->n_rows, n_numbers / of->n_columns);
}

#define N_VIEWS 5

/* update_rows(weight, mean, square, gradient, rows, of_gradient, of_square, step, epsilon): update
   the `rows`, int64[R], each of which occurs once, of three matrices, float32[V, H], by the
   `gradient`, float32[R, H]. The other arguments are the factors above. */
static PyObject *update_rows_of(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *items[N_VIEWS];
    Py_buffer views[N_VIEWS];
    factors_t by;
    if (!PyArg_ParseTuple(args, "OOOOOffff", items, items + 1, items + 2, items + 3, items + 4,
                          &by.of_gradient, &by.of_square, &by.step, &by.epsilon))
        return NULL;
    PyObject *result = NULL;
    int n = 0;
    for (; n < N_VIEWS; n++)
        if (PyObject_GetBuffer(items[n], views + n, n < 3 ? PyBUF_WRITABLE : PyBUF_SIMPLE) < 0)
            goto end;
    matrices_t of = {views[0].buf, views[1].buf, views[2].buf, views[3].buf, views[4].buf, 0, 0};
    if (!fit(views, &of)) {
        PyErr_SetString(PyExc_ValueError, "the sizes of the matrices or the rows do not fit");
        goto end;
    }
    Py_BEGIN_ALLOW_THREADS
    update_rows(&of, by);
    Py_END_ALLOW_THREADS
    result = Py_NewRef(Py_None);
end:
    while (n) PyBuffer_Release(views + --n);
    return result;
}

static PyMethodDef methods[] = {
    {"update_rows", update_rows_of, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "_adam_rows",
    .m_size = 0,
    .m_methods = methods,
};

PyMODINIT_FUNC PyInit__adam_rows(void) { return PyModuleDef_Init(&definition); }
