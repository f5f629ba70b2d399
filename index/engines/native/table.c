/* Tables of the distinct codes: which there are, and where. All codes around a query are looked up,
   nearest first, until there are k (Norouzi, Punjani and Fleet, "Fast exact search in Hamming space
   with multi-index hashing", 2014, section 2). */
#include "kernel.h"

#include <stdlib.h>

/* 2^64 divided by the golden ratio: a number multiplied by it spreads over the high bits. It is odd,
   so that no two numbers of `bits` bits get the same hash. */
#define SPREAD UINT64_C(0x9E3779B97F4A7C15)
#define SPREAD_BACK UINT64_C(0xF1DE83E19937733D)
/* A scan reads so many words in the time that a code takes which is found. */
#define WORDS_PER_CODE 150.0
#define CELL_MOST 8

static inline uint64_t hash_of(uint64_t key, unsigned bits) { return (key << (64 - bits)) * SPREAD; }

int table_group(uint64_t *keys, size_t n, unsigned bits, int32_t *places, uint32_t *starts,
                int32_t *code_of, size_t *n_keys) {
    uint64_t *spare = malloc((n + 1) * sizeof *spare);
    uint32_t *spare_with = malloc((n + 1) * sizeof *spare_with);
    const int done = spare != NULL && spare_with != NULL;
    size_t codes = 0;
    if (done) {
        for (size_t i = 0; i < n; i++) {
            keys[i] = hash_of(keys[i], bits);
            places[i] = (int32_t)i;
        }
        radix_sort(keys, spare, (uint32_t *)places, spare_with, n);
        for (size_t i = 0; i < n; i++) {
            if (!i || keys[i] != keys[i - 1]) starts[codes++] = (uint32_t)i;
            if (code_of != NULL) code_of[places[i]] = (int32_t)(codes - 1);
        }
        for (size_t c = 0; c < codes; c++)
            keys[c] = keys[starts[c]] * SPREAD_BACK >> (64 - bits);
        starts[codes] = (uint32_t)n;
    }
    free(spare), free(spare_with);
    *n_keys = codes;
    return done;
}

void table_index(const table_t *t, uint32_t *directory, uint64_t *filter) {
    size_t cell = 0;
    for (size_t c = 0; c < t->n_keys; c++) {
        const uint64_t hash = hash_of(t->keys[c], t->bits);
        const uint64_t bit = hash >> (64 - t->filter_bits);
        filter[bit >> 6] |= UINT64_C(1) << (bit & 63);
        for (const size_t own = hash >> (64 - t->cell_bits); cell <= own;)
            directory[cell++] = (uint32_t)c;
    }
    while (cell <= (size_t)1 << t->cell_bits) directory[cell++] = (uint32_t)t->n_keys;
}

static inline int maybe_there(const table_t *t, uint64_t hash) {
    const uint64_t bit = hash >> (64 - t->filter_bits);
    return t->filter[bit >> 6] >> (bit & 63) & 1;
}

static int64_t find_hashed(const table_t *t, uint64_t key, uint64_t hash) {
    const size_t cell = hash >> (64 - t->cell_bits);
    size_t low = t->directory[cell], high = t->directory[cell + 1];
    /* Codes can be chosen so that many share a cell; they ascend by their hashes in it. */
    while (high - low > CELL_MOST) {
        const size_t middle = low + (high - low) / 2;
        if (hash_of(t->keys[middle], t->bits) <= hash)
            low = middle;
        else
            high = middle;
    }
    for (; low < high; low++)
        if (t->keys[low] == key) return (int64_t)low;
    return -1;
}

int64_t table_find(const table_t *t, uint64_t key) {
    const uint64_t hash = hash_of(key, t->bits);
    return maybe_there(t, hash) ? find_hashed(t, key, hash) : -1;
}

double shell_size(unsigned bits, unsigned r) {
    double size = 1;
    for (unsigned i = 0; i < r; i++) size = size * (bits - i) / (i + 1);
    return r > bits ? 0 : size;
}

int table_shell(const table_t *t, uint64_t key, unsigned r, list_t *found) {
    uint64_t mask = r == 64 ? ~UINT64_C(0) : (UINT64_C(1) << r) - 1;
    for (uint64_t left = (uint64_t)shell_size(t->bits, r); left; left--) {
        const uint64_t hash = hash_of(key ^ mask, t->bits);
        if (maybe_there(t, hash)) {
            const int64_t code = find_hashed(t, key ^ mask, hash);
            if (code >= 0) {
                if (found->n == found->room) {
                    const size_t room = 2 * found->room + 64;
                    uint32_t *items = realloc(found->items, room * sizeof *items);
                    if (items == NULL) return 0;
                    found->items = items, found->room = room;
                }
                found->items[found->n++] = (uint32_t)code;
            }
        }
        if (left > 1) {
            /* The next number with as many bits set. */
            const uint64_t low = mask & -mask, up = mask + low;
            mask = (up ^ mask) >> 2 >> __builtin_ctzll(mask) | up;
        }
    }
    return 1;
}

/* Look up the shells around a query; return whether that settled it, below 0 without memory. */
static int settled(const table_t *t, const search_t *a, uint64_t key, list_t *list,
                   nearest_t *found, double *work) {
    const double scan = scan_cost(t->n_keys, a->n_queries);
    for (unsigned r = 0; r <= t->bits && r <= a->radius; r++) {
        const double cost = WORDS_PER_LOOKUP * shell_size(t->bits, r);
        if (r && cost > scan) return 0;
        *work += cost;
        list->n = 0;
        if (!table_shell(t, key, r, list)) return -1;
        *work += WORDS_PER_CODE * (double)list->n;
        for (size_t i = 0; i < list->n; i++)
            offer_code(t, list->items[i], r, a->allowed, found);
        if (nearest_settle(found)) return 1;
    }
    return 1;
}

double search_table(const table_t *t, const search_t *a) {
    const size_t size = nearest_size(a->k);
    size_t *which = malloc((a->n_queries + 1) * sizeof *which), left = 0;
    uint64_t *limits = malloc((a->n_queries + 1) * sizeof *limits);
    uint64_t *memory = malloc((size + 1) * sizeof *memory);
    list_t list = {NULL, 0, 0};
    double work = 0;
    int done = which != NULL && limits != NULL && memory != NULL;
    for (size_t i = 0; done && i < a->n_queries; i++) {
        nearest_t found;
        nearest_begin(&found, memory, a->k, a->radius);
        const int is = settled(t, a, a->queries[i], &list, &found, &work);
        if (is > 0) {
            write_found(&found, a, i);
        } else {
            which[left] = i, limits[left++] = a->radius;
            done = is == 0;
        }
    }
    if (done && left) {
        const source_t source = {t->keys, t->n_keys, 1, a->allowed, t};
        done = scan_some(&source, a, which, limits, left);
        work += (double)left * scan_cost(t->n_keys, a->n_queries);
    }
    free(which), free(limits), free(memory), free(list.items);
    return done ? work : -1;
}
