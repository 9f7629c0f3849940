// What a caller's CUDA kernel gets: one parameter of this type. For nvcc and NVRTC; includes
// nothing.
//
//   extern "C" __global__ void scale(const __grid_constant__ onepass::CudaKernelArgs args) {
//     const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
//     if (i >= args.threads[0]) return;  // the last group may have fewer
//     const float factor = args.params_as<ScaleParams>().factor;
//     args.at<float>(1)[i] = factor * args.at<const float>(0)[i];
//   }
#pragma once

namespace onepass {

// The same for every kernel; slots are those of the dispatch (docs/callers-kernels.md).
struct alignas(16) CudaKernelArgs {
  unsigned char params[112];       // as set; zero behind them
  void* slots[31];                 // views and inline blocks, in device memory; null: nothing
  unsigned long long bytes[31];    // of what is in a slot
  void* scratch;                   // Launch::scratch_bytes
  void* persistent;                // Launch::persistent_bytes
  int values[8];                   // specialization values by index; 0 where there is none
  unsigned threads[3];             // of the whole grid: the last group may reach beyond
  unsigned group[3];               // threads of a group
  unsigned group_memory_at[31];    // where a slot of group memory begins
  unsigned group_memory_size[31];  // bytes; 0: nothing

#if defined(__CUDACC__) || defined(ONEPASS_CUDA_EMU)
  template <class T>
  __device__ T* at(unsigned slot) const {
    return static_cast<T*>(slots[slot]);
  }
  template <class P>
  __device__ const P& params_as() const {
    static_assert(sizeof(P) <= sizeof(params), "at most 112 bytes of parameters");
    return *reinterpret_cast<const P*>(params);
  }
  // 16-byte aligned.
  template <class T>
  __device__ T* group_at(unsigned slot) const {
#ifdef ONEPASS_CUDA_EMU
    unsigned char* const all = reinterpret_cast<unsigned char*>(emu::dynamic_shared());
#else
    extern __shared__ __align__(128) unsigned char onepass_group_memory[];
    unsigned char* const all = onepass_group_memory;
#endif
    return reinterpret_cast<T*>(all + group_memory_at[slot]);
  }
#endif
};
static_assert(sizeof(CudaKernelArgs) == 928, "part of the ABI");

}  // namespace onepass
