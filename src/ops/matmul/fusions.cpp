#include "ops/quantize/fusions.h"

#include <cstring>
#include <utility>

#include "ops/elementwise/params.h"
#include "ops/launch.h"
#include "ops/matmul/params.h"
#include "ops/norm/params.h"
#include "ops/shared/fusions.h"
#include "ops/shared/halves.h"

namespace onepass::ops {
namespace {

// A matmul as its slots: what is left out is an empty view.
struct Product {
  MatmulParams p;
  View views[matmul_norm + 1]{};

  explicit Product(const Dispatch& d) : p(d.params_as<MatmulParams>()) {
    for (std::size_t i = 0; i < d.n_views; ++i) views[i] = d.views[i];
  }
  bool has_only(op_u32 forms) const { return (p.form & ~forms) == 0; }
  std::uint32_t parts() const { return p.n2 != 0 ? 3 : p.n1 != 0 ? 2 : 1; }
  View& weight(op_u32 part) { return views[matmul_weight(part)]; }
  View& out(op_u32 part) { return views[matmul_out(part)]; }
  View& bias(op_u32 part) { return views[matmul_bias(part)]; }

  void store(const Dispatch& from, Dispatch& fused) const {
    fused.format = from.format;
    fused.set_params(p);
    std::size_t n = std::size(views);
    while (views[n - 1].bytes == 0) --n;
    for (std::size_t i = 0; i < n; ++i) fused.bind(views[i]);
  }
};

bool has_elements(const ElementwiseParams& p, std::uint64_t rows, std::uint64_t cols) {
  return join(p.n_lo, p.n_hi) == product({rows, cols});
}

}  // namespace

// matmul, then add of one row to every row of its output.
bool fuse_bias(const Dispatch& first, const Dispatch& second, Dispatch& fused) {
  Product f(first);
  const auto add = second.params_as<ElementwiseParams>();
  if (!f.has_only(0) || second.format != DType::f32 || second.views[0] != f.out(0)) return false;
  if (add.b_elements != f.p.n0 || !has_elements(add, f.p.m, f.p.n0)) return false;
  f.p.form |= form_bias;
  f.bias(0) = second.views[1];
  f.out(0) = second.views[2];
  f.store(first, fused);
  return true;
}

// matmul, perhaps with bias, then add of a tensor of its output's shape.
bool fuse_residual(const Dispatch& first, const Dispatch& second, Dispatch& fused) {
  Product f(first);
  const auto add = second.params_as<ElementwiseParams>();
  const bool left = second.views[0] == f.out(0), right = second.views[1] == f.out(0);
  if (!f.has_only(form_bias) || second.format != DType::f32 || left == right) return false;
  if (add.b_elements != 0 || !has_elements(add, f.p.m, f.p.n0)) return false;
  f.p.form |= form_residual;
  f.views[matmul_residual] = second.views[left ? 1 : 0];
  f.out(0) = second.views[2];
  f.store(first, fused);
  return true;
}

// Products of the same x, up to three.
bool fuse_parts(const Dispatch& first, const Dispatch& second, Dispatch& fused) {
  Product a(first), b(second);
  if (!a.has_only(form_parts | form_bias) || !b.has_only(form_parts | form_bias)) return false;
  if (first.format != second.format || a.views[matmul_x] != b.views[matmul_x]) return false;
  if (a.p.m != b.p.m || a.p.k != b.p.k || a.parts() + b.parts() > matmul_max_parts) return false;
  const std::uint32_t rows[] = {b.p.n0, b.p.n1};
  for (std::uint32_t i = 0; i < b.parts(); ++i) {
    const std::uint32_t part = a.parts();
    (part == 1 ? a.p.n1 : a.p.n2) = rows[i];
    a.weight(part) = b.weight(i);
    a.out(part) = b.out(i);
    a.bias(part) = b.bias(i);
  }
  a.p.form |= b.p.form | form_parts;
  a.store(first, fused);
  return true;
}

// Two matmul_id of the same x and experts with equally many rows.
bool fuse_id_parts(const Dispatch& first, const Dispatch& second, Dispatch& fused) {
  auto p = first.params_as<MatmulIdParams>();
  const auto q = second.params_as<MatmulIdParams>();
  if (p.product.form != 0 || first.format != second.format) return false;
  if (std::memcmp(&p, &q, sizeof p) != 0) return false;
  if (first.views[matmul_x] != second.views[matmul_x]) return false;
  if (first.views[matmul_ids] != second.views[matmul_ids]) return false;
  p.product.form = form_parts;
  p.product.n1 = p.product.n0;
  fused.format = first.format;
  fused.set_params(p);
  for (std::size_t i = 0; i < info(Op::matmul_id).n_slots; ++i) fused.bind(first.views[i]);
  fused.views[matmul_weight(1)] = second.views[matmul_weight(0)];
  fused.views[matmul_out(1)] = second.views[matmul_out(0)];
  return true;
}

// matmul with two parts of equal rows and silu_mul, gelu_mul or gelu_erf_mul of its outputs.
bool fuse_gate(const Dispatch& first, const Dispatch& second, Dispatch& fused) {
  Product f(first);
  if (!f.has_only(form_parts | form_bias) || f.parts() != 2 || f.p.n0 != f.p.n1) return false;
  if (second.format != DType::f32) return false;
  if (!has_elements(second.params_as<ElementwiseParams>(), f.p.m, f.p.n0)) return false;
  if (second.views[0] == f.out(1) && second.views[1] == f.out(0)) {
    std::swap(f.weight(0), f.weight(1));
    std::swap(f.bias(0), f.bias(1));
  } else if (second.views[0] != f.out(0) || second.views[1] != f.out(1)) {
    return false;
  }
  f.p.form |= form_product;
  f.p.activation = second.op == Op::silu_mul ? 0 : second.op == Op::gelu_mul ? 1 : 2;
  f.out(0) = second.views[2];
  f.out(1) = {};
  f.store(first, fused);
  return true;
}

// matmul with one output, then quantize of its rows.
bool fuse_matmul_quantized(const Dispatch& first, const Dispatch& second, Dispatch& fused) {
  Product f(first);
  const bool several = (f.p.form & form_parts) != 0 && (f.p.form & form_product) == 0;
  if (several || (f.p.form & form_quantized) != 0) return false;
  if (!quantizes(second, f.out(0), f.p.m, f.p.n0)) return false;
  f.p.form |= form_quantized;
  f.out(0) = second.views[1];
  f.store(first, fused);
  return true;
}

// rms_norm with quantized output, then products of it.
bool fuse_normed(const Dispatch& first, const Dispatch& second, Dispatch& fused) {
  const auto norm = first.params_as<RmsNormParams>();
  Product f(second);
  if (norm.form != form_quantized || (f.p.form & form_normed) != 0) return false;
  if (f.views[matmul_x] != first.views[norm_out]) return false;
  if (first.format != DType::f32 || norm.rows != f.p.m || norm.dim != f.p.k) return false;
  f.p.form |= form_normed;
  f.p.eps = norm.eps;
  f.views[matmul_x] = first.views[norm_x];
  f.views[matmul_norm] = first.views[norm_weight_slot];
  f.store(second, fused);
  return true;
}

}  // namespace onepass::ops
