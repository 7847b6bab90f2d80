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

// e^x to about 2e-7, for x ≤ 88; 0 far below. 2^n · 2^f with |f| ≤ ½, 2^f by its Taylor series.
static inline float exponential(float x) {
    x = x < -87.0f ? -87.0f : x;
    float t = x * 1.44269504f;
    float n = __builtin_rintf(t), f = t - n;
    float p = 1.5403530e-4f;
    p = p * f + 1.3333558e-3f;
    p = p * f + 9.6181291e-3f;
    p = p * f + 5.5504109e-2f;
    p = p * f + 2.4022651e-1f;
    p = p * f + 6.9314718e-1f;
    p = p * f + 1.0f;
    return p * bits_to_float((uint32_t)((int32_t)n + 127) << 23);
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
    x = x < -87.0f ? Lanes{} - 87.0f : x;
    Lanes t = x * 1.44269504f;
    IntLanes n = __builtin_convertvector(t + (t < 0 ? Lanes{} - 0.5f : Lanes{} + 0.5f), IntLanes);  // to the nearest
    Lanes f = t - __builtin_convertvector(n, Lanes);
    Lanes p = 1.5403530e-4f * f + 1.3333558e-3f;
    p = p * f + 9.6181291e-3f;
    p = p * f + 5.5504109e-2f;
    p = p * f + 2.4022651e-1f;
    p = p * f + 6.9314718e-1f;
    p = p * f + 1.0f;
    return p * (Lanes)((n + 127) << 23);
}

// A function for Python in both types: name_bf16 and name_float.
#define BOTH(name, parameters, arguments)                                                                              \
    extern "C" void name##_bf16 parameters { typedef bf16 T; arguments; }                                              \
    extern "C" void name##_float parameters { typedef float T; arguments; }
