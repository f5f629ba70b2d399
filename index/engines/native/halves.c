/* Two halves of a code, each with a table: multi-index hashing (Norouzi, Punjani and Fleet, "Fast
   exact search in Hamming space with multi-index hashing", 2014, section 3).

   Once every code is known whose first half lies within r of the query's, or whose second within s,
   every code within r + s + 1 is: one that is farther in both halves is farther than that. The half
   whose next step takes less goes on. Codes of a bucket lie side by side, so that one is scanned. */
#include "kernel.h"

#include <stdlib.h>

#define WORDS_PER_BUCKET 200.0
/* Of what a scan takes, so much is spent on lookups before everything is scanned. */
#define MOST_OF_A_SCAN 0.5

typedef struct {
    const table_t *table;
    const uint64_t *rest;
    uint64_t own, other; /* the query's half, and its other one */
    int reach;           /* what lies as near as this in this half was looked at */
    int is_probed;       /* whether `buckets` has the next step */
    size_t waiting;      /* codes in these */
    list_t buckets;
} half_t;

static double step_cost(const half_t *h, int *is_possible) {
    const unsigned next = (unsigned)(h->reach + 1);
    *is_possible = next <= h->table->bits;
    if (h->is_probed)
        return (double)h->waiting + WORDS_PER_BUCKET * (double)h->buckets.n;
    return WORDS_PER_LOOKUP * shell_size(h->table->bits, next);
}

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

/* Look at the codes of the buckets that are nearer in the other half than it has reached itself. */
static void take_step(half_t *h, int other_reach, const search_t *a, nearest_t *found) {
    const uint64_t here = (uint64_t)++h->reach;
    uint64_t distances[LANES];
    uint8_t hits = 0;
    h->is_probed = 0;
    for (size_t i = 0; i < h->buckets.n; i++) {
        const uint32_t code = h->buckets.items[i];
        const size_t start = h->table->starts[code], n = h->table->starts[code + 1] - start;
        const size_t groups = (n + LANES - 1) / LANES;
        for (size_t g = 0; g < groups && found->bound; g++) {
            const uint64_t limit = (found->bound - 1) >> 32;
            if (limit < here) break;
            g = path.hamming(h->rest + start, g, groups, 1, &h->other, limit - here, NULL,
                             distances, &hits);
            if (g >= groups) break;
            for (unsigned mask = hits; mask; mask &= mask - 1) {
                const unsigned lane = (unsigned)__builtin_ctz(mask);
                if (LANES * g + lane >= n) break;
                const int32_t place = h->table->places[start + LANES * g + lane];
                const uint64_t key = KEY(here + distances[lane], place);
                if ((int64_t)distances[lane] > other_reach && key < found->bound &&
                    is_allowed(a->allowed, place))
                    nearest_push(found, key);
            }
        }
    }
}

/* Return whether lookups settle a query; below 0 without memory. */
static int settled(half_t *one, half_t *two, const search_t *a, double scan, nearest_t *found,
                   double *work) {
    double spent = 0;
    for (;;) {
        const int within = one->reach + two->reach + 1;
        if (within >= 0 && ((uint64_t)within >= a->radius ||
                            (nearest_settle(found) && within >= (int)((found->bound) >> 32))))
            break;
        int possible_one, possible_two;
        const double cost_one = step_cost(one, &possible_one);
        const double cost_two = step_cost(two, &possible_two);
        if (!possible_one || !possible_two) break; /* all codes were looked at */
        half_t *h = cost_one <= cost_two ? one : two;
        const double cost = cost_one <= cost_two ? cost_one : cost_two;
        if (spent + cost > MOST_OF_A_SCAN * scan) {
            *work += spent;
            return 0;
        }
        spent += cost;
        if (!h->is_probed) {
            if (!probe(h)) return -1;
        } else {
            take_step(h, (h == one ? two : one)->reach, a, found);
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
    int done = memory != NULL && which != NULL && limits != NULL;
    for (size_t i = 0; done && i < a->n_queries; i++) {
        nearest_t found;
        one.own = two.other = a->queries[2 * i];
        two.own = one.other = a->queries[2 * i + 1];
        one.reach = two.reach = -1;
        one.is_probed = two.is_probed = 0;
        nearest_begin(&found, memory, a->k, a->radius);
        const int is = settled(&one, &two, a, scan, &found, &work);
        if (is > 0) {
            write_found(&found, a, i);
        } else {
            /* The k-th so far bounds how far a scan has to look. */
            const uint64_t bound = nearest_settle(&found) ? found.bound >> 32 : a->radius;
            which[left] = i, limits[left++] = bound;
            done = is == 0;
        }
    }
    if (done && left) {
        done = scan_some(all, a, which, limits, left);
        work += (double)left * scan;
    }
    free(memory), free(which), free(limits), free(one.buckets.items), free(two.buckets.items);
    return done ? work : -1;
}
