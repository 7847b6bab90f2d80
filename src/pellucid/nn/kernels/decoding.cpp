// engine.py and ranking.py: one step of decoding for many hypotheses, in which nothing is moved. What a hypothesis has
// seen is found by where it lies: its own past through the rows that were its ancestors, its source by its sentence.

#include "numbers.h"

// softmax(scale · q Kᵀ) V for one row, all heads; key(t) points to the key at t, its value lies `width · heads` behind.
template <class T, class Key>
static void attend_row(const T *q, Key key, i64 seen, i64 heads, i64 width, float scale, float *scratch, T *out) {
    i64 d = heads * width;
    float *query = scratch, *sum = query + d, *p = sum + d;  // p [heads, seen]
    for (i64 i = 0; i < d; i += LANES) {
        write(query + i, read(q + i) * scale);
        write(sum + i, Lanes{});
    }
    for (i64 t = 0; t < seen; t++) {
        const T *k = key(t);
        for (i64 h = 0; h < heads; h++) {
            Lanes dot = {};
            for (i64 i = h * width; i < (h + 1) * width; i += LANES) dot += read(query + i) * read(k + i);
            float total = 0;
            for (i64 i = 0; i < LANES; i++) total += dot[i];
            p[h * seen + t] = total;
        }
    }
    for (i64 h = 0; h < heads; h++) {
        float *row = p + h * seen, highest = -3e38f, total = 0;
        for (i64 t = 0; t < seen; t++) highest = row[t] > highest ? row[t] : highest;
        for (i64 t = 0; t < seen; t++) total += row[t] = exponential(row[t] - highest);
        for (i64 t = 0; t < seen; t++) row[t] /= total;
    }
    for (i64 t = 0; t < seen; t++) {
        const T *v = key(t) + d;
        for (i64 h = 0; h < heads; h++) {
            float weight = p[h * seen + t];
            for (i64 i = h * width; i < (h + 1) * width; i += LANES) write(sum + i, read(sum + i) + weight * read(v + i));
        }
    }
    for (i64 i = 0; i < d; i += LANES) write(out + i, read(sum + i));
}

// Self-attention. steps[t] points to the joint queries, keys and values [R_t, 3·D] of step t; ancestors[r, t] is the
// row of r's hypothesis there.
template <class T>
static void attend_past(const i64 *steps, const int32_t *ancestors, T *out, i64 rows, i64 seen, i64 heads, i64 width,
                        float scale) {
    i64 d = heads * width;
#pragma omp parallel
    {
        float *scratch = new float[2 * d + heads * seen];
#pragma omp for schedule(static)
        for (i64 r = 0; r < rows; r++) {
            auto key = [&](i64 t) { return (const T *)steps[t] + ancestors[r * seen + t] * 3 * d + d; };
            attend_row((const T *)steps[seen - 1] + ancestors[r * seen + seen - 1] * 3 * d, key, seen, heads, width,
                       scale, scratch, out + r * d);
        }
        delete[] scratch;
    }
}

// Cross-attention of q [R, D] to keys and values that lie `stride` apart, `longest` to a sentence.
template <class T>
static void attend_source(const T *q, const T *keys, const i64 *sentences, const i64 *lengths, T *out, i64 rows,
                          i64 longest, i64 stride, i64 heads, i64 width, float scale) {
    i64 d = heads * width;
#pragma omp parallel
    {
        float *scratch = new float[2 * d + heads * longest];
#pragma omp for schedule(static)
        for (i64 r = 0; r < rows; r++) {
            const T *first = keys + sentences[r] * longest * stride;
            auto key = [&](i64 t) { return first + t * stride; };
            attend_row(q + r * d, key, lengths[sentences[r]], heads, width, scale, scratch, out + r * d);
        }
        delete[] scratch;
    }
}

// The `count` best of each row of logits [R, V], the lower id first among equals, and their log-probabilities;
// `forbidden` (ascending) take part in the sum of probabilities alone.
template <class T>
static void rank(const T *logits, float *values, i64 *ids, i64 rows, i64 vocabulary, i64 count, const i64 *forbidden,
                 i64 n_forbidden) {
#pragma omp parallel for schedule(static)
    for (i64 r = 0; r < rows; r++) {
        const T *z = logits + r * vocabulary;
        float *best = values + r * count;
        i64 *id = ids + r * count, kept = 0;
        float bar = -__builtin_inff(), highest = bar, total = 0;
        auto offer = [&](i64 i, float value) {
            for (i64 j = 0; j < n_forbidden; j++)
                if (forbidden[j] == i) return;
            i64 place = kept < count ? kept++ : count - 1;
            for (; place > 0 && best[place - 1] < value; place--) best[place] = best[place - 1], id[place] = id[place - 1];
            best[place] = value;
            id[place] = i;
            if (kept == count) bar = best[count - 1];
        };
        i64 whole = vocabulary / LANES * LANES;
        for (i64 start = 0; start < whole; start += LANES) {
            Lanes x = read(z + start);
            auto above = x > bar;
            int any = 0;
            for (i64 i = 0; i < LANES; i++) any |= above[i];
            if (!any) continue;
            for (i64 i = 0; i < LANES; i++) {
                highest = x[i] > highest ? x[i] : highest;
                if (x[i] > bar) offer(start + i, x[i]);
            }
        }
        for (i64 i = whole; i < vocabulary; i++) {
            highest = get(z[i]) > highest ? get(z[i]) : highest;
            if (get(z[i]) > bar) offer(i, get(z[i]));
        }
#pragma omp simd reduction(+ : total)
        for (i64 i = 0; i < vocabulary; i++) total += exponential(get(z[i]) - highest);
        float log_sum = highest + __builtin_logf(total);
        for (i64 j = kept; j < count; j++) best[j] = -__builtin_inff(), id[j] = 0;
        for (i64 j = 0; j < count; j++) best[j] -= log_sum;
    }
}

// ---- what Python calls ----------------------------------------------------------------------------------------------

BOTH(attend_past, (const i64 *steps, const int32_t *ancestors, void *out, i64 rows, i64 seen, i64 heads, i64 width,
                   float scale),
     attend_past(steps, ancestors, (T *)out, rows, seen, heads, width, scale))
BOTH(attend_source, (const void *q, const void *keys, const i64 *sentences, const i64 *lengths, void *out, i64 rows,
                     i64 longest, i64 stride, i64 heads, i64 width, float scale),
     attend_source((const T *)q, (const T *)keys, sentences, lengths, (T *)out, rows, longest, stride, heads, width,
                   scale))
BOTH(rank, (const void *logits, float *values, i64 *ids, i64 rows, i64 vocabulary, i64 count, const i64 *forbidden,
            i64 n_forbidden),
     rank((const T *)logits, values, ids, rows, vocabulary, count, forbidden, n_forbidden))
