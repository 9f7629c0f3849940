// Random weights of every format that can be packed, with the values they stand for.
#pragma once

#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "kernel_harness.h"
#include "quant/blocks.h"
#include "quant/packed.h"

namespace onepass::test {

inline constexpr DType packable_types[] = {DType::f32, DType::f16, DType::bf16,
#define BLOCK(format, Block) DType::format,
                                           ONEPASS_BLOCK_FORMATS(BLOCK)
#undef BLOCK
};

struct NativeRows {
  std::vector<std::byte> bytes;
  std::vector<float> values;
};

// Blocks of random bits with scales of a sensible size.
template <class Block>
void append_blocks(NativeRows& m, std::size_t n, std::mt19937& g) {
  for (std::size_t i = 0; i < n; i += Block::elements) {
    Block block;
    std::uint8_t raw[sizeof(Block)];
    for (std::uint8_t& b : raw) b = static_cast<std::uint8_t>(g());
    std::memcpy(&block, raw, sizeof(Block));
    const auto scale = [&g] {
      const float x = 1e-4f * static_cast<float>(1 + g() % 1000) * (g() % 2 ? 1.0f : -1.0f);
      return static_cast<std::uint16_t>(ops::op_f32_to_f16(x));
    };
    if constexpr (requires { block.d; }) {
      block.d = scale();
    } else if constexpr (requires { quant::put_half(block, std::uint16_t{}); }) {
      quant::put_half(block, scale());
    }
    if constexpr (requires { block.e; }) block.e = static_cast<std::uint8_t>(112 + g() % 12);
    if constexpr (std::is_same_v<Block, quant::BlockNVFP4>) {
      for (std::uint8_t& s : block.scales) {
        s = static_cast<std::uint8_t>(g() % 16 == 0 ? 128 * (g() % 2) + 127 * (g() % 2) : g() % 64);
      }
    }
    if constexpr (requires { block.dmin; }) block.dmin = scale();
    if constexpr (requires { block.m; }) block.m = scale();
    float values[Block::elements];
    quant::dequantize(block, values);
    const auto* p = reinterpret_cast<const std::byte*>(&block);
    m.bytes.insert(m.bytes.end(), p, p + sizeof(Block));
    m.values.insert(m.values.end(), values, values + Block::elements);
  }
}

inline NativeRows random_rows(DType type, std::uint32_t rows, std::uint32_t cols, unsigned seed) {
  NativeRows m;
  std::mt19937 g(seed);
  const std::size_t n = std::size_t{rows} * cols;
  switch (type) {
#define BLOCK(format, Block)              \
  case DType::format:                     \
    append_blocks<quant::Block>(m, n, g); \
    break;
    ONEPASS_BLOCK_FORMATS(BLOCK)
#undef BLOCK
    default: {
      const Stored s = store(type, random_floats(n, seed));
      m.bytes = s.bytes;
      for (double v : s.values) m.values.push_back(static_cast<float>(v));
    }
  }
  return m;
}

inline std::vector<std::byte> pack_matrix(DType native, std::uint32_t rows, std::uint32_t cols,
                                          std::span<const std::byte> bytes,
                                          Layout layout = Layout::r16) {
  const Format packed{native, layout};
  std::vector<std::byte> p(storage_bytes(packed, rows, cols).value());
  const Status status = quant::pack(packed, rows, cols, bytes, p);
  EXPECT_TRUE(status.has_value()) << (status ? "" : status.error().message);
  return p;
}

struct AffineMatrix {
  std::vector<std::byte> weight, scales, biases;
  std::vector<float> values;
  std::uint32_t bits = 4, group_size = 64;
  DType type = DType::f16;

  quant::AffineRows rows() const { return {weight, scales, biases, bits, group_size, type}; }
};
inline AffineMatrix random_affine(std::uint32_t bits, std::uint32_t group, DType type,
                                  std::uint32_t rows, std::uint32_t cols, unsigned seed) {
  AffineMatrix m;
  m.bits = bits;
  m.group_size = group;
  m.type = type;
  std::mt19937 g(seed);
  const std::size_t n = std::size_t{rows} * cols;
  m.weight.resize(n * bits / 8);
  for (std::byte& b : m.weight) b = static_cast<std::byte>(g());
  const Stored scales = store(type, random_floats(n / group, seed + 1, 0.05f));
  const Stored biases = store(type, random_floats(n / group, seed + 2, 0.5f));
  m.scales = scales.bytes;
  m.biases = biases.bytes;
  for (std::size_t i = 0; i < n; ++i) {
    unsigned q = 0;
    for (std::size_t b = i * bits; b < (i + 1) * bits; ++b) {
      q |= (static_cast<unsigned>(m.weight[b / 8]) >> b % 8 & 1u) << (b - i * bits);
    }
    const auto scale = static_cast<float>(scales.values[i / group]);
    const auto bias = static_cast<float>(biases.values[i / group]);
    m.values.push_back(static_cast<float>(q) * scale + bias);
  }
  return m;
}

}  // namespace onepass::test
