#include "backends/cuda/modules.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "core/kernel_desc.h"
#include "onepass/cuda_kernel.h"

namespace onepass::cuda {

Modules::~Modules() {
  for (const CUmodule module : loaded_) {
    if (module) driver_->cuModuleUnload(module);
  }
  for (const CUmodule module : callers_modules_) driver_->cuModuleUnload(module);
}

// A kernel with other parameters would read what is not there.
Status Modules::check_parameters(CUfunction function, const std::string& call) const {
  if (driver_->cuFuncGetParamInfo == nullptr) return {};
  std::size_t offset = 0, bytes = 0, more = 0;
  const CUresult first = driver_->cuFuncGetParamInfo(function, 0, &offset, &bytes);
  const CUresult second = driver_->cuFuncGetParamInfo(function, 1, &offset, &more);
  if (first == CUDA_SUCCESS && bytes == sizeof(CudaKernelArgs) && second != CUDA_SUCCESS) return {};
  return fail(ErrorCode::kernel_build, call + "its first parameter has " + std::to_string(bytes) +
                                           " bytes, expected onepass::CudaKernelArgs of " +
                                           std::to_string(sizeof(CudaKernelArgs)) +
                                           " and no other");
}

Result<std::uint64_t> Modules::build(const KernelDesc& desc) {
  const std::string call = "add kernel '" + desc.name + "': ";
  const std::string& entry = entry_of(desc, desc.cuda.entry);
  std::vector<char> log(8192, '\0');
  std::array<CUjit_option, 2> options{CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  std::array<void*, 2> values{log.data(), reinterpret_cast<void*>(log.size() - 1)};
  const std::lock_guard lock(mutex_);
  callers_modules_.reserve(callers_modules_.size() + 1);
  CUmodule module = nullptr;
  const CUresult loaded = driver_->cuModuleLoadDataEx(&module, desc.cuda.image.c_str(),
                                                      static_cast<unsigned>(options.size()),
                                                      options.data(), values.data());
  if (loaded != CUDA_SUCCESS) {
    Error error = check(*driver_, loaded, "cuModuleLoadDataEx", ErrorCode::kernel_build).error();
    error.message += "; " + call + (log[0] ? log.data() : "the compiler says nothing");
    return error;
  }
  Function function;
  Status found =
      check(*driver_, driver_->cuModuleGetFunction(&function.handle, module, entry.c_str()),
            ("cuModuleGetFunction " + entry).c_str(), ErrorCode::kernel_build);
  if (found) found = check_parameters(function.handle, call);
  if (!found) {
    driver_->cuModuleUnload(module);
    return found.error();
  }
  callers_modules_.push_back(module);
  return reinterpret_cast<std::uint64_t>(&callers_functions_.emplace_back(function));
}

Result<CUfunction> Modules::find(const char* symbol) {
  for (std::size_t i = 0; i < images_.size(); ++i) {
    const auto& rows = images_[i].rows;
    const bool here = std::any_of(rows.begin(), rows.end(), [&](const KernelRow& row) {
      const auto is_symbol = [&](const char* s) { return s && std::string_view(s) == symbol; };
      const CudaSymbol* code = std::get_if<CudaSymbol>(&row.code);
      return code != nullptr &&
             (is_symbol(code->symbol) ||
              std::any_of(code->variants.begin(), code->variants.end(), is_symbol));
    });
    if (!here) continue;
    if (!loaded_[i]) {
      CUmodule module = nullptr;
      ONEPASS_TRY(check(*driver_, driver_->cuModuleLoadData(&module, images_[i].fatbin),
                        "cuModuleLoadData", ErrorCode::kernel_build));
      loaded_[i] = module;
    }
    CUfunction function = nullptr;
    ONEPASS_TRY(check(*driver_, driver_->cuModuleGetFunction(&function, loaded_[i], symbol),
                      (std::string("cuModuleGetFunction ") + symbol).c_str(),
                      ErrorCode::kernel_build));
    return function;
  }
  return fail(ErrorCode::kernel_build, std::string("cuda: no image has the kernel ") + symbol);
}

Result<Modules::Function*> Modules::find_locked(const KernelRow& row, const Launch& launch) {
  if (const std::uint64_t own = built_handle(row); own != 0) {
    return reinterpret_cast<Function*>(own);
  }
  const char* symbol = symbol_of(row, launch);
  if (!symbol) {
    return fail(ErrorCode::kernel_build, std::string("kernel ") + row.name + " has no CUDA code");
  }
  auto it = functions_.find(std::string_view(symbol));
  if (it == functions_.end()) {
    ONEPASS_ASSIGN(const CUfunction handle, find(symbol));
    it = functions_.emplace(symbol, Function{.handle = handle}).first;
  }
  return &it->second;
}

Result<CUfunction> Modules::function(const KernelRow& row, const Launch& launch) {
  const std::lock_guard lock(mutex_);
  ONEPASS_ASSIGN(Function* const found, find_locked(row, launch));
  Function& function = *found;
  if (launch.shared_bytes > function.shared_bytes) {
    ONEPASS_TRY(check(*driver_,
                      driver_->cuFuncSetAttribute(function.handle,
                                                  CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                                  static_cast<int>(launch.shared_bytes)),
                      "cuFuncSetAttribute", ErrorCode::kernel_build));
    function.shared_bytes = launch.shared_bytes;
  }
  return function.handle;
}

}  // namespace onepass::cuda
