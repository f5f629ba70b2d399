/* Pairs of codes within a radius, among codes that agree in a key. */
#include "kernel.h"

/* A call ends once it has compared so many, which takes some milliseconds. */
#define COMPARED_AT_ONCE ((size_t)1 << 24)

static uint64_t ones(uint64_t x) {
    x -= x >> 1 & 0x5555555555555555u;
    x = (x & 0x3333333333333333u) + (x >> 2 & 0x3333333333333333u);
    x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0fu;
    return x * 0x0101010101010101u >> 56;
}

size_t find_pairs(const pairs_t *p, size_t *at, size_t *with, size_t room, int64_t *first,
                  int64_t *second, uint16_t *distances) {
    size_t found = 0, compared = 0, end = *at;
    for (; *at < p->n && compared < COMPARED_AT_ONCE; (*at)++, *with = *at + 1) {
        const size_t i = *at;
        const uint64_t *of = p->words + *with;
        for (end = end < i ? i : end; end < p->n && p->keys[end] == p->keys[i];) end++;
        const size_t n = end > *with ? end - *with : 0, groups = (n + LANES - 1) / LANES;
        compared += n + 1;
        /* The first words of a few neighbours rule most of them out. */
        for (size_t g = 0; g < groups; g++) {
            uint64_t near[LANES];
            uint8_t hits = 0;
            g = path.hamming(of, g, groups, 1, p->words + i, p->radius, 0, near, &hits);
            if (g >= groups) break;
            if (room - found < LANES) {
                *with += LANES * g;
                return found;
            }
            for (unsigned mask = hits; mask; mask &= mask - 1) {
                const unsigned lane = (unsigned)__builtin_ctz(mask);
                const size_t j = *with + LANES * g + lane;
                uint64_t distance = near[lane];
                if (j >= end) break;
                for (size_t w = 1; w < p->n_words && distance <= p->radius; w++)
                    distance += ones(p->words[w * p->n + i] ^ p->words[w * p->n + j]);
                if (distance > p->radius) continue;
                first[found] = (int64_t)i;
                second[found] = (int64_t)j;
                distances[found++] = (uint16_t)distance;
            }
        }
    }
    return found;
}
