#include <array>

#include "backends/cpu/cpu.h"
#include "ops/embed/kernels.h"
#include "ops/matmul/kernels.h"
#include "ops/moe/kernels.h"
#include "ops/move/kernels.h"
#include "ops/quantize/kernels.h"
#include "ops/sample/kernels.h"

namespace onepass {

// Families with kernels for every instruction set: src/CMakeLists.txt has them too.
#define ONEPASS_SIMD_FAMILIES(FAMILY, isa) \
  FAMILY(norm, isa)                        \
  FAMILY(elementwise, isa)                 \
  FAMILY(softmax, isa)                     \
  FAMILY(rope, isa)                        \
  FAMILY(matmul, isa)                      \
  FAMILY(quantize, isa)                    \
  FAMILY(attention, isa)                   \
  FAMILY(kv_cache, isa)                    \
  FAMILY(moe, isa)

#define DECLARE(family, isa)              \
  namespace ops::isa {                    \
  KernelList family##_kernels() noexcept; \
  }
#define ISA(isa, ...) ONEPASS_SIMD_FAMILIES(DECLARE, isa)
#include "ops/shared/isa.def"
#undef ISA
#undef DECLARE

KernelTable cpu_kernel_rows() noexcept {
  // No heap: the first use may be while there is no memory.
  static const std::array lists{
#define LIST(family, isa) ops::isa::family##_kernels(),
#define ISA(isa, ...) ONEPASS_SIMD_FAMILIES(LIST, isa)
#include "ops/shared/isa.def"
#undef ISA
#undef LIST
      ops::move_cpu_kernels(),     ops::moe_cpu_kernels(),   ops::matmul_cpu_kernels(),
      ops::quantize_cpu_kernels(), ops::embed_cpu_kernels(), ops::sample_cpu_kernels(),
  };
  return KernelTable(lists);
}

}  // namespace onepass
