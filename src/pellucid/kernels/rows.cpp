// Passes over memory that torch makes one at a time, made at once. Each function is an equation of the Python file
// named above it, and is tested equal to it; matrix products stay with torch.
//
// T is bf16 or float; arithmetic is in float. Rows are shared among threads in a way that does not depend on their
// number, so results do not either. A function returns nothing and cannot fail: callers check shapes.

#include "parallel.h"
#include <vector>

// ---- dropout.py -----------------------------------------------------------------------------------------------------

// A 32-bit hash of a feature's number under a 64-bit key: what decides whether the feature is dropped.
static inline uint32_t draw(uint32_t i, uint32_t a, uint32_t b) {
    uint32_t x = i * 0x9e3779b1u + a;
    x = (x ^ (x >> 16)) * 0x7feb352du;
    x = (x ^ (x >> 15)) + b;
    x = (x ^ (x >> 16)) * 0x846ca68bu;
    return x ^ (x >> 16);
}

template <class In, class Out>
static void drop(const In *x, Out *out, i64 n, uint32_t dropped, float scale, uint32_t a, uint32_t b) {
    parallel((n + 4095) / 4096, 4096, [&](i64 block) {
        i64 start = block * 4096, end = start + 4096 < n ? start + 4096 : n;
#pragma omp simd
        for (i64 i = start; i < end; i++)
            put(out + i, draw((uint32_t)i, a, b) >= dropped ? get(x[i]) * scale : 0.0f);
    });
}

// x + dropout(y)
template <class T>
static void add_dropped(const float *x, const T *y, float *out, i64 n, uint32_t dropped, float scale, uint32_t a,
                        uint32_t b) {
    parallel((n + 4095) / 4096, 4096, [&](i64 block) {
        i64 start = block * 4096, end = start + 4096 < n ? start + 4096 : n;
#pragma omp simd
        for (i64 i = start; i < end; i++)
            out[i] = x[i] + (draw((uint32_t)i, a, b) >= dropped ? get(y[i]) * scale : 0.0f);
    });
}

// ---- layer_norm.py --------------------------------------------------------------------------------------------------

template <class T>
static void layer_norm(const float *x, const float *gain, const float *bias, T *y, float *mean, float *inverse,
                       i64 rows, i64 width, float epsilon) {
    parallel(rows, 2 * width, [&](i64 r) {
        const float *xr = x + r * width;
        float sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum)
        for (i64 i = 0; i < width; i++) sum += xr[i];
        float mu = sum / width;
#pragma omp simd reduction(+ : squares)
        for (i64 i = 0; i < width; i++) squares += (xr[i] - mu) * (xr[i] - mu);
        float s = 1.0f / __builtin_sqrtf(squares / width + epsilon);
        mean[r] = mu;
        inverse[r] = s;
#pragma omp simd
        for (i64 i = 0; i < width; i++) put(y + r * width + i, (xr[i] - mu) * s * gain[i] + bias[i]);
    });
}

// Gradients of the above. `partial` holds a row of 2·width sums for each block of 128 rows; the caller adds them up.
template <class T>
static void layer_norm_backward(const float *x, const float *gain, const float *mean, const float *inverse, const T *g,
                                float *gx, float *partial, i64 rows, i64 width) {
    i64 blocks = (rows + 127) / 128;
    parallel(blocks, 4 * 128 * width, [&](i64 block) {
        float *g_gain = partial + block * 2 * width, *g_bias = g_gain + width;
        memset(g_gain, 0, 2 * width * sizeof(float));
        i64 end = block * 128 + 128 < rows ? block * 128 + 128 : rows;
        for (i64 r = block * 128; r < end; r++) {
            const float *xr = x + r * width, mu = mean[r], s = inverse[r];
            const T *gr = g + r * width;
            float sum = 0, dot = 0;
#pragma omp simd reduction(+ : sum, dot)
            for (i64 i = 0; i < width; i++) {
                float up = get(gr[i]), normal = (xr[i] - mu) * s, weighted = up * gain[i];
                g_gain[i] += up * normal;
                g_bias[i] += up;
                sum += weighted;
                dot += weighted * normal;
            }
            sum /= width;
            dot /= width;
#pragma omp simd
            for (i64 i = 0; i < width; i++)
                gx[r * width + i] = s * (get(gr[i]) * gain[i] - sum - (xr[i] - mu) * s * dot);
        }
    });
}

// The softmax of a row of logits, and the log of its denominator.
template <class T> static float normalise(const T *z, float *p, i64 width) {
    float top = -__builtin_inff(), sum = 0;
#pragma omp simd reduction(max : top)
    for (i64 i = 0; i < width; i++) top = get(z[i]) > top ? get(z[i]) : top;
#pragma omp simd reduction(+ : sum)
    for (i64 i = 0; i < width; i++) sum += p[i] = exponential(get(z[i]) - top);
    const float inverse = 1 / sum;
#pragma omp simd
    for (i64 i = 0; i < width; i++) p[i] *= inverse;
    return top + __builtin_logf(sum);
}

// ---- cross_entropy.py -----------------------------------------------------------------------------------------------

// In each row, z becomes e^(z - max); `highest` takes the max, `total` the sum, `truth` the logit of the target.
template <class T>
static void exponentiate(T *z, const i64 *targets, float *highest, float *total, float *truth, i64 rows, i64 width) {
    parallel(rows, 4 * width, [&](i64 r) {
        T *row = z + r * width;
        truth[r] = get(row[targets[r]]);
        float top = -__builtin_inff(), sum = 0;
#pragma omp simd reduction(max : top)
        for (i64 i = 0; i < width; i++) top = get(row[i]) > top ? get(row[i]) : top;
#pragma omp simd reduction(+ : sum)
        for (i64 i = 0; i < width; i++) {
            float e = exponential(get(row[i]) - top);
            sum += e;
            put(row + i, e);
        }
        highest[r] = top;
        total[r] = sum;
    });
}

// ---- r_drop.py ------------------------------------------------------------------------------------------------------

// Of the logits z of each target in both passes, [2, rows, width], the gradients by them in their place, without the
// part of the truth; `truth` takes the sum of both log-probabilities of the target, `all` of every token's,
// `divergence` KL(p‖q) + KL(q‖p).
template <class T>
static void r_drop(T *z, const i64 *targets, float *truth, float *all, float *divergence, float alpha, i64 rows,
                   i64 width) {
    const float quarter = 0.25f * alpha, most = 0.5f + quarter;
    together(worth_waking(rows, 12 * width), [&](Member &member) {
        std::vector<float> room(2 * width);
        float *p = room.data(), *q = p + width;
        member.share(rows, [&](i64 r) {
            T *a = z + r * width, *b = a + rows * width;
            float log_p = normalise(a, p, width), log_q = normalise(b, q, width), shift = log_p - log_q;
            float sum = 0, of_p = 0, of_q = 0;
#pragma omp simd reduction(+ : sum, of_p, of_q)
            for (i64 i = 0; i < width; i++) {
                float x = get(a[i]), y = get(b[i]), delta = x - y - shift;
                sum += x + y;
                of_p += p[i] * delta;  // KL(p‖q)
                of_q += q[i] * delta;  // -KL(q‖p)
            }
            truth[r] = get(a[targets[r]]) + get(b[targets[r]]) - log_p - log_q;
            all[r] = sum - width * (log_p + log_q);
            divergence[r] = of_p - of_q;
#pragma omp simd
            for (i64 i = 0; i < width; i++) {
                float delta = get(a[i]) - get(b[i]) - shift;
                put(a + i, p[i] * (quarter * (delta - of_p) + most) - quarter * q[i]);
                put(b + i, q[i] * (quarter * (of_q - delta) + most) - quarter * p[i]);
            }
        });
    });
}

// ---- what Python calls ----------------------------------------------------------------------------------------------

BOTH(drop, (const void *x, void *out, i64 n, uint32_t dropped, float scale, uint32_t a, uint32_t b),
     drop((const T *)x, (T *)out, n, dropped, scale, a, b))
BOTH(drop_float_to, (const float *x, void *out, i64 n, uint32_t dropped, float scale, uint32_t a, uint32_t b),
     drop(x, (T *)out, n, dropped, scale, a, b))
BOTH(add_dropped, (const float *x, const void *y, float *out, i64 n, uint32_t dropped, float scale, uint32_t a,
                   uint32_t b),
     add_dropped(x, (const T *)y, out, n, dropped, scale, a, b))
BOTH(layer_norm, (const float *x, const float *gain, const float *bias, void *y, float *mean, float *inverse, i64 rows,
                  i64 width, float epsilon),
     layer_norm(x, gain, bias, (T *)y, mean, inverse, rows, width, epsilon))
BOTH(layer_norm_backward, (const float *x, const float *gain, const float *mean, const float *inverse, const void *g,
                           float *gx, float *partial, i64 rows, i64 width),
     layer_norm_backward(x, gain, mean, inverse, (const T *)g, gx, partial, rows, width))
BOTH(exponentiate, (void *z, const i64 *targets, float *highest, float *total, float *truth, i64 rows, i64 width),
     exponentiate((T *)z, targets, highest, total, truth, rows, width))
BOTH(r_drop, (void *z, const i64 *targets, float *truth, float *all, float *divergence, float alpha, i64 rows,
              i64 width),
     r_drop((T *)z, targets, truth, all, divergence, alpha, rows, width))
