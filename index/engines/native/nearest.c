/* Collects the k smallest of the keys that are offered, and sorts keys.

   For a small k, the keys lie in a binary heap with the largest at its root, which is the
   bound. For a large k, they lie in a buffer of 2 k keys that is sorted whenever it is full;
   the k smallest stay. The bound is one above the limit until there are k keys. The sort is a
   radix sort from the lowest byte to the highest, which skips bytes that are equal in all keys
   (Knuth, "The Art of Computer Programming", volume 3, section 5.2.5). */
#include "kernel.h"

#include <string.h>

#define MAX_HEAP 256
#define DIGIT_BITS 8
#define DIGITS (64 / DIGIT_BITS)
#define DIGIT_VALUES (1 << DIGIT_BITS)

size_t nearest_size(size_t k) { return k <= MAX_HEAP ? k : 4 * k; }

void nearest_begin(nearest_t *t, uint64_t *memory, size_t k, uint64_t limit, uint64_t floor) {
    t->keys = memory;
    t->spare = memory + 2 * k;
    t->n = 0;
    t->k = k;
    t->bound = KEY(limit + 1, 0);
    t->floor = floor;
}

static void sift_down(uint64_t *heap, size_t n, uint64_t key) {
    size_t i = 0, child;
    while ((child = 2 * i + 1) < n) {
        child += child + 1 < n && heap[child + 1] > heap[child];
        if (heap[child] <= key) break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = key;
}

void nearest_push(nearest_t *t, uint64_t key) {
    if (key < t->floor) return;
    if (t->k > MAX_HEAP) {
        t->keys[t->n++] = key;
        if (t->n == 2 * t->k) nearest_tighten(t);
        return;
    }
    if (t->n < t->k) {
        size_t i = t->n++;
        while (i && t->keys[(i - 1) / 2] < key) {
            t->keys[i] = t->keys[(i - 1) / 2];
            i = (i - 1) / 2;
        }
        t->keys[i] = key;
    } else {
        sift_down(t->keys, t->n, key);
    }
    if (t->n == t->k) t->bound = t->keys[0];
}

int nearest_tighten(nearest_t *t) {
    if (t->k > MAX_HEAP && t->n >= t->k) {
        radix_sort(t->keys, t->spare, NULL, NULL, t->n);
        t->n = t->k;
        t->bound = t->keys[t->k - 1];
    }
    return t->n == t->k;
}

void nearest_finish(nearest_t *t) {
    if (t->k > MAX_HEAP) {
        radix_sort(t->keys, t->spare, NULL, NULL, t->n);
        if (t->n > t->k) t->n = t->k;
        return;
    }
    for (size_t left = t->n; left > 1;) {
        const uint64_t last = t->keys[--left];
        t->keys[left] = t->keys[0];
        sift_down(t->keys, left, last);
    }
}

void radix_sort(uint64_t *keys, uint64_t *spare, uint32_t *values, uint32_t *spare_values,
                size_t n) {
    size_t counts[DIGITS][DIGIT_VALUES];
    uint64_t *from = keys, *to = spare;
    uint32_t *values_from = values, *values_to = spare_values;
    memset(counts, 0, sizeof counts);
    for (size_t i = 0; i < n; i++)
        for (unsigned d = 0; d < DIGITS; d++)
            counts[d][keys[i] >> (DIGIT_BITS * d) & (DIGIT_VALUES - 1)]++;
    for (unsigned d = 0; d < DIGITS && n; d++) {
        const unsigned shift = DIGIT_BITS * d;
        size_t *at = counts[d], sum = 0;
        if (at[from[0] >> shift & (DIGIT_VALUES - 1)] == n) continue; /* equal in all keys */
        for (unsigned v = 0; v < DIGIT_VALUES; v++) {
            const size_t count = at[v];
            at[v] = sum;
            sum += count;
        }
        for (size_t i = 0; i < n; i++) {
            const size_t place = at[from[i] >> shift & (DIGIT_VALUES - 1)]++;
            to[place] = from[i];
            if (values != NULL) values_to[place] = values_from[i];
        }
        uint64_t *swap = from;
        uint32_t *values_swap = values_from;
        from = to, to = swap;
        values_from = values_to, values_to = values_swap;
    }
    if (from != keys) {
        memcpy(keys, from, n * sizeof *keys);
        if (values != NULL) memcpy(values, values_from, n * sizeof *values);
    }
}
