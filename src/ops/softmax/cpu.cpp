#include "ops/shared/cpu.h"

#include <limits>

#include "core/kernel_row.h"
#include "ops/softmax/kernels.h"
#include "ops/softmax/params.h"

namespace onepass::ops {
namespace {

// The exponentials are computed twice: storing them first would round 16-bit results twice.
template <class T>
void softmax(const KernelArgs& a) noexcept {
  const auto& p = a.params_as<SoftmaxParams>();
  const auto [begin, end] = a.part(p.rows);
  for (std::uint64_t row = begin; row < end; ++row) {
    const T* x = a.ptr<const T>(0) + row * p.cols;
    T* y = a.ptr<T>(1) + row * p.cols;
    float top = -std::numeric_limits<float>::infinity();
    for (std::size_t i = 0; i < p.cols; ++i) {
      const float v = to_float(x[i]);
      top = v > top ? v : top;
    }
    Lanes lanes{};
    accumulate(lanes, p.cols, [x, top](std::size_t i) { return op_exp(to_float(x[i]) - top); });
    const float total = sum(lanes);
    for (std::size_t i = 0; i < p.cols; ++i) {
      y[i] = from_float<T>(op_exp(to_float(x[i]) - top) / total);
    }
  }
}

constexpr KernelRow kernels[] = {
    cpu_row(Op::softmax, DType::f32, "softmax_f32", launch_softmax, softmax<float>),
    cpu_row(Op::softmax, DType::f16, "softmax_f16", launch_softmax, softmax<F16>),
    cpu_row(Op::softmax, DType::bf16, "softmax_bf16", launch_softmax, softmax<BF16>),
};

}  // namespace

std::span<const KernelRow> softmax_cpu_kernels() noexcept { return kernels; }

}  // namespace onepass::ops
