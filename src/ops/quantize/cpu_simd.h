// Quantization for one instruction set.
#ifndef OP_ISA

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "core/kernel_row.h"
#include "onepass/device.h"
#include "ops/quantize/kernels.h"
#include "ops/quantize/params.h"

#else

namespace onepass::ops::OP_ISA {
namespace {

void quantize_q8a_rows(const KernelArgs& a) noexcept {
  const auto& p = *static_cast<const QuantizeParams*>(a.params);
  const std::size_t blocks = p.cols / 32, all = p.rows * blocks;
  const std::size_t end = all * (a.tile + 1) / a.tiles;
  std::size_t i = all * a.tile / a.tiles;
  const std::byte* x = a.data[0] + 128 * i;
  std::size_t b = blocks > 0 ? i % blocks : 0;
  std::byte* row = a.data[1] + (blocks > 0 ? i / blocks : 0) * 40 * blocks;
  for (; i < end; ++i, x += 128) {
    quantize_q8a(Simd::load(x), Simd::load(x + 64), row + 32 * b, row + p.cols + 8 * b);
    if (++b == blocks) {
      b = 0;
      row += 40 * blocks;
    }
  }
}

#define OP_TEXT_(x) #x
#define OP_TEXT(x) OP_TEXT_(x)
constexpr KernelRow row_for(DType format, const char* name, CpuKernelFn cpu) {
  KernelRow row = cpu_row(Op::quantize, format, name, launch_quantize, cpu);
  row.needs = OP_ISA_FEATURE;
  return row;
}
constexpr KernelRow quantize_rows[] = {
    row_for(DType::q8a, "quantize_f32_q8a_" OP_TEXT(OP_ISA), quantize_q8a_rows),
};
#undef OP_TEXT
#undef OP_TEXT_

}  // namespace
}  // namespace onepass::ops::OP_ISA

#endif  // OP_ISA
