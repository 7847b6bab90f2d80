// What decoding.cpp offers: a program of operations for the newest tokens, and the best of the logits that it leaves.

#pragma once
#include "numbers.h"

enum { SCALES = 9, REMEMBERED = 10 };  // buffers, as engine/layout.py numbers them

// What goes in and out are numbers of buffers; the rest as each operation below tells.
struct Operation {
    i64 kind, from, from_stride, to, inner, outer, variant, heads, keys, keys_at, stride;
    const void *weight;
    const float *gain, *bias;
    const int32_t *shift;
    float scalar, epsilon;
};

struct Step {
    void **buffers;
    i64 rows, seen, longest;
    const i64 *tokens;         // [rows]
    const i64 *positions;      // [rows], or null: all rows are at the last that was seen
    const float *places;       // [positions, D], what each adds to the embedding
    const i64 *steps;          // [seen, layers], pointers to the joint keys and values [R_t, 2·D]
    const int32_t *ancestors;  // [rows, seen]
    const i64 *sentences;      // [rows]
    const i64 *firsts, *lengths;  // of each sentence, the first of its packed source rows and their number
};

// The `count` best of each row of logits [R, V], the lower id first among equals, and their log-probabilities, or only
// their logits; `forbidden` take part in the sum of probabilities alone.
struct Wanted {
    bool probabilities;
    i64 count;
    const i64 *forbidden;
    i64 n_forbidden;
    float *values;  // out: [R, count]
    i64 *ids;       // out, alike
};

// Runs the operations, of which the last one gives the logits, and ranks these.
template <class T> void execute_and_rank(const Operation *operations, i64 count, const Step &s, const Wanted &wanted);
