// Passes over memory that torch makes one at a time, made at once. Each function is an equation of the Python file
// named above it, and is tested equal to it; matrix products stay with torch.
//
// T is bf16 or float; arithmetic is in float. Sums are made by rows, or by blocks that do not depend on the number of
// threads, so results do not either. A function returns nothing and cannot fail: callers check shapes.

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

// dropout(x) of some features.
template <class In, class Out>
static void drop_some(const In *x, Out *out, i64 start, i64 end, uint32_t dropped, float scale, uint32_t a,
                      uint32_t b) {
#pragma omp simd
    for (i64 i = start; i < end; i++) put(out + i, get(x[i]) * (draw((uint32_t)i, a, b) >= dropped ? scale : 0.0f));
}

// x + dropout(y) of some.
template <class T>
static void add_some_dropped(const float *x, const T *y, float *out, i64 start, i64 end, uint32_t dropped, float scale,
                             uint32_t a, uint32_t b) {
#pragma omp simd
    for (i64 i = start; i < end; i++)
        out[i] = x[i] + get(y[i]) * (draw((uint32_t)i, a, b) >= dropped ? scale : 0.0f);
}

const i64 BLOCK = 4096;

// f(start, end) for all of n numbers, a few thousand at a time.
template <class F> static void in_blocks(i64 n, F f) {
    parallel((n + BLOCK - 1) / BLOCK, BLOCK, [&](i64 i) { f(i * BLOCK, (i + 1) * BLOCK < n ? (i + 1) * BLOCK : n); });
}

template <class In, class Out>
static void drop(const In *x, Out *out, i64 n, uint32_t dropped, float scale, uint32_t a, uint32_t b) {
    in_blocks(n, [&](i64 start, i64 end) { drop_some(x, out, start, end, dropped, scale, a, b); });
}

template <class T>
static void add_dropped(const float *x, const T *y, float *out, i64 n, uint32_t dropped, float scale, uint32_t a,
                        uint32_t b) {
    in_blocks(n, [&](i64 start, i64 end) { add_some_dropped(x, y, out, start, end, dropped, scale, a, b); });
}

// ---- layer_norm.py --------------------------------------------------------------------------------------------------

template <class T>
static void normalize_row(const float *x, const float *gain, const float *bias, T *y, float *mean, float *inverse,
                          i64 width, float epsilon) {
    float sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum)
    for (i64 i = 0; i < width; i++) sum += x[i];
    const float mu = sum / width;
#pragma omp simd reduction(+ : squares)
    for (i64 i = 0; i < width; i++) squares += (x[i] - mu) * (x[i] - mu);
    const float s = 1.0f / __builtin_sqrtf(squares / width + epsilon);
    *mean = mu;
    *inverse = s;
#pragma omp simd
    for (i64 i = 0; i < width; i++) put(y + i, (x[i] - mu) * s * gain[i] + bias[i]);
}

template <class T>
static void layer_norm(const float *x, const float *gain, const float *bias, T *y, float *mean, float *inverse,
                       i64 rows, i64 width, float epsilon) {
    parallel(rows, 2 * width, [&](i64 r) {
        normalize_row(x + r * width, gain, bias, y + r * width, mean + r, inverse + r, width, epsilon);
    });
}

// Gradients of the above for a row, those of gain and bias added to what is there.
template <class T>
static void normalize_row_backward(const float *x, const float *gain, float mu, float s, const T *g, float *gx,
                                   float *g_gain, float *g_bias, i64 width) {
    float sum = 0, dot = 0;
#pragma omp simd reduction(+ : sum, dot)
    for (i64 i = 0; i < width; i++) {
        float up = get(g[i]), normal = (x[i] - mu) * s, weighted = up * gain[i];
        g_gain[i] += up * normal;
        g_bias[i] += up;
        sum += weighted;
        dot += weighted * normal;
    }
    sum /= width;
    dot /= width;
#pragma omp simd
    for (i64 i = 0; i < width; i++) gx[i] = s * (get(g[i]) * gain[i] - sum - (x[i] - mu) * s * dot);
}

// `partial` holds a row of 2·width sums for each block of 128 rows; the caller adds them up.
template <class T>
static void layer_norm_backward(const float *x, const float *gain, const float *mean, const float *inverse, const T *g,
                                float *gx, float *partial, i64 rows, i64 width) {
    const i64 block = 128;
    parallel((rows + block - 1) / block, 4 * block * width, [&](i64 i) {
        float *g_gain = partial + i * 2 * width, *g_bias = g_gain + width;
        memset(g_gain, 0, 2 * width * sizeof(float));
        for (i64 r = i * block; r < (i + 1) * block && r < rows; r++)
            normalize_row_backward(x + r * width, gain, mean[r], inverse[r], g + r * width, gx + r * width, g_gain,
                                   g_bias, width);
    });
}

// The largest of a row of logits.
template <class T> static float top_of(const T *z, i64 width) {
    float top = -__builtin_inff();
#pragma omp simd reduction(max : top)
    for (i64 i = 0; i < width; i++) top = get(z[i]) > top ? get(z[i]) : top;
    return top;
}

// ---- cross_entropy.py -----------------------------------------------------------------------------------------------

// A row z becomes e^(z - top); their sum.
template <class T> static float exponentiate_row(T *z, float top, i64 width) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (i64 i = 0; i < width; i++) {
        float e = exponential(get(z[i]) - top);
        sum += e;
        put(z + i, e);
    }
    return sum;
}

// In each row, z becomes e^(z - max); `highest` takes the max, `total` the sum, `truth` the logit of the target.
template <class T>
static void exponentiate(T *z, const i64 *targets, float *highest, float *total, float *truth, i64 rows, i64 width) {
    parallel(rows, 4 * width, [&](i64 r) {
        T *row = z + r * width;
        truth[r] = get(row[targets[r]]);
        highest[r] = top_of(row, width);
        total[r] = exponentiate_row(row, highest[r], width);
    });
}

// ---- r_drop.py ------------------------------------------------------------------------------------------------------

// The softmax of a row of logits, and the log of its denominator.
template <class T> static float normalise(const T *z, float *p, i64 width) {
    const float top = top_of(z, width);
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (i64 i = 0; i < width; i++) sum += p[i] = exponential(get(z[i]) - top);
    const float inverse = 1 / sum;
#pragma omp simd
    for (i64 i = 0; i < width; i++) p[i] *= inverse;
    return top + __builtin_logf(sum);
}

// Of a target's logits a and b in both passes the gradients in their place, without the part of the truth; p and q are
// room for a row each.
template <class T>
static void r_drop_row(T *a, T *b, i64 target, float *truth, float *all, float *divergence, float alpha, float *p,
                       float *q, i64 width) {
    const float quarter = 0.25f * alpha, most = 0.5f + quarter;
    const float log_p = normalise(a, p, width), log_q = normalise(b, q, width), shift = log_p - log_q;
    float sum = 0, of_p = 0, of_q = 0;
#pragma omp simd reduction(+ : sum, of_p, of_q)
    for (i64 i = 0; i < width; i++) {
        float x = get(a[i]), y = get(b[i]), delta = x - y - shift;
        sum += x + y;
        of_p += p[i] * delta;  // KL(p‖q)
        of_q += q[i] * delta;  // -KL(q‖p)
    }
    *truth = get(a[target]) + get(b[target]) - log_p - log_q;
    *all = sum - width * (log_p + log_q);
    *divergence = of_p - of_q;
#pragma omp simd
    for (i64 i = 0; i < width; i++) {
        float delta = get(a[i]) - get(b[i]) - shift;
        put(a + i, p[i] * (quarter * (delta - of_p) + most) - quarter * q[i]);
        put(b + i, q[i] * (quarter * (of_q - delta) + most) - quarter * p[i]);
    }
}

// For logits z [2, rows, width]; `truth` takes the sum of both log-probabilities of each target, `all` of every
// token's, `divergence` KL(p‖q) + KL(q‖p).
template <class T>
static void r_drop(T *z, const i64 *targets, float *truth, float *all, float *divergence, float alpha, i64 rows,
                   i64 width) {
    together(worth_waking(rows, 12 * width), [&](Member &member) {
        std::vector<float> room(2 * width);
        member.share(rows, [&](i64 r) {
            r_drop_row(z + r * width, z + (rows + r) * width, targets[r], truth + r, all + r, divergence + r, alpha,
                       room.data(), room.data() + width, width);
        });
    });
}

// ---- adam.py --------------------------------------------------------------------------------------------------------

static float squares_of(const float *x, i64 start, i64 end) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (i64 i = start; i < end; i++) sum += x[i] * x[i];
    return sum;
}

static void scale(float *x, i64 start, i64 end, float factor) {
#pragma omp simd
    for (i64 i = start; i < end; i++) x[i] *= factor;
}

// `norm` takes the Euclidean norm of all gradients together, which are scaled where it is above `most`.
static void clip(float *const *gradients, const i64 *sizes, i64 count, float most, float *norm) {
    double sum = 0;
    std::vector<double> sums;
    for (i64 k = 0; k < count; k++) {
        sums.assign(sizes[k] / BLOCK + 1, 0);
        in_blocks(sizes[k], [&](i64 start, i64 end) { sums[start / BLOCK] = squares_of(gradients[k], start, end); });
        for (double part : sums) sum += part;
    }
    *norm = (float)__builtin_sqrt(sum);
    const float factor = most / (*norm + 1e-6f);
    if (factor < 1)
        for (i64 k = 0; k < count; k++)
            in_blocks(sizes[k], [&](i64 start, i64 end) { scale(gradients[k], start, end, factor); });
}

// What an update does to each number of a parameter; `first` and `second` are 1 - β₁ and 1 - β₂, of the betas as they
// were given: the difference of rounded ones is far from theirs where they are near 1.
struct Step {
    float rate, first, beta2, second, root, epsilon, decay, shrink;
};

static void adam_some(float *weights, const float *gradient, float *mean, float *square, i64 start, i64 end,
                      const Step s) {
#pragma omp simd
    for (i64 i = start; i < end; i++) {
        float g = gradient[i] + s.decay * weights[i];
        float m = mean[i] + s.first * (g - mean[i]), v = s.beta2 * square[i] + s.second * g * g;
        weights[i] = weights[i] * s.shrink - s.rate * m / (__builtin_sqrtf(v) * s.root + s.epsilon);
        mean[i] = m;
        square[i] = v;
    }
}

// For parameters of so many numbers each: their weights, gradients and moments, and how many updates they have seen.
static void adam(float *const *weights, const float *const *gradients, float *const *means, float *const *squares,
                 float *const *steps, const i64 *sizes, i64 count, double rate, double beta1, double beta2,
                 double epsilon, double decay, i64 is_decoupled) {
    for (i64 k = 0; k < count; k++) {
        const double step = *steps[k] += 1;
        const Step s = {(float)(rate / (1 - __builtin_pow(beta1, step))), (float)(1 - beta1), (float)beta2,
                        (float)(1 - beta2), (float)(1 / __builtin_sqrt(1 - __builtin_pow(beta2, step))), (float)epsilon,
                        (float)(is_decoupled ? 0 : decay), (float)(is_decoupled ? 1 - rate * decay : 1)};
        in_blocks(sizes[k], [&](i64 start, i64 end) {
            adam_some(weights[k], gradients[k], means[k], squares[k], start, end, s);
        });
    }
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
extern "C" void clip_float(float *const *gradients, const i64 *sizes, i64 count, float most, float *norm) {
    clip(gradients, sizes, count, most, norm);
}
extern "C" void adam_float(float *const *weights, const float *const *gradients, float *const *means,
                           float *const *squares, float *const *steps, const i64 *sizes, i64 count, double rate,
                           double beta1, double beta2, double epsilon, double decay, i64 is_decoupled) {
    adam(weights, gradients, means, squares, steps, sizes, count, rate, beta1, beta2, epsilon, decay, is_decoupled);
}
