/* Searches codes of at most 64 bits by weighted distance, by looking up codes in the order of
   their distances.

   The nearest possible code has a one where the weight is positive. Any other code differs from
   it in a set of bits, and is as far away as the absolute weights of these bits, their costs,
   add up to. With the bits sorted by cost, each set follows from exactly one other set that
   costs no more: by adding the bit after its last one, or by replacing its last bit by the one
   after it. So a priority queue that begins with the cheapest bit returns all sets in the order
   of their costs (Lv, Josephson, Wang, Charikar and Li, "Multi-probe LSH", 2007, section 4.5).
   A query that needs too many sets is scanned (scan.c). Results have the order (distance,
   place). */
#include "kernel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A query that needs more sets is scanned. */
#define MAX_SETS 8192
/* A set takes as long as reading this many words in a scan. */
#define WORDS_PER_SET 60.0

typedef struct {
    int64_t cost;
    uint64_t mask;
    unsigned last; /* the rank of its costliest bit */
} set_t;

typedef struct {
    set_t items[MAX_SETS + 2];
    size_t n;
} queue_t;

static void queue_push(queue_t *q, set_t set) {
    size_t i = q->n++;
    while (i && q->items[(i - 1) / 2].cost > set.cost) {
        q->items[i] = q->items[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    q->items[i] = set;
}

static set_t queue_pop(queue_t *q) {
    const set_t first = q->items[0], last = q->items[--q->n];
    size_t i = 0, child;
    while ((child = 2 * i + 1) < q->n) {
        child += child + 1 < q->n && q->items[child + 1].cost < q->items[child].cost;
        if (q->items[child].cost >= last.cost) break;
        q->items[i] = q->items[child];
        i = child;
    }
    q->items[i] = last;
    return first;
}

typedef struct {
    int64_t cost;
    unsigned bit;
} bit_t;

static int by_cost(const void *a, const void *b) {
    const bit_t *one = a, *other = b;
    if (one->cost != other->cost) return one->cost < other->cost ? -1 : 1;
    return one->bit < other->bit ? -1 : 1;
}

static void offer(const table_t *t, uint64_t key, int64_t cost, const search_t *a,
                  nearest_t *nearest) {
    if ((uint64_t)cost < nearest->floor >> 32) return;
    const int64_t code = table_find(t, key);
    if (code >= 0) offer_code(t, (size_t)code, (uint64_t)cost, a->allowed, nearest);
}

/* Search for one query by lookups; return whether all its results were found. */
static int search_by_lookups(const table_t *t, const search_t *a, const int64_t *weights,
                             queue_t *queue, nearest_t *nearest, double *work) {
    const unsigned n_bits = t->bits;
    const size_t most = t->n_keys / (size_t)WORDS_PER_SET + 64;
    bit_t bits[MAX_TABLE_BITS];
    uint64_t best = 0;
    for (unsigned b = 0; b < n_bits; b++) {
        bits[b] = (bit_t){weights[b] < 0 ? -weights[b] : weights[b], b};
        if (weights[b] > 0) best |= UINT64_C(1) << b;
    }
    qsort(bits, n_bits, sizeof *bits, by_cost);
    offer(t, best, 0, a, nearest);
    queue->n = 0;
    queue_push(queue, (set_t){bits[0].cost, UINT64_C(1) << bits[0].bit, 0});
    for (size_t sets = 1; queue->n; sets++) {
        const set_t set = queue_pop(queue);
        if (nearest_tighten(nearest) && (uint64_t)set.cost > nearest->bound >> 32) break;
        if (sets >= MAX_SETS || sets > most) return 0;
        *work += WORDS_PER_SET;
        offer(t, best ^ set.mask, set.cost, a, nearest);
        if (set.last + 1 < n_bits) {
            const bit_t here = bits[set.last], next = bits[set.last + 1];
            const uint64_t more = set.mask | UINT64_C(1) << next.bit;
            queue_push(queue, (set_t){set.cost + next.cost, more, set.last + 1});
            queue_push(queue, (set_t){set.cost + next.cost - here.cost,
                               more ^ UINT64_C(1) << here.bit, set.last + 1});
        }
    }
    return 1;
}

double search_table_weighted(const table_t *t, const search_t *a, const int64_t *weights) {
    const source_t source = {t->keys, t->n_keys, 1, a->allowed, t};
    queue_t *queue = malloc(sizeof *queue);
    weighted_scan_t *scan = malloc(sizeof *scan);
    uint64_t *memory = malloc((nearest_size(a->k) + 1) * sizeof *memory);
    int is_ok = queue != NULL && scan != NULL && memory != NULL;
    double work = 0;
    for (size_t i = 0; is_ok && i < a->n_queries; i++) {
        const int64_t *own = weights + 64 * i;
        nearest_t nearest;
        nearest_begin(&nearest, memory, a->k, a->radius, a->floor);
        if (!search_by_lookups(t, a, own, queue, &nearest, &work)) {
            nearest_begin(&nearest, memory, a->k, a->radius, a->floor);
            begin_weighted(scan, own, 1);
            is_ok = scan_by_weights(&source, scan, 1, &nearest);
            work += 2 * (double)t->n_keys;
        }
        write_results(&nearest, a, i);
    }
    free(queue), free(scan), free(memory);
    return is_ok ? work : -1;
}

/* Return 2^exponent for the exponents of normal numbers. */
static double power_of_two(int exponent) {
    const uint64_t bits = (uint64_t)(exponent + 1023) << 52;
    double power;
    memcpy(&power, &bits, sizeof power);
    return power;
}

int round_weights(const float *weights, size_t n_queries, size_t n_bits, unsigned max_bits,
                  int64_t *whole, int64_t *totals) {
    /* Beside this number, a double has no digits after the point. */
    const double shift = 0x1.8p52;
    for (size_t q = 0; q < n_queries; q++) {
        const float *own = weights + q * n_bits;
        double largest = 0;
        for (size_t b = 0; b < n_bits; b++) {
            const double size = own[b] < 0 ? -(double)own[b] : own[b];
            if (!(size < HUGE_VAL)) return 0;
            if (size > largest) largest = size;
        }
        uint64_t bits;
        memcpy(&bits, &largest, sizeof bits);
        /* The largest is below 2^exponent and not below half of that. */
        const int exponent = largest > 0 ? (int)(bits >> 52) - 1022 : 0;
        const double scale = power_of_two((int)max_bits - exponent);
        int64_t total = 0;
        for (size_t b = 0; b < n_bits; b++) {
            const double scaled = own[b] * scale;
            const int64_t one = (int64_t)((scaled + shift) - shift);
            whole[q * n_bits + b] = one;
            total += one < 0 ? -one : one;
        }
        totals[q] = total;
    }
    return 1;
}

int place_weights(const int64_t *weights, size_t n_queries, const int64_t *positions,
                  size_t n_bytes, size_t words, int64_t most, int64_t *placed) {
    int is_within = 1;
    memset(placed, 0, n_queries * words * 64 * sizeof *placed);
    for (size_t q = 0; q < n_queries; q++)
        for (size_t i = 0; i < n_bytes; i++) {
            const int64_t *from = weights + 8 * (q * n_bytes + i);
            int64_t *to = placed + 64 * q * words + 8 * positions[i];
            for (unsigned bit = 0; bit < 8; bit++) {
                is_within &= from[bit] >= -most && from[bit] <= most;
                to[7 - bit] = from[bit];
            }
        }
    return is_within;
}
