// Attention of one row with what comes before it.
#include "ops/attention/cuda_cluster.cuh"

#if defined(ONEPASS_CUDA_EMU) || !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define ONEPASS_CLUSTER_KERNEL(name, Dim)                                         \
  extern "C" __global__ void __cluster_dims__(1, onepass::ops::cluster_blocks, 1) \
      __launch_bounds__(onepass::ops::cluster_threads, 4)                         \
          name(const __grid_constant__ onepass::CudaArgs args) {                  \
    onepass::ops::attend_cluster<Dim>(args);                                      \
  }
#else
// The rows ask for Feature::clusters, so nobody calls these.
#define ONEPASS_CLUSTER_KERNEL(name, Dim) \
  extern "C" __global__ void name(const __grid_constant__ onepass::CudaArgs) {}
#endif

ONEPASS_CLUSTER_KERNEL(rope_attention_64, 64)
ONEPASS_CLUSTER_KERNEL(rope_attention_128, 128)
