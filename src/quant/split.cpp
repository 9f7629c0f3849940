#include "quant/split.h"

#include <cstring>

#include "quant/pack_row.h"
#include "quant/q4_0.h"
#include "quant/q4_k.h"
#include "quant/q5_k.h"
#include "quant/q6_k.h"
#include "quant/q8_0.h"

namespace onepass::quant {
namespace {

void put4(std::uint8_t* bytes, std::size_t e, int q) {
  std::uint8_t& byte = bytes[e % 16];
  byte = static_cast<std::uint8_t>(byte | q << (e < 16 ? 0 : 4));
}

// put() moves native block b of row r into a group whose bytes are zero.

struct PutQ8_0 : SplitQ8_0 {
  using Block = BlockQ8_0;
  static void put(const Block& block, std::uint64_t k, std::uint64_t r, std::uint64_t b,
                  std::uint8_t* group) {
    std::memcpy(group + numbers(k, r) + 32 * b, block.qs, 32);
    std::memcpy(group + scales(k, r) + 2 * b, &block.d, 2);
  }
};

struct PutQ4_0 : SplitQ4_0 {
  using Block = BlockQ4_0;
  static void put(const Block& block, std::uint64_t k, std::uint64_t r, std::uint64_t b,
                  std::uint8_t* group) {
    std::memcpy(group + numbers(k, r) + 16 * b, block.qs, 16);
    std::memcpy(group + scales(k, r) + 2 * b, &block.d, 2);
  }
};

template <class BlockT, bool FifthBit>
struct PutK : SplitK<FifthBit> {
  using Block = BlockT;
  using S = SplitK<FifthBit>;
  static void put(const Block& block, std::uint64_t k, std::uint64_t r, std::uint64_t b,
                  std::uint8_t* group) {
    std::memcpy(group + S::d(k, r) + 4 * b, &block.d, 2);
    std::memcpy(group + S::d(k, r) + 4 * b + 2, &block.dmin, 2);
    for (int j = 0; j < 8; ++j) {
      const std::uint64_t sub = 8 * b + static_cast<std::uint64_t>(j);
      group[S::scales(k, r) + 2 * sub] = static_cast<std::uint8_t>(scale_of(block.scales, j));
      group[S::scales(k, r) + 2 * sub + 1] = static_cast<std::uint8_t>(minimum_of(block.scales, j));
      for (std::size_t e = 0; e < 32; ++e) {
        const int q = number_of(block, 32 * j + static_cast<int>(e));
        put4(group + S::numbers(k, r) + 16 * sub, e, q & 15);
        if constexpr (FifthBit) {
          std::uint8_t& high = group[S::high(k, r) + 4 * sub + e % 4];
          high = static_cast<std::uint8_t>(high | q >> 4 << e / 4);
        }
      }
    }
  }
};

struct PutQ6_K : SplitQ6_K {
  using Block = BlockQ6_K;
  static void put(const Block& block, std::uint64_t k, std::uint64_t r, std::uint64_t b,
                  std::uint8_t* group) {
    std::memcpy(group + d(k, r) + 2 * b, &block.d, 2);
    std::memcpy(group + scales(k, r) + 16 * b, block.scales, 16);
    for (std::size_t e = 0; e < 256; ++e) {
      const std::uint64_t sub = 8 * b + e / 32, v = e % 32;
      const int q = number_of(block, static_cast<int>(e));
      put4(group + numbers(k, r) + 16 * sub, v, q & 15);
      std::uint8_t& high_byte = group[high(k, r) + 8 * sub + v / 16 * 4 + v % 4];
      high_byte = static_cast<std::uint8_t>(high_byte | q >> 4 << 2 * (v % 16 / 4));
    }
  }
};

template <class Form>
void pack_rows(std::uint64_t rows, std::uint64_t cols, const std::byte* src, std::byte* dst) {
  using Block = typename Form::Block;
  const std::uint64_t blocks = cols / Form::elements;
  for (std::uint64_t row = 0; row < rows; ++row) {
    auto* group =
        reinterpret_cast<std::uint8_t*>(dst) + row / group_rows * split_group_bytes<Form>(cols);
    for (std::uint64_t b = 0; b < blocks; ++b) {
      Block block;
      std::memcpy(&block, src + (row * blocks + b) * sizeof(Block), sizeof(Block));
      Form::put(block, cols, row % group_rows, b, group);
    }
  }
}

template <class Form, int Bits>
void pack_affine_rows(const AffineRows& from, std::uint64_t rows, std::uint64_t cols,
                      std::byte* dst) {
  const std::uint64_t row_bytes = cols * Bits / 8, groups = cols / from.group_size;
  for (std::uint64_t row = 0; row < rows; ++row) {
    const std::uint64_t r = row % group_rows;
    auto* group =
        reinterpret_cast<std::uint8_t*>(dst) + row / group_rows * split_group_bytes<Form>(cols);
    const auto* numbers =
        reinterpret_cast<const std::uint8_t*>(from.weight.data()) + row * row_bytes;
    for (std::uint64_t i = 0; i < cols; ++i) {
      std::uint8_t* to = group + Form::numbers(cols, r);
      if constexpr (Bits == 4) {
        put4(to + i / 32 * 16, i % 32, numbers[i / 2] >> 4 * (i % 2) & 15);
      } else {
        to[i] = static_cast<std::uint8_t>(numbers[i] ^ 0x80);
      }
    }
    for (std::uint64_t b = 0; b < cols / 64; ++b) {
      const std::uint64_t g = row * groups + 64 * b / from.group_size;
      std::memcpy(group + Form::scales(cols, r) + 4 * b, from.scales.data() + 2 * g, 2);
      std::memcpy(group + Form::scales(cols, r) + 4 * b + 2, from.biases.data() + 2 * g, 2);
    }
  }
}

template <class Form>
void unpack_row_of(const std::byte* matrix, std::uint64_t row, std::uint64_t cols, float* out) {
  for (std::uint64_t b = 0; b < cols / 32; ++b) {
    split_block<Form>(matrix, cols, row, b, out + 32 * b);
  }
}

template <class Form>
constexpr PackRow row(DType native, DType packed) {
  return {native, packed, Layout::split, pack_rows<Form>, nullptr, unpack_row_of<Form>};
}
template <class Form, int Bits>
constexpr PackRow affine_row(DType native, DType packed) {
  return {native,
          packed,
          Layout::split,
          nullptr,
          pack_affine_rows<Form, Bits>,
          unpack_row_of<Form>,
          static_cast<std::uint32_t>(Bits)};
}
constexpr PackRow rows[] = {
    row<PutQ4_0>(DType::q4_0, DType::q4_0_s16),
    row<PutQ8_0>(DType::q8_0, DType::q8_0_s16),
    row<PutK<BlockQ4_K, false>>(DType::q4_k, DType::q4_k_s16),
    row<PutK<BlockQ5_K, true>>(DType::q5_k, DType::q5_k_s16),
    row<PutQ6_K>(DType::q6_k, DType::q6_k_s16),
    affine_row<SplitA4F16, 4>(DType::f16, DType::a4_f16_s16),
    affine_row<SplitA4BF16, 4>(DType::bf16, DType::a4_bf16_s16),
    affine_row<SplitA8F16, 8>(DType::f16, DType::a8_f16_s16),
    affine_row<SplitA8BF16, 8>(DType::bf16, DType::a8_bf16_s16),
};

}  // namespace

std::span<const PackRow> split_rows() noexcept { return rows; }

}  // namespace onepass::quant
