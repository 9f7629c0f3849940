#include "core/kernel_row.h"
#include "ops/quantize/kernels.h"
#include "ops/quantize/params.h"
#include "ops/shared/cpu.h"
#include "quant/packed.h"

namespace onepass::ops {
namespace {

// Rows are whole blocks, so a matrix is one run of them.
template <class Block>
void quantize_blocks(const KernelArgs& a) noexcept {
  const auto& p = a.params_as<QuantizeParams>();
  const auto [begin, end] = a.part(std::uint64_t{p.rows} * (p.cols / Block::elements));
  for (std::uint64_t i = begin; i < end; ++i) {
    quantize(a.ptr<const float>(0) + i * Block::elements, a.ptr<Block>(1)[i]);
  }
}

template <class Block>
void dequantize_blocks(const KernelArgs& a) noexcept {
  const auto& p = a.params_as<QuantizeParams>();
  const auto [begin, end] = a.part(std::uint64_t{p.rows} * (p.cols / Block::elements));
  for (std::uint64_t i = begin; i < end; ++i) {
    dequantize(a.ptr<const Block>(0)[i], a.ptr<float>(1) + i * Block::elements);
  }
}

template <DType Type>
void dequantize_packed(const KernelArgs& a) noexcept {
  const auto& p = a.params_as<QuantizeParams>();
  const auto [begin, end] = a.part(p.rows);
  for (std::uint64_t r = begin; r < end; ++r) {
    quant::unpack_row({Type, Layout::r16}, a.data[0], r, p.cols, a.ptr<float>(1) + r * p.cols);
  }
}

void dequantize_q8a(const KernelArgs& a) noexcept {
  const auto& p = a.params_as<QuantizeParams>();
  const std::uint64_t blocks = p.cols / 32;
  const auto [begin, end] = a.part(p.rows);
  for (std::uint64_t r = begin; r < end; ++r) {
    const std::byte* row = a.data[0] + r * 40 * blocks;
    float* out = a.ptr<float>(1) + r * p.cols;
    for (std::uint64_t b = 0; b < blocks; ++b) {
      float d;
      std::int8_t q[32];
      std::memcpy(&d, row + p.cols + 8 * b, sizeof(d));
      std::memcpy(q, row + 32 * b, sizeof(q));
      for (std::size_t i = 0; i < 32; ++i) out[32 * b + i] = static_cast<float>(q[i]) * d;
    }
  }
}

#define PACKED(type)                                                           \
  cpu_row(Op::dequantize, formats::type##_r16, "dequantize_" #type "_r16_f32", \
          launch_dequantize_rows, dequantize_packed<DType::type>)

constexpr KernelRow kernels[] = {
#define BLOCK(format, Block)                                                                    \
  cpu_row(Op::quantize, formats::format, "quantize_f32_" #format, launch_quantize,              \
          quantize_blocks<quant::Block>),                                                       \
      cpu_row(Op::dequantize, formats::format, "dequantize_" #format "_f32", launch_dequantize, \
              dequantize_blocks<quant::Block>),
    ONEPASS_BLOCK_FORMATS(BLOCK)
#undef BLOCK
#define LAYOUT_r16(type) PACKED(type),
#define LAYOUT_s16(type)
#define LAYOUT(type, layout, elements, bytes, Form) LAYOUT_##layout(type)
#include "onepass/tables/formats.def"
#undef LAYOUT_r16
#undef LAYOUT_s16
        cpu_row(Op::dequantize, DType::q8a, "dequantize_q8a_f32", launch_dequantize_rows,
                dequantize_q8a),
};

#undef PACKED

}  // namespace

std::span<const KernelRow> quantize_cpu_kernels() noexcept { return kernels; }

}  // namespace onepass::ops
