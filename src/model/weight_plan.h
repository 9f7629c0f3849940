// Which tensors of a file are which weights of its model: each row of the architecture's table with
// what is stored for it. Everything that reads the weights of a model goes through such a plan.
//
//   ONEPASS_ASSIGN(const WeightPlan plan, plan_weights(config, source));
//   for (const WeightPart& p : plan.parts) ...      // "blk.3.attn_q": weight, bias or affine
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/architecture.h"
#include "model/source.h"

namespace onepass::llm {

struct WeightPart {
  const TensorRow* row = nullptr;
  std::uint32_t layer = 0;
  std::string name;                      // in GGUF files, without the suffix: "blk.3.attn_q"
  std::uint32_t experts = 0;             // 0: a matrix or vector
  std::uint32_t rows = 0, cols = 0;      // rows 0: a vector
  StoredTensor weight;                   // of affine weights, the numbers
  std::optional<StoredAffine> affine{};  // MLX's
  std::optional<StoredTensor> bias{};
  std::optional<StoredTensor> scale{};  // of all values of the matrix, or of each expert's
};

// Tensors that are there and not used.
struct LeftOut {
  std::string name;  // of the first one
  std::uint32_t tensors = 0;
  std::string_view reason;
};

struct WeightPlan {
  std::vector<WeightPart> parts;  // those of the model, then layer by layer
  std::vector<LeftOut> left_out;  // parts of a larger model, by their reason
};

// A tensor that is missing is not_found, one with another shape or a second one for the same
// weights parse, one that nothing is known of unsupported; the error's field is its name in the
// source.
Result<WeightPlan> plan_weights(const ModelConfig& config, const WeightSource& source);
// For what has no place for a tensor's scale: names the first one.
Status refuse_scales(const WeightPlan& plan);

}  // namespace onepass::llm
