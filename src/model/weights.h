// The weights of a model on a device.
//
//   ONEPASS_ASSIGN(io::GgufFile file, io::GgufFile::open("model.gguf"));
//   ONEPASS_ASSIGN(std::shared_ptr<const Model> model, Model::load(device, file));
//   model->weights().layers[0].q.weight;                          // [heads * head_dim, dim]
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "io/gguf_file.h"
#include "model/config.h"
#include "model/source.h"
#include "onepass/device.h"

namespace onepass::llm {

// y = x * weight^T [+ bias].
struct Linear {
  Tensor weight;  // [n, k]; of MLX affine weights that are not packed u32 [n, k * bits / 32]
  Tensor scales{}, biases{};  // of those [n, k / group_size], else none
  AffineFormat affine{};
  Tensor bias{};  // f32 [n] or none
};

struct LayerWeights {
  Tensor attn_norm;
  Linear q, k, v, o;
  Tensor q_norm{}, k_norm{};  // [head_dim]
  Tensor post_attention_norm{};
  Tensor ffn_norm;
  Linear gate, up, down;                                // without experts
  Linear router;                                        // [experts, dim]
  Tensor gate_experts{}, up_experts{}, down_experts{};  // [experts, n, k]
  Tensor post_ffn_norm{};
};

struct Weights {
  Linear embedding;  // [vocab, dim]
  std::vector<LayerWeights> layers;
  Tensor output_norm;
  Linear output;  // [vocab, dim]; the embedding where the file has none of its own
  // Divisors of rope angles, f32 [rope dims / 2] or none: for every context, for contexts up to the
  // original one, for longer ones.
  Tensor rope_factors{}, rope_short{}, rope_long{};
};

struct UploadedTensor {
  Buffer buffer;  // immutable
  Tensor tensor;
};

// The one place where a stored matrix becomes a buffer: rows from first_row on, as many as shape
// has, in the format that the device's kernels like best. Packs a few rows at a time, so that the
// peak of memory is the tensor itself.
Result<UploadedTensor> upload_tensor(const Device& device, const WeightSource& source,
                                     const StoredTensor& stored, std::uint64_t first_row,
                                     const Shape& shape);

// MLX affine weights: packed where the device has kernels for that, else the three tensors as they
// are. Buffers go to `buffers`.
struct StoredAffine {
  StoredTensor weight, scales, biases;
  AffineFormat format;
};
Result<Linear> upload_affine(const Device& device, const WeightSource& source,
                             const StoredAffine& stored, std::uint64_t first_row,
                             std::uint32_t rows, std::uint32_t cols, std::vector<Buffer>& buffers);

// Immutable after load; shared by any number of decoders.
class Model {
 public:
  static Result<std::shared_ptr<const Model>> load(const Device& device, const io::GgufFile& file);
  static Result<std::shared_ptr<const Model>> load(const Device& device, const ModelConfig& config,
                                                   const WeightSource& source);
  // A GGUF file, a folder with config.json and safetensors, or "synthetic:PRESET:QUANT".
  static Result<std::shared_ptr<const Model>> open(const Device& device, const std::string& path);

  const Device& device() const noexcept { return device_; }
  const ModelConfig& config() const noexcept { return config_; }
  const Weights& weights() const noexcept { return weights_; }
  std::uint64_t weight_bytes() const noexcept;
  // Of these, what one token's pass reads: one row of the embedding, the experts that are used.
  std::uint64_t token_bytes() const noexcept;

 private:
  friend class Loader;
  explicit Model(const Device& device) : device_(device) {}

  Device device_;
  ModelConfig config_;
  Weights weights_;
  std::vector<Buffer> buffers_;
};

}  // namespace onepass::llm
