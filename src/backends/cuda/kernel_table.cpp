#include <array>

#include "backends/cuda/cuda.h"
#include "ops/elementwise/kernels.h"
#include "ops/matmul/kernels.h"
#include "ops/norm/kernels.h"

extern "C" {
extern const unsigned char onepass_fatbin_elementwise_cuda[];
extern const unsigned char onepass_fatbin_matmul_cuda_blocks[];
extern const unsigned char onepass_fatbin_matmul_cuda_a4_bf16_s16[];
extern const unsigned char onepass_fatbin_matmul_cuda_a4_f16_s16[];
extern const unsigned char onepass_fatbin_matmul_cuda_a8_bf16_s16[];
extern const unsigned char onepass_fatbin_matmul_cuda_a8_f16_s16[];
extern const unsigned char onepass_fatbin_matmul_cuda_bf16[];
extern const unsigned char onepass_fatbin_matmul_cuda_f16[];
extern const unsigned char onepass_fatbin_matmul_cuda_f32[];
extern const unsigned char onepass_fatbin_matmul_cuda_q4_0_s16[];
extern const unsigned char onepass_fatbin_matmul_cuda_q4_k_s16[];
extern const unsigned char onepass_fatbin_matmul_cuda_q5_k_s16[];
extern const unsigned char onepass_fatbin_matmul_cuda_q6_k_s16[];
extern const unsigned char onepass_fatbin_matmul_cuda_q8_0_s16[];
extern const unsigned char onepass_fatbin_norm_cuda[];
}

namespace onepass::cuda {

std::span<const KernelImage> kernel_images() noexcept {
  static const std::array images{
      KernelImage{ops::norm_cuda_kernels(), onepass_fatbin_norm_cuda},
      KernelImage{ops::elementwise_cuda_kernels(), onepass_fatbin_elementwise_cuda},
      KernelImage{ops::matmul_cuda_kernels(DType::a4_bf16_s16),
                  onepass_fatbin_matmul_cuda_a4_bf16_s16},
      KernelImage{ops::matmul_cuda_kernels(DType::a4_f16_s16),
                  onepass_fatbin_matmul_cuda_a4_f16_s16},
      KernelImage{ops::matmul_cuda_kernels(DType::a8_bf16_s16),
                  onepass_fatbin_matmul_cuda_a8_bf16_s16},
      KernelImage{ops::matmul_cuda_kernels(DType::a8_f16_s16),
                  onepass_fatbin_matmul_cuda_a8_f16_s16},
      KernelImage{ops::matmul_cuda_kernels(DType::bf16), onepass_fatbin_matmul_cuda_bf16},
      KernelImage{ops::matmul_cuda_kernels(DType::f16), onepass_fatbin_matmul_cuda_f16},
      KernelImage{ops::matmul_cuda_kernels(DType::f32), onepass_fatbin_matmul_cuda_f32},
      KernelImage{ops::matmul_cuda_kernels(DType::q4_0_s16), onepass_fatbin_matmul_cuda_q4_0_s16},
      KernelImage{ops::matmul_cuda_kernels(DType::q4_k_s16), onepass_fatbin_matmul_cuda_q4_k_s16},
      KernelImage{ops::matmul_cuda_kernels(DType::q5_k_s16), onepass_fatbin_matmul_cuda_q5_k_s16},
      KernelImage{ops::matmul_cuda_kernels(DType::q6_k_s16), onepass_fatbin_matmul_cuda_q6_k_s16},
      KernelImage{ops::matmul_cuda_kernels(DType::q8_0_s16), onepass_fatbin_matmul_cuda_q8_0_s16},
      KernelImage{ops::matmul_cuda_block_kernels(), onepass_fatbin_matmul_cuda_blocks},
  };
  return images;
}

}  // namespace onepass::cuda
