// scaled_dot_product_attention.py, without bias, window or dropout: short sequences one head at a time, scores and
// weights never stored; and the softmax between the two products of longer ones. Before them, rotary positions.

#include "parallel.h"
#include <memory>

// A matrix of heads: element (b, h, t, i) of a [B, H, T, width] view is data[b·batch + h·head + t·row + i].
struct Heads {
    void *data;
    i64 batch, head, row;
};

template <class T> static inline T *at(const Heads &m, i64 b, i64 h, i64 t) {
    return (T *)m.data + b * m.batch + h * m.head + t * m.row;
}

struct Sizes {
    i64 batch, heads, queries, keys, width;
    const i64 *lengths;  // of the real keys of each sentence, which come first; or null
    i64 causal;
    float scale;
};

static inline i64 visible(const Sizes &z, i64 b, i64 t) {
    i64 keys = z.lengths ? z.lengths[b] : z.keys;
    return z.causal && t + 1 < keys ? t + 1 : keys;
}

// How many registers hold a row of a head of W numbers; of a row that fills only half of one, the rest is 0.
template <i64 W> constexpr i64 registers() { return (W + LANES - 1) / LANES; }

#if defined(__AVX512F__)
static inline Lanes read_half(const float *p) { return (Lanes)_mm512_zextps256_ps512(_mm256_loadu_ps(p)); }
static inline Lanes read_half(const bf16 *p) {
    __m256i half = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));
    return (Lanes)_mm512_zextsi256_si512(_mm256_slli_epi32(half, 16));
}
template <class T> static inline void write_half(T *p, Lanes x) {
    T all[LANES];
    write(all, x);
    memcpy(p, all, sizeof all / 2);
}
#endif

template <i64 W, class T> static inline Lanes read_of(const T *p) {
    if constexpr (W >= LANES) return read(p);
    else return read_half(p);
}

template <i64 W, class T> static inline void write_of(T *p, Lanes x) {
    if constexpr (W >= LANES) write(p, x);
    else write_half(p, x);
}

// The least multiple of `unit` that is n or more.
static inline i64 filled(i64 n, i64 unit) { return (n + unit - 1) / unit * unit; }

// One head in float, [n, W], filled up to a multiple of TOTALS rows with zeros.
template <class T, i64 W> static void rows(const Heads &m, i64 b, i64 h, i64 n, float scale, float *out) {
    const i64 N = registers<W>();
    for (i64 t = 0; t < n; t++)
        for (i64 j = 0; j < N; j++)
            write(out + (t * N + j) * LANES, read_of<W>(at<T>(m, b, h, t) + j * LANES) * scale);
    for (i64 t = n * N; t < filled(n, TOTALS) * N; t++) write(out + t * LANES, Lanes{});
}

// x · m_s for the first `seen` rows of m, and as many more as fill TOTALS.
template <i64 N> static inline void dots(const float *x, const float *m, i64 seen, float *out) {
    const i64 w = N * LANES;
    for (i64 s = 0; s < seen; s += TOTALS, m += TOTALS * w)
        totals(dot(x, m, w), dot(x, m + w, w), dot(x, m + 2 * w, w), dot(x, m + 3 * w, w), out + s);
}

// Σ_s weights[s·stride]·rows[s] over the first n rows.
template <i64 N> static inline void mix(const float *weights, i64 stride, const float *from, i64 n, Lanes *out) {
    Lanes sum[N] = {};
    for (i64 s = 0; s < n; s++)
        for (i64 j = 0; j < N; j++)
            sum[j] = multiply_add(spread(weights[s * stride]), read(from + (s * N + j) * LANES), sum[j]);
    for (i64 j = 0; j < N; j++) out[j] = sum[j];
}

// softmax of the first `seen` scores, in place; 0 up to `columns`.
static inline void soften(float *p, i64 columns, i64 seen) {
    Lanes highest = Lanes{} - __builtin_inff(), sum = {};
    for (i64 s = 0; s < seen; s += LANES)
        highest = larger(among_first(seen - s) ? read(p + s) : highest, highest);
    float top = largest(highest);
    for (i64 s = 0; s < seen; s += LANES) {
        Lanes e = among_first(seen - s) ? exponential(read(p + s) - top) : Lanes{};
        sum += e;
        write(p + s, e);
    }
    float inverse = 1.0f / total(sum);
    i64 s = 0;
    for (; s < seen; s += LANES) write(p + s, read(p + s) * inverse);
    for (; s < columns; s += LANES) write(p + s, Lanes{});
}

template <class T, i64 W>
static void attend(const Sizes &z, const Heads &q, const Heads &k, const Heads &v, const Heads &out) {
    const i64 N = registers<W>(), w = N * LANES, columns = filled(z.keys, LANES);
    const i64 query_room = filled(z.queries, TOTALS) * w, key_room = filled(z.keys, TOTALS) * w;
    const i64 many = z.batch * z.heads;
    together(worth_waking(many, 4 * z.queries * z.keys * w), [&](Member &member) {
        std::unique_ptr<float[]> room(new float[query_room + 2 * key_room + z.queries * columns]);
        float *qs = room.get(), *ks = qs + query_room, *vs = ks + key_room, *p = vs + key_room;
        member.share(many, [&](i64 n) {
            i64 b = n / z.heads, h = n % z.heads;
            rows<T, W>(q, b, h, z.queries, z.scale, qs);
            rows<T, W>(k, b, h, z.keys, 1, ks);
            rows<T, W>(v, b, h, z.keys, 1, vs);
            for (i64 t = 0; t < z.queries; t++) dots<N>(qs + t * w, ks, visible(z, b, t), p + t * columns);
            for (i64 t = 0; t < z.queries; t++) {
                i64 seen = visible(z, b, t);
                Lanes sum[N];
                soften(p + t * columns, columns, seen);
                mix<N>(p + t * columns, 1, vs, seen, sum);
                for (i64 j = 0; j < N; j++) write_of<W>(at<T>(out, b, h, t) + j * LANES, sum[j]);
            }
        });
    });
}

// With P the weights, dP = dO Vᵀ, dS = P ⊙ (dP - Σ P ⊙ dP): dQ = dS K, dK = dSᵀ Q, dV = Pᵀ dO.
template <class T, i64 W>
static void attend_backward(const Sizes &z, const Heads &q, const Heads &k, const Heads &v, const Heads &go,
                            const Heads &gq, const Heads &gk, const Heads &gv) {
    const i64 N = registers<W>(), w = N * LANES, columns = filled(z.keys, LANES);
    const i64 query_room = filled(z.queries, TOTALS) * w, key_room = filled(z.keys, TOTALS) * w;
    const i64 many = z.batch * z.heads;
    together(worth_waking(many, 10 * z.queries * z.keys * w), [&](Member &member) {
        std::unique_ptr<float[]> room(new float[2 * (query_room + key_room + z.queries * columns)]);
        float *qs = room.get(), *ups = qs + query_room, *ks = ups + query_room, *vs = ks + key_room;
        float *p = vs + key_room, *ds = p + z.queries * columns;
        member.share(many, [&](i64 n) {
            i64 b = n / z.heads, h = n % z.heads;
            Lanes sum[N];
            rows<T, W>(q, b, h, z.queries, z.scale, qs);
            rows<T, W>(go, b, h, z.queries, 1, ups);
            rows<T, W>(k, b, h, z.keys, 1, ks);
            rows<T, W>(v, b, h, z.keys, 1, vs);
            for (i64 t = 0; t < z.queries; t++) {
                dots<N>(qs + t * w, ks, visible(z, b, t), p + t * columns);
                dots<N>(ups + t * w, vs, visible(z, b, t), ds + t * columns);
            }
            for (i64 t = 0; t < z.queries; t++) {
                i64 seen = visible(z, b, t);
                float *pt = p + t * columns, *dt = ds + t * columns;
                soften(pt, columns, seen);
                Lanes sums = {};
                for (i64 s = 0; s < seen; s += LANES)
                    sums += among_first(seen - s) ? read(pt + s) * read(dt + s) : Lanes{};
                float all = total(sums);
                i64 s = 0;
                for (; s < seen; s += LANES)
                    write(dt + s, among_first(seen - s) ? read(pt + s) * (read(dt + s) - all) : Lanes{});
                for (; s < columns; s += LANES) write(dt + s, Lanes{});
                mix<N>(dt, 1, ks, seen, sum);
                for (i64 j = 0; j < N; j++) write_of<W>(at<T>(gq, b, h, t) + j * LANES, sum[j] * z.scale);
            }
            for (i64 s = 0; s < z.keys; s++) {
                i64 first = z.causal && s < z.queries ? s : z.causal ? z.queries : 0;  // no query before it sees it
                mix<N>(ds + first * columns + s, columns, qs + first * w, z.queries - first, sum);
                for (i64 j = 0; j < N; j++) write_of<W>(at<T>(gk, b, h, s) + j * LANES, sum[j]);
                mix<N>(p + first * columns + s, columns, ups + first * w, z.queries - first, sum);
                for (i64 j = 0; j < N; j++) write_of<W>(at<T>(gv, b, h, s) + j * LANES, sum[j]);
            }
        });
    });
}

// Longer sequences, whose products torch makes. softmax(scale · s) of the first `seen` of a row, with room for them; 0
// behind.
template <class T> static void soften_row(T *row, i64 seen, i64 keys, float scale, float *e) {
    float highest = -__builtin_inff(), total = 0;
#pragma omp simd reduction(max : highest)
    for (i64 s = 0; s < seen; s++) highest = get(row[s]) > highest ? get(row[s]) : highest;
#pragma omp simd reduction(+ : total)
    for (i64 s = 0; s < seen; s++) total += e[s] = exponential((get(row[s]) - highest) * scale);
    const float inverse = 1.0f / total;
#pragma omp simd
    for (i64 s = 0; s < seen; s++) put(row + s, e[s] * inverse);
    memset((void *)(row + seen), 0, (keys - seen) * sizeof(T));
}

// P = softmax(scale · S) in place of S [B, H, T, S].
template <class T> static void soften_rows(const Sizes &z, T *scores) {
    i64 many = z.batch * z.heads * z.queries;
    together(worth_waking(many, 8 * z.keys), [&](Member &member) {
        std::unique_ptr<float[]> room(new float[z.keys]);
        member.share(many, [&](i64 n) {
            i64 seen = visible(z, n / (z.heads * z.queries), n % z.queries);
            soften_row(scores + n * z.keys, seen, z.keys, z.scale, room.get());
        });
    });
}

template <class T> static void soften_row_backward(const T *p, T *g, i64 seen, i64 keys, float scale) {
    float dot = 0;
#pragma omp simd reduction(+ : dot)
    for (i64 s = 0; s < seen; s++) dot += get(p[s]) * get(g[s]);
#pragma omp simd
    for (i64 s = 0; s < seen; s++) put(g + s, scale * get(p[s]) * (get(g[s]) - dot));
    memset((void *)(g + seen), 0, (keys - seen) * sizeof(T));
}

// dS = scale · P ⊙ (dP - Σ P ⊙ dP) in place of dP.
template <class T> static void soften_rows_backward(const Sizes &z, const T *weights, T *gradient) {
    parallel(z.batch * z.heads * z.queries, 4 * z.keys, [&](i64 n) {
        i64 seen = visible(z, n / (z.heads * z.queries), n % z.queries);
        soften_row_backward(weights + n * z.keys, gradient + n * z.keys, seen, z.keys, z.scale);
    });
}

// ---- rotary.py ------------------------------------------------------------------------------------------------------

// A row of a head turned by the two rows of its position, one behind the other.
template <class T> static void turn_row(const T *x, T *out, const float *one, i64 width) {
    const float *other = one + width;
    i64 i = 0;
    for (; i + LANES <= width; i += LANES) write(out + i, turned(read(x + i), read(one + i), read(other + i)));
    for (; i < width; i++) put(out + i, turned(get(x[i]), get(x[i ^ 1]), one[i], other[i]));
}

// `tables` [T, 2, width], those of the next sentence `apart` numbers behind.
template <class T> static void turn(const Sizes &z, const Heads &x, const Heads &out, const float *tables, i64 apart) {
    parallel(z.batch * z.queries, 4 * z.heads * z.width, [&](i64 n) {
        i64 b = n / z.queries, t = n % z.queries;
        for (i64 h = 0; h < z.heads; h++)
            turn_row(at<const T>(x, b, h, t), at<T>(out, b, h, t), tables + b * apart + t * 2 * z.width, z.width);
    });
}

// ---- what Python calls ----------------------------------------------------------------------------------------------

#define BY_WIDTH(call)                                                                                                 \
    if (z->width == 8) { call(8); } else if (z->width == 16) { call(16); } else if (z->width == 32) { call(32); }      \
    else { call(64); }
#define ATTEND(W) attend<T, W>(*z, m[0], m[1], m[2], m[3])
#define ATTEND_BACKWARD(W) attend_backward<T, W>(*z, m[0], m[1], m[2], m[3], m[4], m[5], m[6])
BOTH(attend, (const Sizes *z, const Heads *m), BY_WIDTH(ATTEND))
BOTH(attend_backward, (const Sizes *z, const Heads *m), BY_WIDTH(ATTEND_BACKWARD))
BOTH(soften_rows, (const Sizes *z, void *scores), soften_rows(*z, (T *)scores))
BOTH(soften_rows_backward, (const Sizes *z, const void *weights, void *gradient),
     soften_rows_backward(*z, (const T *)weights, (T *)gradient))
BOTH(turn, (const Sizes *z, const Heads *m, const float *tables, i64 apart), turn<T>(*z, m[0], m[1], tables, apart))
