/* Searches codes of two words by their halves: multi-index hashing (Norouzi, Punjani and Fleet,
   "Fast exact search in Hamming space with multi-index hashing", 2014, section 3).

   Each half has a table of its distinct values (table.c). A bucket holds the codes that share
   one value of a half; their other halves lie side by side in memory, so a bucket is scanned.

   A search takes steps, each in the half where it costs less. A step reads all buckets at the
   next distance from the query's half. Once the first half has been read up to distance r and
   the second up to s, every code within r + s + 1 has been seen: any other code is at least
   r + 1 away in the first half and s + 1 in the second. A query whose steps would cost more
   than a share of a scan is scanned (scan.c). Results have the order (distance, place). */
#include "kernel.h"

#include <stdlib.h>

/* Visiting a bucket takes as long as reading this many words in a scan. */
#define WORDS_PER_BUCKET 200.0
/* A bucket is fetched into the cache while this many others are read. */
#define BUCKETS_AHEAD 8
/* Lookups may cost this share of a scan; after that the query is scanned. */
#define MAX_SHARE_OF_SCAN 0.5

typedef struct {
    const table_t *table;
    const uint64_t *rest; /* the other halves of the codes, in the order of the table's places */
    uint64_t own, other;  /* this half of the query, and its other half */
    int reach;            /* buckets up to this distance have been read; -1 for none */
    int is_probed;        /* whether `buckets` holds the buckets of the next step */
    size_t waiting;       /* the number of codes in these buckets */
    list_t buckets;
} half_t;

/* Return the cost of the next step of a half, and whether there is one: the lookup of its
   buckets, or, once they are known, reading them. */
static double step_cost(const half_t *h, int *is_possible) {
    const unsigned next = (unsigned)(h->reach + 1);
    *is_possible = next <= h->table->bits;
    if (h->is_probed)
        return (double)h->waiting + WORDS_PER_BUCKET * (double)h->buckets.n;
    return WORDS_PER_LOOKUP * shell_size(h->table->bits, next);
}

/* Look up the buckets of the next step; return 0 if memory ran out. */
static int probe(half_t *h) {
    h->buckets.n = h->waiting = 0;
    if (!table_shell(h->table, h->own, (unsigned)(h->reach + 1), &h->buckets)) return 0;
    for (size_t i = 0; i < h->buckets.n; i++) {
        const uint32_t code = h->buckets.items[i];
        h->waiting += h->table->starts[code + 1] - h->table->starts[code];
    }
    h->is_probed = 1;
    return 1;
}

/* Read the buckets of the next step. A code that the other half has already read is not offered
   again: those are the codes within `other_reach` in the other half. Nor are codes that are
   nearer than the floor. */
static void take_step(half_t *h, int other_reach, const search_t *a, nearest_t *nearest) {
    const uint64_t here = (uint64_t)++h->reach, unread = (uint64_t)(other_reach + 1);
    const uint64_t from = nearest->floor >> 32;
    const uint64_t least = from > here + unread ? from - here : unread;
    uint64_t distances[LANES];
    uint8_t hits = 0;
    h->is_probed = 0;
    for (size_t i = 0; i < h->buckets.n; i++) {
        const uint32_t code = h->buckets.items[i];
        const size_t start = h->table->starts[code], n = h->table->starts[code + 1] - start;
        if (i + BUCKETS_AHEAD < h->buckets.n)
            __builtin_prefetch(h->rest + h->table->starts[h->buckets.items[i + BUCKETS_AHEAD]]);
        const size_t groups = (n + LANES - 1) / LANES;
        for (size_t g = 0; g < groups && nearest->bound; g++) {
            const uint64_t limit = (nearest->bound - 1) >> 32;
            if (limit < here + least) break;
            g = path.hamming(h->rest + start, g, groups, 1, &h->other, least, limit - here,
                             NULL, distances, &hits);
            if (g >= groups) break;
            for (unsigned mask = hits; mask; mask &= mask - 1) {
                const unsigned lane = (unsigned)__builtin_ctz(mask);
                if (LANES * g + lane >= n) break;
                const int32_t place = h->table->places[start + LANES * g + lane];
                const uint64_t key = KEY(here + distances[lane], place);
                if (key < nearest->bound && is_allowed(a->allowed, place))
                    nearest_push(nearest, key);
            }
        }
    }
}

/* Search for one query by steps. Return 1 if all its results were found, 0 if it must be
   scanned and -1 if memory ran out. */
static int search_by_lookups(half_t *one, half_t *two, const search_t *a, double scan,
                             nearest_t *nearest, double *work) {
    double spent = 0;
    for (;;) {
        const int within = one->reach + two->reach + 1;
        if (within >= 0 && ((uint64_t)within >= a->radius ||
                            (nearest_tighten(nearest) && within >= (int)((nearest->bound) >> 32))))
            break;
        int possible_one, possible_two;
        const double cost_one = step_cost(one, &possible_one);
        const double cost_two = step_cost(two, &possible_two);
        if (!possible_one || !possible_two) break; /* one half has read all its buckets */
        half_t *h = cost_one <= cost_two ? one : two;
        const double cost = cost_one <= cost_two ? cost_one : cost_two;
        if (spent + cost > MAX_SHARE_OF_SCAN * scan) {
            *work += spent;
            return 0;
        }
        spent += cost;
        if (!h->is_probed) {
            if (!probe(h)) return -1;
        } else {
            take_step(h, (h == one ? two : one)->reach, a, nearest);
        }
    }
    *work += spent;
    return 1;
}

double search_halves(const table_t tables[2], const uint64_t *const rest[2], const source_t *all,
                     const search_t *a) {
    const double scan = scan_cost(all->n * all->words, a->n_queries);
    uint64_t *memory = malloc((nearest_size(a->k) + 1) * sizeof *memory);
    size_t *which = malloc((a->n_queries + 1) * sizeof *which), left = 0;
    uint64_t *limits = malloc((a->n_queries + 1) * sizeof *limits);
    half_t one = {tables, rest[0], 0, 0, -1, 0, 0, {NULL, 0, 0}};
    half_t two = {tables + 1, rest[1], 0, 0, -1, 0, 0, {NULL, 0, 0}};
    double work = 0;
    int is_ok = memory != NULL && which != NULL && limits != NULL;
    for (size_t i = 0; is_ok && i < a->n_queries; i++) {
        nearest_t nearest;
        one.own = two.other = a->queries[2 * i];
        two.own = one.other = a->queries[2 * i + 1];
        one.reach = two.reach = -1;
        one.is_probed = two.is_probed = 0;
        nearest_begin(&nearest, memory, a->k, a->radius, a->floor);
        const int status = search_by_lookups(&one, &two, a, scan, &nearest, &work);
        if (status > 0) {
            write_results(&nearest, a, i);
        } else {
            /* A scan needs to look no farther than the k-th result so far. */
            const uint64_t bound = nearest_tighten(&nearest) ? nearest.bound >> 32 : a->radius;
            which[left] = i, limits[left++] = bound;
            is_ok = status == 0;
        }
    }
    if (is_ok && left) {
        is_ok = scan_queries(all, a, which, limits, left);
        work += (double)left * scan;
    }
    free(memory), free(which), free(limits), free(one.buckets.items), free(two.buckets.items);
    return is_ok ? work : -1;
}
