#include <array>

#include "backends/cuda/cuda.h"
#include "ops/attention/kernels.h"
#include "ops/elementwise/kernels.h"
#include "ops/embed/kernels.h"
#include "ops/kv_cache/kernels.h"
#include "ops/matmul/kernels.h"
#include "ops/moe/kernels.h"
#include "ops/move/kernels.h"
#include "ops/norm/kernels.h"
#include "ops/quantize/kernels.h"
#include "ops/rope/kernels.h"
#include "ops/sample/kernels.h"
#include "ops/softmax/kernels.h"

// One line per fatbin: src/ops/FAMILY/STEM.cu and the rows whose kernels it has. The fatbins of
// weight formats are in ops/shared/cuda_formats.def.
#define ONEPASS_CUDA_IMAGES(IMAGE)                                 \
  IMAGE(attention, cuda, ops::attention_cuda_kernels())            \
  IMAGE(attention, cuda_cluster, ops::attention_cluster_kernels()) \
  IMAGE(elementwise, cuda, ops::elementwise_cuda_kernels())        \
  IMAGE(embed, cuda, ops::embed_cuda_kernels())                    \
  IMAGE(kv_cache, cuda, ops::kv_cache_cuda_kernels())              \
  IMAGE(moe, cuda, ops::moe_cuda_kernels())                        \
  IMAGE(move, cuda, ops::move_cuda_kernels())                      \
  IMAGE(norm, cuda, ops::norm_cuda_kernels())                      \
  IMAGE(quantize, cuda, ops::quantize_cuda_kernels())              \
  IMAGE(rope, cuda, ops::rope_cuda_kernels())                      \
  IMAGE(sample, cuda, ops::sample_cuda_kernels())                  \
  IMAGE(softmax, cuda, ops::softmax_cuda_kernels())                \
  IMAGE(matmul, cuda_blocks, ops::matmul_cuda_block_kernels())

#ifdef ONEPASS_CUDA_NO_FATBINS
#define ONEPASS_FATBIN(family, stem) nullptr
#else
#define ONEPASS_FATBIN(family, stem) onepass_fatbin_##family##_##stem
#define ONEPASS_DECLARE(family, stem, rows) \
  extern "C" const unsigned char onepass_fatbin_##family##_##stem[];
#define CUDA_FORMAT(format, ...) ONEPASS_DECLARE(matmul, cuda_##format, )
ONEPASS_CUDA_IMAGES(ONEPASS_DECLARE)
#include "ops/shared/cuda_formats.def"
#undef CUDA_FORMAT
#endif

namespace onepass::cuda {

std::span<const KernelImage> kernel_images() noexcept {
#define ONEPASS_IMAGE(family, stem, rows) KernelImage{rows, ONEPASS_FATBIN(family, stem)},
#define CUDA_FORMAT(format, ...) \
  ONEPASS_IMAGE(matmul, cuda_##format, ops::matmul_cuda_kernels(formats::format))
  static const std::array images{ONEPASS_CUDA_IMAGES(ONEPASS_IMAGE)
#include "ops/shared/cuda_formats.def"
  };
#undef CUDA_FORMAT
  return images;
}

}  // namespace onepass::cuda
