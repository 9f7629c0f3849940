// A kernel for CUDA as a caller writes it: y = factor * x. Tests also compile it for the host.
#include "onepass/cuda_kernel.h"

struct ScaleParams {
  float factor;
};

// [cuda_kernel.h]
extern "C" __global__ void scale(const __grid_constant__ onepass::CudaKernelArgs args) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= args.threads[0]) return;  // the last group may have fewer
  const float factor = args.params_as<ScaleParams>().factor;
  args.at<float>(1)[i] = factor * args.at<const float>(0)[i];
}
// [cuda_kernel.h]
