// Rows of f32, f16 and bf16 sixteen elements at a time, and blocks of q8a and q8_0. Included by the
// families' cpu_simd.h where OP_ISA is defined; a source file compiles for one instruction set.
#pragma once

namespace onepass::ops::OP_ISA {

template <class T>
OP_INLINE const T* in(const KernelArgs& a, std::size_t view) {
  return reinterpret_cast<const T*>(a.data[view]);
}
template <class T>
OP_INLINE T* out(const KernelArgs& a, std::size_t view) {
  return reinterpret_cast<T*>(a.data[view]);
}
template <class P>
OP_INLINE const P& params(const KernelArgs& a) {
  return *static_cast<const P*>(a.params);
}

OP_INLINE Simd::F load16(const float* p) { return Simd::load(p); }
OP_INLINE Simd::F load16(const F16* p) { return Simd::load_f16(p); }
OP_INLINE Simd::F load16(const BF16* p) { return Simd::load_bf16(p); }
OP_INLINE void store16(float* p, Simd::F x) { Simd::store(p, x); }
OP_INLINE void store16(F16* p, Simd::F x) { Simd::store_f16(p, x); }
OP_INLINE void store16(BF16* p, Simd::F x) { Simd::store_bf16(p, x); }

// The first n <= 16 elements; the other lanes load as 0 and are not stored.
OP_INLINE Simd::F load_some(const float* p, std::size_t n) {
  return n == 16 ? Simd::load(p) : Simd::load_part(p, n);
}
OP_INLINE void store_some(float* p, Simd::F x, std::size_t n) {
  if (n == 16) {
    Simd::store(p, x);
  } else {
    Simd::store_part(p, x, n);
  }
}
template <class T>
OP_INLINE Simd::F load_some(const T* p, std::size_t n) {
  if (n == 16) return load16(p);
  T part[16] = {};
  std::memcpy(part, p, n * sizeof(T));
  return load16(part);
}
template <class T>
OP_INLINE void store_some(T* p, Simd::F x, std::size_t n) {
  if (n == 16) return store16(p, x);
  T part[16];
  store16(part, x);
  std::memcpy(p, part, n * sizeof(T));
}

// What a T keeps of x.
OP_INLINE Simd::F rounded(Simd::F x, const float*) { return x; }
template <class T>
OP_INLINE Simd::F rounded(Simd::F x, const T*) {
  T stored[16];
  store16(stored, x);
  return load16(stored);
}

OP_INLINE std::size_t lanes_left(std::size_t i, std::size_t n) { return n - i < 16 ? n - i : 16; }

// Block b of a q8a row of k values.
OP_INLINE void store_q8a(std::byte* row, std::size_t k, std::size_t b, Simd::F x0, Simd::F x1) {
  quantize_q8a(x0, x1, row + 32 * b, row + k + 8 * b);
}

}  // namespace onepass::ops::OP_ISA
