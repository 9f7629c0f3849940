// Which kernel of a device each tensor of a model file gets.
#pragma once

#include <map>
#include <string>

#include "model/weight_kernel.h"
#include "onepass/device.h"
#include "onepass/result.h"

namespace onepass::tool {

struct ModelKernels {
  std::map<std::string, llm::WeightKernel> by_tensor;  // matrices, by their names in the file
  llm::GenericWeights generic;
};
// Reads no tensor. An error where the model cannot be run.
Result<ModelKernels> model_kernels(const std::string& path, const Device& device);

}  // namespace onepass::tool
