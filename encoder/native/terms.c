/* The terms of a vocabulary that occur in texts: words, n-grams of words, and pieces of unknown words
   (text_features.py, which finds the same).

   Words are copied so that one space is between them; an n-gram is a run of bytes there, whose hash
   continues that of its first words. */
#include "terms.h"

#include <string.h>

#define UNKNOWN SIZE_MAX
#define HASH_OF_NOTHING 0xcbf29ce484222325 /* FNV-1a */
#define LONGEST_IN_PIECES 64

static uint64_t extend_hash(uint64_t hash, const uint8_t *bytes, size_t n) {
    for (size_t i = 0; i < n; i++) hash = (hash ^ bytes[i]) * 0x100000001b3;
    return hash;
}

static uint64_t spread(uint64_t hash) {
    hash = (hash ^ hash >> 32) * 0x9e3779b97f4a7c15;
    return hash ^ hash >> 29;
}

/* Return the cell of a term, or the free one where its cell would be. */
static size_t cell_of(const terms_t *t, uint64_t hash, const uint8_t *term, size_t length) {
    const uint64_t mixed = spread(hash), tag = mixed >> 32;
    size_t cell = mixed & (t->n_cells - 1);
    for (;; cell = (cell + 1) & (t->n_cells - 1)) {
        if (!t->cells[cell]) return cell;
        if (t->cells[cell] >> 32 != tag) continue;
        const size_t at = (t->cells[cell] & UINT32_MAX) - 1;
        const size_t start = (size_t)t->starts[at], end = (size_t)t->starts[at + 1] - 1;
        if (end - start == length && !memcmp(t->text + start, term, length)) return cell;
    }
}

void fill_cells(const terms_t *t) {
    for (size_t i = 0; i < t->n_terms; i++) {
        const size_t start = (size_t)t->starts[i], length = (size_t)t->starts[i + 1] - 1 - start;
        const uint64_t hash = extend_hash(HASH_OF_NOTHING, t->text + start, length);
        t->cells[cell_of(t, hash, t->text + start, length)] = spread(hash) >> 32 << 32 | (i + 1);
    }
}

/* Return the number of a term, or UNKNOWN. */
static size_t find_term(const terms_t *t, uint64_t hash, const uint8_t *term, size_t length) {
    const uint64_t cell = t->cells[cell_of(t, hash, term, length)];
    return cell ? (size_t)(cell & UINT32_MAX) - 1 : UNKNOWN;
}

static int is_digit(uint8_t byte) { return byte >= '0' && byte <= '9'; }

static int is_letter(uint8_t byte) { return byte >= 'a' && byte <= 'z'; }

/* Write the numbers of the longest known pieces of a run of letters or digits, from the left; return
   how many there are. Those after the first begin with "##". The rest of a run is not read where no
   piece begins. */
static size_t pieces_of_run(const terms_t *t, const uint8_t *run, size_t length, int32_t *columns) {
    uint8_t marked[LONGEST_IN_PIECES + 2] = {'#', '#'};
    uint64_t hashes[LONGEST_IN_PIECES + 1];
    size_t n = 0;
    memcpy(marked + 2, run, length);
    for (size_t start = 0; start < length;) {
        /* In place of the mark there may be what was read before. */
        if (start) marked[start] = marked[start + 1] = '#';
        const uint8_t *piece = marked + (start ? start : 2);
        const size_t mark = start ? 2 : 0;
        hashes[0] = extend_hash(HASH_OF_NOTHING, piece, mark);
        for (size_t i = 0; i < length - start; i++)
            hashes[i + 1] = extend_hash(hashes[i], piece + mark + i, 1);
        size_t size = length - start, found = UNKNOWN;
        for (; size && found == UNKNOWN; size--) found = find_term(t, hashes[size], piece, mark + size);
        if (found == UNKNOWN) break;
        columns[n++] = (int32_t)found;
        start += size + 1;
    }
    return n;
}

static size_t pieces_of_word(const terms_t *t, const uint8_t *word, size_t length, int32_t *columns) {
    size_t n = 0;
    if (length > LONGEST_IN_PIECES) length = LONGEST_IN_PIECES;
    for (size_t start = 0, end; start < length; start = end) {
        int (*is_inside)(uint8_t) = is_digit(word[start]) ? is_digit : is_letter;
        for (end = start; end < length && is_inside(word[end]); end++) continue;
        if (end == start) /* an underscore */
            end++;
        else
            n += pieces_of_run(t, word + start, end - start, columns + n);
    }
    return n;
}

/* The same for the words of one text, with one space after each. */
static size_t terms_of_words(const terms_t *t, reading_t reading, const uint8_t *words,
                             size_t n_bytes, int32_t *columns) {
    size_t n = 0;
    for (size_t start = 0, next; start < n_bytes; start = next) {
        uint64_t hash = HASH_OF_NOTHING;
        size_t end = start;
        next = 0;
        for (size_t n_words = 1; n_words <= reading.max_words && end < n_bytes; n_words++) {
            if (n_words > 1) hash = extend_hash(hash, words + end++, 1);
            const size_t word = end;
            while (end < n_bytes && words[end] != ' ') end++;
            if (end == word) break; /* behind the last word */
            if (n_words == 1) next = end + 1;
            hash = extend_hash(hash, words + word, end - word);
            const size_t found = find_term(t, hash, words + start, end - start);
            if (found != UNKNOWN)
                columns[n++] = (int32_t)found;
            else if (n_words == 1 && reading.with_pieces)
                n += pieces_of_word(t, words + start, end - start, columns + n);
        }
    }
    return n;
}

size_t known_terms(const terms_t *t, reading_t reading, const uint8_t *joined, size_t n_bytes,
                   uint8_t boundary, uint8_t *words, size_t n_texts, int32_t *columns,
                   int64_t *lengths) {
    size_t n = 0, text = 0, n_words = 0;
    for (size_t start = 0, end; start < n_bytes; start = end + 1) {
        for (end = start; end < n_bytes && joined[end] != ' '; end++) continue;
        const size_t length = end - start;
        if (length > 1) {
            memcpy(words + n_words, joined + start, length);
            words[n_words + length] = ' ';
            n_words += length + 1;
        } else if (length && joined[start] == boundary) {
            if (text == n_texts) return SIZE_MAX;
            const size_t n_known = terms_of_words(t, reading, words, n_words, columns + n);
            lengths[text++] = (int64_t)n_known;
            n += n_known;
            n_words = 0;
        }
    }
    return text == n_texts ? n : SIZE_MAX;
}
