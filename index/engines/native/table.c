/* Builds tables of the distinct codes of at most 64 bits, and searches by looking codes up.

   A code's hash is its number times an odd constant, so it can be undone and distinct codes
   have distinct hashes (Knuth, "The Art of Computer Programming", volume 3, section 6.4). The
   codes are ordered by hash. A directory holds the first code of each prefix of the hash, and a
   filter has one bit for each longer prefix, so most lookups of absent codes read one bit.

   A search looks up all codes at distance 0 from the query, then 1, 2 and so on, until the k
   nearest are known (Norouzi, Punjani and Fleet, "Fast exact search in Hamming space with
   multi-index hashing", 2014, section 2). A query whose next distance would cost more than a
   scan is scanned: it reads every distinct code (scan.c). Results have the order (distance,
   place). */
#include "kernel.h"

#include <stdlib.h>

/* 2^64 divided by the golden ratio, and its inverse modulo 2^64. */
#define SPREAD UINT64_C(0x9E3779B97F4A7C15)
#define SPREAD_BACK UINT64_C(0xF1DE83E19937733D)
/* Reading the places of a code that a lookup found takes as long as reading this many words in a
   scan. */
#define WORDS_PER_MATCH 150.0
/* Larger cells of the directory are bisected. */
#define MAX_LINEAR_CELL 8
/* So many lookups wait for memory together. */
#define LOOKUPS_AT_ONCE 256

static inline uint64_t hash_of(uint64_t key, unsigned bits) {
    return (key << (64 - bits)) * SPREAD;
}

int table_group(uint64_t *keys, size_t n, unsigned bits, int32_t *places, uint32_t *starts,
                int32_t *code_of, size_t *n_keys) {
    uint64_t *spare = malloc((n + 1) * sizeof *spare);
    uint32_t *spare_places = malloc((n + 1) * sizeof *spare_places);
    const int is_ok = spare != NULL && spare_places != NULL;
    size_t codes = 0;
    if (is_ok) {
        for (size_t i = 0; i < n; i++) {
            keys[i] = hash_of(keys[i], bits);
            places[i] = (int32_t)i;
        }
        radix_sort(keys, spare, (uint32_t *)places, spare_places, n);
        for (size_t i = 0; i < n; i++) {
            if (!i || keys[i] != keys[i - 1]) starts[codes++] = (uint32_t)i;
            if (code_of != NULL) code_of[places[i]] = (int32_t)(codes - 1);
        }
        for (size_t c = 0; c < codes; c++)
            keys[c] = keys[starts[c]] * SPREAD_BACK >> (64 - bits);
        starts[codes] = (uint32_t)n;
    }
    free(spare), free(spare_places);
    *n_keys = codes;
    return is_ok;
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

static inline int may_contain(const table_t *t, uint64_t hash) {
    const uint64_t bit = hash >> (64 - t->filter_bits);
    return t->filter[bit >> 6] >> (bit & 63) & 1;
}

static int64_t find_hashed(const table_t *t, uint64_t key, uint64_t hash) {
    const size_t cell = hash >> (64 - t->cell_bits);
    size_t low = t->directory[cell], high = t->directory[cell + 1];
    /* Somebody can choose codes that all share a cell. Within it they are ordered by hash. */
    while (high - low > MAX_LINEAR_CELL) {
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
    return may_contain(t, hash) ? find_hashed(t, key, hash) : -1;
}

double shell_size(unsigned bits, unsigned r) {
    double size = 1;
    for (unsigned i = 0; i < r; i++) size = size * (bits - i) / (i + 1);
    return r > bits ? 0 : size;
}

/* Add the number of a code to a list; return 0 if memory ran out. */
static inline int append(list_t *codes, int64_t code) {
    if (codes->n == codes->room) {
        const size_t room = 2 * codes->room + 64;
        uint32_t *items = realloc(codes->items, room * sizeof *items);
        if (items == NULL) return 0;
        codes->items = items, codes->room = room;
    }
    codes->items[codes->n++] = (uint32_t)code;
    return 1;
}

int table_shell(const table_t *t, uint64_t key, unsigned r, list_t *codes) {
    uint64_t mask = r == 64 ? ~UINT64_C(0) : (UINT64_C(1) << r) - 1;
    uint64_t keys[LOOKUPS_AT_ONCE], hashes[LOOKUPS_AT_ONCE];
    /* Each loop fetches into the cache what the next one reads. */
    for (uint64_t left = (uint64_t)shell_size(t->bits, r); left;) {
        size_t n = 0, found = 0;
        while (n < LOOKUPS_AT_ONCE && left) {
            keys[n] = key ^ mask;
            hashes[n] = hash_of(keys[n], t->bits);
            __builtin_prefetch(t->filter + (hashes[n++] >> (64 - t->filter_bits) >> 6));
            if (--left) {
                /* The next number with r bits set (Warren, "Hacker's Delight", 2nd edition,
                   section 2-1). */
                const uint64_t low = mask & -mask, up = mask + low;
                mask = (up ^ mask) >> 2 >> __builtin_ctzll(mask) | up;
            }
        }
        for (size_t i = 0; i < n; i++) {
            keys[found] = keys[i], hashes[found] = hashes[i];
            found += (size_t)may_contain(t, hashes[i]);
        }
        for (size_t i = 0; i < found; i++)
            __builtin_prefetch(t->directory + (hashes[i] >> (64 - t->cell_bits)));
        for (size_t i = 0; i < found; i++)
            __builtin_prefetch(t->keys + t->directory[hashes[i] >> (64 - t->cell_bits)]);
        for (size_t i = 0; i < found; i++) {
            const int64_t code = find_hashed(t, keys[i], hashes[i]);
            if (code >= 0 && !append(codes, code)) return 0;
        }
    }
    return 1;
}

/* Search for one query by lookups. Return 1 if all its results were found, 0 if it must be
   scanned and -1 if memory ran out. */
static int search_by_lookups(const table_t *t, const search_t *a, uint64_t key, list_t *list,
                             nearest_t *nearest, double *work) {
    const double scan = scan_cost(t->n_keys, a->n_queries);
    for (unsigned r = (unsigned)(a->floor >> 32); r <= t->bits && r <= a->radius; r++) {
        const double cost = WORDS_PER_LOOKUP * shell_size(t->bits, r);
        if (r && cost > scan) return 0;
        *work += cost;
        list->n = 0;
        if (!table_shell(t, key, r, list)) return -1;
        *work += WORDS_PER_MATCH * (double)list->n;
        for (size_t i = 0; i < list->n; i++)
            offer_code(t, list->items[i], r, a->allowed, nearest);
        if (nearest_tighten(nearest)) return 1;
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
    int is_ok = which != NULL && limits != NULL && memory != NULL;
    for (size_t i = 0; is_ok && i < a->n_queries; i++) {
        nearest_t nearest;
        nearest_begin(&nearest, memory, a->k, a->radius, a->floor);
        const int status = search_by_lookups(t, a, a->queries[i], &list, &nearest, &work);
        if (status > 0) {
            write_results(&nearest, a, i);
        } else {
            which[left] = i, limits[left++] = a->radius;
            is_ok = status == 0;
        }
    }
    if (is_ok && left) {
        const source_t source = {t->keys, t->n_keys, 1, a->allowed, t};
        is_ok = scan_queries(&source, a, which, limits, left);
        work += (double)left * scan_cost(t->n_keys, a->n_queries);
    }
    free(which), free(limits), free(memory), free(list.items);
    return is_ok ? work : -1;
}
