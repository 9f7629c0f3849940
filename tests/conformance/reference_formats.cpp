#include <array>
#include <utility>

#include "conformance/reference.h"
#include "quant/packed.h"
#include "support/grid_formats.h"

namespace onepass::conformance {
namespace {

using Block = const std::uint8_t*;

constexpr std::array<int, 16> iq4_values{-127, -104, -83, -65, -49, -35, -22, -10,
                                         1,    13,   25,  38,  53,  69,  89,  113};

constexpr std::array<double, 16> e2m1{0.0,  0.5,  1.0,  1.5,  2.0,  3.0,  4.0,  6.0,
                                      -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0};

// Unsigned E4M3; the code that would be its largest number stands for 0 in ggml's files.
double e4m3(int code) {
  const int exponent = code >> 3 & 15, mantissa = code & 7;
  if (code == 0x7f) return 0.0;
  return exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
}
// Digit n of the base-3 fraction b / 256.
int trit(int b, int n) {
  for (int i = 0; i <= n; ++i) b *= 3;
  return b / 256 % 3;
}

double f16_at(Block b, std::size_t at) {
  return from_f16(static_cast<std::uint16_t>(b[at] | b[at + 1] << 8));
}
int nibble(Block qs, std::size_t e) { return qs[e % 16] >> (4 * (e / 16)) & 15; }
int bit(Block b, std::size_t i) { return b[i / 8] >> (i % 8) & 1; }

// Six-bit scale and minimum of 32 values in q4_k and q5_k.
std::pair<int, int> k_scale(Block s, std::size_t j) {
  if (j < 4) return {s[j] & 63, s[j + 4] & 63};
  return {(s[j + 4] & 15) | (s[j - 4] >> 6) << 4, s[j + 4] >> 4 | (s[j] >> 6) << 4};
}

// value = first + second.
struct Terms {
  double first, second = 0.0;
};

Terms element(DType format, Block b, std::size_t e) {
  const std::size_t half = e / 128, plane = e % 128 / 32, l = e % 32;
  switch (format) {
    case DType::q4_0:
      return {(nibble(b + 2, e) - 8) * f16_at(b, 0)};
    case DType::q4_1:
      return {nibble(b + 4, e) * f16_at(b, 0), f16_at(b, 2)};
    case DType::q5_0:
      return {((nibble(b + 6, e) | bit(b + 2, e) << 4) - 16) * f16_at(b, 0)};
    case DType::q5_1:
      return {(nibble(b + 8, e) | bit(b + 4, e) << 4) * f16_at(b, 0), f16_at(b, 2)};
    case DType::q8_0:
      return {static_cast<std::int8_t>(b[2 + e]) * f16_at(b, 0)};
    case DType::iq4_nl:
      return {iq4_values[static_cast<std::size_t>(nibble(b + 2, e))] * f16_at(b, 0)};
    case DType::q2_k: {
      const int scale = b[e / 16], q = b[16 + 32 * half + l] >> (2 * plane) & 3;
      return {f16_at(b, 80) * (scale & 15) * q, -f16_at(b, 82) * (scale >> 4)};
    }
    case DType::q3_k: {
      const std::size_t j = e / 16;
      const Block s = b + 96;
      const int low = j < 8 ? s[j] & 15 : s[j - 8] >> 4;
      const int scale = (low | (s[8 + j % 4] >> (2 * (j / 4)) & 3) << 4) - 32;
      const int high = b[l] >> (4 * half + plane) & 1;
      return {f16_at(b, 108) * scale * ((b[32 + 32 * half + l] >> (2 * plane) & 3) + 4 * high - 4)};
    }
    case DType::q4_k:
    case DType::q5_k: {
      const std::size_t j = e / 32;
      const auto [scale, minimum] = k_scale(b + 4, j);
      const Block qs = b + (format == DType::q4_k ? 16 : 48);
      int q = qs[32 * (j / 2) + l] >> (4 * (j % 2)) & 15;
      if (format == DType::q5_k) q += 16 * (b[16 + l] >> j & 1);
      return {f16_at(b, 0) * scale * q, -f16_at(b, 2) * minimum};
    }
    case DType::q6_k: {
      const int low = b[64 * half + 32 * (plane % 2) + l] >> (4 * (plane / 2)) & 15;
      const int high = b[128 + 32 * half + l] >> (2 * plane) & 3;
      return {f16_at(b, 208) * static_cast<std::int8_t>(b[192 + e / 16]) *
              ((low | high << 4) - 32)};
    }
    case DType::iq4_xs: {
      const std::size_t i = e / 32;
      const int high = (b[2] | b[3] << 8) >> (2 * i) & 3;
      const int scale = ((b[4 + i / 2] >> (4 * (i % 2)) & 15) | high << 4) - 32;
      return {f16_at(b, 0) * scale *
              iq4_values[static_cast<std::size_t>(nibble(b + 8 + 16 * i, l))]};
    }
    case DType::mxfp4:
      return {std::ldexp(e2m1[static_cast<std::size_t>(nibble(b + 1, e))], b[0] - 127)};
    case DType::nvfp4: {
      const int code = b[4 + 8 * (e / 16) + e % 8] >> (4 * (e % 16 / 8)) & 15;
      return {e4m3(b[e / 16]) * e2m1[static_cast<std::size_t>(code)]};
    }
    case DType::tq1_0: {
      const std::size_t byte = e < 160 ? e % 32 : e < 240 ? 32 + e % 16 : 48 + e % 4;
      const std::size_t digit = e < 160 ? e / 32 : e < 240 ? e / 16 - 10 : e / 4 - 60;
      return {(trit(b[byte], static_cast<int>(digit)) - 1) * f16_at(b, 52)};
    }
    case DType::tq2_0:
      return {((b[32 * half + l] >> (2 * plane) & 3) - 1) * f16_at(b, 64)};
    case DType::q1_0:
      return {(bit(b + 2, e) != 0 ? 1 : -1) * f16_at(b, 0)};
    case DType::q2_0:
      return {((b[2 + e / 4] >> (2 * (e % 4)) & 3) - 1) * f16_at(b, 0)};
    case DType::iq3_s:
    case DType::iq3_xxs:
    case DType::iq2_xs:
    case DType::iq2_s:
    case DType::iq2_xxs:
    case DType::iq1_s: {
      const test::GridElement g = test::grid_element(format, b, e);
      return {f16_at(b, 0) * g.unit * (2 * g.scale + 1) * g.number};
    }
    case DType::iq1_m: {
      const test::GridElement g = test::grid_element(format, b, e);
      const double d = from_f16(static_cast<std::uint16_t>(test::iq1_m_half(b)));
      return {d * g.unit * (2 * g.scale + 1) * g.number};
    }
    default:
      return {not_a_number};
  }
}

// Where a block's f16 scales are and how large they may be so that values stay near 1.
struct Scales {
  std::size_t first;
  double first_max;        // 0: none
  std::size_t second = 0;  // 0: none
  double second_max = 0.0;
};
Scales scales_of(DType format) {
  switch (format) {
    case DType::q4_0:
      return {0, 0.1};
    case DType::q4_1:
      return {0, 0.1, 2, 0.8};
    case DType::q5_0:
      return {0, 0.05};
    case DType::q5_1:
      return {0, 0.05, 2, 0.8};
    case DType::q8_0:
      return {0, 0.008};
    case DType::iq4_nl:
      return {0, 0.008};
    case DType::q2_k:
      return {80, 0.02, 82, 0.03};
    case DType::q3_k:
      return {108, 0.008};
    case DType::q4_k:
      return {0, 0.001, 2, 0.01};
    case DType::q5_k:
      return {0, 0.0005, 2, 0.01};
    case DType::q6_k:
      return {208, 0.0003};
    case DType::tq1_0:
      return {52, 0.7};
    case DType::tq2_0:
      return {64, 0.5};
    case DType::q1_0:
      return {0, 0.7};
    case DType::q2_0:
      return {0, 0.5};
    case DType::mxfp4:
    case DType::nvfp4:
      return {0, 0.0};
    case DType::iq3_s:
      return {0, 0.0022};
    case DType::iq3_xxs:
      return {0, 0.0021};
    case DType::iq2_xs:
      return {0, 0.0060};
    case DType::iq2_s:
      return {0, 0.0060};
    case DType::iq2_xxs:
      return {0, 0.0060};
    case DType::iq1_s:
      return {0, 0.0588};
    case DType::iq1_m:
      return {0, 0.0588};
    default:  // iq4_xs
      return {0, 0.0003};
  }
}

}  // namespace

void decode_block(DType format, const std::uint8_t* block, double* values, double* magnitudes) {
  for (std::size_t e = 0; e < info(format).block_elements; ++e) {
    const Terms t = element(format, block, e);
    values[e] = t.first + t.second;
    magnitudes[e] = std::abs(t.first) + std::abs(t.second);
  }
}

Weights random_weights(Random& random, DType format, std::size_t n_rows, std::size_t n_cols) {
  Weights w;
  if (!is_block_format(format)) {
    Stored s = random_values(random, format, n_rows * n_cols, 0.5);
    w.bytes = std::move(s.bytes);
    w.values = std::move(s.values);
    for (const double v : w.values) w.magnitudes.push_back(std::abs(v));
    return w;
  }
  const DTypeInfo& t = info(format);
  const std::size_t blocks = n_rows * n_cols / t.block_elements;
  w.bytes.resize(blocks * t.block_bytes);
  w.values.resize(n_rows * n_cols);
  w.magnitudes.resize(n_rows * n_cols);
  for (std::byte& b : w.bytes) b = static_cast<std::byte>(random.next());
  const Scales scales = scales_of(format);
  for (std::size_t i = 0; i < blocks; ++i) {
    auto* block = reinterpret_cast<std::uint8_t*>(w.bytes.data()) + i * t.block_bytes;
    const auto put = [&](std::size_t at, double max) {
      const double d = random.below(16) == 0 ? 0.0 : random.uniform(-max, max);
      const std::uint16_t bits = to_f16(d);
      if (format == DType::iq1_m) return test::put_iq1_m_half(block, bits);
      block[at] = static_cast<std::uint8_t>(bits);
      block[at + 1] = static_cast<std::uint8_t>(bits >> 8);
    };
    if (scales.first_max != 0.0) put(scales.first, scales.first_max);
    if (format == DType::mxfp4) block[0] = static_cast<std::uint8_t>(118 + random.below(8));
    for (std::size_t s = 0; format == DType::nvfp4 && s < 4; ++s) {
      // Subnormal ones, the two that mean 0 and an eighth bit that means nothing, too.
      block[s] = static_cast<std::uint8_t>(
          random.below(8) == 0 ? 127 * random.below(2) : 128 * random.below(2) + random.below(50));
    }
    if (scales.second_max != 0.0) put(scales.second, scales.second_max);
    decode_block(format, block, w.values.data() + i * t.block_elements,
                 w.magnitudes.data() + i * t.block_elements);
  }
  return w;
}

namespace {

// Of MLX affine weights: bits and the type of their scales.
struct Affine {
  std::uint32_t bits = 0;
  DType scales = DType::f32;
};
// Names are aBITS_SCALES or aBITS_SCALES_gGROUP.
Affine affine_of(DType type) {
  const std::string_view text = name(type);
  if (info(type).ggml_id >= 0 || text[0] != 'a') return {};
  const std::string_view scales = text.substr(3, text.find('_', 3) - 3);
  return {static_cast<std::uint32_t>(text[1] - '0'), dtype_from_name(scales).value_or(DType::u8)};
}

void append(Doubles& to, const Doubles& from) { to.insert(to.end(), from.begin(), from.end()); }

}  // namespace

Weights any_weights(Random& random, Format format, std::size_t n_groups, std::size_t n_rows,
                    std::size_t n_cols) {
  if (!is_packed(format)) return random_weights(random, format.type, n_groups * n_rows, n_cols);
  Weights all;
  for (std::size_t group = 0; group < n_groups; ++group) {
    Bytes packed(storage_bytes(format, n_rows, n_cols).value_or(0));
    const Affine affine = affine_of(format.type);
    Status status;
    if (affine.bits != 0) {
      std::uint32_t group_size = info(format).block_elements;
      if (group_size == 64 && n_cols % 128 == 0 && random.below(2) == 0 &&
          quant::affine_type(affine.bits, 128, affine.scales) == format.type) {
        group_size = 128;
      }
      const AffineWeights w =
          random_affine(random, affine.scales, n_rows, n_cols, affine.bits, group_size);
      status =
          quant::pack_affine({w.stream, w.scales, w.biases, affine.bits, group_size, affine.scales},
                             format, n_rows, n_cols, packed);
      append(all.values, w.values);
      append(all.magnitudes, w.magnitudes);
    } else {
      const Weights w = random_weights(random, format.type, n_rows, n_cols);
      status = quant::pack(format, n_rows, n_cols, w.bytes, packed);
      append(all.values, w.values);
      append(all.magnitudes, w.magnitudes);
    }
    // Weights that could not be packed fail every comparison.
    if (!status) all.values.assign(all.values.size(), not_a_number);
    all.bytes.insert(all.bytes.end(), packed.begin(), packed.end());
  }
  return all;
}

AffineWeights random_affine(Random& random, DType scale_type, std::size_t n_rows,
                            std::size_t n_cols, std::uint32_t bits, std::uint32_t group) {
  AffineWeights w;
  const std::size_t groups = n_rows * n_cols / group, row_bytes = n_cols * bits / 8;
  const double range = std::ldexp(1.0, static_cast<int>(bits));
  Stored scales = random_values(random, scale_type, groups, 0.5 / range);
  Stored biases = random_values(random, scale_type, groups, 0.25);
  w.stream.resize(n_rows * row_bytes);
  for (std::byte& b : w.stream) b = static_cast<std::byte>(random.next());
  for (std::size_t r = 0; r < n_rows; ++r) {
    for (std::size_t c = 0; c < n_cols; ++c) {
      std::uint32_t q = 0;
      for (std::uint32_t i = 0; i < bits; ++i) {
        const std::size_t at = c * bits + i;
        const auto byte = static_cast<std::uint32_t>(w.stream[r * row_bytes + at / 8]);
        q |= (byte >> (at % 8) & 1u) << i;
      }
      const std::size_t g = (r * n_cols + c) / group;
      w.values.push_back(q * scales.values[g] + biases.values[g]);
      w.magnitudes.push_back(std::abs(q * scales.values[g]) + std::abs(biases.values[g]));
    }
  }
  w.scales = std::move(scales.bytes);
  w.biases = std::move(biases.bytes);
  return w;
}

}  // namespace onepass::conformance
