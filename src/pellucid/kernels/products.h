// Rows times a packed weight, by the instructions that the processor has for it: N rows and C registers of columns at
// once. Each product of a row is summed alone and in one order, so that its bits do not depend on the rows beside it;
// in fp32 it is the order of the inner numbers, on every processor.

#pragma once
#include "decoding.h"

static const i64 TILE = 6;                     // rows that are multiplied at once
static const i64 VECTORS = PANEL / LANES;      // registers that hold a row of a panel
static const i64 WIDE = LANES == 16 ? 4 : 1;   // panels that are multiplied at once: of sums, 6 · WIDE · VECTORS fit
static const i64 LINE = 64;                    // bytes that caches fetch at once

// What an activation in a byte is kept as, around QUANTUM_ZERO.
#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
typedef uint8_t Quantum;
static const i64 QUANTUM_ZERO = 128;
#elif defined(__AVX2__)
typedef int16_t Quantum;
static const i64 QUANTUM_ZERO = 0;
#else
typedef int8_t Quantum;
static const i64 QUANTUM_ZERO = 0;
#endif

// The register c of the inner numbers from k on, in panels of W of which `group` lie together.
template <class W> static inline const W *place(const W *panels, i64 c, i64 k, i64 inner, i64 group) {
    return panels + (c / VECTORS * inner + k) * PANEL + c % VECTORS * LANES * group;
}

// Sets a line on its way to the second cache, in which not all weights have room.
static ALWAYS_INLINE void fetch(const char *line) { __builtin_prefetch(line, 0, 2); }

// a [N, inner], its rows `apart`, times the panels, both fp32; each step fetches a line, from `ahead` on.
template <i64 C, i64 N>
static ALWAYS_INLINE void product(const float *a, i64 apart, const float *panels, i64 inner, const char *ahead,
                                  Lanes (&sum)[C][N]) {
    for (i64 k = 0; k < inner; k++, ahead += LINE) {
        fetch(ahead);
        Lanes b[C];
        for (i64 c = 0; c < C; c++) b[c] = read(place(panels, c, k, inner, FP32));
        for (i64 r = 0; r < N; r++) {
            Lanes all = spread(a[r * apart + k]);
            for (i64 c = 0; c < C; c++) sum[c][r] = multiply_add(all, b[c], sum[c][r]);
        }
    }
}

// Of two of the inner numbers in bf16, summed in fp32.
static inline Lanes add_products(LaneBits a, LaneBits b, Lanes sum) {
#if defined(__AVX512BF16__)
    return (Lanes)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
#elif defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
    return (Lanes)vbfdotq_f32((float32x4_t)sum, (bfloat16x8_t)a, (bfloat16x8_t)b);
#else
    sum = multiply_add((Lanes)(a << 16), (Lanes)(b << 16), sum);
    return multiply_add((Lanes)(a & 0xffff0000u), (Lanes)(b & 0xffff0000u), sum);
#endif
}

// Of four of the inner numbers in bytes.
#if defined(__AVX512VNNI__) || defined(__AVXVNNI__) || defined(__ARM_FEATURE_DOTPROD)
static inline IntLanes add_products(LaneBits a, LaneBits b, IntLanes sum) {
#if defined(__AVX512VNNI__)
    return (IntLanes)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)a, (__m512i)b);
#elif defined(__AVXVNNI__)
    return (IntLanes)_mm256_dpbusd_avx_epi32((__m256i)sum, (__m256i)a, (__m256i)b);
#else
    return (IntLanes)vdotq_s32((int32x4_t)sum, (int8x16_t)a, (int8x16_t)b);
#endif
}
#endif

// As many of the inner numbers at once as four bytes of `a` hold; all of them meet each column.
template <i64 GROUP, class A, class W, class Sum, i64 C, i64 N>
static ALWAYS_INLINE void product_of_groups(const A *a, i64 apart, const W *panels, i64 inner, const char *ahead,
                                            Sum (&sum)[C][N]) {
    for (i64 k = 0; k < inner; k += GROUP, ahead += LINE) {
        fetch(ahead);
        LaneBits b[C];
        for (i64 c = 0; c < C; c++) memcpy(&b[c], place(panels, c, k, inner, GROUP), sizeof b[c]);
        for (i64 r = 0; r < N; r++) {
            uint32_t group;
            memcpy(&group, a + r * apart + k, 4);
            LaneBits all = group - LaneBits{};
            for (i64 c = 0; c < C; c++) sum[c][r] = add_products(all, b[c], sum[c][r]);
        }
    }
}

// Both bf16.
template <i64 C, i64 N>
static ALWAYS_INLINE void product(const bf16 *a, i64 apart, const bf16 *panels, i64 inner, const char *ahead,
                                  Lanes (&sum)[C][N]) {
    product_of_groups<BF16>(a, apart, panels, inner, ahead, sum);
}

// A row in bytes times panels in bytes.
#if defined(__AVX512VNNI__) || defined(__AVXVNNI__) || defined(__ARM_FEATURE_DOTPROD)
template <i64 C, i64 N>
static ALWAYS_INLINE void product(const Quantum *a, i64 apart, const int8_t *panels, i64 inner, const char *ahead,
                                  IntLanes (&sum)[C][N]) {
    product_of_groups<INT8>(a, apart, panels, inner, ahead, sum);
}
#else

// Without an instruction for four: pairs of products, half of the columns of a register at a time.
static inline IntLanes add_pairs(IntLanes sum, const Quantum *a, const int8_t *b) {
#if defined(__AVX512F__)
    i64 four;
    memcpy(&four, a, 8);
    __m512i wide = _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)b));
    return sum + (IntLanes)_mm512_madd_epi16(_mm512_set1_epi64(four), wide);
#elif defined(__AVX2__)
    i64 four;
    memcpy(&four, a, 8);
    __m256i wide = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)b));
    return sum + (IntLanes)_mm256_madd_epi16(_mm256_set1_epi64x(four), wide);
#else
    uint32_t four;
    memcpy(&four, a, 4);
    return (IntLanes)vpadalq_s16((int32x4_t)sum, vmull_s8(vreinterpret_s8_u32(vdup_n_u32(four)), vld1_s8(b)));
#endif
}

// The sums of neighbours in both halves, side by side.
static inline IntLanes join_pairs(IntLanes a, IntLanes b) {
#if defined(__AVX512F__)
    __m512 even = _mm512_shuffle_ps((__m512)a, (__m512)b, 0x88), odd = _mm512_shuffle_ps((__m512)a, (__m512)b, 0xdd);
    return (IntLanes)_mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7),
                                              (__m512i)((IntLanes)even + (IntLanes)odd));
#elif defined(__AVX2__)
    return (IntLanes)_mm256_permute4x64_epi64(_mm256_hadd_epi32((__m256i)a, (__m256i)b), 0xd8);
#else
    return (IntLanes)vpaddq_s32((int32x4_t)a, (int32x4_t)b);
#endif
}

template <i64 C, i64 N>
static ALWAYS_INLINE void product(const Quantum *a, i64 apart, const int8_t *panels, i64 inner, const char *,
                                  IntLanes (&sum)[C][N]) {
    for (i64 c = 0; c < C; c++) {
        IntLanes half[2][N] = {};
        for (i64 k = 0; k < inner; k += INT8) {
            const int8_t *b = place(panels, c, k, inner, INT8);
            for (i64 r = 0; r < N; r++)
                for (i64 h = 0; h < 2; h++) half[h][r] = add_pairs(half[h][r], a + r * apart + k, b + h * 2 * LANES);
        }
        for (i64 r = 0; r < N; r++) sum[c][r] += join_pairs(half[0][r], half[1][r]);
    }
}
#endif

static inline void write_quanta(Quantum *to, IntLanes whole) {
    typedef Quantum Quanta __attribute__((vector_size(LANES * sizeof(Quantum))));
    Quanta quanta = __builtin_convertvector(whole, Quanta);
    memcpy(to, &quanta, sizeof quanta);
}

// ---- what becomes of the sums ---------------------------------------------------------------------------------------

static inline Lanes error_function(Lanes x) {  // Abramowitz and Stegun 7.1.26, to 1.5e-7
    Lanes a = x < 0 ? -x : x, t = 1.0f / (1.0f + 0.3275911f * a);
    Lanes p = t * (0.254829592f + t * (-0.284496736f + t * (1.421413741f + t * (-1.453152027f + t * 1.061405429f))));
    Lanes y = 1.0f - p * exponential(-a * a);
    return x < 0 ? -y : y;
}

static inline Lanes activate(Lanes x, i64 activation) {
    if (activation == RELU) return x < 0 ? Lanes{} : x;  // NaN stays
    if (activation == GELU) return 0.5f * x * (1.0f + error_function(x * 0.70710678f));
    if (activation == SWISH) return x / (1.0f + exponential(-x));
    if (activation == GELU_TANH)  // (1 + tanh u) / 2 is 1 / (1 + e^-2u), with u = √(2/π) · (x + 0.044715 x³)
        return x / (1.0f + exponential(x * (-1.59576912f - 0.0713548163f * x * x)));
    return x;
}

// The first `count` numbers of x into `to`, or all.
template <class T> static inline void write_some(T *to, Lanes x, i64 count) {
    if (count >= LANES) return write(to, x);
    T all[LANES];
    write(all, x);
    memcpy(to, all, count * sizeof(T));
}

static inline Lanes read_some(const float *from, i64 count) {
    if (count >= LANES) return read(from);
    float all[LANES] = {};
    memcpy(all, from, count * sizeof(float));
    return read(all);
}

// Apart from the tiles, which would hold its code once for each register.
static __attribute__((noinline)) void activate_each(Lanes *x, i64 count, i64 activation) {
    for (i64 r = 0; r < count; r++) x[r] = activate(x[r], activation);
}

// The sums of N rows and a register of columns (or `count`, the last) get the bias.
template <i64 N> static ALWAYS_INLINE void add_bias(Lanes (&x)[N], const Operation &o, i64 column, i64 count) {
    const Lanes bias = o.bias ? read_some(o.bias + column, count) : Lanes{};
    for (i64 r = 0; r < N; r++) x[r] += bias;
}

// Then they are activated, into `to`, or added to `alpha` times what is there.
template <class Out, i64 KIND, i64 N>
static ALWAYS_INLINE void put_products(Lanes (&x)[N], const Operation &o, i64 column, i64 count, Out *to) {
    const i64 apart = stride(o.to, o.outer), activation = o.activation;
    const float alpha = o.alpha;
    to += column;
    if (KIND != ADD_PRODUCT && activation != LINEAR && activation != RELU) {
        Lanes y[N];  // x stays in registers
        for (i64 r = 0; r < N; r++) y[r] = x[r];
        activate_each(y, N, activation);
        for (i64 r = 0; r < N; r++) x[r] = y[r];
    }
#pragma GCC unroll 6
    for (i64 r = 0; r < N; r++, to += apart) {
        if constexpr (KIND == ADD_PRODUCT)
            write_some(to, alpha == 0 ? x[r] : multiply_add(spread(alpha), read_some(to, count), x[r]), count);
        else write_some(to, activation == RELU ? activate(x[r], RELU) : x[r], count);
    }
}

// Apart from the tiles, for the few columns behind the last whole tile.
template <class Out, i64 KIND, i64 N>
static __attribute__((noinline)) void put_rest(Lanes (&x)[N], const Operation &o, i64 column, i64 count, Out *to) {
    put_products<Out, KIND>(x, o, column, count, to);
}

// Both for C registers from the column `first` on, or as many of them as there are.
template <class Out, i64 KIND, i64 C, i64 N>
static ALWAYS_INLINE void put_panels(Lanes (&x)[C][N], const Operation &o, i64 first, Out *to) {
    if (first + C * LANES <= o.outer) {
#pragma GCC unroll 4
        for (i64 c = 0; c < C; c++) {
            add_bias(x[c], o, first + LANES * c, LANES);
            put_products<Out, KIND>(x[c], o, first + LANES * c, LANES, to);
        }
    } else {
        for (i64 c = 0; first + LANES * c < o.outer; c++) {
            Lanes y[N];
            for (i64 r = 0; r < N; r++) y[r] = x[c][r];
            add_bias(y, o, first + LANES * c, o.outer - first - LANES * c);
            put_rest<Out, KIND>(y, o, first + LANES * c, o.outer - first - LANES * c, to);
        }
    }
}

// N rows, the first of which is `row`, times the panels that begin with the column `first`; `to` is where it goes, and
// `ahead` what will be needed next.
template <class Out, i64 KIND, i64 C, i64 N, class W>
static void tile(const Operation &o, const Execution &, const W *a, const W *panels, i64, i64 first, const char *ahead,
                 Out *to) {
    Lanes sum[C][N] = {};
    product(a, stride(o.from, o.inner), panels, o.inner, ahead, sum);
    put_panels<Out, KIND>(sum, o, first, to);
}

// In bytes: `shift` takes the 128s out again, the row's scale and the column's gain give the numbers back.
template <class Out, i64 KIND, i64 C, i64 N>
static void tile(const Operation &o, const Execution &e, const Quantum *a, const int8_t *panels, i64 row, i64 first,
                 const char *ahead, Out *to) {
    IntLanes sum[C][N] = {};
    Lanes x[C][N];
    if constexpr (QUANTUM_ZERO != 0)
        for (i64 c = 0; c < C; c++) {
            memcpy(&sum[c][0], o.shift + first + LANES * c, sizeof(IntLanes));
            for (i64 r = 1; r < N; r++) sum[c][r] = sum[c][0];
        }
    product(a, stride(o.from, o.inner), panels, o.inner, ahead, sum);
    const float *scales = (const float *)e.buffers[SCALES] + row;
#pragma GCC unroll 4
    for (i64 c = 0; c < C; c++) {
        Lanes gain = read(o.gain + first + LANES * c);
#pragma GCC unroll 6
        for (i64 r = 0; r < N; r++) x[c][r] = __builtin_convertvector(sum[c][r], Lanes) * (scales[r] * gain);
    }
    put_panels<Out, KIND>(x, o, first, to);
}

// Rows `row` to `end` - 1 times C registers of columns, N rows at once, then the rest: one by one where the columns are
// a rest, too, for each tile takes its time to compile. The first tiles fetch the panels that come next: few rows would
// wait for those almost as long as they compute with them.
template <class A, class W, class Out, i64 KIND, i64 C, i64 N = TILE>
static void multiply_rows(const Operation &o, const Execution &e, i64 row, i64 end, i64 first, Out *to) {
    const i64 apart = stride(o.from, o.inner), to_apart = stride(o.to, o.outer);
    const A *from = (const A *)e.buffers[o.from] + row * apart;
    const W *panels = (const W *)o.weight + first * o.inner;
    const i64 size = C * LANES * o.inner * sizeof(W), fetched = size * LINE / (C * LANES * 4);  // by one tile
    for (i64 at = size; row + N <= end; row += N, from += N * apart, to += N * to_apart, at += fetched)
        tile<Out, KIND, C, N>(o, e, from, panels, row, first, (const char *)panels + (at < 2 * size ? at : 0), to);
    if constexpr (N > 1) multiply_rows<A, W, Out, KIND, C, C == WIDE * VECTORS ? N - 1 : 1>(o, e, row, end, first, to);
}

// The same for WIDE panels, or as many of them as there are; `to` is where the first row goes.
template <class A, class W, class Out, i64 KIND>
static void multiply_panels(const Operation &o, const Execution &e, i64 row, i64 end, i64 first, Out *to) {
    if (first + (WIDE - 1) * PANEL < o.outer)
        return multiply_rows<A, W, Out, KIND, WIDE * VECTORS>(o, e, row, end, first, to);
    for (; first < o.outer; first += PANEL) multiply_rows<A, W, Out, KIND, VECTORS>(o, e, row, end, first, to);
}
