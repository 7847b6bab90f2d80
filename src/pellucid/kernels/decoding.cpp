// engine/engine.py and search/ranking.py: the layers over packed rows as a list of operations, run in one call. Each
// row is computed alone and in one order of summation, so that its bits do not depend on the rows beside it. Nothing
// that was seen is moved: a hypothesis finds its past through the rows that were its ancestors, its source by its
// sentence.

#include "parallel.h"
#include "attending.h"
#include "products.h"
#include <vector>

static const i64 BLOCK = 96;  // rows that a thread takes at once
static const i64 PART = 64;   // logits of a row that are ranked together

// ---- products -------------------------------------------------------------------------------------------------------

// from [R, inner] times the packed weight [outer, inner], bias [outer] or null.
template <class A, class W, class Out, i64 KIND>
static void multiply(const Operation &o, const Execution &e, const Member &member) {
    const i64 width = WIDE * PANEL, columns = (o.outer + width - 1) / width, blocks = (e.rows + BLOCK - 1) / BLOCK;
    member.share(blocks * columns, [&](i64 task) {
        i64 row = task / columns * BLOCK, end = row + BLOCK < e.rows ? row + BLOCK : e.rows;
        Out *to = (Out *)e.buffers[o.to] + row * stride(o.to, o.outer);
        multiply_panels<A, W, Out, KIND>(o, e, row, end, task % columns * width, to);
    });
}

// Rows of T, or of the bytes they were made into.
template <class T, class Out, i64 KIND>
static void multiply_either(const Operation &o, const Execution &e, const Member &member) {
    if (o.shift) multiply<Quantum, int8_t, Out, KIND>(o, e, member);
    else multiply<T, T, Out, KIND>(o, e, member);
}

// from [R, inner] → bytes 127 · x / max |x|, and what to multiply them with to have x again: NaN, where a row holds
// NaN or infinity.
template <class T> static void quantize(const Operation &o, const Execution &e, i64 r) {
    const T *from = (const T *)e.buffers[o.from] + r * stride(o.from, o.inner);
    Quantum *to = (Quantum *)e.buffers[o.to] + r * stride(o.to, o.inner);
    auto highest = magnitudes(from);
    for (i64 i = LANES; i < o.inner; i += LANES) {
        auto x = magnitudes(from + i);
        highest = x > highest ? x : highest;
    }
    T lanes[LANES];
    memcpy(lanes, &highest, sizeof lanes);
    Lanes most = read(lanes), no_number = most - most;
    float top = largest(larger(most, Lanes{} + 1e-30f)), scale = 127.0f / top;
    for (i64 i = 0; i < o.inner; i += LANES) {
        IntLanes whole = __builtin_convertvector(128.5f + scale * read(from + i), IntLanes);
        write_quanta(to + i, whole + (int32_t)(QUANTUM_ZERO - 128));
    }
    ((float *)e.buffers[SCALES])[r] = top / 127.0f + total(no_number);
}

// ---- embeddings, norms and gates ------------------------------------------------------------------------------------

// Rows of the table `weight` [V, D], and their places, into the stream.
static void embed(const Operation &o, const Execution &e, i64 r) {
    i64 d = o.outer;
    const float *word = (const float *)o.weight + e.tokens[r] * d;
    const float *place = e.places + position(e, r) * d;
    float *to = (float *)e.buffers[o.to] + r * d;
    for (i64 i = 0; i < d; i++) to[i] = word[i] + place[i];
}

// Σ f(i) over the registers of a row, four sums at once: one would have to wait for each addition before the next.
template <class F> static ALWAYS_INLINE float total_of(i64 d, F f) {
    Lanes sum[4] = {};
    i64 i = 0;
    for (; i + 4 * LANES <= d; i += 4 * LANES)
        for (i64 j = 0; j < 4; j++) sum[j] += f(i + j * LANES);
    for (; i < d; i += LANES) sum[0] += f(i);
    return total((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

// The fp32 rows `from` [R, D] into `to`, typed.
template <class T> static void normalize(const Operation &o, const Execution &e, i64 r) {
    i64 d = o.inner;
    float *x = (float *)e.buffers[o.from] + r * d, mean = 0, scale = 1;
    T *to = (T *)e.buffers[o.to] + r * stride(o.to, d);
    if (o.norm == LAYER_NORM || o.norm == STD_NORM) mean = total_of(d, [&](i64 i) { return read(x + i); }) / d;
    if (o.norm != NO_NORM) {
        float square = total_of(d, [&](i64 i) { return (read(x + i) - mean) * (read(x + i) - mean); });
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

// activation(gate) ⊙ inner of the joint `from` [R, 2·outer] → [R, outer]
template <class T> static void gate(const Operation &o, const Execution &e, i64 r) {
    i64 f = o.outer;
    const T *from = (const T *)e.buffers[o.from] + r * stride(o.from, o.inner);
    T *to = (T *)e.buffers[o.to] + r * stride(o.to, f);
    for (i64 i = 0; i < f; i += LANES) write(to + i, activate(read(from + i), o.activation) * read(from + f + i));
}

// ---- the whole ------------------------------------------------------------------------------------------------------

// One operation over all rows, of which this thread does its share.
template <class T>
static void operate(const Operation &o, const Execution &e, const Member &member, float *p, const T **keys) {
    switch (o.kind) {
        case EMBED: return member.share(e.rows, [&](i64 r) { embed(o, e, r); });
        case MULTIPLY:
            if (o.to != LOGITS) return multiply_either<T, T, MULTIPLY>(o, e, member);
            return multiply_either<T, float, MULTIPLY>(o, e, member);  // they stay as they are summed
        case ADD_PRODUCT: return multiply_either<T, float, ADD_PRODUCT>(o, e, member);
        case QUANTIZE: return member.share(e.rows, [&](i64 r) { quantize<T>(o, e, r); });
        case NORMALIZE: return member.share(e.rows, [&](i64 r) { normalize<T>(o, e, r); });
        case GATE: return member.share(e.rows, [&](i64 r) { gate<T>(o, e, r); });
        case ATTEND_SOURCE: return member.share(e.rows, [&](i64 r) { attend_source(o, e, r, p, keys); });
        case ATTEND_PAST: return member.share(e.rows, [&](i64 r) { attend_past(o, e, r, p, keys); });
        case ROTATE: return member.share(e.rows, [&](i64 r) { rotate<T>(o, e, r); });
    }
}

// How many threads are worth waking for one execution.
static i64 worth_waking(const Operation *operations, i64 count, const Execution &e) {
    i64 products = 0;
    for (i64 i = 0; i < count; i++)
        if (operations[i].kind == MULTIPLY || operations[i].kind == ADD_PRODUCT)
            products += operations[i].inner * operations[i].outer;
    return worth_waking(e.rows * products >> 12, 1 << 9);  // eight of them in the time of another operation
}

template <class T> void execute(const Operation *operations, i64 count, const Execution &e) {
    together(worth_waking(operations, count, e), [&](Member &member) {
        i64 room = (e.seen > e.longest ? e.seen : e.longest) + LANES;
        i64 heads = 0;
        for (i64 i = 0; i < count; i++) heads = operations[i].heads > heads ? operations[i].heads : heads;
        std::vector<float> p(heads * (room + 1));
        std::vector<const T *> keys(room);
        for (i64 i = 0; i < count; i++) {
            operate(operations[i], e, member, p.data(), keys.data());
            member.meet();
        }
    });
}

// Bit i: whether x[i] is above the bar, or no number.
static inline uint32_t exceeding(Lanes x, float bar) {
#if defined(__AVX512F__)
    return _mm512_cmp_ps_mask((__m512)x, _mm512_set1_ps(bar), _CMP_NLE_UQ);
#elif defined(__AVX2__)
    return (uint32_t)_mm256_movemask_ps(_mm256_cmp_ps((__m256)x, _mm256_set1_ps(bar), _CMP_NLE_UQ));
#else
    const LaneBits bit = {1, 2, 4, 8};
    return vaddvq_u32((uint32x4_t)(~(LaneBits)(x <= bar) & bit));
#endif
}

// The best of a row of logits, and the sum of e^(logit - highest), of as many of its columns as have been seen.
struct Ranked {
    float *best;
    i64 *id, kept = 0;
    float bar = -__builtin_inff(), highest = -3e38f, sum = 0, no_number = 0;

    void offer(i64 token, float value, const Wanted &wanted) {
        if (wanted.only >= 0 && token != wanted.only) return;
        for (i64 j = 0; j < wanted.n_forbidden; j++)
            if (wanted.forbidden[j] == token) return;
        i64 place = kept < wanted.count ? kept++ : wanted.count - 1;
        for (; place > 0 && best[place - 1] < value; place--) best[place] = best[place - 1], id[place] = id[place - 1];
        best[place] = value;
        id[place] = token;
        if (kept == wanted.count) bar = best[wanted.count - 1];
    }

    // A logit that was above the bar, or is no number.
    void meet(i64 token, float value, const Wanted &wanted) {
        highest = value > highest ? value : highest;
        no_number += value - value;  // NaN, of NaN and of infinity
        if (value > bar) offer(token, value, wanted);
    }

    // `size` more columns z, from `first` on.
    template <class T> void see(const T *z, i64 first, i64 size, const Wanted &wanted) {
        i64 whole = size / LANES * LANES;
        float before = highest, rest = 0;
        for (i64 start = 0; start < whole; start += LANES) {
            Lanes x = read(z + start);
            for (uint32_t above = exceeding(x, bar); above; above &= above - 1)
                meet(first + start + __builtin_ctz(above), x[__builtin_ctz(above)], wanted);
        }
        for (i64 i = whole; i < size; i++)
            if (!(get(z[i]) <= bar)) meet(first + i, get(z[i]), wanted);
        if (!wanted.probabilities) return;
        Lanes sums = {};
        for (i64 start = 0; start < whole; start += LANES) sums += exponential(read(z + start) - highest);
        for (i64 i = whole; i < size; i++) rest += exponential(get(z[i]) - highest);
        sum = (highest > before ? sum * exponential(before - highest) : sum) + (total(sums) + rest);
    }

    void finish(const Wanted &wanted) {
        float log_sum = wanted.probabilities ? __builtin_logf(sum) : no_number;
        for (i64 j = kept; j < wanted.count; j++) best[j] = -__builtin_inff(), id[j] = 0;
        for (i64 j = 0; j < wanted.count; j++) best[j] = best[j] - (wanted.probabilities ? highest : 0) - log_sum;
    }
};

template <class T> void rank(const T *logits, i64 rows, i64 vocabulary, const Wanted &wanted) {
    parallel(rows, 4 * vocabulary, [&](i64 r) {
        Ranked row = {wanted.values + r * wanted.count, wanted.ids + r * wanted.count};
        for (i64 first = 0; first < vocabulary; first += PART) {
            i64 size = vocabulary - first < PART ? vocabulary - first : PART;
            row.see(logits + r * vocabulary + first, first, size, wanted);
        }
        row.finish(wanted);
    });
}

// The product's logits, PART columns at a time, which are ranked while they are near: nothing else remains of them.
template <class A, class W>
static void rank_products(const Operation &o, const Execution &e, const Wanted &wanted, i64 threads) {
    i64 block = ((e.rows + threads - 1) / threads + TILE - 1) / TILE * TILE;
    if (block > BLOCK) block = BLOCK;
    together(threads, [&](Member &member) {
        std::vector<float> logits(block * PART);
        std::vector<Ranked> rows;
        member.share((e.rows + block - 1) / block, [&](i64 task) {
            i64 row = task * block, end = row + block < e.rows ? row + block : e.rows;
            rows.clear();
            for (i64 r = row; r < end; r++)
                rows.push_back({wanted.values + r * wanted.count, wanted.ids + r * wanted.count});
            for (i64 first = 0; first < o.outer; first += PART) {
                Operation part = o;
                part.outer = o.outer - first < PART ? o.outer - first : PART;
                part.weight = (const W *)o.weight + first * o.inner;
                if (o.bias) part.bias += first;
                if (o.shift) part.shift += first, part.gain += first;
                for (i64 column = 0; column < part.outer; column += WIDE * PANEL)
                    multiply_panels<A, W, float, MULTIPLY>(part, e, row, end, column, logits.data());
                for (i64 r = row; r < end; r++)
                    rows[r - row].see(logits.data() + (r - row) * part.outer, first, part.outer, wanted);
            }
            for (Ranked &each : rows) each.finish(wanted);
        });
    });
}

template <class T>
void execute_and_rank(const Operation *operations, i64 count, const Execution &e, const Wanted &wanted) {
    const Operation &last = operations[count - 1];
    i64 threads = worth_waking(operations, count, e);
    if (threads < 1) threads = 1;
    if (e.rows < threads * TILE) {  // too few for all threads to have some
        execute<T>(operations, count, e);
        rank((const float *)e.buffers[last.to], e.rows, last.outer, wanted);
    } else {
        execute<T>(operations, count - 1, e);
        if (last.shift) rank_products<Quantum, int8_t>(last, e, wanted, threads);
        else rank_products<T, T>(last, e, wanted, threads);
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
     rank((const T *)logits, rows, vocabulary, {true, count, forbidden, n_forbidden, -1, values, ids}))
