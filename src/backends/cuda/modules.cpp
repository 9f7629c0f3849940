#include "backends/cuda/modules.h"

#include <algorithm>
#include <string_view>

namespace onepass::cuda {

Modules::~Modules() {
  for (const CUmodule module : loaded_) {
    if (module) driver_->cuModuleUnload(module);
  }
}

Result<CUfunction> Modules::find(const char* symbol) {
  for (std::size_t i = 0; i < images_.size(); ++i) {
    const auto& rows = images_[i].rows;
    const bool here = std::any_of(rows.begin(), rows.end(), [&](const KernelRow& row) {
      const auto is_symbol = [&](const char* s) { return s && std::string_view(s) == symbol; };
      return is_symbol(row.symbol) ||
             std::any_of(row.variants.begin(), row.variants.end(), is_symbol);
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

Result<CUfunction> Modules::function(const KernelRow& row, const Launch& launch) {
  const char* symbol = symbol_of(row, launch);
  if (!symbol) {
    return fail(ErrorCode::kernel_build, std::string("kernel ") + row.name + " has no CUDA code");
  }
  const std::lock_guard lock(mutex_);
  auto it = functions_.find(std::string_view(symbol));
  if (it == functions_.end()) {
    ONEPASS_ASSIGN(const CUfunction handle, find(symbol));
    it = functions_.emplace(symbol, Function{.handle = handle}).first;
  }
  Function& function = it->second;
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
