#include "ops/shared/cpu.h"

#include "core/kernel_row.h"
#include "ops/elementwise/kernels.h"
#include "ops/elementwise/params.h"
#include "ops/shared/halves.h"

namespace onepass::ops {
namespace {

struct Add {
  static float apply(float a, float b) noexcept { return a + b; }
};
struct Mul {
  static float apply(float a, float b) noexcept { return a * b; }
};
struct SiluMul {
  static float apply(float a, float b) noexcept { return op_silu(a) * b; }
};

template <class F, class T>
void binary(const KernelArgs& a) noexcept {
  const auto& p = a.params_as<ElementwiseParams>();
  const auto [begin, end] = a.part(join(p.n_lo, p.n_hi));
  const T* x = a.ptr<const T>(0);
  const T* y = a.ptr<const T>(1);
  T* out = a.ptr<T>(2);
  for (std::uint64_t i = begin; i < end; ++i) {
    out[i] = from_float<T>(F::apply(to_float(x[i]), to_float(y[i])));
  }
}

template <class T>
void gelu(const KernelArgs& a) noexcept {
  const auto& p = a.params_as<ElementwiseParams>();
  const auto [begin, end] = a.part(join(p.n_lo, p.n_hi));
  const T* x = a.ptr<const T>(0);
  T* out = a.ptr<T>(1);
  for (std::uint64_t i = begin; i < end; ++i) out[i] = from_float<T>(op_gelu(to_float(x[i])));
}

template <class T>
void softcap(const KernelArgs& a) noexcept {
  const auto& p = a.params_as<ElementwiseParams>();
  const auto [begin, end] = a.part(join(p.n_lo, p.n_hi));
  const T* x = a.ptr<const T>(0);
  T* out = a.ptr<T>(1);
  for (std::uint64_t i = begin; i < end; ++i) {
    out[i] = from_float<T>(op_softcap(to_float(x[i]), p.cap));
  }
}

void copy(const KernelArgs& a) noexcept {
  const auto& p = a.params_as<CopyParams>();
  const auto [begin, end] = a.part(join(p.bytes_lo, p.bytes_hi));
  if (begin < end) std::memcpy(a.data[1] + begin, a.data[0] + begin, end - begin);
}

constexpr KernelRow kernels[] = {
    cpu_row(Op::add, DType::f32, "add_f32", launch_elementwise, binary<Add, float>),
    cpu_row(Op::add, DType::f16, "add_f16", launch_elementwise, binary<Add, F16>),
    cpu_row(Op::add, DType::bf16, "add_bf16", launch_elementwise, binary<Add, BF16>),
    cpu_row(Op::mul, DType::f32, "mul_f32", launch_elementwise, binary<Mul, float>),
    cpu_row(Op::mul, DType::f16, "mul_f16", launch_elementwise, binary<Mul, F16>),
    cpu_row(Op::mul, DType::bf16, "mul_bf16", launch_elementwise, binary<Mul, BF16>),
    cpu_row(Op::silu_mul, DType::f32, "silu_mul_f32", launch_elementwise, binary<SiluMul, float>),
    cpu_row(Op::silu_mul, DType::f16, "silu_mul_f16", launch_elementwise, binary<SiluMul, F16>),
    cpu_row(Op::silu_mul, DType::bf16, "silu_mul_bf16", launch_elementwise, binary<SiluMul, BF16>),
    cpu_row(Op::gelu, DType::f32, "gelu_f32", launch_elementwise, gelu<float>),
    cpu_row(Op::gelu, DType::f16, "gelu_f16", launch_elementwise, gelu<F16>),
    cpu_row(Op::gelu, DType::bf16, "gelu_bf16", launch_elementwise, gelu<BF16>),
    cpu_row(Op::softcap, DType::f32, "softcap_f32", launch_elementwise, softcap<float>),
    cpu_row(Op::softcap, DType::f16, "softcap_f16", launch_elementwise, softcap<F16>),
    cpu_row(Op::softcap, DType::bf16, "softcap_bf16", launch_elementwise, softcap<BF16>),
#define FORMAT(name, ggml_id, elements, bytes, rows) \
  cpu_row(Op::copy, DType::name, "copy_" #name, launch_copy, copy),
#include "onepass/tables/formats.def"
#undef FORMAT
};

}  // namespace

std::span<const KernelRow> elementwise_cpu_kernels() noexcept { return kernels; }

}  // namespace onepass::ops
