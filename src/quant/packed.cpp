#include "quant/packed.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "quant/pack_row.h"
#include "quant/q4_0.h"
#include "quant/q4_k.h"
#include "quant/q5_k.h"
#include "quant/q6_k.h"
#include "quant/q8_0.h"

namespace onepass::quant {
namespace {

using ops::op_bf16_to_f32;
using ops::op_f16_to_f32;

std::uint8_t* at(std::byte* p, std::size_t offset) {
  return reinterpret_cast<std::uint8_t*>(p + offset);
}
const std::uint8_t* at(const std::byte* p, std::size_t offset) {
  return reinterpret_cast<const std::uint8_t*>(p + offset);
}
std::uint16_t half_at(const std::byte* p, std::size_t offset, std::size_t r) {
  std::uint16_t h;
  std::memcpy(&h, p + offset + 2 * r, 2);
  return h;
}

// 32 numbers of row r in vectors of 64 bytes.
void put4(std::uint8_t* vectors, std::size_t r, std::size_t k, int q) {
  std::uint8_t& byte = vectors[64 * (k % 16 / 4) + 4 * r + k % 4];
  byte = static_cast<std::uint8_t>(byte | q << (k < 16 ? 0 : 4));
}
int get4(const std::uint8_t* vectors, std::size_t r, std::size_t k) {
  return vectors[64 * (k % 16 / 4) + 4 * r + k % 4] >> (k < 16 ? 0 : 4) & 15;
}
std::size_t place8(std::size_t r, std::size_t k) { return 64 * (k / 4) + 4 * r + k % 4; }

// Each form: put() moves one native block of row r into a packed block whose bytes are zero, get()
// gives the row's values.
template <class T>
struct FloatForm : PackedFloat<T> {
  struct Block {
    T values[32];
  };
  static void put(const Block& block, std::size_t r, std::byte* dst) {
    for (std::size_t k = 0; k < 32; ++k) {
      std::memcpy(dst + sizeof(T) * (16 * k + r), &block.values[k], sizeof(T));
    }
  }
};
struct F32Form : FloatForm<std::uint32_t> {
  static void get(const std::byte* src, std::size_t r, float* out) {
    for (std::size_t k = 0; k < 32; ++k) std::memcpy(out + k, src + 4 * (16 * k + r), 4);
  }
};
struct F16Form : FloatForm<std::uint16_t> {
  static void get(const std::byte* src, std::size_t r, float* out) {
    for (std::size_t k = 0; k < 32; ++k) out[k] = op_f16_to_f32(half_at(src, 32 * k, r));
  }
};
struct BF16Form : FloatForm<std::uint16_t> {
  static void get(const std::byte* src, std::size_t r, float* out) {
    for (std::size_t k = 0; k < 32; ++k) out[k] = op_bf16_to_f32(half_at(src, 32 * k, r));
  }
};

struct Q4_0Form : PackedQ4_0 {
  using Block = BlockQ4_0;
  static void put(const Block& block, std::size_t r, std::byte* dst) {
    std::memcpy(dst + scales + 2 * r, &block.d, 2);
    for (std::size_t v = 0; v < 4; ++v) {
      std::memcpy(dst + numbers + 64 * v + 4 * r, block.qs + 4 * v, 4);
    }
  }
  static void get(const std::byte* src, std::size_t r, float* out) {
    const float d = op_f16_to_f32(half_at(src, scales, r));
    for (std::size_t k = 0; k < 32; ++k) {
      out[k] = static_cast<float>(get4(at(src, numbers), r, k) - 8) * d;
    }
  }
};

struct Q8_0Form : PackedQ8_0 {
  using Block = BlockQ8_0;
  static void put(const Block& block, std::size_t r, std::byte* dst) {
    std::memcpy(dst + scales + 2 * r, &block.d, 2);
    for (std::size_t k = 0; k < 32; ++k) {
      at(dst, numbers)[place8(r, k)] = static_cast<std::uint8_t>(block.qs[k] + 128);
    }
  }
  static void get(const std::byte* src, std::size_t r, float* out) {
    const float d = op_f16_to_f32(half_at(src, scales, r));
    for (std::size_t k = 0; k < 32; ++k) {
      out[k] = static_cast<float>(at(src, numbers)[place8(r, k)] - 128) * d;
    }
  }
};

// q4_k and q5_k
template <class Packed, class BlockT, bool FifthBit>
struct KForm : Packed {
  using Block = BlockT;
  using P = Packed;
  static void put(const Block& block, std::size_t r, std::byte* dst) {
    std::memcpy(dst + P::d + 2 * r, &block.d, 2);
    std::memcpy(dst + P::dmin + 2 * r, &block.dmin, 2);
    for (std::size_t j = 0; j < 8; ++j) {
      const int sub = static_cast<int>(j);
      at(dst, P::scales)[16 * j + r] = static_cast<std::uint8_t>(scale_of(block.scales, sub));
      at(dst, P::minima)[16 * j + r] = static_cast<std::uint8_t>(minimum_of(block.scales, sub));
      std::uint8_t* vectors = at(dst, P::numbers + P::sub_bytes * j);
      for (std::size_t k = 0; k < 32; ++k) {
        const int q = number_of(block, 32 * sub + static_cast<int>(k));
        put4(vectors, r, k, q & 15);
        if constexpr (FifthBit) {
          std::uint8_t& high = vectors[P::high + 4 * r + k % 4];
          high = static_cast<std::uint8_t>(high | q >> 4 << k / 4);
        }
      }
    }
  }
  static void get(const std::byte* src, std::size_t r, float* out) {
    const float d = op_f16_to_f32(half_at(src, P::d, r));
    const float dmin = op_f16_to_f32(half_at(src, P::dmin, r));
    for (std::size_t j = 0; j < 8; ++j) {
      const float scale = d * static_cast<float>(at(src, P::scales)[16 * j + r]);
      const float minimum = dmin * static_cast<float>(at(src, P::minima)[16 * j + r]);
      const std::uint8_t* vectors = at(src, P::numbers + P::sub_bytes * j);
      for (std::size_t k = 0; k < 32; ++k) {
        int q = get4(vectors, r, k);
        if constexpr (FifthBit) q |= (vectors[P::high + 4 * r + k % 4] >> k / 4 & 1) << 4;
        out[32 * j + k] = scale * static_cast<float>(q) - minimum;
      }
    }
  }
};

struct Q6_KForm : PackedQ6_K {
  using Block = BlockQ6_K;
  static void put(const Block& block, std::size_t r, std::byte* dst) {
    std::memcpy(dst + d + 2 * r, &block.d, 2);
    for (std::size_t j = 0; j < 16; ++j) {
      at(dst, scales)[16 * j + r] = static_cast<std::uint8_t>(block.scales[j]);
    }
    for (std::size_t j = 0; j < 8; ++j) {
      std::uint8_t* vectors = at(dst, numbers + sub_bytes * j);
      for (std::size_t k = 0; k < 32; ++k) {
        const int q = number_of(block, static_cast<int>(32 * j + k));
        put4(vectors, r, k, q & 15);
        std::uint8_t& upper = vectors[high + 64 * (k / 16) + 4 * r + k % 4];
        upper = static_cast<std::uint8_t>(upper | q >> 4 << 2 * (k % 16 / 4));
      }
    }
  }
  static void get(const std::byte* src, std::size_t r, float* out) {
    const float scale = op_f16_to_f32(half_at(src, d, r));
    for (std::size_t e = 0; e < 256; ++e) {
      const std::uint8_t* vectors = at(src, numbers + sub_bytes * (e / 32));
      const std::size_t k = e % 32;
      const int upper = vectors[high + 64 * (k / 16) + 4 * r + k % 4] >> 2 * (k % 16 / 4) & 3;
      const int q = get4(vectors, r, k) | upper << 4;
      const auto sub = static_cast<std::int8_t>(at(src, scales)[16 * (e / 16) + r]);
      out[e] = scale * static_cast<float>(sub) * static_cast<float>(q - 32);
    }
  }
};

template <int Bits, float (*ToFloat)(ops::op_u32)>
struct AffineForm : PackedAffine<Bits> {
  using P = PackedAffine<Bits>;
  // numbers: 64 * Bits / 8 bytes of the row's bit stream
  static void put(const std::uint8_t* numbers, std::uint16_t scale, std::uint16_t bias,
                  std::size_t r, std::byte* dst) {
    std::memcpy(dst + P::scales + 2 * r, &scale, 2);
    std::memcpy(dst + P::biases + 2 * r, &bias, 2);
    for (std::size_t k = 0; k < 64; ++k) {
      std::uint8_t* vectors = at(dst, P::numbers + P::sub_bytes * (k / 32));
      if constexpr (Bits == 4) {
        put4(vectors, r, k % 32, numbers[k / 2] >> 4 * (k % 2) & 15);
      } else {
        vectors[place8(r, k % 32)] = numbers[k];
      }
    }
  }
  static void get(const std::byte* src, std::size_t r, float* out) {
    const float scale = ToFloat(half_at(src, P::scales, r));
    const float bias = ToFloat(half_at(src, P::biases, r));
    for (std::size_t k = 0; k < 64; ++k) {
      const std::uint8_t* vectors = at(src, P::numbers + P::sub_bytes * (k / 32));
      const int q = Bits == 4 ? get4(vectors, r, k % 32) : vectors[place8(r, k % 32)];
      out[k] = static_cast<float>(q) * scale + bias;
    }
  }
};
using A4F16Form = AffineForm<4, op_f16_to_f32>;
using A4BF16Form = AffineForm<4, op_bf16_to_f32>;
using A8F16Form = AffineForm<8, op_f16_to_f32>;
using A8BF16Form = AffineForm<8, op_bf16_to_f32>;

template <class Form>
void pack_rows(std::uint64_t rows, std::uint64_t cols, const std::byte* src, std::byte* dst) {
  using Block = typename Form::Block;
  const std::uint64_t blocks = cols / Form::elements;
  for (std::uint64_t row = 0; row < rows; ++row) {
    std::byte* group = dst + row / group_rows * blocks * Form::bytes;
    for (std::uint64_t b = 0; b < blocks; ++b) {
      Block block;
      std::memcpy(&block, src + (row * blocks + b) * sizeof(Block), sizeof(Block));
      Form::put(block, row % group_rows, group + b * Form::bytes);
    }
  }
}

template <class Form>
void pack_affine_rows(const AffineRows& from, std::uint64_t rows, std::uint64_t cols,
                      std::byte* dst) {
  const std::uint64_t blocks = cols / 64, row_bytes = cols * from.bits / 8;
  const std::uint64_t groups = cols / from.group_size;
  for (std::uint64_t row = 0; row < rows; ++row) {
    std::byte* group = dst + row / group_rows * blocks * Form::bytes;
    for (std::uint64_t b = 0; b < blocks; ++b) {
      const std::uint64_t g = row * groups + 64 * b / from.group_size;
      Form::put(at(from.weight.data(), row * row_bytes + b * 8 * from.bits),
                half_at(from.scales.data(), 0, g), half_at(from.biases.data(), 0, g),
                row % group_rows, group + b * Form::bytes);
    }
  }
}

template <class Form>
void unpack_row_of(const std::byte* matrix, std::uint64_t row, std::uint64_t cols, float* out) {
  const std::uint64_t blocks = cols / Form::elements;
  const std::byte* group = matrix + row / group_rows * blocks * Form::bytes;
  for (std::uint64_t b = 0; b < blocks; ++b) {
    Form::get(group + b * Form::bytes, row % group_rows, out + b * Form::elements);
  }
}

template <class Form>
constexpr PackRow row(DType native, DType packed) {
  return {native, packed, Layout::interleaved, pack_rows<Form>, nullptr, unpack_row_of<Form>};
}
template <class Form>
constexpr PackRow affine_row(DType native, DType packed, std::uint32_t bits) {
  return {native, packed, Layout::interleaved, nullptr, pack_affine_rows<Form>, unpack_row_of<Form>,
          bits};
}
constexpr PackRow interleaved_rows[] = {
    row<F32Form>(DType::f32, DType::f32_r16),
    row<F16Form>(DType::f16, DType::f16_r16),
    row<BF16Form>(DType::bf16, DType::bf16_r16),
    row<Q4_0Form>(DType::q4_0, DType::q4_0_r16),
    row<Q8_0Form>(DType::q8_0, DType::q8_0_r16),
    row<KForm<PackedQ4_K, BlockQ4_K, false>>(DType::q4_k, DType::q4_k_r16),
    row<KForm<PackedQ5_K, BlockQ5_K, true>>(DType::q5_k, DType::q5_k_r16),
    row<Q6_KForm>(DType::q6_k, DType::q6_k_r16),
    affine_row<A4F16Form>(DType::f16, DType::a4_f16_r16, 4),
    affine_row<A4BF16Form>(DType::bf16, DType::a4_bf16_r16, 4),
    affine_row<A8F16Form>(DType::f16, DType::a8_f16_r16, 8),
    affine_row<A8BF16Form>(DType::bf16, DType::a8_bf16_r16, 8),
};

// The first row of any layout for which match(row) holds.
template <class Match>
const PackRow* find_row(const Match& match) noexcept {
  for (const std::span<const PackRow> rows :
       {std::span<const PackRow>(interleaved_rows), split_rows()}) {
    for (const PackRow& r : rows) {
      if (match(r)) return &r;
    }
  }
  return nullptr;
}
const PackRow* find(DType packed) noexcept {
  return find_row([packed](const PackRow& r) { return r.packed == packed; });
}

Status expect_bytes(const char* what, std::uint64_t got, std::optional<std::uint64_t> need,
                    DType type, std::uint64_t rows, std::uint64_t cols) {
  if (need && got >= *need) return {};
  return fail(
      ErrorCode::invalid_argument,
      std::string("pack: ") + what + " has " + std::to_string(got) + " bytes, " +
          std::to_string(rows) + " x " + std::to_string(cols) + " of " + name(type) +
          (need ? " need " + std::to_string(*need) : " is no whole number of blocks or too large"));
}

}  // namespace

std::optional<DType> packed_format(DType native, Layout layout) noexcept {
  const PackRow* row = find_row([=](const PackRow& r) {
    return r.native == native && r.pack != nullptr && r.layout == layout;
  });
  return row ? std::optional(row->packed) : std::nullopt;
}

std::optional<DType> packed_affine_format(std::uint32_t bits, std::uint32_t group_size,
                                          DType scale_type, Layout layout) noexcept {
  if (group_size != 64 && group_size != 128) return std::nullopt;
  const PackRow* row = find_row([=](const PackRow& r) {
    return r.affine_bits == bits && r.pack_affine != nullptr && r.native == scale_type &&
           r.layout == layout;
  });
  return row ? std::optional(row->packed) : std::nullopt;
}

Status pack(DType from, DType to, std::uint64_t rows, std::uint64_t cols,
            std::span<const std::byte> src, std::span<std::byte> dst) {
  const PackRow* r = find(to);
  if (!r || !r->pack || r->native != from) {
    return fail(ErrorCode::unsupported,
                std::string("pack: no way from ") + name(from) + " to " + name(to));
  }
  const std::optional<std::uint64_t> need = storage_bytes(to, rows, cols);
  ONEPASS_TRY(expect_bytes("dst", dst.size(), need, to, rows, cols));
  ONEPASS_TRY(expect_bytes("src", src.size(), storage_bytes(from, rows, cols), from, rows, cols));
  std::fill_n(dst.begin(), static_cast<std::ptrdiff_t>(*need), std::byte{0});
  r->pack(rows, cols, src.data(), dst.data());
  return {};
}

Status pack_affine(const AffineRows& from, DType to, std::uint64_t rows, std::uint64_t cols,
                   std::span<std::byte> dst) {
  const PackRow* r = find(to);
  if (!r || packed_affine_format(from.bits, from.group_size, from.scale_type, r->layout) != to) {
    return fail(ErrorCode::unsupported, "pack: no way from " + std::to_string(from.bits) +
                                            " bits in groups of " +
                                            std::to_string(from.group_size) + " with " +
                                            name(from.scale_type) + " scales to " + name(to));
  }
  const std::optional<std::uint64_t> need = storage_bytes(to, rows, cols);
  ONEPASS_TRY(expect_bytes("dst", dst.size(), need, to, rows, cols));
  if (cols % from.group_size != 0) {
    return fail(ErrorCode::invalid_argument, "pack: rows of " + std::to_string(cols) +
                                                 " values, expected a multiple of the group " +
                                                 std::to_string(from.group_size));
  }
  // dst has that many bytes, so these products are small.
  ONEPASS_TRY(expect_bytes("weight", from.weight.size(), rows * (cols * from.bits / 8), DType::u32,
                           rows, cols * from.bits / 32));
  const std::uint64_t groups = cols / from.group_size;
  for (std::span<const std::byte> part : {from.scales, from.biases}) {
    ONEPASS_TRY(expect_bytes("scales or biases", part.size(), rows * groups * 2, from.scale_type,
                             rows, groups));
  }
  std::fill_n(dst.begin(), static_cast<std::ptrdiff_t>(*need), std::byte{0});
  r->pack_affine(from, rows, cols, dst.data());
  return {};
}

void unpack_row(DType type, const std::byte* matrix, std::uint64_t row, std::uint64_t cols,
                float* out) noexcept {
  if (const PackRow* r = find(type)) r->unpack(matrix, row, cols, out);
}

}  // namespace onepass::quant
