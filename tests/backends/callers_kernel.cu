// A caller's kernel that uses every kind of argument. Built by nvcc, and for the host.
#include "backends/callers_kernel.h"
#include "onepass/cuda_kernel.h"

extern "C" __global__ void test_mix(const __grid_constant__ onepass::CudaKernelArgs args) {
  float* const scaled = args.group_at<float>(mix_scaled);
  unsigned* const picked = args.group_at<unsigned>(mix_picked);
  const unsigned begin = blockIdx.x * blockDim.x, at = threadIdx.x, i = begin + at;
  const unsigned left = args.threads[0] - begin;
  const unsigned n = left < blockDim.x ? left : blockDim.x;  // threads of this group
  if (at < n) {
    scaled[at] = args.at<const float>(mix_in)[i] * args.at<const float>(mix_factors)[i % mix_table];
    picked[at] = args.at<const unsigned>(mix_picks)[i % mix_table];
  }
  __syncthreads();
  if (at >= n) return;
  args.at<float>(mix_out)[i] = scaled[(at + 1) % n] + static_cast<float>(picked[n - 1 - at]) +
                               args.params_as<MixParams>().shift;
}
