#include <array>

#include "backends/cuda/cuda.h"
#include "ops/elementwise/kernels.h"
#include "ops/matmul/kernels.h"
#include "ops/norm/kernels.h"

extern "C" {
extern const unsigned char onepass_fatbin_elementwise_cuda[];
extern const unsigned char onepass_fatbin_matmul_cuda[];
extern const unsigned char onepass_fatbin_norm_cuda[];
}

namespace onepass::cuda {

std::span<const KernelImage> kernel_images() noexcept {
  static const std::array images{
      KernelImage{ops::norm_cuda_kernels(), onepass_fatbin_norm_cuda},
      KernelImage{ops::elementwise_cuda_kernels(), onepass_fatbin_elementwise_cuda},
      KernelImage{ops::matmul_cuda_kernels(), onepass_fatbin_matmul_cuda},
  };
  return images;
}

}  // namespace onepass::cuda
