// Plain numbers in layout r16: [32][16] of them, rows fastest.
#ifndef ONEPASS_QUANT_FLOATS_H_
#define ONEPASS_QUANT_FLOATS_H_

#include "quant/r16.h"

namespace onepass::quant {

template <class Number>
struct PackedFloat {
  using Family = FloatFamily<Number>;
  using Bits = typename Number::Bits;
  struct Block {
    static constexpr int elements = 32;
    Bits values[32];
  };
  static constexpr std::size_t elements = 32, bytes = 32 * 16 * sizeof(Bits);

  static void put(const Block& block, std::size_t r, std::byte* dst) {
    for (std::size_t k = 0; k < 32; ++k) {
      std::memcpy(dst + sizeof(Bits) * (16 * k + r), &block.values[k], sizeof(Bits));
    }
  }
  static void get(const std::byte* src, std::size_t r, float* out) {
    for (std::size_t k = 0; k < 32; ++k) {
      Bits bits;
      std::memcpy(&bits, src + sizeof(Bits) * (16 * k + r), sizeof(Bits));
      out[k] = Number::value(bits);
    }
  }
};
using PackedF32 = PackedFloat<F32Bits>;
using PackedF16 = PackedFloat<F16Bits>;
using PackedBF16 = PackedFloat<BF16Bits>;

}  // namespace onepass::quant

#endif  // ONEPASS_QUANT_FLOATS_H_
