// The weights of a model on a device.
//
//   ONEPASS_ASSIGN(io::GgufFile file, io::GgufFile::open("model.gguf"));
//   ONEPASS_ASSIGN(std::shared_ptr<const Model> model, Model::load(device, file));
//   model->weights().layers[0].q.weight;                          // [heads * head_dim, dim]
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "io/gguf_file.h"
#include "model/config.h"
#include "model/source.h"
#include "onepass/device.h"

namespace onepass::llm {

class ExpertCache;
struct TensorRow;

// y = x * weight^T [+ bias]; of a norm y = norm(x) * weight [+ bias].
struct Linear {
  Tensor weight;  // [n, k], of experts [experts, n, k], of norms f32 [k]; of MLX affine weights
                  // that are not packed u32 [n, k * bits / 32]
  Tensor scales{}, biases{};  // of those [n, k / group_size], else none
  AffineFormat affine{};
  Tensor bias{};  // f32 [n], of experts [experts, n], of norms [k], or none

  explicit operator bool() const noexcept { return static_cast<bool>(weight); }
};

// What a model has no tensor for is empty.
struct LayerWeights {
  Linear attn_norm, attn_norm_2;
  Linear q, k, v, o;
  Linear q_norm, k_norm;  // [head_dim], or of a whole row
  Linear sinks;           // [heads]: scores of a key without a value
  Linear post_attention_norm;
  Linear ffn_norm;
  Linear gate, up, down;                          // without experts
  Linear router, router_bias;                     // [experts, dim], [experts]
  Linear gate_experts, up_experts, down_experts;  // [experts, n, k]
  Linear shared_router;                           // [1, dim]
  Linear shared_gate, shared_up, shared_down;     // of the experts that every token uses
  Linear post_ffn_norm;
  // Of experts beside a network: norms of what the router reads, of the experts' input, of both
  // results, and a factor of each expert's weight.
  Linear router_norm, expert_norm, post_dense_norm, post_expert_norm, expert_scale;
  Linear input_gate, input_proj, input_norm;  // of the layer's own input
  Linear output_scale;                        // [dim], of all that the layer gives
  // Not null: gate_experts and those beside it have places for some experts only.
  const ExpertCache* cache = nullptr;
};

struct Weights {
  Linear embedding;  // [vocab, dim]
  std::vector<LayerWeights> layers;
  Linear output_norm;
  Linear output;     // [vocab, dim]; the embedding where the file has none of its own
  Linear positions;  // [context, dim]: added to the embedding
  // Each layer's own input: rows of tokens [vocab, layers * per_layer_dim], products with embedded
  // rows [layers * per_layer_dim, dim], their norm [per_layer_dim].
  Linear layer_inputs, layer_input_proj, layer_input_norm;
  // Divisors of rope angles, f32 [rope dims / 2] or none: for every context, for contexts up to the
  // original one, for longer ones.
  Linear rope_factors, rope_short, rope_long;
};

struct UploadedTensor {
  Buffer buffer;  // immutable
  Tensor tensor;
};

// The one place where a stored matrix becomes a buffer: rows from first_row on, as many as shape
// has (of every matrix, where there are several), in the format that the device's kernels like
// best. Packs a few rows at a time, so that the peak of memory is the tensor itself.
Result<UploadedTensor> upload_tensor(const Device& device, const WeightSource& source,
                                     const StoredTensor& stored, std::uint64_t first_row,
                                     const Shape& shape);

// How the device stores a stored matrix, or several; unsupported where it has no kernel for it.
Result<Format> device_format(const Device& device, const StoredTensor& stored, const Shape& shape);
// Rows [first_row, first_row + rows) of a stored tensor, those of matrix number `matrix`, in that
// format.
Status read_rows(const WeightSource& source, const StoredTensor& stored, Format type,
                 std::uint64_t first_row, std::uint64_t rows, std::uint64_t cols,
                 std::uint64_t matrix, std::span<std::byte> out);

// MLX affine weights: packed where the device has kernels for that, else the three tensors as they
// are. Buffers go to `buffers`.
Result<Linear> upload_affine(const Device& device, const WeightSource& source,
                             const StoredAffine& stored, std::uint64_t first_row,
                             const Shape& shape, std::vector<Buffer>& buffers);

// One weight of a model, and where it comes from.
struct LoadedPart {
  const TensorRow* row;
  std::uint32_t layer;
  Linear weights;
};

// How many bytes of weights may be in memory. What does not fit is read from the source when it is
// needed: experts, as many at a time as there is room for. The CPU only.
struct WeightBudget {
  std::uint64_t bytes = 0;  // 0: all weights are in memory
  std::shared_ptr<const WeightSource> source{};
};

// Immutable after load; shared by any number of decoders.
class Model {
 public:
  static Result<std::shared_ptr<const Model>> load(const Device& device, const io::GgufFile& file);
  static Result<std::shared_ptr<const Model>> load(const Device& device, const ModelConfig& config,
                                                   const WeightSource& source,
                                                   const WeightBudget& budget = {});
  // A GGUF file, a folder with config.json and safetensors, or "synthetic:PRESET:QUANT".
  static Result<std::shared_ptr<const Model>> open(const Device& device, const std::string& path);

  ~Model();

  const Device& device() const noexcept { return device_; }
  const ModelConfig& config() const noexcept { return config_; }
  const Weights& weights() const noexcept { return weights_; }
  // Every weight once, tied or not.
  std::span<const LoadedPart> parts() const noexcept { return parts_; }
  std::uint64_t weight_bytes() const noexcept;
  // Of these, what one token's pass reads: one row of the embedding, the experts that are used.
  std::uint64_t token_bytes() const noexcept;
  // Rows of a pass: more could choose more experts than there are places for.
  std::uint32_t most_rows() const noexcept { return most_rows_; }
  // The first weights that could not be read when they were needed; results since then are wrong.
  Status status() const;

 private:
  friend class Loader;
  explicit Model(const Device& device);

  Device device_;
  ModelConfig config_;
  Weights weights_;
  std::vector<LoadedPart> parts_;
  std::vector<Buffer> buffers_;
  std::vector<std::unique_ptr<ExpertCache>> caches_;  // by layer; empty: all experts are in memory
  std::uint32_t most_rows_ = ~0u;
};

}  // namespace onepass::llm
