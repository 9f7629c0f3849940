// The weights of a model on a device.
//
//   ONEPASS_ASSIGN(io::GgufFile file, io::GgufFile::open("model.gguf"));
//   ONEPASS_ASSIGN(std::shared_ptr<const Model> model, Model::load(device, file));
//   model->weights().layers[0].q;                                 // [heads * head_dim, dim]
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "io/gguf_file.h"
#include "llm/config.h"
#include "onepass/device.h"

namespace onepass::llm {

struct LayerWeights {
  Tensor attn_norm, q, k, v, o;
  Tensor ffn_norm, gate, up, down;
};

struct Weights {
  Tensor embedding;  // [vocab, dim]
  std::vector<LayerWeights> layers;
  Tensor output_norm;
  Tensor output;          // [vocab, dim]; the embedding where the file has none of its own
  Tensor rope_factors{};  // f32 [head_dim / 2] or none
};

// What a tensor is for decides how it is stored.
enum class WeightRole : std::uint8_t {
  matrix,  // rows of matmul or embed, in the file's format
  vector,  // f32, whatever the file has
};

struct UploadedTensor {
  Buffer buffer;  // immutable
  Tensor tensor;
};

// The one place where a tensor of a file becomes a buffer. shape is the expected one, last
// dimension contiguous.
Result<UploadedTensor> upload_tensor(const Device& device, const io::GgufFile& file,
                                     std::string_view name, const Shape& shape, WeightRole role);

// Immutable after load; shared by any number of decoders.
class Model {
 public:
  static Result<std::shared_ptr<const Model>> load(const Device& device, const io::GgufFile& file);

  const Device& device() const noexcept { return device_; }
  const ModelConfig& config() const noexcept { return config_; }
  const Weights& weights() const noexcept { return weights_; }
  std::uint64_t weight_bytes() const noexcept;

 private:
  explicit Model(const Device& device) : device_(device) {}
  Status load_weights(const io::GgufFile& file);
  Status load_layer(const io::GgufFile& file, std::uint32_t i);
  Status load_rope_factors(const io::GgufFile& file);
  Result<Tensor> take(const io::GgufFile& file, const std::string& name, const Shape& shape,
                      WeightRole role);

  Device device_;
  ModelConfig config_;
  Weights weights_;
  std::vector<Buffer> buffers_;
};

}  // namespace onepass::llm
