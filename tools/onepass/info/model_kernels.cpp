#include "info/model_kernels.h"

#include "model/model_files.h"

namespace onepass::tool {

Result<ModelKernels> model_kernels(const std::string& path, const Device& device) {
  ONEPASS_ASSIGN(const std::unique_ptr<llm::ModelFiles> files, llm::ModelFiles::open(path));
  ONEPASS_ASSIGN(const llm::ModelConfig config, files->config());
  ONEPASS_ASSIGN(const std::unique_ptr<const llm::WeightSource> weights, files->weights());
  ONEPASS_ASSIGN(const llm::WeightPlan plan, llm::plan_weights(config, *weights));
  ModelKernels kernels;
  for (const llm::WeightPart& p : plan.parts) {
    const auto kernel = llm::kernel_of(device, p);
    if (!kernel) continue;
    const llm::StoredTensor& stored = p.affine ? p.affine->weight : p.weight;
    kernels.by_tensor[stored.name] = *kernel;
    kernels.generic.add(*kernel, p.name, stored.bytes);
  }
  return kernels;
}

}  // namespace onepass::tool
