// Numbers: bf16 and float behind the same names, alone and as many at once as a register holds, and e^x.

#pragma once
#include <cstdint>
#include <cstring>
#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

#define ALWAYS_INLINE inline __attribute__((always_inline))  // into its caller, whose arrays then stay in registers

typedef uint16_t bf16;
typedef int64_t i64;

static inline float bits_to_float(uint32_t u) { float f; memcpy(&f, &u, 4); return f; }
static inline uint32_t float_to_bits(float f) { uint32_t u; memcpy(&u, &f, 4); return u; }
static inline float get(float v) { return v; }
static inline float get(bf16 v) { return bits_to_float((uint32_t)v << 16); }
static inline void put(float *p, float v) { *p = v; }
static inline void put(bf16 *p, float v) {  // round to nearest, ties to even; NaN stays NaN
    uint32_t u = float_to_bits(v), rounded = u + 0x7fff + ((u >> 16) & 1);
    *p = (bf16)(((u & 0x7fffffff) > 0x7f800000 ? u | 0x400000 : rounded) >> 16);
}

// e^x, relatively to 2e-7 near 0 and 4e-6 at -80; 2^-126 far below, infinity above 88.7. 2^n · 2^f with 0 ≤ f < 1, 2^f
// by the nearest polynomial of degree 5.
template <class F> static inline F power_of_two(F f) {
    F p = 1.86712801e-3f * f + 9.01704157e-3f;
    p = p * f + 5.57998990e-2f;
    p = p * f + 2.40164456e-1f;
    p = p * f + 6.93151311e-1f;
    return p * f + 1.0f;
}
static const float LOG2_E = 1.44269504f, LOWEST = -126.0f, HIGHEST = 128.0f;  // powers of two: 2^128 is infinity

static inline float exponential(float x) {
    float t = x * LOG2_E;
    t = t < LOWEST ? LOWEST : t > HIGHEST ? HIGHEST : t;  // NaN stays
    float n = __builtin_floorf(t);
    return power_of_two(t - n) * bits_to_float((uint32_t)((int32_t)n + 127) << 23);
}

// As many floats as a register holds.
#if defined(__AVX512F__)
static const i64 LANES = 16;
#elif defined(__AVX2__)
static const i64 LANES = 8;
#else
static const i64 LANES = 4;
#endif
typedef float Lanes __attribute__((vector_size(4 * LANES)));
typedef int32_t IntLanes __attribute__((vector_size(4 * LANES)));
typedef uint32_t LaneBits __attribute__((vector_size(4 * LANES)));
typedef uint16_t HalfLanes __attribute__((vector_size(2 * LANES)));

static inline Lanes read(const float *p) { Lanes v; memcpy(&v, p, sizeof v); return v; }
static inline Lanes read(const bf16 *p) {
    HalfLanes h;
    memcpy(&h, p, sizeof h);
#if defined(__AVX512F__)
    return (Lanes)_mm512_slli_epi32(_mm512_cvtepu16_epi32((__m256i)h), 16);
#elif defined(__AVX2__)
    return (Lanes)_mm256_slli_epi32(_mm256_cvtepu16_epi32((__m128i)h), 16);
#else
    return (Lanes)(__builtin_convertvector(h, LaneBits) << 16);
#endif
}
// The bits of |p[i]|: as whole numbers in the order of magnitude, infinity above all numbers, NaN above infinity.
static inline LaneBits magnitudes(const float *p) { LaneBits u; memcpy(&u, p, sizeof u); return u & 0x7fffffffu; }
static inline HalfLanes magnitudes(const bf16 *p) { HalfLanes u; memcpy(&u, p, sizeof u); return u & (uint16_t)0x7fff; }
static inline void write(float *p, Lanes v) { memcpy(p, &v, sizeof v); }
static inline void write(bf16 *p, Lanes v) {
#if defined(__AVX512BF16__)
    __m256bh h = _mm512_cvtneps_pbh((__m512)v);
#else
    LaneBits u = (LaneBits)v, rounded = (u + 0x7fff + ((u >> 16) & 1)) >> 16;
    rounded = (u & 0x7fffffff) > 0x7f800000 ? (u >> 16) | 0x40 : rounded;
#if defined(__AVX512F__)
    __m256i h = _mm512_cvtepi32_epi16((__m512i)rounded);
#elif defined(__AVX2__)
    __m256i pairs = _mm256_packus_epi32((__m256i)rounded, (__m256i)rounded);
    __m128i h = _mm256_castsi256_si128(_mm256_permute4x64_epi64(pairs, 0x08));
#else
    HalfLanes h = __builtin_convertvector(rounded, HalfLanes);
#endif
#endif
    memcpy(p, &h, sizeof h);
}

// a · b + c, rounded once.
static inline Lanes multiply_add(Lanes a, Lanes b, Lanes c) {
#if defined(__AVX512F__)
    return (Lanes)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__AVX2__)
    return (Lanes)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(__ARM_NEON)
    return (Lanes)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
    return a * b + c;
#endif
}

// e^x of each.
static inline Lanes exponential(Lanes x) {
#if defined(__AVX512F__)
    __m512 t = _mm512_max_ps(_mm512_set1_ps(LOWEST), (__m512)(x * LOG2_E));  // the second one, if it is NaN
    Lanes f = (Lanes)_mm512_reduce_ps(t, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
    return (Lanes)_mm512_scalef_ps((__m512)power_of_two(f), t);  // by 2^⌊t⌋
#else
    Lanes t = x * LOG2_E;
    t = t < LOWEST ? Lanes{} + LOWEST : t > HIGHEST ? Lanes{} + HIGHEST : t;
    IntLanes n = __builtin_convertvector(t, IntLanes);  // towards 0
    n += __builtin_convertvector(n, Lanes) > t;         // true is -1
    return power_of_two(t - __builtin_convertvector(n, Lanes)) * (Lanes)((n + 127) << 23);
#endif
}

#if defined(__AVX512F__)
static inline float total(Lanes x) { return _mm512_reduce_add_ps((__m512)x); }
static inline float largest(Lanes x) { return _mm512_reduce_max_ps((__m512)x); }
#elif defined(__AVX2__)
static inline float total(Lanes x) {
    __m128 four = _mm_add_ps(_mm256_castps256_ps128((__m256)x), _mm256_extractf128_ps((__m256)x, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
static inline float largest(Lanes x) {
    __m128 four = _mm_max_ps(_mm256_castps256_ps128((__m256)x), _mm256_extractf128_ps((__m256)x, 1));
    __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}
#else
static inline float total(Lanes x) { return (x[0] + x[2]) + (x[1] + x[3]); }
static inline float largest(Lanes x) {
    float a = x[0] > x[2] ? x[0] : x[2], b = x[1] > x[3] ? x[1] : x[3];
    return a > b ? a : b;
}
#endif

// The two of each pair in each other's place.
static inline Lanes exchanged(Lanes x) {
#if defined(__AVX512F__)
    return (Lanes)_mm512_permute_ps((__m512)x, 0xb1);
#elif defined(__AVX2__)
    return (Lanes)_mm256_permute_ps((__m256)x, 0xb1);
#else
    return (Lanes)vrev64q_f32((float32x4_t)x);
#endif
}

// x ⊙ one + (x with the two of each pair exchanged) ⊙ other, each number rounded alike whether others are beside it.
static inline Lanes turned(Lanes x, Lanes one, Lanes other) { return multiply_add(x, one, exchanged(x) * other); }
static inline float turned(float x, float beside, float one, float other) {
    return __builtin_fmaf(x, one, beside * other);
}

static const i64 TOTALS = 4;

// The sums of TOTALS vectors, side by side.
static inline void totals(Lanes a, Lanes b, Lanes c, Lanes d, float *to) {
#if defined(__AVX512F__)
    __m512 ab = _mm512_add_ps(_mm512_unpacklo_ps((__m512)a, (__m512)b), _mm512_unpackhi_ps((__m512)a, (__m512)b));
    __m512 cd = _mm512_add_ps(_mm512_unpacklo_ps((__m512)c, (__m512)d), _mm512_unpackhi_ps((__m512)c, (__m512)d));
    __m512 all = _mm512_add_ps(
        _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(ab), _mm512_castps_pd(cd))),
        _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(ab), _mm512_castps_pd(cd))));
    __m256 half = _mm256_add_ps(_mm512_castps512_ps256(all), _mm512_extractf32x8_ps(all, 1));
    _mm_storeu_ps(to, _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1)));
#elif defined(__AVX2__)
    __m256 all = _mm256_hadd_ps(_mm256_hadd_ps((__m256)a, (__m256)b), _mm256_hadd_ps((__m256)c, (__m256)d));
    _mm_storeu_ps(to, _mm_add_ps(_mm256_castps256_ps128(all), _mm256_extractf128_ps(all, 1)));
#else
    vst1q_f32(to, vpaddq_f32(vpaddq_f32((float32x4_t)a, (float32x4_t)b), vpaddq_f32((float32x4_t)c, (float32x4_t)d)));
#endif
}

// a · b of a whole number of registers, in partial sums.
static inline Lanes dot(const float *a, const float *b, i64 width) {
    Lanes sum = {};
    for (i64 i = 0; i < width; i += LANES) sum = multiply_add(read(a + i), read(b + i), sum);
    return sum;
}

static inline Lanes spread(float x) { return x - Lanes{}; }
static inline Lanes larger(Lanes a, Lanes b) { return a > b ? a : b; }  // b, if one is NaN

// Which of the first `count` numbers each lane is: true (-1) or false (0).
static inline IntLanes among_first(i64 count) {
    IntLanes number;
    for (i64 i = 0; i < LANES; i++) number[i] = (int32_t)i;
    return number < (int32_t)(count < LANES ? count : LANES);
}

// A function for Python in both types: name_bf16 and name_float.
#define BOTH(name, parameters, arguments)                                                                              \
    extern "C" void name##_bf16 parameters { typedef bf16 T; arguments; }                                              \
    extern "C" void name##_float parameters { typedef float T; arguments; }
