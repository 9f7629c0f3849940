#include "ops/kernel_row.h"
#include "ops/move/kernels.h"

namespace onepass::ops {
namespace {

#define ELEMENT_TYPE(op, type, launch, entry) \
  waiting_row(Op::op, formats::type, #op "_" #type, launch, {.symbol = entry})
#define ELEMENT_TYPES(op, launch, entry)                                          \
  ELEMENT_TYPE(op, f32, launch, entry), ELEMENT_TYPE(op, f16, launch, entry),     \
      ELEMENT_TYPE(op, bf16, launch, entry), ELEMENT_TYPE(op, u8, launch, entry), \
      ELEMENT_TYPE(op, u16, launch, entry), ELEMENT_TYPE(op, u32, launch, entry), \
      ELEMENT_TYPE(op, i32, launch, entry)

constexpr KernelRow kernels[] = {
#define FORMAT(name, ggml_id, elements, bytes)              \
  ELEMENT_TYPE(copy, name, launch_copy_cuda, "copy_bytes"), \
      ELEMENT_TYPE(gather, name, launch_gather_cuda, "gather_rows"),
#define LAYOUT(type, layout, elements, bytes, Form) \
  ELEMENT_TYPE(copy, type##_##layout, launch_copy_cuda, "copy_bytes"),
#include "onepass/tables/formats.def"
    ELEMENT_TYPES(transpose, launch_transpose_cuda, "transpose_matrices"),
    ELEMENT_TYPES(slice, launch_columns_cuda, "copy_columns"),
    ELEMENT_TYPES(put, launch_columns_cuda, "copy_columns"),
    ELEMENT_TYPES(concat, launch_concat_cuda, "concat_rows"),
};

#undef ELEMENT_TYPES
#undef ELEMENT_TYPE

}  // namespace

std::span<const KernelRow> move_cuda_kernels() noexcept { return kernels; }

}  // namespace onepass::ops
