// The one parameter of the library's CUDA kernels, shared by host and device (callers' own get
// onepass/cuda_kernel.h):
//   extern "C" __global__ void NAME(const __grid_constant__ onepass::CudaArgs args)
#ifndef ONEPASS_BACKENDS_CUDA_ARGS_H_
#define ONEPASS_BACKENDS_CUDA_ARGS_H_

namespace onepass {

struct alignas(16) CudaArgs {
  void* views[16];                        // device addresses; null: an optional view left out
  alignas(16) unsigned char params[112];  // the op's params struct
  void* scratch;
  void* persistent;
  unsigned long long bytes[16];  // of each view
  unsigned int values[8];        // Launch::spec by index; 0 where there is none

#if defined(__CUDACC__) || defined(ONEPASS_CUDA_EMU)
  template <class T>
  __device__ T* ptr(int view) const {
    return static_cast<T*>(views[view]);
  }
  template <class P>
  __device__ const P& params_as() const {
    static_assert(sizeof(P) <= sizeof(params));
    return *reinterpret_cast<const P*>(params);
  }
#endif
};
static_assert(sizeof(CudaArgs) == 416);

}  // namespace onepass

#endif  // ONEPASS_BACKENDS_CUDA_ARGS_H_
