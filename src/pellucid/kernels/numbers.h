// Numbers: bf16 and float behind the same names, alone and sixteen at once, and e^x.

#pragma once
#include <cstdint>
#include <cstring>
#ifdef __AVX512F__
#include <immintrin.h>
#endif

typedef uint16_t bf16;
typedef int64_t i64;

static inline float bits_to_float(uint32_t u) { float f; memcpy(&f, &u, 4); return f; }
static inline uint32_t float_to_bits(float f) { uint32_t u; memcpy(&u, &f, 4); return u; }
static inline float get(float v) { return v; }
static inline float get(bf16 v) { return bits_to_float((uint32_t)v << 16); }
static inline void put(float *p, float v) { *p = v; }
static inline void put(bf16 *p, float v) {  // round to nearest, ties to even
    uint32_t u = float_to_bits(v);
    *p = (bf16)((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}

// e^x to about 2e-7, for x ≤ 88; 0 far below. 2^n · 2^f with 0 ≤ f < 1, 2^f by the nearest polynomial of degree 5.
template <class F> static inline F power_of_two(F f) {
    F p = 1.86712801e-3f * f + 9.01704157e-3f;
    p = p * f + 5.57998990e-2f;
    p = p * f + 2.40164456e-1f;
    p = p * f + 6.93151311e-1f;
    return p * f + 1.0f;
}

static inline float exponential(float x) {
    float t = (x < -87.0f ? -87.0f : x) * 1.44269504f, n = __builtin_floorf(t);
    return power_of_two(t - n) * bits_to_float((uint32_t)((int32_t)n + 127) << 23);
}

// Sixteen floats at once, and a row of N such.
static const i64 LANES = 16;
typedef float Lanes __attribute__((vector_size(64)));
typedef int32_t IntLanes __attribute__((vector_size(64)));
typedef uint32_t LaneBits __attribute__((vector_size(64)));
typedef uint16_t HalfLanes __attribute__((vector_size(32)));

static inline Lanes read(const float *p) { Lanes v; memcpy(&v, p, sizeof v); return v; }
static inline Lanes read(const bf16 *p) {
    HalfLanes h;
    memcpy(&h, p, sizeof h);
#ifdef __AVX512F__
    return (Lanes)_mm512_slli_epi32(_mm512_cvtepu16_epi32((__m256i)h), 16);
#else
    return (Lanes)(__builtin_convertvector(h, LaneBits) << 16);
#endif
}
static inline void write(float *p, Lanes v) { memcpy(p, &v, sizeof v); }
static inline void write(bf16 *p, Lanes v) {
#ifdef __AVX512BF16__
    __m256bh h = _mm512_cvtneps_pbh((__m512)v);
#else
    LaneBits u = (LaneBits)v;
    HalfLanes h = __builtin_convertvector((u + 0x7fff + ((u >> 16) & 1)) >> 16, HalfLanes);
#endif
    memcpy(p, &h, sizeof h);
}

// The same, sixteen times.
static inline Lanes exponential(Lanes x) {
#ifdef __AVX512F__
    __m512 t = (__m512)((Lanes)_mm512_max_ps(_mm512_set1_ps(-87.0f), (__m512)x) * 1.44269504f);
    Lanes f = (Lanes)_mm512_reduce_ps(t, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
    return (Lanes)_mm512_scalef_ps((__m512)power_of_two(f), t);  // by 2^⌊t⌋
#else
    Lanes t = (x < -87.0f ? Lanes{} - 87.0f : x) * 1.44269504f;
    IntLanes n = __builtin_convertvector(t, IntLanes);  // towards 0
    n += __builtin_convertvector(n, Lanes) > t;         // true is -1
    return power_of_two(t - __builtin_convertvector(n, Lanes)) * (Lanes)((n + 127) << 23);
#endif
}

// A function for Python in both types: name_bf16 and name_float.
#define BOTH(name, parameters, arguments)                                                                              \
    extern "C" void name##_bf16 parameters { typedef bf16 T; arguments; }                                              \
    extern "C" void name##_float parameters { typedef float T; arguments; }
