// Every operation of Simd on one set of inputs, compiled once for each instruction set.
#ifndef OP_ISA

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace onepass::test {

struct SimdInput {
  float a[16], b[16], c[16];  // anything, NaN and infinity included
  float small[16];            // within [-120, 120]
  std::int32_t ints[16];
  std::uint16_t halves[16];
  std::uint8_t w[256];
  alignas(64) std::uint16_t words[512];
  std::int8_t x[16];  // -127 .. 127
  struct {
    float d;
    std::int16_t s0, s1;
  } blocks[8];
  std::size_t n;  // 0 .. 15
};

struct SimdOutput {
  static constexpr int max = 128;
  const char* names[max];
  std::uint32_t lanes[max][16];
  int count = 0;
};

using RunSimd = void (*)(const SimdInput&, SimdOutput&);

}  // namespace onepass::test

#else

namespace onepass::ops::OP_ISA {

inline void put(test::SimdOutput& out, const char* name, Simd::F a) {
  out.names[out.count] = name;
  Simd::store(out.lanes[out.count++], a);
}
inline void put(test::SimdOutput& out, const char* name, Simd::I a) {
  out.names[out.count] = name;
  Simd::store_i(out.lanes[out.count++], a);
}
inline void put(test::SimdOutput& out, const char* name, float a) { put(out, name, Simd::set1(a)); }

inline void run_simd(const test::SimdInput& in, test::SimdOutput& out) {
  using S = Simd;
  const S::F a = S::load(in.a), b = S::load(in.b), c = S::load(in.c);
  const S::F small = S::load(in.small);
  put(out, "load", a);
  put(out, "set1", S::set1(in.a[3]));
  put(out, "load_part", S::load_part(in.a, in.n));
  S::store(out.lanes[out.count], b);
  S::store_part(out.lanes[out.count], a, in.n);
  out.names[out.count++] = "store_part";
  put(out, "load_f16", S::load_f16(in.halves));
  put(out, "load_bf16", S::load_bf16(in.halves));
  std::memset(out.lanes[out.count], 0, 64);
  S::store_f16(out.lanes[out.count], a);
  S::store_bf16(reinterpret_cast<char*>(out.lanes[out.count]) + 32, a);
  out.names[out.count++] = "store_f16, store_bf16";
  put(out, "add", S::add(a, b));
  put(out, "sub", S::sub(a, b));
  put(out, "mul", S::mul(a, b));
  put(out, "div", S::div(a, b));
  put(out, "min", S::min(a, b));
  put(out, "max", S::max(a, b));
  put(out, "fma", S::fma(a, b, c));
  put(out, "fnma", S::fnma(a, b, c));
  put(out, "neg", S::neg(a));
  put(out, "abs", S::abs(a));
  put(out, "sqrt", S::sqrt(S::abs(a)));
  put(out, "round_even", S::round_even(a));
  put(out, "round_even small", S::round_even(small));
  put(out, "lt", S::select(S::lt(a, b), a, c));
  put(out, "gt", S::select(S::gt(a, b), a, c));
  put(out, "le", S::select(S::le(a, b), a, c));
  put(out, "ge", S::select(S::ge(a, b), a, c));
  put(out, "eq", S::select(S::eq(a, b), a, c));
  put(out, "is_nan", S::select(S::is_nan(a), b, a));
  put(out, "sum", S::sum(small));
  put(out, "max_lane", S::max_lane(a));
  const S::I i = S::load_i(in.ints), j = S::iota();
  put(out, "iota", j);
  put(out, "set1_i", S::set1_i(in.ints[5]));
  put(out, "add_i", S::add(i, j));
  put(out, "sub_i", S::sub(i, j));
  put(out, "bit_and", S::bit_and(i, S::set1_i(0x5a5a1234)));
  put(out, "bit_or", S::bit_or(i, S::set1_i(0x5a5a1234)));
  put(out, "shl", S::shl<7>(i));
  put(out, "shl by lanes", S::shl(i, S::bit_and(S::srl<3>(i), S::set1_i(31))));
  put(out, "sra", S::sra<3>(i));
  put(out, "srl", S::srl<9>(i));
  put(out, "to_int", S::to_int(small));
  put(out, "to_float", S::to_float(i));
  put(out, "bits", S::bits(a));
  put(out, "from_bits", S::from_bits(i));
  put(out, "sum_i", S::set1_i(S::sum_i(i)));
  put(out, "load_i8", S::load_i8(in.x));
  put(out, "load_u8", S::load_u8(in.w));
  std::memset(out.lanes[out.count], 0, 64);
  S::store_i8(out.lanes[out.count], S::load_i8(in.x));
  out.names[out.count++] = "store_i8";

  const S::B w0 = S::load_b(in.w), w1 = S::load_b(in.w + 64), w2 = S::load_b(in.w + 128);
  const S::B w3 = S::or_b(S::load_b(in.w + 192), S::set1_b(0x11));
  const S::B codes = S::lookup16(S::repeat16(in.w + 32), S::bits_of<2, 4>(w0));
  put(out, "lookup16", S::dot16<8>(i, codes, w1, codes, w3, in.x));
  put(out, "bytes", S::dot16<8>(i, S::bytes(i), w1, S::bytes(j), w3, in.x));
  put(out, "halves", S::halves(i, S::set1_i(in.ints[7])));
  const S::I places = S::bit_and(i, S::set1_i(0x003f003f));
  put(out, "words_at 64", S::words_at<64>(in.words, places));
  const S::I farther = S::bit_and(i, S::set1_i(0x01ff01ff));
  put(out, "words_at 512", S::words_at<512>(in.words, farther));
  put(out, "dot16 8", S::dot16<8>(i, w0, w1, w2, w3, in.x));
  std::uint8_t stored[64];
  S::store_b(stored, S::add_b(w0, w1));
  put(out, "first_trit",
      S::dot16<2>(i, S::first_trit(w0), S::first_trit(w1), S::first_trit(S::load_b(stored)),
                  S::first_trit(w2), in.x));
  put(out, "dot16 7",
      S::dot16<7>(i, S::bits_of<0, 7>(w0), S::bits_of<1, 7>(w1), S::bits_of<0, 7>(w2),
                  S::bits_of<1, 7>(w3), in.x));
  put(out, "dot16 6",
      S::dot16<6>(i, S::bits_of<2, 6>(w0), S::bits_of<0, 6>(w1), S::bits_of<1, 6>(w2),
                  S::bits_of<0, 6>(w3), in.x));
  put(out, "dot16 5",
      S::dot16<5>(i, S::bits_of<0, 5>(w0), S::bits_of<3, 5>(w1),
                  S::or_b(S::bits_of<4, 4>(w2), S::bits_of<1, 1, 4>(w3)),
                  S::or_b(S::bits_of<0, 4>(w2), S::bits_of<6, 1, 4>(w3)), in.x));
  put(out, "dot16 4",
      S::dot16<4>(i, S::bits_of<0, 4>(w0), S::bits_of<4, 4>(w0), S::bits_of<0, 4>(w1),
                  S::bits_of<4, 4>(w1), in.x));
  put(out, "pair_dot", S::pair_dot(in.x, S::pair(-8, 3)));
  put(out, "pair_dot of lanes", S::pair_dot(in.x, S::bit_and(i, S::set1_i(0x7fff7fff))));
  for (std::size_t n = 1; n <= 8; ++n) {
    float sums[16] = {};
    S::scaled_sums(in.blocks, n, sums);
    for (std::size_t k = 0; k < n; ++k) put(out, "scaled_sums", sums[2 * k + 1]);
  }

  put(out, "exp", exp(small));
  put(out, "exp wide", exp(a));
  put(out, "tanh", tanh(small));
  put(out, "tanh wide", tanh(a));
  put(out, "sigmoid", sigmoid(small));
  put(out, "silu", silu(small));
  put(out, "silu wide", silu(a));
  put(out, "gelu", gelu(small));
  put(out, "gelu wide", gelu(a));
  put(out, "gelu_erf", gelu_erf(small));
  put(out, "gelu_erf wide", gelu_erf(a));
  put(out, "softcap", softcap(small, S::set1(30.0f)));
}

}  // namespace onepass::ops::OP_ISA

#endif  // OP_ISA
