#include "conformance/case.h"
#include "conformance/reference.h"

namespace onepass::conformance {
namespace {

// Largest error of a block format relative to the largest magnitude of 256 values: half a step, a
// whole one at the end of the range that has a level less, and the rounding of scales to 4 or 6
// bits of the block's largest.
double block_error(DType format) {
  switch (format) {
    case DType::q4_0:
      return 1.0 / 8;
    case DType::q5_0:
      return 1.0 / 16;
    case DType::q8_0:  // the step is rounded to f16
      return 0.5 / 127 + 0x1p-11;
    case DType::q4_1:
      return 2.0 / 15 * 0.52;
    case DType::q5_1:
      return 2.0 / 31 * 0.52;
    case DType::q2_k:
      return 2.0 / 3;
    case DType::q3_k:
      return 1.0 / 3;
    case DType::q4_k:
      return 2.0 / 15;
    case DType::q5_k:
      return 2.0 / 31;
    case DType::q6_k:
      return 1.0 / 24;
    case DType::mxfp4:
    case DType::nvfp4:  // 8 as 6
      return 1.0 / 4;
    case DType::tq1_0:
    case DType::tq2_0:
    case DType::q1_0:
    case DType::q2_0:  // an outlier
      return 1.0;
    case DType::iq3_s:  // a point may be far from what is wanted, a sign wrong
      return 0.6;
    case DType::iq3_xxs:
      return 1.0;
    case DType::iq2_xs:
    case DType::iq2_s:
    case DType::iq2_xxs:
      return 1.2;
    case DType::iq1_s:
    case DType::iq1_m:
      return 1.25;
    default:  // iq4_nl, iq4_xs: the widest gap of the table is 24 of 127
      return 1.0 / 6;
  }
}

Case quantize_case(Format format, std::uint32_t rows, std::uint32_t k, std::size_t variant) {
  const std::size_t offset = odd_offset(DType::f32, variant);
  const std::string text =
      label("quantize ", name(format), " rows", rows, " k", k, " view+", offset);
  const auto prepare = [=](std::optional<std::uint32_t> row) {
    Random random(text);
    const Stored x = random_values(random, DType::f32, std::size_t{rows} * k, 3.0);
    Prepared p;
    p.add(input(DType::f32, {rows, k}, x.bytes, offset));
    p.add(output(format, {rows, k}, 8 * (variant % 3)));
    p.encode = [](GraphSession& s, Tensors t) { ops::quantize(s, {.x = t[0], .out = t[1]}); };
    p.expect = [=](bool) {
      if (format == DType::q8a) {
        return std::vector{Expect{.operand = 1, .exact = store_q8a(x.values, k)}};
      }
      Expect e{.operand = 1, .want = x.values, .bound = Doubles(x.values.size())};
      const std::size_t block = info(format).block_elements;
      for (std::size_t begin = 0; begin < x.values.size(); begin += block) {
        double top = 0.0;
        for (std::size_t i = 0; i < block; ++i) top = std::max(top, std::abs(x.values[begin + i]));
        for (std::size_t i = 0; i < block; ++i)
          e.bound[begin + i] = top * block_error(format.type) * 1.01;
      }
      return std::vector{e};
    };
    const std::size_t per_row[] = {0, 1};
    return row ? take_row(p, *row, per_row) : p;
  };
  return Case{"quantize", text, Op::quantize, format, rows, 0, prepare};
}

Case dequantize_case(Format format, std::uint32_t rows, std::uint32_t k, std::size_t variant) {
  const std::size_t offset = format == DType::q8a ? 8 : odd_offset(format, variant);
  const std::string text =
      label("dequantize ", name(format), " rows", rows, " k", k, " view+", offset);
  const auto prepare = [=](std::optional<std::uint32_t> row) {
    Random random(text);
    Weights w;
    if (format == DType::q8a) {
      const Doubles x = random_values(random, DType::f32, std::size_t{rows} * k, 1.0).values;
      w.bytes = store_q8a(x, k);
      w.values = w.magnitudes = load_q8a(w.bytes, k);
    } else {
      w = any_weights(random, format, 1, rows, k);
    }
    Prepared p;
    p.add(input(format, {rows, k}, w.bytes, offset));
    p.add(output(DType::f32, {rows, k}, odd_offset(DType::f32, variant + 1)));
    p.encode = [](GraphSession& s, Tensors t) { ops::dequantize(s, {.x = t[0], .out = t[1]}); };
    p.expect = [=](bool) {
      Expect e{.operand = 1, .want = w.values};
      for (const double m : w.magnitudes) e.bound.push_back(4 * f32_unit * std::abs(m));
      return std::vector{e};
    };
    const std::size_t per_row[] = {0, 1};
    return row ? take_row(p, *row, per_row) : p;
  };
  // Rows of packed matrices lie 16 together.
  return Case{"quantize", text, Op::dequantize, format, is_packed(format) ? 1 : rows, 0, prepare};
}

}  // namespace

void add_quantize(Set set, std::vector<Case>& cases) {
  std::vector<Format> blocks{DType::q8a}, all{DType::q8a};
  for (const Format format : weight_formats()) {
    if (info(format).block_elements == 1) continue;
    all.push_back(format);
    if (!is_packed(format)) blocks.push_back(format);
  }
  const std::size_t times = set == Set::full ? 8 : 1;
  draw(cases, "quantize", 130 * times, [&](Random& r, std::size_t i) {
    const Format format = blocks[i % blocks.size()];
    const std::uint32_t variant = r.below(5);
    const std::uint32_t k = info(format).block_elements * r.pick<std::uint32_t>({1, 2, 5});
    const auto rows = r.pick<std::uint32_t>({1, 2, 7, 33});
    return quantize_case(format, rows, k, variant);
  });
  draw(cases, "dequantize", 130 * times, [&](Random& r, std::size_t i) {
    const Format format = all[i % all.size()];
    const std::uint32_t variant = r.below(5);
    const std::uint32_t k = info(format).block_elements * r.pick<std::uint32_t>({1, 2, 5});
    const auto rows = r.pick<std::uint32_t>({1, 2, 7, 33});
    return dequantize_case(format, rows, k, variant);
  });
}

}  // namespace onepass::conformance
