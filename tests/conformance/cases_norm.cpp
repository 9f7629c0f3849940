#include "conformance/case.h"
#include "conformance/reference.h"
#include "ops/shared/forms.h"

namespace onepass::conformance {
namespace {

constexpr double u = f32_unit;

struct NormCase {
  DType type = DType::f32;
  std::optional<DType> weight{};
  std::uint32_t rows = 1, dim = 1;
  float eps = 1e-5f;
  std::size_t variant = 0;
  bool in_place = false;
  bool mul = false;  // followed by a product with one row of factors per row
};

Case norm_case(const NormCase& c) {
  const char* op = c.mul ? "rms_norm_mul" : c.weight ? "rms_norm" : "rms_norm_no_scale";
  std::string text = label(op, " ", name(c.type), " rows", c.rows, " dim", c.dim, " view+",
                           odd_offset(c.type, c.variant));
  if (c.weight) text += label(" weight ", name(*c.weight));
  if (c.eps != 1e-5f) text += " eps0";
  if (c.in_place) text += " in place";
  const auto prepare = [=](std::optional<std::uint32_t> row) {
    Random random(text);
    const Shape shape{c.rows, c.dim};
    const Stored x = random_values(random, c.type, shape.elements(), 3.0);
    const Stored w = random_values(random, c.weight.value_or(DType::f32), c.dim, 1.5);
    const Stored factors = random_values(random, c.type, shape.elements(), 1.0);
    Prepared p;
    p.add(input(c.type, shape, x.bytes, odd_offset(c.type, c.variant)));
    p.add(input(c.weight.value_or(DType::f32), {c.dim}, c.weight ? w.bytes : Bytes{},
                odd_offset(c.weight.value_or(DType::f32), c.variant + 1)));
    p.add(input(c.type, shape, c.mul ? factors.bytes : Bytes{}, odd_offset(c.type, c.variant + 3)));
    p.add(c.in_place ? in_place(p.operands, 0)
                     : output(c.type, shape, odd_offset(c.type, c.variant + 2)));
    p.encode = [c](GraphSession& s, Tensors t) {
      const Tensor normed = c.mul ? s.scratch(c.type, t[3].shape) : t[3];
      ops::rms_norm(s, {.x = t[0], .weight = t[1], .out = normed, .eps = c.eps});
      if (c.mul) ops::mul(s, {.a = normed, .b = t[2], .out = t[3]});
    };
    p.expect = [=](bool) {
      Expect e{.operand = 3, .want = Doubles(x.values.size()), .bound = Doubles(x.values.size())};
      for (std::uint32_t r = 0; r < c.rows; ++r) {
        const std::size_t at = std::size_t{r} * c.dim;
        rms_norm(&x.values[at], c.dim, static_cast<double>(c.eps),
                 c.weight ? w.values.data() : nullptr, &e.want[at], &e.bound[at]);
      }
      for (std::size_t i = 0; i < e.want.size(); ++i) {
        e.bound[i] += store_error(c.type, std::abs(e.want[i]) + e.bound[i]);
        if (!c.mul) continue;
        const double f = factors.values[i];
        e.want[i] *= f;
        e.bound[i] = e.bound[i] * std::abs(f) + u * std::abs(e.want[i]) + 0x1p-149;
        e.bound[i] += store_error(c.type, std::abs(e.want[i]) + e.bound[i]);
      }
      return std::vector{e};
    };
    const std::size_t per_row[] = {0, 2, 3};
    return row ? take_row(p, *row, per_row) : p;
  };
  Case made{"norm", text, Op::rms_norm, c.type, c.rows, c.mul ? 1u : 0u, prepare};
  made.form = c.mul ? ops::form_product : 0;
  return made;
}

enum class Kind { l2_norm, layer_norm, add_rms_norm, norm_add };

struct OtherNorm {
  Kind kind = Kind::l2_norm;
  DType type = DType::f32;
  std::optional<DType> weight{};
  bool bias = false;
  std::uint32_t rows = 1, dim = 1;
  std::size_t variant = 0;
  // Outputs in place: the sum of residual, out of x.
  bool sum_in_place = false, in_place = false;
};

void l2(const double* x, std::size_t dim, double* y, double* error) {
  double squares = 0.0;
  for (std::size_t i = 0; i < dim; ++i) squares += x[i] * x[i];
  for (std::size_t i = 0; i < dim; ++i) {
    y[i] = x[i] / std::sqrt(squares + static_cast<double>(1e-6f));
    error[i] = std::abs(y[i]) * (sum_error(dim) / 2 + 8 * u) + 0x1p-149;
  }
}

// The mean is off by m = sum_error of the mean magnitude; it shifts every difference and, through
// those, the variance.
void layer(const double* x, std::size_t dim, const double* w, const double* b, double* y,
           double* error) {
  const auto n = static_cast<double>(dim);
  double mean = 0.0, magnitude = 0.0, variance = 0.0, distance = 0.0;
  for (std::size_t i = 0; i < dim; ++i) {
    mean += x[i] / n;
    magnitude += std::abs(x[i]) / n;
  }
  for (std::size_t i = 0; i < dim; ++i) {
    variance += (x[i] - mean) * (x[i] - mean) / n;
    distance += std::abs(x[i] - mean) / n;
  }
  const double m = magnitude * sum_error(dim), v = variance + static_cast<double>(1e-5f);
  const double r = 1.0 / std::sqrt(v);
  const double of_variance = sum_error(dim) + (2 * (m + u * magnitude) * distance + 2 * m * m) / v;
  for (std::size_t i = 0; i < dim; ++i) {
    const double weight = w != nullptr ? w[i] : 1.0, bias = b != nullptr ? b[i] : 0.0;
    const double scaled = (x[i] - mean) * r * weight;
    y[i] = scaled + bias;
    error[i] = std::abs(scaled) * (of_variance / 2 + 8 * u) +
               (m + u * std::abs(x[i] - mean)) * r * std::abs(weight) + u * std::abs(y[i]) +
               0x1p-149;
  }
}

Case other_norm_case(const OtherNorm& c) {
  constexpr Op op_of[] = {Op::l2_norm, Op::layer_norm, Op::rms_norm, Op::rms_norm};
  constexpr const char* names[] = {"l2_norm", "layer_norm", "add_rms_norm", "norm_add"};
  constexpr std::uint32_t forms[] = {0, 0, ops::form_sum, ops::form_residual};
  const auto kind = static_cast<std::size_t>(c.kind);
  const Op op = op_of[kind];
  const std::uint32_t form = forms[kind];
  std::string text = label(names[kind], " ", name(c.type), " rows", c.rows, " dim", c.dim, " view+",
                           odd_offset(c.type, c.variant));
  if (c.weight) text += label(" weight ", name(*c.weight));
  if (c.bias) text += " bias";
  if (c.sum_in_place) text += " sum in place";
  if (c.in_place) text += " in place";
  const auto prepare = [=](std::optional<std::uint32_t> row) {
    Random random(text);
    const Shape shape{c.rows, c.dim};
    const DType w_type = c.weight.value_or(DType::f32);
    const Stored x = random_values(random, c.type, shape.elements(), 3.0);
    const Stored residual = random_values(random, c.type, shape.elements(), 2.0);
    const Stored w = random_values(random, w_type, c.dim, 1.5);
    const Stored b = random_values(random, w_type, c.dim, 1.0);
    const bool has_residual = c.kind == Kind::add_rms_norm || c.kind == Kind::norm_add;
    Prepared p;
    p.add(input(c.type, shape, x.bytes, odd_offset(c.type, c.variant)));
    p.add(input(c.type, shape, has_residual ? residual.bytes : Bytes{},
                odd_offset(c.type, c.variant + 1)));
    p.add(input(w_type, {c.dim}, c.weight ? w.bytes : Bytes{}, odd_offset(w_type, c.variant + 2)));
    p.add(input(w_type, {c.dim}, c.bias ? b.bytes : Bytes{}, odd_offset(w_type, c.variant + 3)));
    const auto place = [&](std::optional<std::size_t> of, std::size_t variant) {
      return of ? in_place(p.operands, *of) : output(c.type, shape, odd_offset(c.type, variant));
    };
    using Place = std::optional<std::size_t>;
    const std::size_t out = p.add(place(c.in_place ? Place(0) : Place(), c.variant + 4));
    if (c.kind == Kind::add_rms_norm) {
      p.add(place(c.sum_in_place ? Place(1) : Place(), c.variant + 5));
    }
    p.encode = [kind = c.kind](GraphSession& s, Tensors t) {
      switch (kind) {
        case Kind::l2_norm:
          return ops::l2_norm(s, {.x = t[0], .out = t[4]});
        case Kind::layer_norm:
          return ops::layer_norm(s, {.x = t[0], .weight = t[2], .bias = t[3], .out = t[4]});
        case Kind::norm_add:
          return ops::norm_add(s, {.x = t[0], .weight = t[2], .residual = t[1], .out = t[4]});
        default:
          return ops::add_rms_norm(
              s, {.x = t[0], .residual = t[1], .weight = t[2], .sum = t[5], .out = t[4]});
      }
    };
    p.expect = [=](bool) {
      const std::size_t n = x.values.size();
      const double* weight = c.weight ? w.values.data() : nullptr;
      Expect e{.operand = out, .want = Doubles(n), .bound = Doubles(n)};
      Expect sum{.operand = 5, .want = Doubles(n), .bound = Doubles(n)};
      Doubles source = x.values;
      if (c.kind == Kind::add_rms_norm) {
        // What is normed is the stored sum, rounded the same way everywhere.
        for (std::size_t i = 0; i < n; ++i) {
          sum.want[i] = x.values[i] + residual.values[i];
          sum.bound[i] = u * std::abs(sum.want[i]) + 0x1p-149;
          sum.bound[i] += store_error(c.type, std::abs(sum.want[i]) + sum.bound[i]);
        }
        const Doubles f32 = store(DType::f32, sum.want).values;
        source = store(c.type, f32).values;
      }
      for (std::uint32_t r = 0; r < c.rows; ++r) {
        const std::size_t at = std::size_t{r} * c.dim;
        if (c.kind == Kind::l2_norm) {
          l2(&source[at], c.dim, &e.want[at], &e.bound[at]);
        } else if (c.kind == Kind::layer_norm) {
          layer(&source[at], c.dim, weight, c.bias ? b.values.data() : nullptr, &e.want[at],
                &e.bound[at]);
        } else {
          rms_norm(&source[at], c.dim, static_cast<double>(1e-5f), weight, &e.want[at],
                   &e.bound[at]);
        }
      }
      for (std::size_t i = 0; i < n; ++i) {
        e.bound[i] += store_error(c.type, std::abs(e.want[i]) + e.bound[i]);
        if (c.kind != Kind::norm_add) continue;
        e.want[i] += residual.values[i];  // after a rounding to the type, as two ops would
        e.bound[i] += u * std::abs(e.want[i]) + 0x1p-149;
        e.bound[i] += store_error(c.type, std::abs(e.want[i]) + e.bound[i]);
      }
      return c.kind == Kind::add_rms_norm ? std::vector{e, sum} : std::vector{e};
    };
    std::vector<std::size_t> per_row{0, 4};
    if (has_residual) per_row.push_back(1);
    if (c.kind == Kind::add_rms_norm) per_row.push_back(5);
    return row ? take_row(p, *row, per_row) : p;
  };
  Case made{"norm", text, op, c.type, c.rows, 0, prepare};
  made.form = form;
  return made;
}

struct SoftmaxCase {
  DType type = DType::f32;
  std::uint32_t rows = 1, cols = 1;
  double spread = 1.0;
  std::size_t variant = 0;
  bool in_place = false;
  bool holes = false;  // some elements are minus infinity
  std::optional<DType> mask{};
  std::uint32_t mask_rows = 1;
  float scale = 1.0f;
};

Case softmax_case(const SoftmaxCase& c) {
  std::string text = label("softmax ", name(c.type), " rows", c.rows, " cols", c.cols, " spread",
                           c.spread, " view+", odd_offset(c.type, c.variant));
  if (c.holes) text += " holes";
  if (c.mask) text += label(" mask ", name(*c.mask), " ", c.mask_rows);
  if (c.scale != 1.0f) text += label(" scale", c.scale);
  if (c.in_place) text += " in place";
  const auto prepare = [=](std::optional<std::uint32_t> row) {
    Random random(text);
    const Shape shape{c.rows, c.cols};
    Doubles values = random_values(random, c.type, shape.elements(), c.spread).values;
    for (std::size_t i = 0; c.holes && i < values.size(); ++i) {
      if (i % c.cols != 0 && random.below(3) == 0) values[i] = -infinity;
    }
    const Stored x = store(c.type, values);
    // A causal sort of mask; its fifth row hides everything, which gives zeros.
    Doubles hidden = random_values(random, DType::f32, c.mask_rows * c.cols, 1.0).values;
    for (std::size_t i = 0; i < hidden.size(); ++i) {
      if (i % c.cols > i / c.cols * 2 || i / c.cols == 4) {
        hidden[i] = -infinity;
      }
    }
    const DType mask_type = c.mask.value_or(DType::f32);
    const Stored mask = store(mask_type, hidden);
    Prepared p;
    p.add(input(c.type, shape, x.bytes, odd_offset(c.type, c.variant)));
    p.add(c.in_place ? in_place(p.operands, 0)
                     : output(c.type, shape, odd_offset(c.type, c.variant + 2)));
    p.add(input(mask_type, {c.mask_rows, c.cols}, c.mask ? mask.bytes : Bytes{},
                odd_offset(mask_type, c.variant + 1)));
    p.encode = [scale = c.scale](GraphSession& s, Tensors t) {
      ops::softmax(s, {.x = t[0], .out = t[1], .mask = t[2], .scale = scale});
    };
    p.expect = [=](bool) {
      Expect e{.operand = 1};
      for (std::uint32_t r = 0; r < c.rows; ++r) {
        Doubles v(c.cols), rounding(c.cols);
        for (std::uint32_t i = 0; i < c.cols; ++i) {
          v[i] = x.values[std::size_t{r} * c.cols + i] * static_cast<double>(c.scale);
          if (c.scale != 1.0f && std::isfinite(v[i])) rounding[i] = 2 * u * std::abs(v[i]);
          if (!c.mask) continue;
          v[i] += mask.values[std::size_t{r % c.mask_rows} * c.cols + i];
          if (std::isfinite(v[i])) rounding[i] += 2 * u * std::abs(v[i]);
        }
        const double top = *std::max_element(v.begin(), v.end());
        const double off = *std::max_element(rounding.begin(), rounding.end());
        if (top == -infinity) {
          e.want.resize(e.want.size() + c.cols, 0.0);
          e.bound.resize(e.want.size(), 0.0);
          continue;
        }
        double total = 0.0, shift = 0.0;
        for (std::uint32_t i = 0; i < c.cols; ++i) {
          total += std::exp(v[i] - top);
          if (std::isfinite(v[i])) shift += std::exp(v[i] - top) * u * (top - v[i]);
        }
        for (std::uint32_t i = 0; i < c.cols; ++i) {
          const double y = std::exp(v[i] - top) / total;
          // x - top is rounded before it is raised; the sum carries the mean of those errors.
          const double argument = (std::isfinite(v[i]) ? u * (top - v[i]) : 0.0) + 3 * off;
          const double error =
              y * (argument + shift / total + sum_error(c.cols) + 10 * u) + 0x1p-126;
          e.want.push_back(y);
          e.bound.push_back(error + store_error(c.type, y + error));
        }
      }
      return std::vector{e};
    };
    const std::size_t per_row[] = {0, 1};
    return row ? take_row(p, *row, per_row) : p;
  };
  // Alone, a row would use the first row of the mask.
  const std::uint32_t rows = c.mask && c.mask_rows > 1 ? 1 : c.rows;
  return Case{"softmax", text, Op::softmax, c.type, rows, 0, prepare};
}

}  // namespace

void add_norm(Set set, std::vector<Case>& cases) {
  draw(cases, "norm", set == Set::full ? 2000 : 400, [](Random& r, std::size_t i) {
    NormCase c;
    c.type = float_types()[i % 3];
    c.mul = i % 5 == 4;
    const std::uint32_t weight = c.mul ? 1 + r.below(2) : r.below(3);
    if (weight != 0) c.weight = weight == 1 ? DType::f32 : c.type;
    c.rows = r.pick<std::uint32_t>({1, 2, 3, 7, 33});
    c.dim = r.pick<std::uint32_t>({1, 2, 7, 16, 31, 33, 64, 65, 100, 129, 256, 1000});
    c.eps = r.below(8) == 0 ? 0.0f : 1e-5f;
    c.variant = r.below(5);
    c.in_place = r.below(3) == 0;
    return norm_case(c);
  });
  draw(cases, "other norms", set == Set::full ? 1500 : 300, [](Random& r, std::size_t i) {
    OtherNorm c;
    c.kind = static_cast<Kind>(i % 4);
    c.type = float_types()[i / 4 % 3];
    const std::uint32_t weight = c.kind == Kind::l2_norm ? 0 : r.below(3);
    if (weight != 0) c.weight = weight == 1 ? DType::f32 : c.type;
    c.bias = c.kind == Kind::layer_norm && r.below(2) == 0;
    c.rows = r.pick<std::uint32_t>({1, 2, 3, 7, 33});
    c.dim = r.pick<std::uint32_t>({1, 2, 7, 16, 31, 33, 64, 65, 100, 129, 256, 1000});
    c.variant = r.below(5);
    c.in_place = r.below(3) == 0;
    c.sum_in_place = c.kind == Kind::add_rms_norm && r.below(2) == 0;
    return other_norm_case(c);
  });
}

void add_softmax(Set set, std::vector<Case>& cases) {
  draw(cases, "softmax", set == Set::full ? 1500 : 320, [](Random& r, std::size_t i) {
    SoftmaxCase c;
    c.type = float_types()[i % 3];
    c.rows = r.pick<std::uint32_t>({1, 2, 3, 7, 33});
    c.cols = r.pick<std::uint32_t>({1, 2, 7, 16, 31, 33, 64, 65, 100, 129, 257, 1024});
    c.spread = r.pick<double>({1, 10, 60});
    c.variant = r.below(5);
    c.in_place = r.below(3) == 0;
    c.holes = r.below(4) == 0;
    if (r.below(3) == 0) {
      c.mask = r.below(2) == 0 ? DType::f32 : DType::bf16;
      c.mask_rows = c.rows == 33 ? 11 : r.below(2) == 0 ? c.rows : 1;
    }
    if (r.below(3) == 0) c.scale = 0.125f;
    return softmax_case(c);
  });
}

}  // namespace onepass::conformance
