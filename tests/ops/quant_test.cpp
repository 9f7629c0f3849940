// Block formats and MLX bit streams against decoders written from the definition of each format.
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <set>

#include "kernel_harness.h"
#include "quant/affine.h"
#include "quant/blocks.h"
#include "support/grid_formats.h"

namespace onepass::test::quant_test {
namespace {

using Bytes = std::vector<std::uint8_t>;

// Bytes of an f16; `scattered`: where iq1_m has it.
constexpr std::size_t scattered = 1000;
int half_at(const Bytes& b, std::size_t at) {
  return at == scattered ? iq1_m_half(b.data()) : b[at] | b[at + 1] << 8;
}
void put_half(Bytes& b, std::size_t at, int bits) {
  if (at == scattered) return put_iq1_m_half(b.data(), bits);
  b[at] = static_cast<std::uint8_t>(bits);
  b[at + 1] = static_cast<std::uint8_t>(bits >> 8);
}

double f16_at(const Bytes& b, std::size_t at) {
  const int bits = half_at(b, at);
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  return exponent == 0 ? sign * std::ldexp(mantissa, -24)
                       : sign * std::ldexp(1024 + mantissa, exponent - 25);
}

// What the bits of an element say: its number and, in the K formats, its scale and offset.
struct Code {
  int q;
  int scale = 0;
  int offset = 0;
};
struct Element {
  Code code;
  double value;
};

int nibble(const Bytes& b, std::size_t qs, std::size_t e) {
  return b[qs + e % 16] >> (4 * (e / 16)) & 15;
}
int bit(const Bytes& b, std::size_t at, std::size_t i) { return b[at + i / 8] >> (i % 8) & 1; }

constexpr int iq4_table[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                               1,    13,   25,  38,  53,  69,  89,  113};

Element decode_q4_0(const Bytes& b, std::size_t e) {
  const int q = nibble(b, 2, e);
  return {{q}, (q - 8) * f16_at(b, 0)};
}
Element decode_q4_1(const Bytes& b, std::size_t e) {
  const int q = nibble(b, 4, e);
  return {{q}, q * f16_at(b, 0) + f16_at(b, 2)};
}
Element decode_q5_0(const Bytes& b, std::size_t e) {
  const int q = nibble(b, 6, e) | bit(b, 2, e) << 4;
  return {{q}, (q - 16) * f16_at(b, 0)};
}
Element decode_q5_1(const Bytes& b, std::size_t e) {
  const int q = nibble(b, 8, e) | bit(b, 4, e) << 4;
  return {{q}, q * f16_at(b, 0) + f16_at(b, 2)};
}
Element decode_q8_0(const Bytes& b, std::size_t e) {
  const int q = static_cast<std::int8_t>(b[2 + e]);
  return {{q}, q * f16_at(b, 0)};
}
Element decode_iq4_nl(const Bytes& b, std::size_t e) {
  const int q = nibble(b, 2, e);
  return {{q}, iq4_table[q] * f16_at(b, 0)};
}
Element decode_q2_k(const Bytes& b, std::size_t e) {
  const std::size_t h = e / 128, s = e % 128 / 32, l = e % 32;
  const int q = b[16 + 32 * h + l] >> (2 * s) & 3;
  const int sc = b[e / 16] & 15, m = b[e / 16] >> 4;
  return {{q, sc, m}, f16_at(b, 80) * sc * q - f16_at(b, 82) * m};
}
Element decode_q3_k(const Bytes& b, std::size_t e) {
  const std::size_t h = e / 128, s = e % 128 / 32, l = e % 32, j = e / 16;
  const int low = b[32 + 32 * h + l] >> (2 * s) & 3;
  const int q = low - ((b[l] >> (4 * h + s) & 1) != 0 ? 0 : 4);
  const int sc_low = j < 8 ? b[96 + j] & 15 : b[96 + j - 8] >> 4;
  const int sc = sc_low | (b[96 + 8 + j % 4] >> (2 * (j / 4)) & 3) << 4;
  return {{q, sc}, f16_at(b, 108) * (sc - 32) * q};
}
// The 6-bit scale and offset of sub-block j of q4_k and q5_k.
Code k_scale(const Bytes& b, std::size_t j) {
  const std::uint8_t* s = b.data() + 4;
  if (j < 4) return {0, s[j] & 63, s[j + 4] & 63};
  return {0, (s[j + 4] & 15) | s[j - 4] >> 6 << 4, s[j + 4] >> 4 | s[j] >> 6 << 4};
}
Element decode_q4_k(const Bytes& b, std::size_t e) {
  const std::size_t j = e / 32;
  Code c = k_scale(b, j);
  c.q = b[16 + 32 * (j / 2) + e % 32] >> (4 * (j % 2)) & 15;
  return {c, f16_at(b, 0) * c.scale * c.q - f16_at(b, 2) * c.offset};
}
Element decode_q5_k(const Bytes& b, std::size_t e) {
  const std::size_t j = e / 32;
  Code c = k_scale(b, j);
  c.q = (b[48 + 32 * (j / 2) + e % 32] >> (4 * (j % 2)) & 15) + 16 * (b[16 + e % 32] >> j & 1);
  return {c, f16_at(b, 0) * c.scale * c.q - f16_at(b, 2) * c.offset};
}
Element decode_q6_k(const Bytes& b, std::size_t e) {
  const std::size_t h = e / 128, s = e % 128 / 32, l = e % 32;
  const int low = b[64 * h + 32 * (s % 2) + l] >> (4 * (s / 2)) & 15;
  const int q = low | (b[128 + 32 * h + l] >> (2 * s) & 3) << 4;
  const int sc = static_cast<std::int8_t>(b[192 + e / 16]);
  return {{q, sc}, f16_at(b, 208) * sc * (q - 32)};
}
Element decode_iq4_xs(const Bytes& b, std::size_t e) {
  const std::size_t i = e / 32, j = e % 32;
  const int high = (b[2] | b[3] << 8) >> (2 * i) & 3;
  const int ls = (b[4 + i / 2] >> (4 * (i % 2)) & 15) | high << 4;
  const int q = b[8 + 16 * i + j % 16] >> (4 * (j / 16)) & 15;
  return {{q, ls}, f16_at(b, 0) * (ls - 32) * iq4_table[q]};
}

constexpr double e2m1_table[8] = {0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0};
double e2m1(int code) { return (code < 8 ? 1.0 : -1.0) * e2m1_table[code % 8]; }

Element decode_mxfp4(const Bytes& b, std::size_t e) {
  const int q = nibble(b, 1, e);
  return {{q, b[0]}, std::ldexp(e2m1(q), b[0] - 127)};
}
Element decode_nvfp4(const Bytes& b, std::size_t e) {
  const int q = b[4 + 8 * (e / 16) + e % 8] >> (4 * (e / 8 % 2)) & 15, scale = b[e / 16];
  const int exponent = scale >> 3 & 15, mantissa = scale & 7;
  double d = exponent == 0 ? mantissa / 512.0 : std::ldexp(1.0 + mantissa / 8.0, exponent - 7);
  if (scale == 127) d = 0.0;  // in E4M3 not a number
  return {{q, scale}, d * e2m1(q)};
}
Element decode_tq1_0(const Bytes& b, std::size_t e) {
  std::size_t byte = e % 32, digit = e / 32;
  if (e >= 160) byte = 32 + (e - 160) % 16, digit = (e - 160) / 16;
  if (e >= 240) byte = 48 + (e - 240) % 4, digit = (e - 240) / 4;
  // The digits of the fraction b / 256 in base 3.
  const int q = static_cast<int>(
                    std::floor(b[byte] / 256.0 * std::pow(3.0, static_cast<double>(digit + 1)))) %
                3;
  return {{q}, (q - 1) * f16_at(b, 52)};
}
Element decode_tq2_0(const Bytes& b, std::size_t e) {
  const int q = b[32 * (e / 128) + e % 32] >> (2 * (e % 128 / 32)) & 3;
  return {{q}, (q - 1) * f16_at(b, 64)};
}
Element decode_q1_0(const Bytes& b, std::size_t e) {
  const int q = bit(b, 2, e);
  return {{q}, q == 1 ? f16_at(b, 0) : -f16_at(b, 0)};
}
Element decode_q2_0(const Bytes& b, std::size_t e) {
  const int q = 2 * bit(b, 2, 2 * e + 1) + bit(b, 2, 2 * e);
  return {{q}, (q - 1) * f16_at(b, 0)};
}
// The offset is the point: every one of the grid is seen.
template <DType type, std::size_t d>
Element decode_grid(const Bytes& b, std::size_t e) {
  const GridElement g = grid_element(type, b.data(), e);
  return {{g.number, g.scale, g.point}, f16_at(b, d) * g.unit * (2 * g.scale + 1) * g.number};
}

struct Format {
  DType type;
  Element (*decode)(const Bytes&, std::size_t);
  std::vector<std::size_t> f16_fields;
  int codes, scales, offsets;  // how many values each can have
  double rms_error;            // of quantized normally distributed numbers, relative
};

const std::vector<Format>& formats() {
  static const std::vector<Format> list = {
      {DType::q4_0, decode_q4_0, {0}, 16, 1, 1, 0.11},
      {DType::q4_1, decode_q4_1, {0, 2}, 16, 1, 1, 0.10},
      {DType::q5_0, decode_q5_0, {0}, 32, 1, 1, 0.055},
      {DType::q5_1, decode_q5_1, {0, 2}, 32, 1, 1, 0.05},
      {DType::q8_0, decode_q8_0, {0}, 256, 1, 1, 0.008},
      {DType::q2_k, decode_q2_k, {80, 82}, 4, 16, 16, 0.35},
      {DType::q3_k, decode_q3_k, {108}, 8, 64, 1, 0.20},
      {DType::q4_k, decode_q4_k, {0, 2}, 16, 64, 64, 0.09},
      {DType::q5_k, decode_q5_k, {0, 2}, 32, 64, 64, 0.045},
      {DType::q6_k, decode_q6_k, {208}, 64, 256, 1, 0.025},
      {DType::iq3_s, decode_grid<DType::iq3_s, 0>, {0}, 16, 16, 512, 0.15},
      {DType::iq3_xxs, decode_grid<DType::iq3_xxs, 0>, {0}, 16, 16, 256, 0.20},
      {DType::iq2_xs, decode_grid<DType::iq2_xs, 0>, {0}, 6, 16, 512, 0.31},
      {DType::iq2_s, decode_grid<DType::iq2_s, 0>, {0}, 6, 16, 1024, 0.26},
      {DType::iq2_xxs, decode_grid<DType::iq2_xxs, 0>, {0}, 6, 16, 256, 0.37},
      {DType::iq1_s, decode_grid<DType::iq1_s, 0>, {0}, 6, 8, 2048, 0.49},
      {DType::iq1_m, decode_grid<DType::iq1_m, scattered>, {scattered}, 6, 8, 2048, 0.45},
      {DType::iq4_nl, decode_iq4_nl, {0}, 16, 1, 1, 0.10},
      {DType::iq4_xs, decode_iq4_xs, {0}, 16, 64, 1, 0.10},
      {DType::mxfp4, decode_mxfp4, {}, 16, 256, 1, 0.117},
      {DType::nvfp4, decode_nvfp4, {}, 16, 256, 1, 0.085},
      {DType::tq1_0, decode_tq1_0, {52}, 3, 1, 1, 0.44},
      {DType::tq2_0, decode_tq2_0, {64}, 4, 1, 1, 0.44},
      {DType::q1_0, decode_q1_0, {0}, 2, 1, 1, 0.61},
      {DType::q2_0, decode_q2_0, {0}, 4, 1, 1, 0.37},
  };
  return list;
}

struct Codec {
  std::function<std::vector<float>(const Bytes&)> decode;
  std::function<Bytes(const std::vector<float>&)> encode;
};
template <class B>
Codec codec() {
  return {[](const Bytes& bytes) {
            B block;
            std::memcpy(&block, bytes.data(), sizeof(block));
            std::vector<float> out(B::elements);
            quant::dequantize(block, out.data());
            return out;
          },
          [](const std::vector<float>& x) {
            B block;
            std::memset(&block, 0xff, sizeof(block));
            quant::quantize(x.data(), block);
            Bytes bytes(sizeof(block));
            std::memcpy(bytes.data(), &block, sizeof(block));
            return bytes;
          }};
}
Codec codec_of(DType type) {
  static const std::map<DType, Codec> list = {
#define BLOCK(format, Block) {DType::format, codec<quant::Block>()},
      ONEPASS_BLOCK_FORMATS(BLOCK)
#undef BLOCK
  };
  return list.at(type);
}

TEST(Quant, EveryBlockFormatIsTestedAndFitsItsTable) {
  std::set<DType> tested;
  for (const Format& f : formats()) tested.insert(f.type);
#define BLOCK(format, Block)                                                   \
  EXPECT_TRUE(tested.contains(DType::format)) << #format;                      \
  EXPECT_EQ(sizeof(quant::Block), info(DType::format).block_bytes) << #format; \
  EXPECT_EQ(static_cast<std::uint32_t>(quant::Block::elements),                \
            info(DType::format).block_elements)                                \
      << #format;
  ONEPASS_BLOCK_FORMATS(BLOCK)
#undef BLOCK
}

// Random bytes everywhere, scales any finite f16 of normal size. Products of their few bits are
// exact in f32, so the only rounding is the one after adding the offset.
TEST(Quant, RandomBlocksDecodeExactly) {
  for (const Format& f : formats()) {
    const DTypeInfo& t = info(f.type);
    const Codec c = codec_of(f.type);
    std::mt19937 generator(11);
    std::vector<std::set<int>> codes(t.block_elements);
    std::set<int> scales, offsets;
    for (int round = 0; round < 6000; ++round) {
      Bytes b(t.block_bytes);
      for (std::uint8_t& byte : b) byte = static_cast<std::uint8_t>(generator());
      for (std::size_t at : f.f16_fields) {
        // Exponents 1 .. 16 keep products within f16's own range and far from f32's ends.
        const int exponent = 1 + static_cast<int>(generator() % 16);
        put_half(b, at, (half_at(b, at) & 0x83ff) | exponent << 10);
      }
      const std::vector<float> got = c.decode(b);
      for (std::size_t e = 0; e < t.block_elements; ++e) {
        const Element want = f.decode(b, e);
        ASSERT_EQ(got[e], static_cast<float>(want.value)) << t.name << " element " << e;
        codes[e].insert(want.code.q);
        scales.insert(want.code.scale);
        offsets.insert(want.code.offset);
      }
    }
    for (const std::set<int>& seen : codes) {
      ASSERT_EQ(seen.size(), static_cast<std::size_t>(f.codes)) << t.name;
    }
    EXPECT_EQ(scales.size(), static_cast<std::size_t>(f.scales)) << t.name;
    EXPECT_EQ(offsets.size(), static_cast<std::size_t>(f.offsets)) << t.name;
  }
}

// Hashes of the values of pseudorandom blocks as the Python package gguf decodes them, where it has
// no decoder ggml's to_float: written by scripts/experiments/block_hashes.py.
TEST(Quant, ValuesHaveTheBitsOfGguf) {
  const std::pair<DType, std::uint64_t> expected[] = {
      {DType::mxfp4, 0x81760d7678094cd4u}, {DType::nvfp4, 0x5a939e9714b2df79u},
      {DType::tq1_0, 0xf0d645313bf61705u}, {DType::tq2_0, 0x3ab121334aaeaa3bu},
      {DType::q1_0, 0xe79bd7de471fe8a5u},  {DType::q2_0, 0x44ff3e48a6801c23u},
  };
  for (const auto& [type, want] : expected) {
    const auto f = std::find_if(formats().begin(), formats().end(),
                                [type = type](const Format& row) { return row.type == type; });
    ASSERT_NE(f, formats().end());
    const Codec c = codec_of(type);
    std::uint32_t state = 1;
    std::uint64_t hash = 0xcbf29ce484222325u;
    Bytes b(info(type).block_bytes);
    for (int block = 0; block < 512; ++block) {
      for (std::uint8_t& byte : b) {
        state = state * 1664525u + 1013904223u;
        byte = static_cast<std::uint8_t>(state >> 24);
      }
      for (const std::size_t at : f->f16_fields) {
        b[at + 1] = static_cast<std::uint8_t>((b[at + 1] & 0x83) | 4 * (1 + (b[at + 1] >> 2) % 16));
      }
      for (const float value : c.decode(b)) {
        const auto bits = std::bit_cast<std::uint32_t>(value);
        for (int i = 0; i < 32; i += 8) hash = (hash ^ (bits >> i & 255)) * 0x100000001b3u;
      }
    }
    EXPECT_EQ(hash, want) << info(type).name;
  }
}
// SplitMix64: number i of a sequence.
std::uint64_t mix(std::uint64_t i) {
  std::uint64_t z = (i + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// Of 4,096 blocks, the sum of all values' bits, each times a number of its own.
std::uint64_t sum_of_bits(const Format& f) {
  const DTypeInfo& t = info(f.type);
  const Codec c = codec_of(f.type);
  std::uint64_t sum = 0, byte = 0, value = 0;
  for (int block = 0; block < 4096; ++block) {
    Bytes b(t.block_bytes);
    for (std::uint8_t& x : b) x = static_cast<std::uint8_t>(mix(byte++));
    const std::size_t at = f.f16_fields[0];
    put_half(b, at, (half_at(b, at) & 0x83ff) | (1 + block % 16) << 10);
    for (const float x : c.decode(b)) sum += mix(value++) * std::bit_cast<std::uint32_t>(x);
  }
  return sum;
}

TEST(Quant, GridsDecodeToTheBitsOfTheGgufPackage) {
  const std::map<DType, std::uint64_t> sums = {
#define GRID_BITS(format, sum) {DType::format, sum},
#include "ops/grid_bits.def"
  };
  std::size_t tested = 0;
  for (const Format& f : formats()) {
    if (!sums.contains(f.type)) continue;
    EXPECT_EQ(sum_of_bits(f), sums.at(f.type)) << info(f.type).name;
    ++tested;
  }
  EXPECT_EQ(tested, sums.size());
}

TEST(Quant, SubnormalAndZeroScales) {
  for (const Format& f : formats()) {
    const DTypeInfo& t = info(f.type);
    const Codec c = codec_of(f.type);
    for (int bits : {0x0000, 0x8000, 0x0001, 0x83ff}) {
      Bytes b(t.block_bytes, 0x6d);
      for (std::size_t at : f.f16_fields) put_half(b, at, bits);
      const std::vector<float> got = c.decode(b);
      for (std::size_t e = 0; e < t.block_elements; ++e) {
        ASSERT_EQ(got[e], static_cast<float>(f.decode(b, e).value)) << t.name;
      }
    }
  }
}

std::vector<float> normal_floats(std::size_t n, unsigned seed, float mean = 0.0f) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> distribution(mean, 1.0f);
  std::vector<float> values(n);
  for (float& v : values) v = distribution(generator);
  return values;
}

double relative_error(const std::vector<float>& x, const std::vector<float>& y) {
  double error = 0, size = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    error += (f64(x[i]) - f64(y[i])) * (f64(x[i]) - f64(y[i]));
    size += f64(x[i]) * f64(x[i]);
  }
  return std::sqrt(error / size);
}

TEST(Quant, QuantizersStayWithinTheirError) {
  for (const Format& f : formats()) {
    const std::size_t n = info(f.type).block_elements;
    const Codec c = codec_of(f.type);
    std::vector<float> all, back;
    for (unsigned seed = 0; seed < 64; ++seed) {
      const std::vector<float> x = normal_floats(n, seed);
      const std::vector<float> y = c.decode(c.encode(x));
      all.insert(all.end(), x.begin(), x.end());
      back.insert(back.end(), y.begin(), y.end());
    }
    EXPECT_LT(relative_error(all, back), f.rms_error) << info(f.type).name;
  }
}

// Any size of number: an error of the scale's sign or of a sub-block's place would show.
TEST(Quant, QuantizersScaleWithTheirInput) {
  for (const Format& f : formats()) {
    const std::size_t n = info(f.type).block_elements;
    const Codec c = codec_of(f.type);
    for (float scale : {-8.0f, -1.0f, 0.03125f, 64.0f}) {
      std::vector<float> x = normal_floats(n, 5);
      for (std::size_t i = 0; i < n; ++i) {
        x[i] *= scale * (1.0f + static_cast<float>(i / 16 % 4));  // sub-blocks differ
      }
      EXPECT_LT(relative_error(x, c.decode(c.encode(x))), 1.3 * f.rms_error)
          << info(f.type).name << " scale " << scale;
    }
  }
}

TEST(Quant, ZerosStayZeroAndStrangeNumbersAreHarmless) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan_value = std::numeric_limits<float>::quiet_NaN();
  for (const Format& f : formats()) {
    const std::size_t n = info(f.type).block_elements;
    const Codec c = codec_of(f.type);
    EXPECT_EQ(c.decode(c.encode(std::vector<float>(n))), std::vector<float>(n))
        << info(f.type).name;
    for (float strange : {inf, -inf, nan_value, 3e38f, -3e38f, 1e-45f}) {
      for (std::size_t count : {std::size_t{1}, n}) {
        std::vector<float> x = normal_floats(n, 9);
        std::fill_n(x.begin(), count, strange);
        EXPECT_EQ(c.encode(x), c.encode(x)) << info(f.type).name;  // the sanitizers look inside
      }
    }
  }
}

TEST(Quant, EncodingIsStable) {
  for (const Format& f : formats()) {
    const std::size_t n = info(f.type).block_elements;
    const Codec c = codec_of(f.type);
    const std::vector<float> once = c.decode(c.encode(normal_floats(n, 21)));
    EXPECT_LT(relative_error(once, c.decode(c.encode(once))), 0.6 * f.rms_error)
        << info(f.type).name;
  }
}

struct Stream {
  int bits;
  std::vector<int> values;
  Bytes bytes;
};
const Stream streams[] = {
    {2, {3, 2, 1, 0, 3, 2, 1, 0}, {0x1b, 0x1b}},
    {3, {0, 1, 2, 3, 4, 5, 6, 7}, {0x88, 0xc6, 0xfa}},
    {3, {1, 6, 3, 0, 5, 2, 7, 4, 1, 6, 3, 0, 5, 2, 7, 4}, {0xf1, 0x50, 0x9d, 0xf1, 0x50, 0x9d}},
    {4, {1, 2, 3, 4, 5, 6, 7, 8}, {0x21, 0x43, 0x65, 0x87}},
    {5, {1, 2, 4, 8, 16, 31, 0, 21}, {0x41, 0x10, 0x04, 0x3f, 0xa8}},
    {6, {1, 2, 62, 63, 1, 2, 62, 63}, {0x81, 0xe0, 0xff, 0x81, 0xe0, 0xff}},
    {6,
     {1, 8, 15, 22, 29, 36, 43, 50, 57, 0, 7, 14, 21, 28, 35, 42},
     {0x01, 0xf2, 0x58, 0x1d, 0xb9, 0xca, 0x39, 0x70, 0x38, 0x15, 0x37, 0xaa}},
    {8, {1, 2, 3, 255, 0, 128, 127, 64}, {0x01, 0x02, 0x03, 0xff, 0x00, 0x80, 0x7f, 0x40}},
};

TEST(Affine, BitStreams) {
  for (const Stream& s : streams) {
    std::vector<float> out(s.values.size());
    quant::affine_dequantize(s.bits, s.bytes.data(), static_cast<int>(out.size()), 1.0f, 0.0f,
                             out.data());
    for (std::size_t i = 0; i < out.size(); ++i) {
      EXPECT_EQ(out[i], static_cast<float>(s.values[i])) << s.bits << " bits, value " << i;
    }
  }
}

TEST(Affine, RandomStreamsBitByBit) {
  std::mt19937 generator(3);
  for (int bits : {2, 3, 4, 5, 6, 8}) {
    for (int n : {32, 64, 128}) {
      Bytes bytes(static_cast<std::size_t>(n * bits / 8));
      for (std::uint8_t& b : bytes) b = static_cast<std::uint8_t>(generator());
      std::vector<float> out(static_cast<std::size_t>(n));
      quant::affine_dequantize(bits, bytes.data(), n, -0.125f, 3.5f, out.data());
      for (std::size_t k = 0; k < out.size(); ++k) {
        int q = 0;
        for (int i = 0; i < bits; ++i) {
          q |= bit(bytes, 0, k * static_cast<std::size_t>(bits) + static_cast<std::size_t>(i)) << i;
        }
        ASSERT_EQ(out[k], static_cast<float>(-0.125 * q + 3.5)) << bits << " bits at " << k;
      }
    }
  }
}

TEST(Affine, QuantizedGroupsComeBackWithinHalfAStep) {
  for (int bits : {2, 3, 4, 5, 6, 8}) {
    for (int n : {32, 64, 128}) {
      for (float mean : {-5.0f, 0.0f, 5.0f}) {
        const std::vector<float> x = normal_floats(static_cast<std::size_t>(n), 17, mean);
        Bytes bytes(static_cast<std::size_t>(n * bits / 8));
        const quant::AffineGroup g = quant::affine_quantize(bits, x.data(), n, bytes.data());
        std::vector<float> y(x.size());
        quant::affine_dequantize(bits, bytes.data(), n, g.scale, g.bias, y.data());
        const auto [lo, hi] = std::minmax_element(x.begin(), x.end());
        const double step = (f64(*hi) - f64(*lo)) / ((1 << bits) - 1);
        // The scale moves so that one end is exact: up to half a step at the other end.
        for (std::size_t i = 0; i < x.size(); ++i) {
          EXPECT_NEAR(f64(x[i]), f64(y[i]), 1.1 * step) << bits << " bits";
        }
        EXPECT_EQ(g.scale > 0, std::abs(*lo) > std::abs(*hi));
      }
    }
  }
}

}  // namespace
}  // namespace onepass::test::quant_test
