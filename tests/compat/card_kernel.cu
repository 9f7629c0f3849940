// A caller's kernel that writes down what it got. Built for the host.
#include "onepass/cuda_kernel.h"

extern "C" __global__ void test_seen(const __grid_constant__ onepass::CudaKernelArgs args) {
  if (blockIdx.x != 0 || threadIdx.x != 0) return;
  unsigned* const seen = args.at<unsigned>(1);
  seen[0] = args.threads[0];
  seen[1] = args.group[0];
  seen[2] = gridDim.x;
  seen[3] = static_cast<unsigned>(args.bytes[0]);
  seen[4] = args.group_memory_size[0];
  seen[5] = args.group_memory_size[3];
  seen[6] = args.at<unsigned>(2) == nullptr ? 0 : *args.at<unsigned>(2);
}
