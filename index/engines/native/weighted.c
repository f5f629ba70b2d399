/* The codes around a query in the order of their weighted distances, looked up one by one.

   With the bits sorted by what they cost, every set of bits but the empty one comes from exactly one
   that costs no more: by moving its last bit to the one before, or by leaving its last bit out where
   it follows on the one before. A queue that begins with the cheapest bit gives all sets in order
   (Lv, Josephson, Wang, Charikar and Li, "Multi-probe LSH", 2007, section 4.5). */
#include "kernel.h"

#include <stdlib.h>

/* More sets are not looked up; and a scan reads so many words in the time that one takes. */
#define SETS_MOST 8192
#define WORDS_PER_SET 60.0

typedef struct {
    int64_t cost;
    uint64_t mask;
    unsigned last;
} set_t;

typedef struct {
    set_t items[SETS_MOST + 2];
    size_t n;
} queue_t;

static void put(queue_t *q, set_t set) {
    size_t i = q->n++;
    while (i && q->items[(i - 1) / 2].cost > set.cost) {
        q->items[i] = q->items[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    q->items[i] = set;
}

static set_t take(queue_t *q) {
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
                  nearest_t *found) {
    const int64_t code = table_find(t, key);
    if (code >= 0) offer_code(t, (size_t)code, (uint64_t)cost, a->allowed, found);
}

/* Whether lookups settle a query. */
static int settled(const table_t *t, const search_t *a, const int64_t *weights, queue_t *queue,
                   nearest_t *found, double *work) {
    const unsigned n_bits = t->bits;
    const size_t most = t->n_keys / (size_t)WORDS_PER_SET + 64;
    bit_t bits[MAX_TABLE_BITS];
    uint64_t best = 0;
    for (unsigned b = 0; b < n_bits; b++) {
        bits[b] = (bit_t){weights[b] < 0 ? -weights[b] : weights[b], b};
        if (weights[b] > 0) best |= UINT64_C(1) << b;
    }
    qsort(bits, n_bits, sizeof *bits, by_cost);
    offer(t, best, 0, a, found);
    queue->n = 0;
    put(queue, (set_t){bits[0].cost, UINT64_C(1) << bits[0].bit, 0});
    for (size_t sets = 1; queue->n; sets++) {
        const set_t set = take(queue);
        if (nearest_settle(found) && (uint64_t)set.cost > found->bound >> 32) break;
        if (sets >= SETS_MOST || sets > most) return 0;
        *work += WORDS_PER_SET;
        offer(t, best ^ set.mask, set.cost, a, found);
        if (set.last + 1 < n_bits) {
            const bit_t here = bits[set.last], next = bits[set.last + 1];
            const uint64_t more = set.mask | UINT64_C(1) << next.bit;
            put(queue, (set_t){set.cost + next.cost, more, set.last + 1});
            put(queue, (set_t){set.cost + next.cost - here.cost,
                               more ^ UINT64_C(1) << here.bit, set.last + 1});
        }
    }
    return 1;
}

double search_table_weighted(const table_t *t, const search_t *a, const int64_t *weights) {
    const source_t source = {t->keys, t->n_keys, 1, a->allowed, t};
    queue_t *queue = malloc(sizeof *queue);
    weights_t *of = malloc(sizeof *of);
    uint64_t *memory = malloc((nearest_size(a->k) + 1) * sizeof *memory);
    const int done = queue != NULL && of != NULL && memory != NULL;
    double work = 0;
    for (size_t i = 0; done && i < a->n_queries; i++) {
        const int64_t *own = weights + 64 * i;
        nearest_t found;
        nearest_begin(&found, memory, a->k, a->radius);
        if (!settled(t, a, own, queue, &found, &work)) {
            nearest_begin(&found, memory, a->k, a->radius);
            weights_fill(of, own, 1);
            scan_groups(&source, path.weighted, of, 0, (t->n_keys + LANES - 1) / LANES, &found);
            work += 2 * (double)t->n_keys;
        }
        write_found(&found, a, i);
    }
    free(queue), free(of), free(memory);
    return done ? work : -1;
}
