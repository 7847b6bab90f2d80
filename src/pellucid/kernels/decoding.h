// What decoding.cpp offers: a program of operations for the newest tokens, and the best of the logits that it leaves.
// engine/layout.py has the same numbers and structures.

#pragma once
#include "numbers.h"

enum Kind { EMBED, MULTIPLY, ADD_PRODUCT, NORMALIZE, GATE, ATTEND_SOURCE, ATTEND_PAST, QUANTIZE };
enum Activation { LINEAR, RELU, GELU, SWISH };
enum Norm { NO_NORM, LAYER_NORM, RMS_NORM, STD_NORM };
enum Buffer { STREAM, TYPED, JOINT, ATTENDED, GATES, INNER, SOURCE, LOGITS, BYTES, SCALES, REMEMBERED };
enum Group { FP32 = 1, BF16 = 2, INT8 = 4 };  // inner numbers that are multiplied at once, in each precision
static const i64 PANEL = 16;  // columns of a packed weight that lie together: [outer / 16][inner / group][16][group]

static const i64 APART = 16;  // numbers between rows that are multiplied

// Numbers from one row of a buffer to the next. Six rows 4,096 bytes from each other would be looked up in one place of
// the nearest cache, and a tile of them take almost twice as long: rows that are multiplied lie APART.
static inline i64 stride(i64 buffer, i64 width) {
    return buffer == TYPED || buffer == ATTENDED || buffer == INNER || buffer == BYTES ? width + APART : width;
}

// Reads the buffer `from` [R, inner], writes the buffer `to` [R, outer]; and of the other fields
//     EMBED          weight, the table [V, outer]; no `from`
//     MULTIPLY       weight, bias, activation; gain and shift, if the weight is in bytes
//     ADD_PRODUCT    weight, bias, alpha; gain and shift alike
//     NORMALIZE      norm, in_place, gain, bias, epsilon
//     GATE           activation
//     ATTEND_SOURCE  heads, scale, keys, keys_at, keys_stride
//     ATTEND_PAST    heads, scale, layer
//     QUANTIZE       none
struct Operation {
    i64 kind, from, to, inner, outer;
    i64 activation, norm, in_place;  // in_place: `from` is normalised where it is, too
    i64 heads;                       // each `outer / heads` wide
    i64 keys, keys_at, keys_stride;  // their buffer, their first column in it, and how many columns there are
    i64 layer;                       // whose past is looked at
    const void *weight;              // packed, but for the table
    const float *gain, *bias;        // of each column, or null
    const int32_t *shift;            // of each column, what takes the 128s of the bytes out again
    float alpha, scale, epsilon;     // alpha: of what the product is added to; scale: of q · k
};

// What one execution of a program works on: so many rows, each the newest token of a hypothesis or one of a source.
struct Execution {
    void **buffers;
    i64 rows, seen, longest, layers;  // seen: tokens of each hypothesis; longest: of the sources
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
template <class T>
void execute_and_rank(const Operation *operations, i64 count, const Execution &e, const Wanted &wanted);
