// Gates of experts for one instruction set.
#ifndef OP_ISA

#include "core/kernel_row.h"
#include "ops/moe/kernels.h"
#include "ops/moe/params.h"
#include "ops/shared/cpu.h"

#else

#include "ops/shared/simd16_rows.h"

namespace onepass::ops::OP_ISA {
namespace {

OP_INLINE Simd::F relu2(Simd::F x) {
  const Simd::F a = Simd::select(Simd::lt(x, Simd::zero()), Simd::zero(), x);
  return Simd::mul(a, a);
}

OP_INLINE Simd::F gated_lanes(op_u32 activation, Simd::F gate, Simd::F up) {
  using S = Simd;
  if (activation == 0) return S::mul(silu(gate), up);
  if (activation == 1) return S::mul(gelu(gate), up);
  if (activation == 2) return S::mul(gelu_erf(gate), up);
  if (activation == 3) return S::mul(relu2(gate), up);
  const S::F most = S::set1(7.0f), least = S::set1(-7.0f);
  const S::F g = S::select(S::lt(gate, most), gate, most);
  const S::F low = S::select(S::lt(up, most), up, most);
  const S::F u = S::select(S::lt(low, least), least, low);
  return S::mul(S::mul(g, sigmoid(S::mul(S::set1(1.702f), g))), S::add(u, S::set1(1.0f)));
}

// 16 columns from c on of a row; null biases: none.
struct GatedRow {
  op_u32 activation;
  std::size_t dim;
  const float *gate, *up, *gate_bias, *up_bias;

  OP_INLINE Simd::F at(std::size_t c) const {
    const std::size_t n = lanes_left(c, dim);
    Simd::F g = load_some(gate + c, n), u = load_some(up + c, n);
    if (gate_bias != nullptr) {
      g = Simd::add(g, load_some(gate_bias + c, n));
      u = Simd::add(u, load_some(up_bias + c, n));
    }
    return gated_lanes(activation, g, u);
  }
};

void gated(const KernelArgs& a) noexcept {
  const auto& p = params<GatedParams>(a);
  const std::size_t dim = p.dim;
  const std::uint64_t units = gated_units(p.dim);
  const KernelArgs::Part part = a.part(p.rows * units);
  for (std::uint64_t i = part.begin; i < part.end; ++i) {
    const std::uint64_t row = i / units, unit = i % units;
    GatedRow r{p.activation, dim,    in<float>(a, 0) + row * dim, in<float>(a, 1) + row * dim,
               nullptr,      nullptr};
    const std::uint32_t expert = p.experts != 0 ? in<std::uint32_t>(a, 2)[row] : ~0u;
    if (expert < p.experts) {
      r.gate_bias = in<float>(a, 3) + expert * dim;
      r.up_bias = in<float>(a, 4) + expert * dim;
    }
    if ((p.form & form_quantized) != 0) {
      std::byte* y = out<std::byte>(a, 5) + row * (dim / 32 * 40);
      store_q8a(y, dim, unit, r.at(32 * unit), r.at(32 * unit + 16));
      continue;
    }
    float* y = out<float>(a, 5) + row * dim;
    for (std::size_t c = 32 * unit; c < 32 * unit + 32 && c < dim; c += 16) {
      store_some(y + c, r.at(c), lanes_left(c, dim));
    }
  }
}

constexpr KernelRow gated_row() {
  KernelRow row = cpu_row(Op::gated, DType::f32, "gated_f32", launch_gated, gated, OP_ISA_FEATURE);
  row.forms = form_quantized;
  row.accepts = accepts_gated;
  return row;
}

}  // namespace

constexpr KernelRow moe_rows[] = {gated_row()};

}  // namespace onepass::ops::OP_ISA

#endif  // OP_ISA
