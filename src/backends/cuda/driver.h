// The CUDA driver API, loaded at run time: a binary with CUDA kernels starts on machines without
// a driver.
#pragma once

#include <cuda.h>

#include <array>
#include <string>

#include "onepass/result.h"

namespace onepass::cuda {

// Every driver function in use. cuda.h renames most of them to the version its prototypes
// describe, and the member, its type and the symbol looked up all follow that name.
#define ONEPASS_CUDA_FUNCTIONS(X) \
  X(cuInit)                       \
  X(cuGetErrorName)               \
  X(cuGetErrorString)             \
  X(cuDeviceGetCount)             \
  X(cuDeviceGet)                  \
  X(cuDeviceGetName)              \
  X(cuDeviceTotalMem)             \
  X(cuDeviceGetAttribute)         \
  X(cuDevicePrimaryCtxRetain)     \
  X(cuDevicePrimaryCtxRelease)    \
  X(cuCtxPushCurrent)             \
  X(cuCtxPopCurrent)              \
  X(cuStreamCreate)               \
  X(cuStreamDestroy)              \
  X(cuStreamSynchronize)          \
  X(cuStreamWaitEvent)            \
  X(cuEventCreate)                \
  X(cuEventDestroy)               \
  X(cuEventRecord)                \
  X(cuEventQuery)                 \
  X(cuEventSynchronize)           \
  X(cuEventElapsedTime)           \
  X(cuMemGetInfo)                 \
  X(cuMemAlloc)                   \
  X(cuMemFree)                    \
  X(cuMemHostAlloc)               \
  X(cuMemFreeHost)                \
  X(cuMemHostGetDevicePointer)    \
  X(cuMemcpyHtoDAsync)            \
  X(cuMemcpyDtoHAsync)            \
  X(cuMemsetD8Async)              \
  X(cuModuleLoadData)             \
  X(cuModuleLoadDataEx)           \
  X(cuModuleUnload)               \
  X(cuModuleGetFunction)          \
  X(cuFuncSetAttribute)           \
  X(cuLaunchKernel)               \
  X(cuGraphCreate)                \
  X(cuGraphDestroy)               \
  X(cuGraphAddKernelNode)         \
  X(cuGraphAddEmptyNode)          \
  X(cuGraphAddEventRecordNode)    \
  X(cuGraphAddDependencies)       \
  X(cuGraphInstantiate)           \
  X(cuGraphExecDestroy)           \
  X(cuGraphUpload)                \
  X(cuGraphLaunch)

// Those that older drivers may lack; null then.
#define ONEPASS_CUDA_OPTIONAL_FUNCTIONS(X) X(cuDeviceGetUuid) X(cuFuncGetParamInfo)

struct Driver {
#define ONEPASS_CUDA_MEMBER(name) decltype(&::name) name = nullptr;
  ONEPASS_CUDA_FUNCTIONS(ONEPASS_CUDA_MEMBER)
  ONEPASS_CUDA_OPTIONAL_FUNCTIONS(ONEPASS_CUDA_MEMBER)
#undef ONEPASS_CUDA_MEMBER
};

// The installed driver, initialised; the same answer for the life of the process. Without one the
// error's message is "cuda: no driver".
Result<const Driver*> load_driver();

// "CALL: NAME (description)".
std::string describe(const Driver& driver, CUresult result, const char* call);

// out_of_memory, or device_lost for errors after which a context is of no use, else `otherwise`.
ErrorCode error_code(CUresult result, ErrorCode otherwise) noexcept;

// An error unless the result is CUDA_SUCCESS.
Status check(const Driver& driver, CUresult result, const char* call, ErrorCode otherwise,
             const char* file = __builtin_FILE(), int line = __builtin_LINE());

// A stream beside the main one, and the event at the end of its last work.
struct Lane {
  CUstream stream = nullptr;
  CUevent done = nullptr;
};

// What every part of the backend works with. Valid as long as the backend.
struct Context {
  const Driver* driver = nullptr;
  CUcontext handle = nullptr;
  // Every submission begins and ends here: what lanes get in between waits for `forked`, and the
  // stream waits for it.
  CUstream stream = nullptr;
  std::array<Lane, 3> lanes;
  CUevent forked = nullptr;
};

// Makes the context current on this thread and restores the caller's afterwards.
class Current {
 public:
  explicit Current(const Context& context) noexcept
      : driver_(context.driver), result_(driver_->cuCtxPushCurrent(context.handle)) {}
  ~Current() {
    CUcontext popped = nullptr;
    if (result_ == CUDA_SUCCESS) driver_->cuCtxPopCurrent(&popped);
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

  CUresult result() const noexcept { return result_; }
  Status status(ErrorCode otherwise) const {
    return check(*driver_, result_, "cuCtxPushCurrent", otherwise);
  }

 private:
  const Driver* driver_;
  CUresult result_;
};

}  // namespace onepass::cuda
