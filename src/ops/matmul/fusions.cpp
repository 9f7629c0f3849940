#include "ops/matmul/fusions.h"

#include "ops/elementwise/params.h"
#include "ops/launch.h"
#include "ops/matmul/kernels.h"
#include "ops/matmul/params.h"
#include "ops/norm/params.h"
#include "ops/quantize/params.h"
#include "ops/shared/halves.h"

namespace onepass::ops {
namespace {

// One product of a dispatch: its weight, bias or none, output and rows.
struct Part {
  View weight, bias, out;
  std::uint32_t n = 0;
};

struct Parts {
  View x;
  std::uint32_t m = 0, k = 0;
  Part part[3];
  std::uint32_t count = 0;
};

Parts parts_of(const Dispatch& d) {
  Parts p;
  p.x = d.views[0];
  if (d.op == Op::matmul_3) {
    const auto params = d.params_as<Matmul3Params>();
    p.m = params.m;
    p.k = params.k;
    const std::uint32_t n[3] = {params.n0, params.n1, params.n2};
    for (std::size_t i = 0; i < 3 && n[i] != 0; ++i) {
      p.part[p.count++] = {d.views[1 + i], d.views[4 + i], d.views[7 + i], n[i]};
    }
    return p;
  }
  const auto params = d.params_as<MatmulParams>();
  p.m = params.m;
  p.k = params.k;
  p.count = 1;
  p.part[0].weight = d.views[1];
  p.part[0].n = params.n;
  if (d.op == Op::matmul_bias) {
    p.part[0].bias = d.views[2];
    p.part[0].out = d.views[3];
  } else {
    p.part[0].out = d.views[2];
  }
  return p;
}

bool join_parts(const Dispatch& first, const Dispatch& second, Dispatch& fused) {
  if (first.format != second.format) return false;
  Parts a = parts_of(first);
  const Parts b = parts_of(second);
  if (a.x != b.x || a.m != b.m || a.k != b.k || a.count + b.count > 3) return false;
  for (std::uint32_t i = 0; i < b.count; ++i) a.part[a.count++] = b.part[i];
  fused.format = first.format;
  fused.set_params(Matmul3Params{a.m, a.k, a.part[0].n, a.part[1].n, a.part[2].n});
  fused.bind(a.x);
  for (const Part& p : a.part) fused.bind(p.weight);
  for (const Part& p : a.part) fused.bind(p.bias);
  for (const Part& p : a.part) fused.bind(p.out);
  return true;
}

// The operand of a binary elementwise f32 dispatch that is not `known`, if `known` is one.
const View* other_operand(const Dispatch& d, const View& known) {
  if (d.format != DType::f32 || (d.views[0] == known) == (d.views[1] == known)) return nullptr;
  return &d.views[d.views[0] == known ? 1 : 0];
}

bool has_elements(const ElementwiseParams& p, std::uint64_t rows, std::uint64_t cols) {
  return join(p.n_lo, p.n_hi) == product({rows, cols});
}

// Whether x of a product of one row is what `norm` stores, and everything is where the fused
// kernels can read it. weights: views 1 .. of the product.
bool norm_fits(const Dispatch& norm, const Dispatch& product, std::uint32_t m, std::uint32_t k,
               std::size_t weights) {
  const auto p = norm.params_as<RmsNormParams>();
  const std::uint64_t bytes = matrix_bytes(DType::f32, 1, k);
  if (norm.format != DType::f32 || p.rows != 1 || m != 1 || p.dim != k || k % 32 != 0 ||
      k > norm_matmul_max_k || product.views[0] != norm.views[2] || norm.views[0].bytes != bytes ||
      norm.views[1].bytes != bytes) {
    return false;
  }
  bool aligned = norm.views[0].offset % 16 == 0 && norm.views[1].offset % 16 == 0;
  for (std::size_t i = 1; i <= weights; ++i) aligned &= product.views[i].offset % 16 == 0;
  return aligned;
}

// The views of the product with x instead of norm(x), and the norm's weight.
void bind_normed(const Dispatch& norm, const Dispatch& product, Dispatch& fused) {
  fused.format = product.format;
  fused.bind(norm.views[0]);
  for (std::size_t i = 1; i < product.n_views; ++i) fused.bind(product.views[i]);
  fused.bind(norm.views[1]);
}

}  // namespace

bool fuse_matmul_bias(const Dispatch& first, const Dispatch& second, Dispatch& fused) {
  const auto p = first.params_as<MatmulParams>();
  const auto add = second.params_as<ElementwiseParams>();
  if (second.format != DType::f32 || second.views[0] != first.views[2]) return false;
  if (add.b_elements != p.n || !has_elements(add, p.m, p.n)) return false;
  fused.format = first.format;
  fused.set_params(p);
  fused.bind(first.views[0]);
  fused.bind(first.views[1]);
  fused.bind(second.views[1]);
  fused.bind(second.views[2]);
  return true;
}

bool fuse_matmul_add(const Dispatch& first, const Dispatch& second, Dispatch& fused) {
  const auto p = first.params_as<MatmulParams>();
  const auto add = second.params_as<ElementwiseParams>();
  const View* const residual = other_operand(second, first.views[2]);
  if (residual == nullptr || add.b_elements != 0 || !has_elements(add, p.m, p.n)) return false;
  fused.format = first.format;
  fused.set_params(p);
  fused.bind(first.views[0]);
  fused.bind(first.views[1]);
  fused.bind(*residual);
  fused.bind(second.views[2]);
  return true;
}

bool fuse_matmul_bias_add(const Dispatch& first, const Dispatch& second, Dispatch& fused) {
  const auto p = first.params_as<MatmulParams>();
  const auto add = second.params_as<ElementwiseParams>();
  const View* const residual = other_operand(second, first.views[3]);
  if (residual == nullptr || add.b_elements != 0 || !has_elements(add, p.m, p.n)) return false;
  fused.format = first.format;
  fused.set_params(p);
  for (std::size_t i = 0; i < 3; ++i) fused.bind(first.views[i]);
  fused.bind(*residual);
  fused.bind(second.views[2]);
  return true;
}

bool fuse_matmul_pair(const Dispatch& first, const Dispatch& second, Dispatch& fused) {
  return join_parts(first, second, fused);
}

bool fuse_matmul_triple(const Dispatch& first, const Dispatch& second, Dispatch& fused) {
  return join_parts(first, second, fused);
}

bool fuse_matmul_glu(const Dispatch& first, const Dispatch& second, Dispatch& fused) {
  const Parts p = parts_of(first);
  if (p.count != 2 || p.part[0].n != p.part[1].n || second.format != DType::f32) return false;
  if (p.part[0].bias.bytes != 0 || p.part[1].bias.bytes != 0) return false;
  if (!has_elements(second.params_as<ElementwiseParams>(), p.m, p.part[0].n)) return false;
  const std::size_t gate = second.views[0] == p.part[0].out ? 0 : 1;
  if (second.views[0] != p.part[gate].out || second.views[1] != p.part[1 - gate].out) return false;
  const std::uint32_t activation = second.op == Op::silu_mul   ? 0
                                   : second.op == Op::gelu_mul ? 1
                                                               : 2;
  fused.format = first.format;
  fused.set_params(MatmulGluParams{p.m, p.part[0].n, p.k, activation});
  fused.bind(p.x);
  fused.bind(p.part[gate].weight);
  fused.bind(p.part[1 - gate].weight);
  fused.bind(second.views[2]);
  return true;
}

bool fuse_matmul_glu_q(const Dispatch& first, const Dispatch& second, Dispatch& fused) {
  const auto p = first.params_as<MatmulGluParams>();
  const auto q = second.params_as<QuantizeParams>();
  if (second.format != DType::q8a || q.rows != p.m || q.cols != p.n) return false;
  fused.format = first.format;
  fused.set_params(p);
  for (std::size_t i = 0; i < 3; ++i) fused.bind(first.views[i]);
  fused.bind(second.views[1]);
  return true;
}

bool fuse_norm_matmul(const Dispatch& first, const Dispatch& second, Dispatch& fused) {
  const auto p = second.params_as<MatmulParams>();
  if (!norm_fits(first, second, p.m, p.k, 1)) return false;
  fused.set_params(NormMatmulParams{p.m, p.n, p.k, first.params_as<RmsNormParams>().eps});
  bind_normed(first, second, fused);
  return true;
}

bool fuse_norm_matmul_3(const Dispatch& first, const Dispatch& second, Dispatch& fused) {
  const auto p = second.params_as<Matmul3Params>();
  if (!norm_fits(first, second, p.m, p.k, 3)) return false;
  fused.set_params(
      NormMatmul3Params{p.m, p.k, p.n0, p.n1, p.n2, first.params_as<RmsNormParams>().eps});
  bind_normed(first, second, fused);
  return true;
}

bool fuse_norm_matmul_glu_q(const Dispatch& first, const Dispatch& second, Dispatch& fused) {
  const auto p = second.params_as<MatmulGluParams>();
  if (!norm_fits(first, second, p.m, p.k, 2)) return false;
  fused.set_params(
      NormMatmulGluParams{p.m, p.n, p.k, p.activation, first.params_as<RmsNormParams>().eps});
  bind_normed(first, second, fused);
  return true;
}

}  // namespace onepass::ops
