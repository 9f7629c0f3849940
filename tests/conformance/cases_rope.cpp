#include "conformance/case.h"

namespace onepass::conformance {
namespace {

struct RopeCase {
  DType type = DType::f32;
  ops::RopeMode mode = ops::RopeMode::interleaved;
  std::uint32_t rows = 1, heads = 1, head_dim = 2, rope_dim = 0, n_rows = 1;
  float theta = 10000.0f;
  bool step = false, factors = false, in_place = false;
  std::uint32_t max_position = 100;
  std::size_t variant = 0;
  ops::RopeScaling scaling{};
};

std::string text_of(const RopeCase& c) {
  const char* modes[] = {"interleaved", "neox", "neox_full"};
  std::string text = label("rope ", name(c.type), " ", modes[static_cast<int>(c.mode)], " rows",
                           c.rows, " heads", c.heads, " dim", c.head_dim, " rot", c.rope_dim,
                           " below", c.max_position, " view+", odd_offset(c.type, c.variant));
  if (c.theta != 10000.0f) text += label(" theta", c.theta);
  if (c.factors) text += " factors";
  if (c.scaling.freq_scale != 1.0f) {
    text += label(c.scaling.ext_factor != 0.0f ? " yarn" : " linear", c.scaling.freq_scale);
  }
  if (c.scaling.attn_factor != 1.0f) text += label(" times", c.scaling.attn_factor);
  if (c.step) text += label(" step", c.n_rows);
  if (c.in_place) text += " in place";
  return text;
}

// Factor of an angle and of cosine and sine.
struct Stretch {
  double angle = 1.0, magnitude = 1.0;
};
Stretch stretch_of(const RopeCase& c, std::uint32_t pair, double dim) {
  const ops::RopeScaling& s = c.scaling;
  const double scale = static_cast<double>(s.freq_scale), ext = static_cast<double>(s.ext_factor);
  Stretch stretch{scale, static_cast<double>(s.attn_factor)};
  if (ext == 0.0) return stretch;
  const auto corner = [&](float turns) {
    const double angle = 2.0 * 3.14159265358979323846 * static_cast<double>(turns);
    return dim * std::log(s.n_ctx_orig / angle) / (2.0 * std::log(static_cast<double>(c.theta)));
  };
  const double lo = std::max(0.0, std::floor(corner(s.beta_fast)));
  const double hi = std::min(dim - 1.0, std::ceil(corner(s.beta_slow)));
  const double ramp = std::clamp((pair - lo) / std::max(0.001, hi - lo), 0.0, 1.0);
  const double r = ext * (1.0 - ramp);
  stretch.angle = scale * (1.0 - r) + r;
  stretch.magnitude *= 1.0 + 0.1 * std::log(1.0 / scale);
  return stretch;
}

Case rope_case(const RopeCase& c) {
  const std::string text = text_of(c);
  const auto prepare = [=](std::optional<std::uint32_t> row) {
    Random random(text);
    const Shape shape{c.rows, c.heads, c.head_dim};
    const Stored x = random_values(random, c.type, shape.elements(), 2.0);
    std::vector<std::uint32_t> positions(c.rows);
    for (std::uint32_t& at : positions) at = random.below(c.max_position);
    const std::uint32_t pairs = c.rope_dim / 2;
    Doubles factor(pairs, 1.0);
    for (double& f : factor) {
      if (c.factors) f = static_cast<double>(static_cast<float>(random.uniform(0.5, 9.0)));
    }
    Prepared p;
    p.add(input(c.type, shape, x.bytes, odd_offset(c.type, c.variant)));
    const auto step_of = [&](std::uint32_t first, std::uint32_t count) {
      std::vector<StepRow> rows;
      for (std::uint32_t r = first; r < first + count; ++r) rows.push_back({0, positions[r], 0, 0});
      return step_bytes(rows, {StepSlot{c.max_position, 0, 0, 0}}, std::min(c.n_rows, count));
    };
    p.add(c.step ? input(DType::u8, {1}, step_of(0, c.rows), 4)
                 : input(DType::u32, {c.rows}, words(positions), 4));
    p.add(input(DType::f32, {pairs}, c.factors ? store(DType::f32, factor).bytes : Bytes{}, 12));
    p.add(c.in_place ? in_place(p.operands, 0)
                     : output(c.type, shape, odd_offset(c.type, c.variant + 1)));
    p.encode = [c](GraphSession& s, Tensors t) {
      ops::rope(s, {.x = t[0],
                    .out = t[3],
                    .positions = t[1].view,
                    .positions_are_u32 = !c.step,
                    .theta = c.theta,
                    .mode = c.mode,
                    .rope_dim = c.rope_dim,
                    .freq_factors = t[2],
                    .scaling = c.scaling});
    };
    p.expect = [=](bool) {
      Expect e{.operand = 3, .want = x.values, .bound = Doubles(x.values.size())};
      const bool full = c.mode == ops::RopeMode::neox_full;
      const std::uint32_t distance = c.mode == ops::RopeMode::interleaved ? 1
                                     : full                               ? c.head_dim / 2
                                                                          : pairs;
      const std::uint32_t stride = c.mode == ops::RopeMode::interleaved ? 2 : 1;
      const double dim = full ? c.head_dim : c.rope_dim;
      const std::uint32_t active = c.step ? c.n_rows : c.rows;
      for (std::uint32_t r = 0; r < active * c.heads; ++r) {
        const std::uint32_t position = positions[r / c.heads];
        for (std::uint32_t i = 0; i < pairs; ++i) {
          const Stretch stretch = stretch_of(c, i, dim);
          const double angle = position * std::pow(static_cast<double>(c.theta), -2.0 * i / dim) /
                               factor[i] * stretch.angle;
          const double cosine = stretch.magnitude * std::cos(angle);
          const double sine = stretch.magnitude * std::sin(angle);
          const std::size_t lo = std::size_t{r} * c.head_dim + std::size_t{i} * stride;
          const double a = x.values[lo], b = x.values[lo + distance];
          e.want[lo] = a * cosine - b * sine;
          e.want[lo + distance] = a * sine + b * cosine;
          // Angles are kept to 2^-25 turns, cosine and sine to 2e-7.
          const double error = (std::abs(a) + std::abs(b)) * std::abs(stretch.magnitude) *
                               (2e-7 + 6.3 * 0x1p-25 + 1e-13 * position + 4 * f32_unit);
          for (const std::size_t at : {lo, lo + distance}) {
            e.bound[at] = error + store_error(c.type, std::abs(e.want[at]) + error);
          }
        }
      }
      const std::size_t row_bytes = x.bytes.size() / c.rows;
      if (active < c.rows) e.untouched.push_back({active * row_bytes, c.rows * row_bytes});
      return std::vector{e};
    };
    if (!row) return p;
    Prepared alone = take_row(p, *row, std::vector<std::size_t>{0, 3});
    alone.operands[1] = c.step ? input(DType::u8, {1}, step_of(*row, 1), 4)
                               : input(DType::u32, {1}, words({positions[*row]}), 4);
    return alone;
  };
  return Case{"rope", text, Op::rope, c.type, c.step ? c.n_rows : c.rows, 0, prepare};
}

}  // namespace

void add_rope(Set set, std::vector<Case>& cases) {
  draw(cases, "rope", set == Set::full ? 2000 : 360, [](Random& r, std::size_t i) {
    RopeCase c;
    c.type = float_types()[i % 3];
    c.mode = static_cast<ops::RopeMode>(r.below(3));
    c.rows = r.pick<std::uint32_t>({1, 2, 3, 7, 17});
    c.heads = r.pick<std::uint32_t>({1, 2, 3, 5});
    c.head_dim = r.pick<std::uint32_t>({2, 6, 8, 16, 34, 64, 80, 128});
    c.rope_dim = c.head_dim;
    if (r.below(3) == 0) c.rope_dim = (c.head_dim / 2 + 1) / 2 * 2;
    if (r.below(12) == 0) c.rope_dim = 2;
    c.theta = r.pick<float>({10000.0f, 10000.0f, 500000.0f, 1000000.0f});
    c.factors = r.below(3) == 0;
    c.step = r.below(2) == 0;
    c.n_rows = c.step && r.below(3) == 0 ? (c.rows + 1) / 2 : c.rows;
    c.in_place = r.below(2) == 0;
    c.max_position = r.pick<std::uint32_t>({1, 100, 4096, 131072});
    c.variant = r.below(5);
    if (r.below(4) == 0) {
      c.scaling.freq_scale = r.pick<float>({0.125f, 0.3f});
      c.scaling.ext_factor = r.pick<float>({0.0f, 1.0f, 0.5f});
      c.scaling.n_ctx_orig = 4096;
      c.scaling.attn_factor = r.pick<float>({1.0f, 1.25f});
    }
    return rope_case(c);
  });
}

}  // namespace onepass::conformance
