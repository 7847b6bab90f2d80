// What decoding.cpp offers: a program of operations for the newest tokens, and the best of the logits that it leaves.
// engine/layout.py has the same numbers and structures.

#pragma once
#include "numbers.h"

enum Kind { EMBED, MULTIPLY, ADD_PRODUCT, NORMALIZE, GATE, ATTEND_SOURCE, ATTEND_PAST, QUANTIZE, ROTATE };
enum Activation { LINEAR, RELU, GELU, SWISH, GELU_TANH };
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
//     ATTEND_SOURCE  heads, keys_width, scale, window, span, weight, bias; keys, keys_at, keys_stride
//     ATTEND_PAST    heads, keys_width, scale, window, span, weight, bias; layer
//     QUANTIZE       none
//     ROTATE         heads, keys_width, span, weight; `from` is `to`
struct Operation {
    i64 kind, from, to, inner, outer;
    i64 activation, norm, in_place;  // in_place: `from` is normalised where it is, too
    i64 heads, keys_width;           // of their queries and keys together; their values are `outer` wide
    i64 keys, keys_at, keys_stride;  // their buffer, their first column in it, and how many columns there are
    i64 layer;                       // whose past is looked at
    i64 window;                      // positions that are seen to either side, the own one counted; 0: all
    i64 span;                        // positions that there are tables for; 0: there are none
    const void *weight;              // packed, but for tables; of attention, or null: keys by distance [columns, …]
    const float *gain, *bias;        // of each column, or null; of attention: a number by distance [heads, columns]
    const int32_t *shift;            // of each column, what takes the 128s of the bytes out again
    float alpha, scale, epsilon;     // alpha: of what the product is added to; scale: of q · k
};

// Columns of a table by distance (the key's position - the query's): from 1 - span on, as far as keys are looked at.
static inline i64 columns(const Operation &o) { return o.kind == ATTEND_PAST ? o.span : 2 * o.span - 1; }

// What one execution of a program works on: so many rows, each the newest token of a hypothesis or one of a source.
struct Execution {
    void **buffers;
    i64 rows, seen, longest, layers;  // seen: tokens of each hypothesis; longest: of the sources
    const i64 *tokens;         // [rows]
    const i64 *positions;      // [rows], or null: all rows are at the last that was seen
    const float *places;       // [positions, D], what each adds to the embedding
    const i64 *steps;          // [seen, layers], pointers to the keys and values of the rows of a step
    const int32_t *ancestors;  // [rows, seen]
    const i64 *sentences;      // [rows]
    const i64 *firsts, *lengths;  // of each sentence, the first of its packed source rows and their number
};

// Where the row r stands in its sentence.
static inline i64 position(const Execution &e, i64 r) { return e.positions ? e.positions[r] : e.seen - 1; }

// The `count` best of each row of logits [R, V], the lower id first among equals, and their log-probabilities, or only
// their logits; `forbidden` take part in the sum of probabilities alone.
struct Wanted {
    bool probabilities;
    i64 count;
    const i64 *forbidden;
    i64 n_forbidden;
    i64 only;  // the one token that may be, or -1
    float *values;  // out: [R, count]
    i64 *ids;       // out, alike
};

// Runs the operations, of which the last one gives the logits, and ranks these.
template <class T>
void execute_and_rank(const Operation *operations, i64 count, const Execution &e, const Wanted &wanted);
