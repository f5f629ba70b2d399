/* The terms of a vocabulary that occur in texts. */
#ifndef HUMMINGBIT_TERMS_H
#define HUMMINGBIT_TERMS_H

#include <stddef.h>
#include <stdint.h>

/* The terms of a vocabulary, without repeats; term i is text[starts[i]] to text[starts[i + 1] - 1],
   one byte before the next. A cell is 0, or the high bits of a term's hash and its number plus 1. */
typedef struct {
    const uint8_t *text;
    const int32_t *starts;
    uint64_t *cells;
    size_t n_terms, n_cells; /* n_cells is a power of two, and at least twice n_terms */
} terms_t;

/* How terms are made of words. */
typedef struct {
    size_t max_words; /* n-grams have at most so many */
    int with_pieces;  /* unknown words are read as their longest known pieces */
} reading_t;

/* Fill the cells, which are 0. */
void fill_cells(const terms_t *terms);

/* Write the numbers of the known terms of joined texts, and how many each text has. A text is words
   between spaces, in lower-case ASCII, and a boundary after them; words of one character are left
   out. `columns` has room for n_bytes * max_words, and `words` for n_bytes + 1 bytes. Return how
   many there are, or SIZE_MAX if there are not `n_texts` boundaries. */
size_t known_terms(const terms_t *terms, reading_t reading, const uint8_t *joined, size_t n_bytes,
                   uint8_t boundary, uint8_t *words, size_t n_texts, int32_t *columns,
                   int64_t *lengths);

#endif
