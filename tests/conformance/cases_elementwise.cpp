#include "conformance/case.h"

namespace onepass::conformance {
namespace {

constexpr double u = f32_unit;
constexpr float cap = 7.5f;

double silu(double x) { return x / (1.0 + std::exp(-x)); }
double gelu_inner(double x) { return 0.79788456080286536 * (x + 0.044715 * x * x * x); }
double gelu(double x) { return 0.5 * x * (1.0 + std::tanh(gelu_inner(x))); }

// y = f(a, b), off by at most error(a, b) in f32.
struct Elementwise {
  const char* name;
  Op op;
  bool binary;
  void (*encode)(GraphSession&, const Tensor& a, const Tensor& b, const Tensor& out);
  double (*f)(double a, double b);
  double (*error)(double a, double b);
};

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }
double gelu_erf(double x) { return 0.5 * x * std::erfc(-x / 1.4142135623730951); }

double relative(double y, double units) { return units * u * std::abs(y); }
double gelu_error(double x) {
  // 1 + tanh cancels where x is negative.
  const double t = std::tanh(gelu_inner(x));
  const double inner = (1.0 - t * t) * 6 * u * std::abs(gelu_inner(x)) + 8 * u;
  return 0.5 * std::abs(x) * inner + relative(gelu(x), 3);
}
// A fit of 5e-8 and a few roundings; the exponent -x^2 / 2 is rounded.
// A device may take what is smaller than the smallest normal number for 0, also before it is
// multiplied by x.
double gelu_erf_error(double x) {
  return relative(gelu_erf(x), 16 + x * x) + (1 + std::abs(x)) * 0x1p-126;
}

#define BINARY(op)                                           \
#op, Op::op, true,                                         \
      [](GraphSession & s, const Tensor& a, const Tensor& b, \
         const Tensor& o) { ops::op(s, {.a = a, .b = b, .out = o}); }
#define UNARY(op)                                          \
#op, Op::op, false,                                      \
      [](GraphSession & s, const Tensor& a, const Tensor&, \
         const Tensor& o) { ops::op(s, {.x = a, .out = o}); }
#define UNARY_WITH(op, field)                              \
#op, Op::op, false,                                      \
      [](GraphSession & s, const Tensor& a, const Tensor&, \
         const Tensor& o) { ops::op(s, {.x = a, .out = o, .field = cap}); }
const Elementwise list[] = {
    {BINARY(add), [](double a, double b) { return a + b; },
     [](double a, double b) { return relative(a + b, 1); }},
    {BINARY(mul), [](double a, double b) { return a * b; },
     [](double a, double b) { return relative(a * b, 1); }},
    {BINARY(silu_mul), [](double a, double b) { return silu(a) * b; },
     [](double a, double b) { return relative(silu(a) * b, 8); }},
    {BINARY(gelu_mul), [](double a, double b) { return gelu(a) * b; },
     [](double a, double b) { return gelu_error(a) * std::abs(b) + relative(gelu(a) * b, 1); }},
    {BINARY(gelu_erf_mul), [](double a, double b) { return gelu_erf(a) * b; },
     [](double a, double b) {
       return gelu_erf_error(a) * std::abs(b) + relative(gelu_erf(a) * b, 1);
     }},
    {BINARY(sigmoid_mul), [](double a, double b) { return sigmoid(a) * b; },
     [](double a, double b) { return relative(sigmoid(a) * b, 8); }},
    {UNARY(silu), [](double a, double) { return silu(a); },
     [](double a, double) { return relative(silu(a), 8); }},
    {UNARY(gelu), [](double a, double) { return gelu(a); },
     [](double a, double) { return gelu_error(a); }},
    {UNARY(gelu_erf), [](double a, double) { return gelu_erf(a); },
     [](double a, double) { return gelu_erf_error(a); }},
    {UNARY(relu2), [](double a, double) { return a > 0.0 ? a * a : 0.0; },
     [](double a, double) { return relative(a * a, 1); }},
    {UNARY(sigmoid), [](double a, double) { return sigmoid(a); },
     [](double a, double) { return relative(sigmoid(a), 8); }},
    {UNARY_WITH(softcap, cap),
     [](double a, double) {
       return static_cast<double>(cap) * std::tanh(a / static_cast<double>(cap));
     },
     [](double a, double) {
       return relative(static_cast<double>(cap) * std::tanh(a / static_cast<double>(cap)), 12);
     }},
    {UNARY_WITH(scale, factor), [](double a, double) { return static_cast<double>(cap) * a; },
     [](double a, double) { return relative(static_cast<double>(cap) * a, 1); }},
};
#undef BINARY
#undef UNARY
#undef UNARY_WITH

// repeat: b is one row, used for all.
Case elementwise_case(const Elementwise& e, DType type, std::uint32_t rows, std::uint32_t cols,
                      std::size_t variant, bool repeat = false) {
  // 0: separate outputs at odd offsets; 1: in place of a; 2: in place of b.
  const std::size_t place = variant % (e.binary && !repeat ? 3 : 2);
  const Shape shape{rows, cols};
  const std::size_t offset = odd_offset(type, variant);
  std::string text = label(e.name, " ", name(type), " ", rows, "x", cols, " view+", offset);
  if (repeat) text += " row";
  if (place != 0) text += place == 1 ? " in place" : " in place of b";
  const auto prepare = [=](std::optional<std::uint32_t>) {
    Random random(text);
    const Stored a = random_values(random, type, shape.elements(), 4.0);
    const Shape b_shape = repeat ? Shape{cols} : shape;
    const Stored b = random_values(random, type, b_shape.elements(), 2.0);
    Prepared p;
    p.add(input(type, shape, a.bytes, offset));
    if (e.binary) p.add(input(type, b_shape, b.bytes, odd_offset(type, variant + 1)));
    const std::size_t out = p.add(place == 0 ? output(type, shape, odd_offset(type, variant + 2))
                                             : in_place(p.operands, place - 1));
    p.encode = [e, out](GraphSession& s, Tensors t) { e.encode(s, t[0], t[1], t[out]); };
    p.expect = [=](bool) {
      Expect expect{.operand = out};
      for (std::size_t i = 0; i < a.values.size(); ++i) {
        const double other = b.values[repeat ? i % cols : i];
        const double y = e.f(a.values[i], other);
        expect.want.push_back(y);
        expect.bound.push_back(e.error(a.values[i], other) + 0x1p-149 +
                               store_error(type, std::abs(y) * (1.0 + 16 * u)));
      }
      return std::vector{expect};
    };
    return p;
  };
  return Case{"elementwise", text, e.op, type, 1, 0, prepare};
}

Case cast_case(DType from, DType to, std::uint32_t rows, std::uint32_t cols, std::size_t variant) {
  const Shape shape{rows, cols};
  const std::string text = label("cast ", name(from), " to ", name(to), " ", rows, "x", cols,
                                 " view+", odd_offset(from, variant));
  const auto prepare = [=](std::optional<std::uint32_t>) {
    Random random(text);
    const Stored x = random_values(random, from, shape.elements(), 1e5);
    Prepared p;
    p.add(input(from, shape, x.bytes, odd_offset(from, variant)));
    p.add(output(to, shape, odd_offset(to, variant + 1)));
    p.encode = [](GraphSession& s, Tensors t) { ops::cast(s, {.x = t[0], .out = t[1]}); };
    p.expect = [=](bool) {
      return std::vector{Expect{.operand = 1, .exact = store(to, x.values).bytes}};
    };
    return p;
  };
  return Case{"elementwise", text, Op::cast, from, 1, 0, prepare};
}

}  // namespace

void add_elementwise(Set set, std::vector<Case>& cases) {
  std::vector<std::uint32_t> widths{1, 7, 16, 33, 100, 257};
  if (set == Set::full) widths.insert(widths.end(), {2, 15, 17, 31, 64, 128, 1000, 4097});
  for (const Elementwise& e : list) {
    for (const DType type : float_types()) {
      for (const std::uint32_t rows : {1u, 5u}) {
        for (const std::uint32_t cols : widths) {
          const std::size_t variants = set == Set::full ? 5 : 2;
          for (std::size_t v = 0; v < variants; ++v) {
            cases.push_back(elementwise_case(e, type, rows, cols, v + cols % 5));
          }
          if (rows > 1 && (e.op == Op::add || e.op == Op::mul)) {
            cases.push_back(elementwise_case(e, type, rows, cols, cols % 5, true));
          }
        }
      }
    }
  }
  std::size_t variant = 0;
  for (const DType from : float_types()) {
    for (const DType to : float_types()) {
      for (const std::uint32_t cols : widths) {
        if (from != to) cases.push_back(cast_case(from, to, 3, cols, variant++));
      }
    }
  }
}

}  // namespace onepass::conformance
