// engine/engine.py and search/ranking.py: the layers over packed rows as a list of operations, run in one call. Each
// row is computed alone and in one order of summation, so that its bits do not depend on the rows beside it. Nothing
// that was seen is moved: a hypothesis finds its past through the rows that were its ancestors, its source by its
// sentence.

#pragma GCC optimize("no-associative-math")  // sums in the order in which they are written
#include "decoding.h"
#include <omp.h>
#include <vector>

static const i64 TILE = 6;    // rows that are multiplied by a panel at once
static const i64 BLOCK = 96;  // rows that a thread takes at once
static const i64 PART = 512;  // logits of a row that are ranked together

typedef uint8_t ByteLanes __attribute__((vector_size(16)));

// ---- products -------------------------------------------------------------------------------------------------------

// a [N, inner] times one panel, both fp32.
template <i64 N> static inline void product(const float *a, const float *panel, i64 inner, Lanes (&sum)[4][N]) {
    for (i64 k = 0; k < inner; k += FP32, panel += PANEL) {
        Lanes b[4] = {read(panel), read(panel + 16), read(panel + 32), read(panel + 48)};
        for (i64 r = 0; r < N; r++)
            for (i64 c = 0; c < 4; c++) sum[c][r] += a[r * inner + k] * b[c];
    }
}

// Both bf16, two of the inner numbers at once, sums in fp32.
template <i64 N> static inline void product(const bf16 *a, const bf16 *panel, i64 inner, Lanes (&sum)[4][N]) {
    for (i64 k = 0; k < inner; k += BF16, panel += BF16 * PANEL) {
#ifdef __AVX512BF16__
        __m512bh b[4];
        for (i64 c = 0; c < 4; c++) b[c] = (__m512bh)_mm512_loadu_si512(panel + 32 * c);
        for (i64 r = 0; r < N; r++) {
            int pair;
            memcpy(&pair, a + r * inner + k, 4);
            __m512bh both = (__m512bh)_mm512_set1_epi32(pair);
            for (i64 c = 0; c < 4; c++) sum[c][r] = (Lanes)_mm512_dpbf16_ps((__m512)sum[c][r], both, b[c]);
        }
#else
        for (i64 c = 0; c < 4; c++) {
            LaneBits both;
            memcpy(&both, panel + 32 * c, sizeof both);
            Lanes first = (Lanes)(both << 16), second = (Lanes)(both & 0xffff0000u);
            for (i64 r = 0; r < N; r++)
                sum[c][r] += get(a[r * inner + k]) * first + get(a[r * inner + k + 1]) * second;
        }
#endif
    }
}

// A row in bytes around 128 times a matrix in bytes around 0, four of the inner numbers at once.
template <i64 N> static inline void product(const uint8_t *a, const int8_t *panel, i64 inner, IntLanes (&sum)[4][N]) {
    for (i64 k = 0; k < inner; k += INT8, panel += INT8 * PANEL) {
#ifdef __AVX512VNNI__
        __m512i b[4];
        for (i64 c = 0; c < 4; c++) b[c] = _mm512_loadu_si512(panel + 64 * c);
        for (i64 r = 0; r < N; r++) {
            int four;
            memcpy(&four, a + r * inner + k, 4);
            __m512i all = _mm512_set1_epi32(four);
            for (i64 c = 0; c < 4; c++) sum[c][r] = (IntLanes)_mm512_dpbusd_epi32((__m512i)sum[c][r], all, b[c]);
        }
#else
        for (i64 r = 0; r < N; r++)
            for (i64 c = 0; c < 4; c++)
                for (i64 i = 0; i < LANES; i++)
                    for (i64 j = 0; j < 4; j++) sum[c][r][i] += a[r * inner + k + j] * panel[64 * c + 4 * i + j];
#endif
    }
}

static inline Lanes error_function(Lanes x) {  // Abramowitz and Stegun 7.1.26, to 1.5e-7
    Lanes a = x < 0 ? -x : x, t = 1.0f / (1.0f + 0.3275911f * a);
    Lanes p = t * (0.254829592f + t * (-0.284496736f + t * (1.421413741f + t * (-1.453152027f + t * 1.061405429f))));
    Lanes y = 1.0f - p * exponential(-a * a);
    return x < 0 ? -y : y;
}

static inline Lanes activate(Lanes x, i64 activation) {
    if (activation == RELU) return x > 0 ? x : Lanes{};
    if (activation == GELU) return 0.5f * x * (1.0f + error_function(x * 0.70710678f));
    if (activation == SWISH) return x / (1.0f + exponential(-x));
    return x;
}

static inline float total(Lanes x) {
#ifdef __AVX512F__
    return _mm512_reduce_add_ps((__m512)x);
#else
    float sum = 0;
    for (i64 i = 0; i < LANES; i++) sum += x[i];
    return sum;
#endif
}

static inline float largest(Lanes x) {
#ifdef __AVX512F__
    return _mm512_reduce_max_ps((__m512)x);
#else
    float highest = x[0];
    for (i64 i = 1; i < LANES; i++) highest = x[i] > highest ? x[i] : highest;
    return highest;
#endif
}

// The first `count` numbers of x into `to`, or all sixteen.
template <class T> static inline void write_some(T *to, Lanes x, i64 count) {
    if (count >= LANES) return write(to, x);
    for (i64 i = 0; i < count; i++) put(to + i, x[i]);
}

static inline Lanes read_some(const float *from, i64 count) {
    if (count >= LANES) return read(from);
    Lanes x = {};
    for (i64 i = 0; i < count; i++) x[i] = from[i];
    return x;
}

// The sums of N rows and sixteen columns (or `count`, the last): biased, activated, into `to`, or added to `alpha`
// times what is there.
template <class Out, i64 KIND, i64 N>
static inline void put_products(Lanes (&x)[N], const Operation &o, i64 column, i64 count, Out *to) {
    Lanes bias = o.bias ? read_some(o.bias + column, count) : Lanes{};
#pragma GCC unroll 6
    for (i64 r = 0; r < N; r++) {
        Out *y = to + r * o.outer + column;
        x[r] += bias;
        if constexpr (KIND == ADD_PRODUCT)
            write_some(y, o.alpha == 0 ? x[r] : o.alpha * read_some(y, count) + x[r], count);
        else write_some(y, o.activation == LINEAR ? x[r] : activate(x[r], o.activation), count);
    }
}

// The same for the four times sixteen columns of a panel, or as many of them as there are.
template <class Out, i64 KIND, i64 N>
static inline void put_panel(Lanes (&x)[4][N], const Operation &o, i64 first, Out *to) {
    if (first + PANEL <= o.outer) {
#pragma GCC unroll 4
        for (i64 c = 0; c < 4; c++) put_products<Out, KIND>(x[c], o, first + LANES * c, LANES, to);
    } else {
        for (i64 c = 0; first + LANES * c < o.outer; c++)
            put_products<Out, KIND>(x[c], o, first + LANES * c, o.outer - first - LANES * c, to);
    }
}

// N rows from `row` on times the panel that begins with the column `first`; `to` is where the first of them goes.
template <class W, class Out, i64 KIND, i64 N>
static void tile(const Operation &o, const Execution &e, const W *a, const W *panel, i64 row, i64 first, Out *to) {
    Lanes sum[4][N] = {};
    product<N>(a, panel, o.inner, sum);
    put_panel<Out, KIND>(sum, o, first, to);
}

// In bytes: `shift` takes the 128s out again, the row's scale and the column's gain give the numbers back.
template <class W, class Out, i64 KIND, i64 N>
static void tile(const Operation &o, const Execution &e, const uint8_t *a, const int8_t *panel, i64 row, i64 first,
                 Out *to) {
    IntLanes sum[4][N];
    Lanes x[4][N];
    for (i64 c = 0; c < 4; c++) {
        memcpy(&sum[c][0], o.shift + first + LANES * c, sizeof(IntLanes));
        for (i64 r = 1; r < N; r++) sum[c][r] = sum[c][0];
    }
    product<N>(a, panel, o.inner, sum);
    const float *scales = (const float *)e.buffers[SCALES] + row;
#pragma GCC unroll 4
    for (i64 c = 0; c < 4; c++) {
        Lanes gain = read(o.gain + first + LANES * c);
#pragma GCC unroll 6
        for (i64 r = 0; r < N; r++) x[c][r] = __builtin_convertvector(sum[c][r], Lanes) * (scales[r] * gain);
    }
    put_panel<Out, KIND>(x, o, first, to);
}

// Rows `row` to `end` - 1 times one panel, N at once, then the rest; `to` is where the first of them goes.
template <class A, class W, class Out, i64 KIND, i64 N = TILE>
static void multiply_rows(const Operation &o, const Execution &e, i64 row, i64 end, i64 first, Out *to) {
    const A *from = (const A *)e.buffers[o.from] + row * o.inner;
    const W *panel = (const W *)o.weight + first * o.inner;
    for (; row + N <= end; row += N, from += N * o.inner, to += N * o.outer)
        tile<W, Out, KIND, N>(o, e, from, panel, row, first, to);
    if constexpr (N > 1) multiply_rows<A, W, Out, KIND, N - 1>(o, e, row, end, first, to);
}

// from [R, inner] times the packed weight [outer, inner], bias [outer] or null.
template <class A, class W, class Out, i64 KIND> static void multiply(const Operation &o, const Execution &e) {
    i64 panels = (o.outer + PANEL - 1) / PANEL, blocks = (e.rows + BLOCK - 1) / BLOCK;
#pragma omp for schedule(static)
    for (i64 task = 0; task < blocks * panels; task++) {
        i64 row = task / panels * BLOCK, end = row + BLOCK < e.rows ? row + BLOCK : e.rows;
        multiply_rows<A, W, Out, KIND>(o, e, row, end, task % panels * PANEL, (Out *)e.buffers[o.to] + row * o.outer);
    }
}

// Rows of T, or of the bytes they were made into.
template <class T, class Out, i64 KIND> static void multiply_either(const Operation &o, const Execution &e) {
    if (o.shift) multiply<uint8_t, int8_t, Out, KIND>(o, e);
    else multiply<T, T, Out, KIND>(o, e);
}

// from [R, inner] → bytes 128 + 127 · x / max |x|, and what to multiply them with to have x again.
template <class T> static void quantize(const Operation &o, const Execution &e) {
#pragma omp for schedule(static)
    for (i64 r = 0; r < e.rows; r++) {
        const T *from = (const T *)e.buffers[o.from] + r * o.inner;
        uint8_t *to = (uint8_t *)e.buffers[o.to] + r * o.inner;
        Lanes highest = Lanes{} + 1e-30f;
        for (i64 i = 0; i < o.inner; i += LANES) {
            Lanes x = read(from + i), size = x < 0 ? -x : x;
            highest = size > highest ? size : highest;
        }
        float top = largest(highest), scale = 127.0f / top;
        for (i64 i = 0; i < o.inner; i += LANES) {
            ByteLanes bytes = __builtin_convertvector(
                __builtin_convertvector(128.5f + scale * read(from + i), IntLanes), ByteLanes);
            memcpy(to + i, &bytes, sizeof bytes);
        }
        ((float *)e.buffers[SCALES])[r] = top / 127.0f;
    }
}

// ---- embeddings, norms and gates ------------------------------------------------------------------------------------

// Rows of the table `weight` [V, D], and their places, into the stream.
static void embed(const Operation &o, const Execution &e) {
    i64 d = o.outer;
#pragma omp for schedule(static)
    for (i64 r = 0; r < e.rows; r++) {
        const float *word = (const float *)o.weight + e.tokens[r] * d;
        const float *place = e.places + (e.positions ? e.positions[r] : e.seen - 1) * d;
        float *to = (float *)e.buffers[o.to] + r * d;
        for (i64 i = 0; i < d; i++) to[i] = word[i] + place[i];
    }
}

// The fp32 rows `from` [R, D] into `to`, typed.
template <class T> static void normalize(const Operation &o, const Execution &e) {
    i64 d = o.inner;
#pragma omp for schedule(static)
    for (i64 r = 0; r < e.rows; r++) {
        float *x = (float *)e.buffers[o.from] + r * d, mean = 0, scale = 1;
        T *to = (T *)e.buffers[o.to] + r * d;
        if (o.norm == LAYER_NORM || o.norm == STD_NORM) {
            Lanes sum = {};
            for (i64 i = 0; i < d; i += LANES) sum += read(x + i);
            mean = total(sum) / d;
        }
        if (o.norm != NO_NORM) {
            Lanes sum = {};
            for (i64 i = 0; i < d; i += LANES) {
                Lanes centred = read(x + i) - mean;
                sum += centred * centred;
            }
            float square = total(sum);
            scale = o.norm == STD_NORM ? 1 / (__builtin_sqrtf(square / (d - 1)) + o.epsilon)
                                       : 1 / __builtin_sqrtf(square / d + o.epsilon);
        }
        for (i64 i = 0; i < d; i += LANES) {
            Lanes y = (read(x + i) - mean) * scale;
            if (o.gain) y *= read(o.gain + i);
            if (o.bias) y += read(o.bias + i);
            if (o.in_place) write(x + i, y);
            write(to + i, y);
        }
    }
}

// activation(gate) ⊙ inner of the joint `from` [R, 2·outer] → [R, outer]
template <class T> static void gate(const Operation &o, const Execution &e) {
    i64 f = o.outer;
#pragma omp for schedule(static)
    for (i64 r = 0; r < e.rows; r++) {
        const T *from = (const T *)e.buffers[o.from] + r * o.inner;
        T *to = (T *)e.buffers[o.to] + r * f;
        for (i64 i = 0; i < f; i += LANES) write(to + i, activate(read(from + i), o.activation) * read(from + f + i));
    }
}

// ---- attention ------------------------------------------------------------------------------------------------------

// q · k, sixteen partial sums.
static inline Lanes dot(const float *q, const float *k, i64 width) {
    Lanes sum = {};
    for (i64 i = 0; i < width; i += LANES) sum += read(q + i) * read(k + i);
    return sum;
}

static inline Lanes dot(const bf16 *q, const bf16 *k, i64 width) {
    Lanes sum = {};
    i64 i = 0;
#ifdef __AVX512BF16__
    for (; i + 2 * LANES <= width; i += 2 * LANES)
        sum = (Lanes)_mm512_dpbf16_ps((__m512)sum, (__m512bh)_mm512_loadu_si512(q + i),
                                      (__m512bh)_mm512_loadu_si512(k + i));
#endif
    for (; i < width; i += LANES) sum += read(q + i) * read(k + i);
    return sum;
}

// The sums of four vectors, side by side.
static inline void totals(Lanes a, Lanes b, Lanes c, Lanes d, float *to) {
#ifdef __AVX512F__
    __m512 ab = _mm512_add_ps(_mm512_unpacklo_ps((__m512)a, (__m512)b), _mm512_unpackhi_ps((__m512)a, (__m512)b));
    __m512 cd = _mm512_add_ps(_mm512_unpacklo_ps((__m512)c, (__m512)d), _mm512_unpackhi_ps((__m512)c, (__m512)d));
    __m512 all = _mm512_add_ps(
        _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(ab), _mm512_castps_pd(cd))),
        _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(ab), _mm512_castps_pd(cd))));
    __m256 half = _mm256_add_ps(_mm512_castps512_ps256(all), _mm512_extractf32x8_ps(all, 1));
    _mm_storeu_ps(to, _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1)));
#else
    to[0] = total(a), to[1] = total(b), to[2] = total(c), to[3] = total(d);
#endif
}

// Σ p[t] · value[t] · scale, N times sixteen numbers at once.
template <i64 N, class T>
static inline void mix_some(const float *p, const T **keys, i64 at, i64 seen, float scale, T *out) {
    Lanes sum[N] = {};
    for (i64 t = 0; t < seen; t++)
        for (i64 i = 0; i < N; i++) sum[i] += p[t] * read(keys[t] + at + LANES * i);
    for (i64 i = 0; i < N; i++) write(out + LANES * i, sum[i] * scale);
}

template <class T>
static inline void mix(const float *p, const T **keys, i64 at, i64 seen, i64 width, float scale, T *out) {
    i64 i = 0;
    for (; i + 64 <= width; i += 64) mix_some<4>(p, keys, at + i, seen, scale, out + i);
    for (; i < width; i += LANES) mix_some<1>(p, keys, at + i, seen, scale, out + i);
}

// softmax(scale · q Kᵀ) V for one row, all heads. keys[t] points to the key at t, its value lies `width · heads`
// behind; one pointer or more, filled up to a multiple of sixteen; so many numbers p for each head, and one more.
template <class T, i64 WIDTH>
static inline void attend_heads(const T *q, const T **keys, i64 seen, i64 heads, i64 any_width, float scale, float *p,
                                T *out) {
    const i64 width = WIDTH ? WIDTH : any_width;
    i64 filled = (seen + LANES - 1) / LANES * LANES;
    for (i64 t = seen; t < filled; t++) keys[t] = keys[seen - 1];
    for (i64 h = 0; h < heads; h++) {
        const T *query = q + h * width;
        float *score = p + h * filled;
        for (i64 t = 0; t < seen; t += 4)
            totals(dot(query, keys[t] + h * width, width), dot(query, keys[t + 1] + h * width, width),
                   dot(query, keys[t + 2] + h * width, width), dot(query, keys[t + 3] + h * width, width), score + t);
        for (i64 t = seen; t < filled; t++) score[t] = -3e38f;  // e^x of it is nothing beside 1
    }
    for (i64 h = 0; h < heads; h++) {
        float *score = p + h * filled;
        Lanes highest = read(score), sum = {};
        for (i64 t = LANES; t < filled; t += LANES) {
            Lanes x = read(score + t);
            highest = x > highest ? x : highest;
        }
        float top = largest(highest);
        for (i64 t = 0; t < filled; t += LANES) {
            Lanes x = exponential((read(score + t) - top) * scale);
            sum += x;
            write(score + t, x);
        }
        p[heads * filled + h] = 1 / total(sum);
    }
    for (i64 h = 0; h < heads; h++)
        mix(p + h * filled, keys, (heads + h) * width, seen, width, p[heads * filled + h], out + h * width);
}

// The same for a row of an operation; where there is nothing to look at, zeros.
template <class T>
static inline void attend_row(const Operation &o, const Execution &e, i64 r, const T **keys, i64 seen, float *p) {
    i64 width = o.outer / o.heads;
    const T *q = (const T *)e.buffers[o.from] + r * o.inner;
    T *out = (T *)e.buffers[o.to] + r * o.outer;
    if (seen == 0) memset(out, 0, o.outer * sizeof(T));
    else if (width == 64) attend_heads<T, 64>(q, keys, seen, o.heads, width, o.scale, p, out);
    else if (width == 32) attend_heads<T, 32>(q, keys, seen, o.heads, width, o.scale, p, out);
    else attend_heads<T, 0>(q, keys, seen, o.heads, width, o.scale, p, out);
}

// from [R, inner], which begins with the queries [R, D], asks the keys and values of its sentence.
template <class T> static void attend_source(const Operation &o, const Execution &e, float *p, const T **keys) {
#pragma omp for schedule(static)
    for (i64 r = 0; r < e.rows; r++) {
        i64 sentence = e.sentences[r], seen = e.lengths[sentence];
        const T *first = (const T *)e.buffers[o.keys] + e.firsts[sentence] * o.keys_stride + o.keys_at;
        for (i64 t = 0; t < seen; t++) keys[t] = first + t * o.keys_stride;
        attend_row(o, e, r, keys, seen, p);
    }
}

// from [R, D] asks what its ancestors left in the layer.
template <class T> static void attend_past(const Operation &o, const Execution &e, float *p, const T **keys) {
#pragma omp for schedule(static)
    for (i64 r = 0; r < e.rows; r++) {
        const int32_t *rows = e.ancestors + r * e.seen;
        const i64 *steps = e.steps + o.layer;
        for (i64 t = 0; t < e.seen; t++) keys[t] = (const T *)steps[t * e.layers] + (i64)rows[t] * 2 * o.outer;
        attend_row(o, e, r, keys, e.seen, p);
    }
}

// ---- the whole ------------------------------------------------------------------------------------------------------

template <class T> void execute(const Operation *operations, i64 count, const Execution &e) {
#pragma omp parallel
    {
        i64 room = (e.seen > e.longest ? e.seen : e.longest) + LANES;
        i64 heads = 0;
        for (i64 i = 0; i < count; i++) heads = operations[i].heads > heads ? operations[i].heads : heads;
        std::vector<float> p(heads * (room + 1));
        std::vector<const T *> keys(room);
        for (i64 i = 0; i < count; i++) {
            const Operation &o = operations[i];
            switch (o.kind) {
                case EMBED: embed(o, e); break;
                case MULTIPLY:
                    if (o.to == LOGITS) multiply_either<T, float, MULTIPLY>(o, e);  // they stay as they are summed
                    else multiply_either<T, T, MULTIPLY>(o, e);
                    break;
                case ADD_PRODUCT: multiply_either<T, float, ADD_PRODUCT>(o, e); break;
                case QUANTIZE: quantize<T>(o, e); break;
                case NORMALIZE: normalize<T>(o, e); break;
                case GATE: gate<T>(o, e); break;
                case ATTEND_SOURCE: attend_source<T>(o, e, p.data(), keys.data()); break;
                case ATTEND_PAST: attend_past<T>(o, e, p.data(), keys.data()); break;
            }
        }
    }
}

// Bit i: whether x[i] is above the bar, or no number.
static inline uint32_t exceeding(Lanes x, float bar) {
#ifdef __AVX512F__
    return _mm512_cmp_ps_mask((__m512)x, _mm512_set1_ps(bar), _CMP_NLE_UQ);
#else
    uint32_t bits = 0;
    for (i64 i = 0; i < LANES; i++) bits |= (uint32_t)!(x[i] <= bar) << i;
    return bits;
#endif
}

// The best of a row of logits, and the sum of e^(logit - highest), of as many of its columns as have been seen.
struct Ranked {
    float *best;
    i64 *id, kept = 0;
    float bar = -__builtin_inff(), highest = -3e38f, sum = 0, no_number = 0;

    void offer(i64 token, float value, const Wanted &wanted) {
        for (i64 j = 0; j < wanted.n_forbidden; j++)
            if (wanted.forbidden[j] == token) return;
        i64 place = kept < wanted.count ? kept++ : wanted.count - 1;
        for (; place > 0 && best[place - 1] < value; place--) best[place] = best[place - 1], id[place] = id[place - 1];
        best[place] = value;
        id[place] = token;
        if (kept == wanted.count) bar = best[wanted.count - 1];
    }

    // `size` more columns z, from `first` on.
    template <class T> void see(const T *z, i64 first, i64 size, const Wanted &wanted) {
        i64 whole = size / LANES * LANES;
        float before = highest, rest = 0;
        for (i64 start = 0; start < whole; start += LANES) {
            Lanes x = read(z + start);
            for (uint32_t above = exceeding(x, bar); above; above &= above - 1) {
                i64 i = __builtin_ctz(above);
                highest = x[i] > highest ? x[i] : highest;
                no_number += x[i] - x[i];  // NaN, of NaN and of infinity
                if (x[i] > bar) offer(first + start + i, x[i], wanted);
            }
        }
        for (i64 i = whole; i < size; i++) {
            highest = get(z[i]) > highest ? get(z[i]) : highest;
            no_number += get(z[i]) - get(z[i]);
            if (get(z[i]) > bar) offer(first + i, get(z[i]), wanted);
        }
        if (!wanted.probabilities) return;
        Lanes sums = {};
        for (i64 start = 0; start < whole; start += LANES) sums += exponential(read(z + start) - highest);
        for (i64 i = whole; i < size; i++) rest += exponential(get(z[i]) - highest);
        sum = (highest > before ? sum * exponential(before - highest) : sum) + (total(sums) + rest);
    }

    void finish(const Wanted &wanted) {
        float log_sum = wanted.probabilities ? highest + __builtin_logf(sum) : no_number;
        for (i64 j = kept; j < wanted.count; j++) best[j] = -__builtin_inff(), id[j] = 0;
        for (i64 j = 0; j < wanted.count; j++) best[j] -= log_sum;
    }
};

template <class T> void rank(const T *logits, i64 rows, i64 vocabulary, const Wanted &wanted) {
#pragma omp parallel for schedule(static)
    for (i64 r = 0; r < rows; r++) {
        Ranked row = {wanted.values + r * wanted.count, wanted.ids + r * wanted.count};
        for (i64 first = 0; first < vocabulary; first += PART) {
            i64 size = vocabulary - first < PART ? vocabulary - first : PART;
            row.see(logits + r * vocabulary + first, first, size, wanted);
        }
        row.finish(wanted);
    }
}

// The product's logits, PART columns at a time, which are ranked while they are near: nothing else remains of them.
template <class A, class W>
static void rank_products(const Operation &o, const Execution &e, const Wanted &wanted, i64 block) {
#pragma omp parallel
    {
        std::vector<float> logits(block * PART);
        std::vector<Ranked> rows;
#pragma omp for schedule(static)
        for (i64 row = 0; row < e.rows; row += block) {
            i64 end = row + block < e.rows ? row + block : e.rows;
            rows.clear();
            for (i64 r = row; r < end; r++)
                rows.push_back({wanted.values + r * wanted.count, wanted.ids + r * wanted.count});
            for (i64 first = 0; first < o.outer; first += PART) {
                Operation part = o;
                part.outer = o.outer - first < PART ? o.outer - first : PART;
                part.weight = (const W *)o.weight + first * o.inner;
                if (o.bias) part.bias += first;
                if (o.shift) part.shift += first, part.gain += first;
                for (i64 column = 0; column < part.outer; column += PANEL)
                    multiply_rows<A, W, float, MULTIPLY>(part, e, row, end, column, logits.data());
                for (i64 r = row; r < end; r++)
                    rows[r - row].see(logits.data() + (r - row) * part.outer, first, part.outer, wanted);
            }
            for (Ranked &each : rows) each.finish(wanted);
        }
    }
}

template <class T>
void execute_and_rank(const Operation *operations, i64 count, const Execution &e, const Wanted &wanted) {
    const Operation &last = operations[count - 1];
    i64 threads = omp_get_max_threads(), block = ((e.rows + threads - 1) / threads + TILE - 1) / TILE * TILE;
    if (e.rows < threads * TILE) {  // too few for all threads to have some
        execute<T>(operations, count, e);
        rank((const float *)e.buffers[last.to], e.rows, last.outer, wanted);
    } else {
        execute<T>(operations, count - 1, e);
        if (block > BLOCK) block = BLOCK;
        if (last.shift) rank_products<uint8_t, int8_t>(last, e, wanted, block);
        else rank_products<T, T>(last, e, wanted, block);
    }
}

// ---- what search.cpp calls ------------------------------------------------------------------------------------------

template void execute_and_rank<bf16>(const Operation *, i64, const Execution &, const Wanted &);
template void execute_and_rank<float>(const Operation *, i64, const Execution &, const Wanted &);

// ---- what Python calls ----------------------------------------------------------------------------------------------

BOTH(execute, (const void *operations, i64 count, const void *execution),
     execute<T>((const Operation *)operations, count, *(const Execution *)execution))
BOTH(rank, (const void *logits, float *values, i64 *ids, i64 rows, i64 vocabulary, i64 count, const i64 *forbidden,
            i64 n_forbidden),
     rank((const T *)logits, rows, vocabulary, {true, count, forbidden, n_forbidden, values, ids}))

// For the thread that calls, and no other.
extern "C" void use_threads(i64 count) { omp_set_num_threads((int)count); }
