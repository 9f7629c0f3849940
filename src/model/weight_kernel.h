// Which kernel of a device a weight of a model gets.
//
//   for (const LoadedPart& p : model.parts()) kernel_of(model.device(), p)->name;
//   generic_weights(model).share();   // of the bytes that a token reads through a slow kernel
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/weight_plan.h"
#include "model/weights.h"

namespace onepass::llm {

struct WeightKernel {
  Format format{};        // in which the device keeps the weight
  const char* name = "";  // of the kernel that multiplies with it
  // Made for any type: number after number, where a type's own kernel takes vectors of them.
  bool generic = false;
};

// Of rows of `cols` values of that type; op: matmul, or matmul_id for experts. In the first layout
// that the rows fill with whole blocks and the device has a kernel for; none where there is none.
std::optional<WeightKernel> weight_kernel(const Device& device, Op op, DType stored,
                                          std::uint64_t cols);
// Of MLX affine weights.
std::optional<WeightKernel> affine_kernel(const Device& device, const AffineFormat& format,
                                          DType scales, std::uint64_t cols);
// Of a tensor of a file; none for a vector, and where the device does not run it.
std::optional<WeightKernel> kernel_of(const Device& device, const WeightPart& part);
// Of a loaded weight; none for a vector.
std::optional<WeightKernel> kernel_of(const Device& device, const LoadedPart& part);

// The weights that go through generic kernels.
struct GenericWeights {
  std::uint64_t weights = 0, bytes = 0;
  std::uint64_t all_bytes = 0;       // of every matrix
  std::string first;                 // name of one
  std::vector<std::string> kernels;  // their names

  double share() const noexcept {
    return all_bytes == 0 ? 0.0 : static_cast<double>(bytes) / static_cast<double>(all_bytes);
  }
  void add(const WeightKernel& kernel, const std::string& name, std::uint64_t size);
  // "12.5 % of the weight bytes (blk.0.ffn_up and 3 more) go through generic kernels of cpu:
  // matmul_q2_k_f32"; empty where none does.
  std::string text(const Device& device) const;
};
GenericWeights generic_weights(const Model& model);

}  // namespace onepass::llm
