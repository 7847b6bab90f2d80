// Attention of one row, all heads: over the keys of its sentence, or over what its ancestors left, near it or all of
// them, turned or shifted by position. Each row is summed alone and in one order.

#pragma once
#include "decoding.h"

// q · k, in partial sums.
static inline Lanes dot(const bf16 *q, const bf16 *k, i64 width) {
    Lanes sum = {};
    i64 i = 0;
#if defined(__AVX512BF16__)
    for (; i + 2 * LANES <= width; i += 2 * LANES)
        sum = (Lanes)_mm512_dpbf16_ps((__m512)sum, (__m512bh)_mm512_loadu_si512(q + i),
                                      (__m512bh)_mm512_loadu_si512(k + i));
#endif
    for (; i < width; i += LANES) sum = multiply_add(read(q + i), read(k + i), sum);
    return sum;
}

// Σ p[t] · value[t] · scale, N registers at once.
template <i64 N, class T>
static inline void mix_some(const float *p, const T **keys, i64 at, i64 seen, float scale, T *out) {
    Lanes sum[N] = {};
    for (i64 t = 0; t < seen; t++)
        for (i64 i = 0; i < N; i++) sum[i] = multiply_add(spread(p[t]), read(keys[t] + at + LANES * i), sum[i]);
    for (i64 i = 0; i < N; i++) write(out + LANES * i, sum[i] * scale);
}

template <class T>
static inline void mix(const float *p, const T **keys, i64 at, i64 seen, i64 width, float scale, T *out) {
    i64 i = 0;
    for (; i + 4 * LANES <= width; i += 4 * LANES) mix_some<4>(p, keys, at + i, seen, scale, out + i);
    for (; i < width; i += LANES) mix_some<1>(p, keys, at + i, seen, scale, out + i);
}

// What the scores of a row and a head get by distance: the tables of the operation, `column` is that of the first key.
template <class T>
static inline void add_by_distance(const Operation &o, const T *query, i64 h, i64 column, i64 seen, float *score) {
    if (o.weight) {
        const i64 width = o.keys_width / o.heads;
        const T *key = (const T *)o.weight + column * o.keys_width + h * width;
        for (i64 t = 0; t < seen; t++) score[t] += total(dot(query, key + t * o.keys_width, width));
    }
    if (o.bias) {
        const float *bias = o.bias + h * columns(o) + column;
        for (i64 t = 0; t < seen; t++) score[t] += bias[t];
    }
}

// softmax(scale · (q Kᵀ + what is by distance)) V for one row, all heads. keys[t] points to the key at t of all
// heads, behind which their values lie; one pointer or more, filled up to a multiple of LANES; so many numbers p for
// each head, and one more.
template <class T, i64 WIDTH>
static inline void attend_heads(const Operation &o, const T *q, const T **keys, i64 seen, i64 column, float *p,
                                T *out) {
    const i64 heads = o.heads;
    const i64 keys_width = WIDTH ? WIDTH : o.keys_width / heads, width = WIDTH ? WIDTH : o.outer / heads;
    const float scale = o.scale;
    const bool by_distance = o.span;
    i64 filled = (seen + LANES - 1) / LANES * LANES;
    for (i64 t = seen; t < filled; t++) keys[t] = keys[seen - 1];
    for (i64 h = 0; h < heads; h++) {
        const i64 at = h * keys_width;
        const T *query = q + at;
        float *score = p + h * filled;
        for (i64 t = 0; t < seen; t += TOTALS)
            totals(dot(query, keys[t] + at, keys_width), dot(query, keys[t + 1] + at, keys_width),
                   dot(query, keys[t + 2] + at, keys_width), dot(query, keys[t + 3] + at, keys_width), score + t);
        if (by_distance) add_by_distance(o, query, h, column, seen, score);
        for (i64 t = seen; t < filled; t++) score[t] = -3e38f;  // e^x of it is nothing beside 1
    }
    for (i64 h = 0; h < heads; h++) {
        float *score = p + h * filled;
        Lanes highest = read(score), sum = {};
        for (i64 t = LANES; t < filled; t += LANES)
            highest = larger(read(score + t), highest);
        float top = largest(highest);
        for (i64 t = 0; t < filled; t += LANES) {
            Lanes x = exponential((read(score + t) - top) * scale);
            sum += x;
            write(score + t, x);
        }
        p[heads * filled + h] = 1 / total(sum);
    }
    for (i64 h = 0; h < heads; h++)
        mix(p + h * filled, keys, heads * keys_width + h * width, seen, width, p[heads * filled + h], out + h * width);
}

// The same for the row r of an operation and the keys 0 … count - 1, of which it sees those near `here`, or all; where
// there is nothing to look at, zeros. key(t) is where a key lies.
template <class T, class Key>
static inline void attend_row(const Operation &o, const Execution &e, i64 r, i64 here, i64 count, Key key,
                              const T **keys, float *p) {
    const i64 first = o.window && here >= o.window ? here - o.window + 1 : 0;
    const i64 end = o.window && count - here > o.window ? here + o.window : count;
    const i64 seen = end - first, column = o.span - 1 + first - here, width = o.outer / o.heads;
    for (i64 t = 0; t < seen; t++) keys[t] = key(first + t);
    const T *q = (const T *)e.buffers[o.from] + r * stride(o.from, o.inner);
    T *out = (T *)e.buffers[o.to] + r * stride(o.to, o.outer);
    if (seen <= 0) memset(out, 0, o.outer * sizeof(T));
    else if (o.keys_width == o.outer && width == 64) attend_heads<T, 64>(o, q, keys, seen, column, p, out);
    else if (o.keys_width == o.outer && width == 32) attend_heads<T, 32>(o, q, keys, seen, column, p, out);
    else attend_heads<T, 0>(o, q, keys, seen, column, p, out);
}

// from [R, inner], which begins with the queries, asks the keys and values of its sentence.
template <class T> static void attend_source(const Operation &o, const Execution &e, i64 r, float *p, const T **keys) {
    i64 sentence = e.sentences[r];
    const T *first = (const T *)e.buffers[o.keys] + e.firsts[sentence] * o.keys_stride + o.keys_at;
    attend_row(o, e, r, position(e, r), e.lengths[sentence], [&](i64 t) { return first + t * o.keys_stride; }, keys, p);
}

// from [R, inner] asks what its ancestors left in the layer.
template <class T> static void attend_past(const Operation &o, const Execution &e, i64 r, float *p, const T **keys) {
    const int32_t *rows = e.ancestors + r * e.seen;
    const i64 *steps = e.steps + o.layer, width = o.keys_width + o.outer;
    attend_row(o, e, r, e.seen - 1, e.seen, [&](i64 t) { return (const T *)steps[t * e.layers] + rows[t] * width; },
               keys, p);
}

// The first `keys_width` numbers of a row, turned by its position where they are. With the two rows that `weight` has
// for it, each as wide as a head: x ⊙ the one + (x with the two of each pair exchanged) ⊙ the other.
template <class T> static void rotate(const Operation &o, const Execution &e, i64 r) {
    const i64 width = o.keys_width / o.heads;
    const float *one = (const float *)o.weight + position(e, r) * 2 * width, *other = one + width;
    T *row = (T *)e.buffers[o.to] + r * stride(o.to, o.outer);
    for (T *x = row; x < row + o.keys_width; x += width)
        for (i64 i = 0; i < width; i += LANES) write(x + i, turned(read(x + i), read(one + i), read(other + i)));
}
