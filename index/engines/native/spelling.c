/* The strings of a list that few edits turn into a word.

   An edit inserts, deletes or replaces a character, or exchanges two neighbours, and no character is
   edited twice: the distance of optimal string alignment (Boytsov, "Indexing methods for approximate
   dictionary searching", 2011, section 2.1). */
#include "kernel.h"

#include <string.h>

/* Decode UTF-8, surrogates included; return the number of characters, or `room` if there are more. */
static size_t decode(const uint8_t *text, size_t n_bytes, uint32_t *characters, size_t room) {
    size_t n = 0;
    for (size_t at = 0; at < n_bytes && n < room; n++) {
        const uint32_t lead = text[at++];
        size_t more = lead < 0xc0 ? 0 : lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : 3;
        uint32_t character = more ? lead & (0x3fu >> more) : lead;
        for (; more && at < n_bytes; more--) character = character << 6 | (text[at++] & 0x3f);
        characters[n] = character;
    }
    return n;
}

static uint64_t letters_of(const uint32_t *characters, size_t n) {
    uint64_t letters = 0;
    for (size_t i = 0; i < n; i++) letters |= (uint64_t)1 << (characters[i] & 63);
    return letters;
}

static int has_more_bits(uint64_t bits, size_t most) {
    for (; bits; bits &= bits - 1)
        if (!most--) return 1;
    return 0;
}

/* Tell whether a string in ASCII has other letters than few edits can change, or another length. */
static int is_other_ascii(const uint8_t *text, size_t length, size_t n, uint64_t letters,
                          size_t edits) {
    uint8_t every = 0;
    for (size_t i = 0; i < length; i++) every |= text[i];
    if (every >= 0x80) return 0;
    if (length > n + edits) return 1;
    uint64_t others = 0;
    for (size_t i = 0; i < length; i++) others |= (uint64_t)1 << (text[i] & 63);
    return has_more_bits(letters & ~others, edits) || has_more_bits(others & ~letters, edits);
}

/* Tell whether at most `edits` turn a[0..n) into b[0..m), whose lengths differ by no more. */
static int are_within(const uint32_t *a, size_t n, const uint32_t *b, size_t m, size_t edits) {
    while (n && m && *a == *b) a++, b++, n--, m--;
    while (n && m && a[n - 1] == b[m - 1]) n--, m--;
    if (!n || !m) return n + m <= edits;
    uint8_t rows[3][MOST_CHARACTERS + MOST_EDITS + 1];
    uint8_t *before = rows[0], *row = rows[1], *next = rows[2];
    const uint8_t far = (uint8_t)(edits + 1);
    for (size_t j = 0; j <= m; j++) row[j] = j <= edits ? (uint8_t)j : far;
    for (size_t i = 1; i <= n; i++) {
        /* Cells farther from the diagonal than `edits` have more. */
        const size_t first = i > edits ? i - edits : 1, last = i + edits < m ? i + edits : m;
        uint8_t least = next[0] = i <= edits ? (uint8_t)i : far;
        if (first > 1) next[first - 1] = far;
        for (size_t j = first; j <= last; j++) {
            const size_t left = next[j - 1] + 1u;
            const size_t up = j == i + edits ? far : row[j] + 1u;
            size_t cost = row[j - 1] + (size_t)(a[i - 1] != b[j - 1]);
            if (left < cost) cost = left;
            if (up < cost) cost = up;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                before[j - 2] + 1u < cost)
                cost = before[j - 2] + 1u;
            next[j] = cost < far ? (uint8_t)cost : far;
            if (next[j] < least) least = next[j];
        }
        if (least > edits) return 0;
        uint8_t *const free_row = before;
        before = row, row = next, next = free_row;
    }
    return row[m] <= edits;
}

size_t near_strings(const strings_t *s, const uint8_t *word, size_t n_bytes, size_t edits,
                    int32_t *positions) {
    uint32_t own[MOST_CHARACTERS], other[MOST_CHARACTERS + MOST_EDITS + 1];
    const size_t n = decode(word, n_bytes, own, MOST_CHARACTERS);
    const uint64_t letters = letters_of(own, n);
    size_t n_near = 0;
    for (size_t i = 0; i < s->n; i++) {
        const int64_t begin = s->starts[i], end = s->starts[i + 1] - 1;
        if (begin < 0 || end < begin || (size_t)end > s->n_bytes) return SIZE_MAX;
        const size_t length = (size_t)(end - begin);
        if (length + edits < n || length > 4 * (n + edits)) continue;
        if (is_other_ascii(s->text + begin, length, n, letters, edits)) continue;
        const size_t m = decode(s->text + begin, length, other, n + edits + 1);
        if (m + edits < n || m > n + edits) continue;
        if (are_within(own, n, other, m, edits)) positions[n_near++] = (int32_t)i;
    }
    return n_near;
}
