/* The distinct words of ASCII texts and their other forms, as index/word_forms.py finds them. A chunk
   is a part of a text between spaces, a name a part of a chunk between signs that end names. */
#include "kernel.h"

#include <stdlib.h>
#include <string.h>

#define LONGEST_CHUNK 64
#define MOST_PARTS 6
#define FREE 0

/* ---- kinds of characters */

static int is_digit(uint8_t c) { return c >= '0' && c <= '9'; }

static int is_small(uint8_t c) { return c >= 'a' && c <= 'z'; }

static int is_capital(uint8_t c) { return c >= 'A' && c <= 'Z'; }

static int is_letter(uint8_t c) { return is_small(c) || is_capital(c); }

static int is_of_word(uint8_t c) { return is_letter(c) || is_digit(c) || c == '_'; }

/* As str.split() does. */
static int is_space(uint8_t c) { return c == ' ' || (c >= '\t' && c <= '\r') || (c >= 28 && c <= 31); }

static int is_one_of(uint8_t c, const char *set) { return c && strchr(set, c) != NULL; }

static int is_edge(uint8_t c) { return is_one_of(c, "':/-"); }

static int is_joiner(uint8_t c) { return is_one_of(c, "-./&_:+'"); }

static uint8_t lowered(uint8_t c) { return is_capital(c) ? c | 32 : c; }

/* ---- the distinct strings, and the texts as their numbers */

typedef struct {
    const uint8_t *text;
    size_t n;
} part_t;

static int grow(void **items, size_t *room, size_t needed, size_t size) {
    if (needed <= *room) return 1;
    size_t more = *room ? *room : 1 << 12;
    while (more < needed) more *= 2;
    void *moved = realloc(*items, more * size);
    if (moved == NULL) return 0;
    *items = moved, *room = more;
    return 1;
}

static uint64_t hash_of(const uint8_t *string, size_t n) {
    uint64_t hash = 0xcbf29ce484222325; /* FNV-1a */
    for (size_t i = 0; i < n; i++) hash = (hash ^ string[i]) * 0x100000001b3;
    hash = (hash ^ hash >> 32) * 0x9e3779b97f4a7c15;
    return hash ^ hash >> 29;
}

/* Double the cells; a cell is FREE, or the high bits of a hash and the number of a string plus 1. */
static int grow_cells(split_texts_t *s) {
    const size_t n_cells = s->n_cells ? 4 * s->n_cells : 1 << 12;
    uint64_t *cells = calloc(n_cells, sizeof *cells);
    if (cells == NULL) return 0;
    for (size_t i = 0; i < s->n_strings; i++) {
        const size_t start = i ? s->ends[i - 1] : 0;
        const uint64_t hash = hash_of(s->strings + start, s->ends[i] - 1 - start);
        size_t cell = hash & (n_cells - 1);
        while (cells[cell] != FREE) cell = (cell + 1) & (n_cells - 1);
        cells[cell] = hash >> 32 << 32 | (i + 1);
    }
    free(s->cells);
    s->cells = cells, s->n_cells = n_cells;
    return 1;
}

/* Add a string in lower case to the current text; its letters may be capitals. */
static void add(split_texts_t *s, const uint8_t *string, size_t n) {
    if (s->has_failed) return;
    s->has_failed = !grow((void **)&s->strings, &s->strings_room, s->n_bytes + n + 1, 1) ||
                    !grow((void **)&s->ends, &s->ends_room, s->n_strings + 1, sizeof *s->ends) ||
                    !grow((void **)&s->numbers, &s->numbers_room, s->n_numbers + 1,
                          sizeof *s->numbers) ||
                    (2 * (s->n_strings + 1) > s->n_cells && !grow_cells(s));
    if (s->has_failed) return;
    /* It is written behind the others, and stays there if it is none of them. */
    uint8_t *own = s->strings + s->n_bytes;
    for (size_t i = 0; i < n; i++) own[i] = lowered(string[i]);
    own[n] = '\n';
    const uint64_t hash = hash_of(own, n), tag = hash >> 32;
    size_t cell = hash & (s->n_cells - 1), at = s->n_strings;
    for (; s->cells[cell] != FREE; cell = (cell + 1) & (s->n_cells - 1)) {
        if (s->cells[cell] >> 32 != tag) continue;
        const size_t other = (s->cells[cell] & UINT32_MAX) - 1;
        const size_t start = other ? s->ends[other - 1] : 0;
        if (s->ends[other] - 1 - start != n || memcmp(s->strings + start, own, n)) continue;
        at = other;
        break;
    }
    if (at == s->n_strings) {
        s->cells[cell] = tag << 32 | (at + 1);
        s->n_bytes += n + 1;
        s->ends[s->n_strings++] = s->n_bytes;
    }
    s->numbers[s->n_numbers++] = (int32_t)at;
}

static void add_words(split_texts_t *s, const uint8_t *text, size_t n) {
    for (size_t start = 0, end; start < n; start = end + 1) {
        for (end = start; end < n && is_of_word(text[end]); end++) continue;
        if (end - start > 1) add(s, text + start, end - start);
    }
}

/* ---- the other forms of a chunk */

static int is_all(part_t part, int (*is_kind)(uint8_t)) {
    for (size_t i = 0; i < part.n; i++)
        if (!is_kind(part.text[i])) return 0;
    return part.n > 0;
}

static part_t behind(part_t part, size_t n) { return (part_t){part.text + n, part.n - n}; }

/* Whether letters have no capital after a small letter. */
static int is_plain(part_t letters) {
    return is_all(behind(letters, 1), is_small) || is_all(letters, is_capital);
}

/* Return the end of a run of a kind. */
static size_t run_of(part_t part, size_t start, int (*is_kind)(uint8_t)) {
    while (start < part.n && is_kind(part.text[start])) start++;
    return start;
}

/* Add a part without the characters of a set. */
static void add_without(split_texts_t *s, part_t part, int (*is_left_out)(uint8_t)) {
    uint8_t kept[LONGEST_CHUNK];
    size_t n = 0;
    for (size_t i = 0; i < part.n; i++)
        if (!is_left_out(part.text[i])) kept[n++] = part.text[i];
    add(s, kept, n);
}

static int is_inside_signed(uint8_t c) { return is_of_word(c) || c == '.' || c == '-'; }

/* Return the end of a name with its signs, such as "C++", "C#", ".NET" and "@home", or `start`. */
static size_t end_of_signed(part_t chunk, size_t start) {
    const uint8_t *text = chunk.text;
    const size_t word = start + (text[start] == '.');
    if (word < chunk.n && is_of_word(text[word])) {
        const size_t end = run_of(chunk, word, is_inside_signed);
        if (end < chunk.n && text[end] == '#') return end + 1;
        if (end + 1 < chunk.n && text[end] == '+' && text[end + 1] == '+') return end + 2;
    }
    if (start && is_of_word(text[start - 1])) return start;
    const uint8_t sign = text[start];
    const uint8_t next = start + 1 < chunk.n ? text[start + 1] : 0;
    const int begins = sign == '#' || sign == '@' || (sign == '.' && !is_digit(next));
    const size_t end = run_of(chunk, start + 1, is_of_word);
    return begins && end > start + 1 ? end : start;
}

static int add_signed(split_texts_t *s, part_t chunk) {
    int n = 0;
    for (size_t start = 0; start < chunk.n;) {
        const size_t end = end_of_signed(chunk, start);
        if (end > start) {
            add(s, chunk.text + start, end - start);
            n++;
        }
        start = end > start ? end : start + 1;
    }
    return n;
}

static part_t stripped(part_t part, int (*is_kind)(uint8_t)) {
    while (part.n && is_kind(part.text[0])) part = behind(part, 1);
    while (part.n && is_kind(part.text[part.n - 1])) part.n--;
    return part;
}

static part_t bare_name(part_t name) {
    name = stripped(name, is_edge);
    while (name.n && is_one_of(name.text[0], ".#@")) name = behind(name, 1);
    while (name.n && is_one_of(name.text[name.n - 1], ".+#")) name.n--;
    return stripped(name, is_edge);
}

static int ends_name(part_t chunk, size_t at) {
    const uint8_t c = chunk.text[at];
    if (c != ',') return is_one_of(c, "\"`()[]{}<>;!?*|=~^%$\\");
    return !at || !is_digit(chunk.text[at - 1]) || at + 1 == chunk.n || !is_digit(chunk.text[at + 1]);
}

/* Return the end of digits with more digits after points, which begin at `start`, or `start`. */
static size_t end_of_version(part_t name, size_t start) {
    size_t end = run_of(name, start, is_digit), n_points = 0;
    if (end == start) return start;
    while (end + 1 < name.n && name.text[end] == '.' && is_digit(name.text[end + 1])) {
        end = run_of(name, end + 1, is_digit);
        n_points++;
    }
    return n_points ? end : start;
}

static int is_grouped(part_t name) {
    size_t end = run_of(name, 0, is_digit);
    if (!end || end > 3 || end == name.n) return 0;
    for (; end < name.n; end += 4)
        if (!is_one_of(name.text[end], ",.'") || run_of(name, end + 1, is_digit) < end + 4 ||
            (end + 4 < name.n && is_digit(name.text[end + 4])))
            return 0;
    return 1;
}

static int is_no_digit(uint8_t c) { return !is_digit(c); }

static int is_hexadecimal(uint8_t c) { return is_digit(c) || (lowered(c) >= 'a' && lowered(c) <= 'f'); }

/* Add a number without its separators, a version without its letter, or hexadecimal digits; return
   whether the name is one. */
static int add_number(split_texts_t *s, part_t name) {
    if (is_grouped(name)) {
        add_without(s, name, is_no_digit);
        return 1;
    }
    const size_t letter = lowered(name.text[0]) == 'v';
    if (name.n > letter && end_of_version(name, letter) == name.n) {
        add(s, name.text + letter, name.n - letter);
        return 1;
    }
    const size_t comma = run_of(name, 0, is_digit);
    if (comma && comma + 1 < name.n && name.text[comma] == ',' &&
        run_of(name, comma + 1, is_digit) == name.n) {
        uint8_t decimal[LONGEST_CHUNK];
        memcpy(decimal, name.text, name.n);
        decimal[comma] = '.';
        add(s, decimal, name.n);
        return 1;
    }
    if (name.n < 5 || name.n > 18 || name.text[0] != '0' || lowered(name.text[1]) != 'x' ||
        !is_all(behind(name, 2), is_hexadecimal))
        return 0;
    add(s, name.text + 2, name.n - 2);
    return 1;
}

/* Return the next run of letters or digits from `start` on, as capitals split it. */
static part_t next_part(part_t word, size_t start) {
    for (; start < word.n; start++) {
        const part_t rest = behind(word, start);
        size_t end = run_of(rest, 0, is_capital);
        if (end && end < rest.n && is_small(rest.text[end])) /* the last begins the next part */
            end = end > 1 ? end - 1 : run_of(rest, end, is_small);
        if (!end) end = run_of(rest, 0, is_small);
        if (!end) end = run_of(rest, 0, is_digit);
        if (end) return (part_t){rest.text, end};
    }
    return (part_t){word.text + word.n, 0};
}

static part_t part_after(part_t word, part_t part) {
    return next_part(word, (size_t)(part.text - word.text) + part.n);
}

/* Return how many parts a piece of a word has: 1, the piece itself, unless capitals or digits split it
   in two or more. */
static size_t number_of_parts(part_t piece) {
    size_t n = 0;
    for (part_t part = next_part(piece, 0); part.n; part = part_after(piece, part)) n++;
    return n > 1 && n <= MOST_PARTS ? n : 1;
}

static int is_underscore(uint8_t c) { return c == '_'; }

static int is_no_underscore(uint8_t c) { return c != '_'; }

/* Add the parts of two characters or more of a word, if it has more than one part. */
static void add_parts_of_word(split_texts_t *s, part_t word) {
    size_t n_parts = 0;
    for (int is_adding = 0; is_adding < 2; is_adding++) {
        for (size_t start = run_of(word, 0, is_underscore); start < word.n;) {
            const size_t end = run_of(word, start, is_no_underscore);
            const part_t piece = {word.text + start, end - start};
            const size_t n = number_of_parts(piece);
            if (!is_adding)
                n_parts += n;
            else if (n == 1 && piece.n > 1)
                add(s, piece.text, piece.n);
            else if (n > 1)
                for (part_t part = next_part(piece, 0); part.n; part = part_after(piece, part))
                    if (part.n > 1) add(s, part.text, part.n);
            start = run_of(word, end, is_underscore);
        }
        if (n_parts < 2) return;
    }
}

static int is_joiner_of_words(uint8_t c) { return c != '_' && is_joiner(c); }

static int is_no_joiner(uint8_t c) { return !is_joiner(c); }

static int is_no_joiner_of_words(uint8_t c) { return !is_joiner_of_words(c); }

static void add_forms_of_name(split_texts_t *s, part_t name) {
    for (size_t start = 0; start < name.n;) {
        const int is_inside = start && (is_digit(name.text[start - 1]) || name.text[start - 1] == '.');
        const size_t end = is_inside ? start : end_of_version(name, start);
        if (end > start) add(s, name.text + start, end - start);
        start = end > start ? end : start + 1;
    }
    part_t pieces[MOST_PARTS];
    size_t n = 0;
    for (size_t start = run_of(name, 0, is_joiner); start < name.n; n++) {
        const size_t end = run_of(name, start, is_no_joiner);
        if (n == MOST_PARTS) return;
        pieces[n] = (part_t){name.text + start, end - start};
        start = run_of(name, end, is_joiner);
    }
    if (memchr(name.text, '\'', name.n) != NULL) return;
    if (n > 1) add_without(s, name, is_joiner);
    for (size_t i = 0; n > 2 && i + 1 < n; i++) {
        const uint8_t *start = pieces[i].text;
        add_without(s, (part_t){start, (size_t)(pieces[i + 1].text - start) + pieces[i + 1].n},
                    is_joiner);
    }
    if (memchr(name.text, '&', name.n) != NULL) add(s, name.text, name.n);
    for (size_t i = 0; n > 1 && i < n; i++)
        if (pieces[i].n == 1) add(s, pieces[i].text, 1);
    for (size_t start = 0; start < name.n;) {
        const size_t end = run_of(name, start, is_no_joiner_of_words);
        add_parts_of_word(s, (part_t){name.text + start, end - start});
        start = end + 1;
    }
}

static void add_forms_of_chunk(split_texts_t *s, part_t chunk) {
    const int is_signed = add_signed(s, chunk) > 0;
    part_t names[LONGEST_CHUNK];
    size_t n = 0;
    for (size_t start = 0, end; start < chunk.n; start = end + 1) {
        for (end = start; end < chunk.n && !ends_name(chunk, end); end++) continue;
        const part_t bare = bare_name((part_t){chunk.text + start, end - start});
        if (bare.n) names[n++] = bare;
    }
    for (size_t i = 0; i < n; i++) {
        const part_t name = names[i];
        const int has_letters = is_all(name, is_letter), has_digits = is_all(name, is_digit);
        if (name.n == 1) {
            /* Single letters of an expression, such as f(x), are no words that people type. */
            if (n == 1 && (has_digits || (has_letters && !is_signed))) add(s, name.text, 1);
        } else if (!has_digits && !(has_letters && is_plain(name)) && !add_number(s, name)) {
            add_forms_of_name(s, name);
        }
    }
}

static void add_forms(split_texts_t *s, const uint8_t *text, size_t n) {
    for (size_t start = 0, end; start < n; start = end + 1) {
        int is_word = 1; /* of small letters, or but the first */
        for (end = start; end < n && !is_space(text[end]); end++)
            is_word &= is_small(text[end]) || (end == start && is_capital(text[end]));
        const part_t chunk = {text + start, end - start};
        if (chunk.n && chunk.n <= LONGEST_CHUNK && !(is_word && chunk.n > 1))
            add_forms_of_chunk(s, chunk);
    }
}

int split_texts(split_texts_t *s, const uint8_t *joined, size_t n_bytes, uint8_t boundary,
                int with_forms, int64_t *lengths, int64_t *totals) {
    size_t n = 0;
    for (size_t start = 0; start < n_bytes && !s->has_failed; n++) {
        const uint8_t *end = memchr(joined + start, boundary, n_bytes - start);
        if (end == NULL || n == s->n_texts) return 0;
        const size_t length = (size_t)(end - joined) - start, before = s->n_numbers;
        add_words(s, joined + start, length);
        lengths[n] = (int64_t)(s->n_numbers - before);
        if (with_forms) add_forms(s, joined + start, length);
        totals[n] = (int64_t)(s->n_numbers - before);
        start += length + 1;
    }
    return n == s->n_texts;
}

void free_split_texts(split_texts_t *s) {
    free(s->strings), free(s->ends), free(s->numbers), free(s->cells);
}
