// Kernels that only fusing reaches: their separate ops, recorded.
#include "conformance/cache.h"
#include "conformance/reference.h"
#include "ops/shared/forms.h"
#include "support/float64.h"

namespace onepass::conformance {
namespace {

constexpr double u = f32_unit;

enum class Form { bias, add, bias_add, two, three, silu, gelu, gelu_erf, silu_q };
constexpr Form forms[] = {Form::bias, Form::add,  Form::bias_add, Form::two,   Form::three,
                          Form::silu, Form::gelu, Form::gelu_erf, Form::silu_q};
constexpr const char* form_names[] = {"bias", "add",  "bias add", "two",     "three",
                                      "silu", "gelu", "gelu_erf", "silu q8a"};

// The form of the fused matmul, and what its cases are called.
std::uint32_t form_bits(Form form) {
  using namespace ops;
  switch (form) {
    case Form::bias:
      return form_bias;
    case Form::add:
      return form_residual;
    case Form::bias_add:
      return form_bias | form_residual;
    case Form::two:
      return form_parts;
    case Form::three:
      return form_parts | form_bias;
    case Form::silu_q:
      return form_parts | form_product | form_quantized;
    default:
      return form_parts | form_product;
  }
}
const char* case_name(Form form) {
  constexpr const char* names[] = {"matmul_bias", "matmul_add", "matmul_bias_add",
                                   "matmul_3",    "matmul_3",   "matmul_glu",
                                   "matmul_glu",  "matmul_glu", "matmul_glu_q"};
  return names[static_cast<std::size_t>(form)];
}
Case with_form(Case c, std::uint32_t form) {
  c.form = form;
  return c;
}

// The gate's activation and its error for a gate off by e.
struct Activation {
  double y, error;
};
Activation activate(Form form, double x, double e) {
  if (form == Form::silu || form == Form::silu_q) {
    const double y = x / (1.0 + std::exp(-x));
    return {y, 1.1 * e + 8 * u * std::abs(y)};
  }
  if (form == Form::gelu_erf) {
    const double y = 0.5 * x * std::erfc(-x / 1.4142135623730951);
    return {y, 1.2 * e + (16 + x * x) * u * std::abs(y) + 0x1p-126};
  }
  const double inner = 0.79788456080286536 * (x + 0.044715 * x * x * x);
  const double t = std::tanh(inner), y = 0.5 * x * (1.0 + t);
  return {y, 1.2 * e + 0.5 * std::abs(x) * ((1.0 - t * t) * 6 * u * std::abs(inner) + 8 * u) +
                 3 * u * std::abs(y)};
}

struct MatmulForm {
  Form form;
  Format format;
  std::uint32_t m, n, k;
  bool in_place;  // the sum in place of what is added
  std::size_t variant;
};

// Products of x with each weight; the first term of the error model in bound.
std::vector<Expect> products(const MatmulForm& c, const Doubles& x, const std::vector<Weights>& w,
                             bool quantized) {
  std::vector<Expect> list;
  for (const Weights& weight : w) {
    const std::size_t n = weight.values.size() / c.k;
    const Quantized q = quantized ? quantize_activations(x) : Quantized{x, {}};
    Product p = matmul(q.values, nullptr, weight.values, weight.magnitudes, c.m, n, c.k);
    Expect e{.want = std::move(p.want), .bound = std::move(p.magnitude)};
    for (double& b : e.bound) b = b * sum_error(c.k) + 0x1p-126;
    list.push_back(std::move(e));
  }
  return list;
}

// The expectation is for x as the kernel takes it: quantized by the reference where it is.
Case matmul_form(const MatmulForm& c) {
  const std::string text =
      label(case_name(c.form), " ", name(c.format), " ", form_names[static_cast<int>(c.form)], " m",
            c.m, " n", c.n, " k", c.k, c.in_place ? " in place" : "", " view+",
            odd_offset(c.format, c.variant));
  const auto prepare = [=](std::optional<std::uint32_t> row) {
    Random random(text);
    const bool has_bias = c.form == Form::bias || c.form == Form::bias_add;
    const bool has_residual = c.form == Form::add || c.form == Form::bias_add;
    const bool glu = c.form >= Form::silu;
    const std::size_t n_weights = c.form == Form::three ? 3 : c.form == Form::two || glu ? 2 : 1;
    const Shape out_shape{c.m, c.n};
    const Stored x = random_values(random, DType::f32, std::size_t{c.m} * c.k, 1.0);
    const Stored bias = random_values(random, DType::f32, c.n, 1.0);
    const Stored residual = random_values(random, DType::f32, out_shape.elements(), 1.0);
    const auto at = [&](std::size_t i) { return odd_offset(DType::f32, c.variant + i); };
    Prepared p;
    p.add(input(DType::f32, {c.m, c.k}, x.bytes, at(1)));
    p.add(input(DType::f32, {c.n}, has_bias ? bias.bytes : Bytes{}, at(2)));
    p.add(input(DType::f32, out_shape, has_residual ? residual.bytes : Bytes{}, at(3)));
    p.add(c.in_place && has_residual ? in_place(p.operands, 2)
          : c.form == Form::silu_q   ? output(DType::q8a, out_shape, 8)
                                     : output(DType::f32, out_shape, at(4)));
    std::vector<Weights> weights;
    std::vector<std::size_t> per_row{0, 3};
    if (has_residual) per_row.push_back(2);
    for (std::size_t i = 0; i < n_weights; ++i) {
      // Products beside each other may have different numbers of rows.
      const std::uint32_t n = glu || i == 0 ? c.n : c.n + 5 * static_cast<std::uint32_t>(i);
      weights.push_back(any_weights(random, c.format, 1, n, c.k));
      p.add(input(c.format, {n, c.k}, weights.back().bytes, odd_offset(c.format, c.variant + i)));
      if (!glu && i > 0) per_row.push_back(p.add(output(DType::f32, {c.m, n}, at(5))));
    }
    p.encode = [=](GraphSession& s, Tensors t) {
      const auto product = [&](const Tensor& weight, const Tensor& out) {
        ops::matmul(s, {.x = t[0], .weight = weight, .out = out});
      };
      const auto scratch = [&] { return s.scratch(DType::f32, t[3].shape); };
      if (c.form == Form::two || c.form == Form::three) {
        product(t[4], t[3]);
        product(t[5], t[6]);
        if (c.form == Form::three) product(t[7], t[8]);
      } else if (glu) {
        const Tensor gate = scratch(), up = scratch();
        const Tensor out = c.form == Form::silu_q ? scratch() : t[3];
        product(t[4], gate);
        product(t[5], up);
        const ops::Binary pair{.a = gate, .b = up, .out = out};
        c.form == Form::gelu       ? ops::gelu_mul(s, pair)
        : c.form == Form::gelu_erf ? ops::gelu_erf_mul(s, pair)
                                   : ops::silu_mul(s, pair);
        if (c.form == Form::silu_q) ops::quantize(s, {.x = out, .out = t[3]});
      } else {
        Tensor y = scratch();
        product(t[4], y);
        if (has_bias) {
          const Tensor sum = has_residual ? scratch() : t[3];
          ops::add(s, {.a = y, .b = t[1], .out = sum});
          y = sum;
        }
        if (has_residual) ops::add(s, {.a = t[2], .b = y, .out = t[3]});
      }
    };
    p.expect = [=](bool quantized) {
      std::vector<Expect> list = products(c, x.values, weights, quantized);
      if (c.form == Form::two || c.form == Form::three) {
        for (std::size_t i = 0; i < list.size(); ++i) list[i].operand = i == 0 ? 3 : 4 + 2 * i;
        return list;
      }
      Expect& e = list[0];
      e.operand = 3;
      for (std::size_t i = 0; i < e.want.size(); ++i) {
        if (glu) {
          const Activation a = activate(c.form, e.want[i], e.bound[i]);
          const double up = list[1].want[i], error = list[1].bound[i];
          e.want[i] = a.y * up;
          e.bound[i] =
              a.error * (std::abs(up) + error) + std::abs(a.y) * error + u * std::abs(e.want[i]);
        }
        if (has_bias) e.want[i] += bias.values[i % c.n];
        if (has_bias) e.bound[i] += u * std::abs(e.want[i]) * 1.01;
        if (has_residual) e.want[i] += residual.values[i];
        if (has_residual) e.bound[i] += u * std::abs(e.want[i]) * 1.01;
      }
      if (c.form == Form::silu_q) e.bound = q8a_error(e.want, e.bound);
      return std::vector{e};
    };
    return row ? take_row(p, *row, per_row) : p;
  };
  return with_form({"fused", text, Op::matmul, c.format, c.m, 1, prepare}, form_bits(c.form));
}

// rms_norm [of a sum that is kept], stored as q8a.
// kept: the norm is stored as well.
Case norm_q_case(bool sum, bool kept, std::uint32_t rows, std::uint32_t dim, std::size_t variant) {
  const std::string text =
      label(sum ? "add_rms_norm_q" : "rms_norm_q", kept ? " kept" : "", " rows", rows, " dim", dim,
            " view+", odd_offset(DType::f32, variant));
  const auto prepare = [=](std::optional<std::uint32_t> row) {
    Random random(text);
    const Shape shape{rows, dim};
    const Stored x = random_values(random, DType::f32, shape.elements(), 2.0);
    const Stored other = random_values(random, DType::f32, shape.elements(), 2.0);
    const Stored w = random_values(random, DType::f32, dim, 1.0);
    const auto at = [&](std::size_t i) { return odd_offset(DType::f32, variant + i); };
    Prepared p;
    p.add(input(DType::f32, shape, x.bytes, at(0)));
    p.add(input(DType::f32, {dim}, w.bytes, at(1)));
    p.add(output(DType::q8a, shape, 8));
    std::vector<std::size_t> per_row{0, 2};
    if (sum) {
      per_row.push_back(p.add(input(DType::f32, shape, other.bytes, at(2))));
      per_row.push_back(p.add(output(DType::f32, shape, at(3))));
    }
    const std::size_t plain = kept ? p.add(output(DType::f32, shape, at(4))) : 0;
    if (kept) per_row.push_back(plain);
    p.encode = [=](GraphSession& s, Tensors t) {
      if (sum) ops::add(s, {.a = t[0], .b = t[3], .out = t[4]});
      const Tensor normed = kept ? t[plain] : s.scratch(DType::f32, t[0].shape);
      ops::rms_norm(s, {.x = sum ? t[4] : t[0], .weight = t[1], .out = normed});
      ops::quantize(s, {.x = normed, .out = t[2]});
    };
    p.expect = [=](bool) {
      Doubles source = x.values;
      for (std::size_t i = 0; sum && i < source.size(); ++i) source[i] += other.values[i];
      source = store(DType::f32, source).values;
      Expect e{.operand = 2, .want = Doubles(source.size()), .bound = Doubles(source.size())};
      for (std::size_t r = 0; r < rows; ++r) {
        rms_norm(&source[r * dim], dim, static_cast<double>(1e-5f), w.values.data(),
                 &e.want[r * dim], &e.bound[r * dim]);
      }
      std::vector<Expect> list;
      if (kept) list.push_back(Expect{.operand = plain, .want = e.want, .bound = e.bound});
      e.bound = q8a_error(e.want, e.bound);
      list.push_back(e);
      if (sum) {
        list.push_back(Expect{.operand = 4, .exact = store(DType::f32, source).bytes});
      }
      return list;
    };
    return row ? take_row(p, *row, per_row) : p;
  };
  return with_form({"fused", text, Op::rms_norm, DType::f32, rows, 1, prepare},
                   ops::form_quantized | (sum ? ops::form_sum : 0));
}

struct NormMatmul {
  Form form;  // add: one product; two; three: with a bias for the second; silu_q
  Format format;
  std::uint32_t n, k;
  std::size_t variant;
};

// The expectation is for what the kernel computes: x times the norm's weight quantized, the norm's
// factor times the products.
Case norm_matmul_case(const NormMatmul& c) {
  const std::uint32_t form = ops::form_normed | (c.form == Form::add ? 0 : form_bits(c.form));
  const char* op = c.form == Form::silu_q ? "norm_matmul_glu_q"
                   : c.form == Form::add  ? "norm_matmul"
                                          : "norm_matmul_3";
  const std::string text = label(op, " ", name(c.format), " ",
                                 c.form == Form::add ? "one" : form_names[static_cast<int>(c.form)],
                                 " n", c.n, " k", c.k, " view+", 16 * c.variant);
  const auto prepare = [=](std::optional<std::uint32_t>) {
    Random random(text);
    const bool glu = c.form == Form::silu_q;
    const std::size_t n_weights = c.form == Form::add ? 1 : c.form == Form::three ? 3 : 2;
    const auto at = [&](std::size_t i) { return 16 * ((c.variant * (i + 1)) % 5); };
    const Stored x = random_values(random, DType::f32, c.k, 2.0);
    const Stored w = random_values(random, DType::f32, c.k, 1.0);
    const Stored bias = random_values(random, DType::f32, c.n + 5, 1.0);
    Prepared p;
    p.add(input(DType::f32, {1, c.k}, x.bytes, at(0)));
    p.add(input(DType::f32, {c.k}, w.bytes, at(1)));
    p.add(input(DType::f32, {c.n + 5}, c.form == Form::three ? bias.bytes : Bytes{},
                odd_offset(DType::f32, c.variant)));
    p.add(glu ? output(DType::q8a, {1, c.n}, 8)
              : output(DType::f32, {1, c.n}, odd_offset(DType::f32, c.variant)));
    std::vector<Weights> weights;
    for (std::size_t i = 0; i < n_weights; ++i) {
      const std::uint32_t n = glu ? c.n : c.n + 5 * static_cast<std::uint32_t>(i);
      weights.push_back(any_weights(random, c.format, 1, n, c.k));
      p.add(input(c.format, {n, c.k}, weights.back().bytes, at(2 + i)));
      if (!glu && i > 0) p.add(output(DType::f32, {1, n}, odd_offset(DType::f32, c.variant + i)));
    }
    p.encode = [=](GraphSession& s, Tensors t) {
      const auto scratch = [&](const Tensor& like) { return s.scratch(DType::f32, like.shape); };
      const Tensor normed = scratch(t[0]);
      const auto product = [&](const Tensor& weight, const Tensor& out) {
        ops::matmul(s, {.x = normed, .weight = weight, .out = out});
      };
      ops::rms_norm(s, {.x = t[0], .weight = t[1], .out = normed});
      if (glu) {
        const Tensor gate = scratch(t[3]), up = scratch(t[3]), gated = scratch(t[3]);
        product(t[4], gate);
        product(t[5], up);
        ops::silu_mul(s, {.a = gate, .b = up, .out = gated});
        ops::quantize(s, {.x = gated, .out = t[3]});
        return;
      }
      product(t[4], t[3]);
      if (c.form == Form::two) product(t[5], t[6]);
      if (c.form != Form::three) return;
      product(t[7], t[8]);
      const Tensor y = scratch(t[6]);
      product(t[5], y);
      ops::add(s, {.a = y, .b = t[2], .out = t[6]});
    };
    p.expect = [=](bool) {
      Doubles scaled(c.k);
      for (std::size_t i = 0; i < c.k; ++i) scaled[i] = x.values[i] * w.values[i];
      const double factor =
          test::rms_factor(std::span(x.values).first(c.k), static_cast<double>(1e-5f));
      const Quantized q = quantize_activations(store(DType::f32, scaled).values);
      std::vector<Expect> list;
      for (std::size_t i = 0; i < n_weights; ++i) {
        const std::size_t n = weights[i].values.size() / c.k;
        Product r = matmul(q.values, nullptr, weights[i].values, weights[i].magnitudes, 1, n, c.k);
        Expect e{.operand = i == 0 ? 3 : 4 + 2 * i, .want = r.want, .bound = r.magnitude};
        for (std::size_t j = 0; j < n; ++j) {
          e.want[j] *= factor;
          // Of the products' sum, of the factor, whose root halves its error, and of both together.
          e.bound[j] = 1.01 * factor * (e.bound[j] * (1.5 * sum_error(c.k) + 4 * u)) + 0x1p-126;
          if (c.form == Form::three && i == 1) {
            e.want[j] += bias.values[j];
            e.bound[j] += u * std::abs(e.want[j]) * 1.01;
          }
        }
        list.push_back(std::move(e));
      }
      if (!glu) return list;
      Expect& e = list[0];
      for (std::size_t i = 0; i < e.want.size(); ++i) {
        const Activation a = activate(c.form, e.want[i], e.bound[i]);
        const double up = list[1].want[i], error = list[1].bound[i];
        e.want[i] = a.y * up;
        e.bound[i] =
            a.error * (std::abs(up) + error) + std::abs(a.y) * error + u * std::abs(e.want[i]);
      }
      e.bound = q8a_error(e.want, e.bound);
      return std::vector{e};
    };
    return p;
  };
  return with_form({"fused", text, Op::matmul, c.format, 1, 1, prepare, true}, form);
}

struct RopeStoreCase {
  DType k_type = DType::f32, v_type = DType::f32;
  std::uint32_t rows = 1, n_rows = 1, heads = 2, kv_heads = 1, head_dim = 32;
  bool norms = true, interleaved = false;
  std::size_t variant = 0;
};

// x [rows, heads, dim] normed and rotated, with its error.
Expect rotated(const Stored& x, const Doubles& weight, const RopeStoreCase& c, std::uint32_t heads,
               const std::vector<StepRow>& rows) {
  const std::size_t n = x.values.size(), dim = c.head_dim;
  Expect e{.want = x.values, .bound = Doubles(n)};
  for (std::size_t head = 0; head < n / dim; ++head) {
    double* y = &e.want[head * dim];
    double* error = &e.bound[head * dim];
    if (c.norms)
      rms_norm(&x.values[head * dim], dim, static_cast<double>(1e-5f), weight.data(), y, error);
    const std::uint32_t position = rows[head / heads].position;
    for (std::size_t i = 0; i < dim / 2; ++i) {
      const double angle =
          position * std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(dim));
      const std::size_t lo = c.interleaved ? 2 * i : i, hi = c.interleaved ? lo + 1 : i + dim / 2;
      const double a = y[lo], b = y[hi];
      y[lo] = a * std::cos(angle) - b * std::sin(angle);
      y[hi] = a * std::sin(angle) + b * std::cos(angle);
      error[lo] = error[hi] =
          error[lo] + error[hi] +
          (std::abs(a) + std::abs(b)) * (2e-7 + 6.3 * 0x1p-25 + 1e-13 * position + 4 * u);
    }
  }
  return e;
}

// The cache after rows of x were stored; the others untouched.
Expect stored(const Cache& cache, DType type, const Expect& x, std::uint32_t n_rows,
              const std::vector<StepRow>& rows, std::size_t cache_bytes) {
  const std::size_t n = cache.shape().elements(), dim = cache.head_dim;
  Expect e{.want = Doubles(n), .bound = Doubles(n)};
  std::vector<bool> touched(n / dim);
  for (std::uint32_t r = 0; r < n_rows; ++r) {
    for (std::uint32_t h = 0; h < cache.kv_heads; ++h) {
      const std::size_t to = *cache.row(rows[r].slot, h, rows[r].position);
      const std::size_t from = (std::size_t{r} * cache.kv_heads + h) * dim;
      touched[to] = true;
      for (std::size_t i = 0; i < dim; ++i) {
        double top = 0.0;  // of the element's block
        for (std::size_t j = i / 32 * 32; j < std::min(i / 32 * 32 + 32, dim); ++j) {
          top = std::max(top, std::abs(x.want[from + j]) + x.bound[from + j]);
        }
        const double step = top / 127.0;
        const double error = x.bound[from + i];
        e.want[to * dim + i] = x.want[from + i];
        e.bound[to * dim + i] =
            error + (is_block_format(type) ? 0.50002 * step + 127.1 * store_error(DType::f16, step)
                                           : store_error(type, std::abs(x.want[from + i]) + error));
      }
    }
  }
  const std::size_t row_bytes = cache_bytes / (n / dim);
  for (std::size_t i = 0; i < touched.size(); ++i) {
    if (!touched[i]) e.untouched.push_back({i * row_bytes, (i + 1) * row_bytes});
  }
  return e;
}

Case rope_store_case(const RopeStoreCase& c) {
  std::string text = label("rope_store ", name(c.k_type), " ", name(c.v_type), " rows", c.rows,
                           " n", c.n_rows, " heads", c.heads, "/", c.kv_heads, " dim", c.head_dim,
                           " view+", odd_offset(c.k_type, c.variant));
  if (c.norms) text += " norms";
  if (c.interleaved) text += " interleaved";
  const auto prepare = [=](std::optional<std::uint32_t>) {
    Random random(text);
    const Cache cache{CacheKind::linear, 2, c.kv_heads, 16, c.head_dim};
    const Shape q_shape{c.rows, c.heads, c.head_dim}, k_shape{c.rows, c.kv_heads, c.head_dim};
    const auto values = [&](std::size_t n) { return random_values(random, DType::f32, n, 1.5); };
    const Stored q = values(q_shape.elements()), k = values(k_shape.elements());
    const Stored v = values(k_shape.elements()), qw = values(c.head_dim), kw = values(c.head_dim);
    std::vector<StepRow> rows(c.rows);
    const std::uint32_t first = random.below(16 - c.rows);
    for (std::uint32_t r = 0; r < c.rows; ++r) rows[r] = {0, first + r, random.below(2), 0};
    Prepared p;
    const auto at = [&](std::size_t i) { return odd_offset(DType::f32, c.variant + i); };
    p.add(input(DType::f32, q_shape, q.bytes, at(0)));
    p.add(input(DType::f32, k_shape, k.bytes, at(1)));
    p.add(input(DType::f32, k_shape, v.bytes, at(2)));
    p.add(input(DType::f32, {c.head_dim}, c.norms ? qw.bytes : Bytes{}, at(3)));
    p.add(input(DType::f32, {c.head_dim}, c.norms ? kw.bytes : Bytes{}, at(4)));
    p.add(input(DType::u8, {1}, step_bytes(rows, std::vector<StepSlot>(2), c.n_rows), 4));
    p.add(output(DType::f32, q_shape, at(5)));
    for (const DType type : {c.k_type, c.v_type}) {
      Bytes before(storage_bytes(type, cache.shape()).value_or(0));
      for (std::byte& b : before) b = static_cast<std::byte>(random.next());
      Operand kept = input(type, cache.shape(), before, odd_offset(type, c.variant));
      kept.role = Role::in_out;
      p.add(kept);
    }
    p.encode = [c](GraphSession& s, Tensors t) {
      const auto rope = [&](const Tensor& x, const Tensor& weight, const Tensor& out) {
        Tensor normed = x;
        if (c.norms) {
          normed = s.scratch(DType::f32, x.shape);
          ops::rms_norm(s, {.x = x, .weight = weight, .out = normed});
        }
        ops::rope(s, {.x = normed,
                      .out = out,
                      .positions = t[5].view,
                      .mode = c.interleaved ? ops::RopeMode::interleaved : ops::RopeMode::neox});
      };
      const Tensor keys = s.scratch(DType::f32, t[1].shape);
      rope(t[0], t[3], t[6]);
      rope(t[1], t[4], keys);
      ops::kv_store(s, {.x = keys, .cache = t[7], .step = t[5].view});
      ops::kv_store(s, {.x = t[2], .cache = t[8], .step = t[5].view});
    };
    const std::size_t k_bytes = p.operands[7].bytes.size(), v_bytes = p.operands[8].bytes.size();
    p.expect = [=](bool) {
      Expect queries = rotated(q, qw.values, c, c.heads, rows);
      queries.operand = 6;
      const std::size_t row_bytes = q.bytes.size() / c.rows;
      if (c.n_rows < c.rows) {
        queries.untouched.push_back({c.n_rows * row_bytes, c.rows * row_bytes});
      }
      Expect keys = stored(cache, c.k_type, rotated(k, kw.values, c, c.kv_heads, rows), c.n_rows,
                           rows, k_bytes);
      keys.operand = 7;
      Expect kept =
          stored(cache, c.v_type, Expect{.want = v.values, .bound = Doubles(v.values.size())},
                 c.n_rows, rows, v_bytes);
      kept.operand = 8;
      return std::vector{queries, keys, kept};
    };
    return p;
  };
  return Case{"fused", text, Op::rope_store, c.k_type, 1, 1, prepare};
}

}  // namespace

void add_fused(Set set, std::vector<Case>& cases) {
  const std::size_t times = set == Set::full ? 6 : 1;
  const std::vector<Format>& formats = weight_formats();
  draw(cases, "matmul forms", 2 * std::size(forms) * formats.size() * times,
       [&](Random& r, std::size_t i) {
         MatmulForm c{};
         c.form = forms[i % std::size(forms)];
         c.format = formats[i / std::size(forms) % formats.size()];
         if (c.form == Form::silu_q && !is_packed(c.format)) c.form = Form::silu;
         c.m = r.pick<std::uint32_t>({1, 2, 7, 33});
         c.n = c.form == Form::silu_q ? 32 * r.pick<std::uint32_t>({1, 2, 3})
                                      : r.pick<std::uint32_t>({1, 17, 33, 64});
         c.k = info(c.format).block_elements * r.pick<std::uint32_t>({1, 2});
         if (info(c.format).block_elements == 1) c.k = r.pick<std::uint32_t>({33, 100, 256});
         c.in_place = r.below(2) == 0;
         c.variant = r.below(5);
         return matmul_form(c);
       });
  draw(cases, "norm q", 60 * times, [](Random& r, std::size_t i) {
    const std::uint32_t variant = r.below(5);
    const auto dim = r.pick<std::uint32_t>({32, 64, 96, 256, 1024});
    const auto rows = r.pick<std::uint32_t>({1, 2, 7, 33});
    return norm_q_case(i % 2 == 0, i / 2 % 2 == 0, rows, dim, variant);
  });
  std::vector<Format> split;
  for (const Format format : formats) {
    if (format.layout == Layout::s16) split.push_back(format);
  }
  draw(cases, "norm matmul", 12 * split.size() * times, [&](Random& r, std::size_t i) {
    constexpr Form of[] = {Form::add, Form::two, Form::three, Form::silu_q};
    NormMatmul c{};
    c.form = of[i % 4];
    c.format = split[i / 4 % split.size()];
    c.n = c.form == Form::silu_q ? 32 * r.pick<std::uint32_t>({1, 2, 3, 5})
                                 : r.pick<std::uint32_t>({1, 17, 33, 64, 301});
    c.k = info(c.format).block_elements * r.pick<std::uint32_t>({1, 2, 5, 18});
    c.variant = r.below(5);
    return norm_matmul_case(c);
  });
  draw(cases, "rope store", 60 * times, [](Random& r, std::size_t i) {
    static const std::vector<DType> types{DType::f32, DType::f16, DType::q8_0};
    RopeStoreCase c;
    c.k_type = types[i % 3];
    c.v_type = types[i / 3 % 3];
    c.rows = r.pick<std::uint32_t>({1, 2, 5});
    c.n_rows = r.below(3) == 0 ? (c.rows + 1) / 2 : c.rows;
    c.kv_heads = r.pick<std::uint32_t>({1, 2});
    c.heads = c.kv_heads * r.pick<std::uint32_t>({1, 3});
    c.head_dim = r.pick<std::uint32_t>({32, 64, 96});
    c.norms = r.below(2) == 0;
    c.interleaved = r.below(2) == 0;
    c.variant = r.below(5);
    return rope_store_case(c);
  });
}

}  // namespace onepass::conformance
