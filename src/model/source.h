// Where the weights of a model come from, by the names that GGUF files use.
//
//   GgufSource source(file);
//   std::optional<StoredTensor> t = source.find("blk.0.attn_q.weight");
//   ONEPASS_TRY(source.read(*t, 0, bytes));
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/gguf_file.h"
#include "io/safetensors_file.h"
#include "model/config.h"
#include "onepass/dtype.h"

namespace onepass::llm {

struct StoredTensor {
  std::string name;            // as the file has it
  std::string type;            // likewise
  std::optional<DType> dtype;  // none: the library has no such type
  std::uint32_t rank = 0;
  std::array<std::uint64_t, 4> dims{1, 1, 1, 1};  // last one contiguous
  std::uint64_t bytes = 0;
  std::uint64_t at = Error::no_offset;  // of its description in the file
  float add = 0.0f;                     // to every value of a vector
  std::vector<float> scales{};          // of a matrix, or of each of several; none: 1
};

class WeightSource {
 public:
  virtual ~WeightSource() = default;
  virtual std::optional<StoredTensor> find(std::string_view name) const = 0;
  // Bytes of the tensor from offset on, as many as out holds.
  virtual Status read(const StoredTensor& tensor, std::uint64_t offset,
                      std::span<std::byte> out) const = 0;
  // How `part.weight` is quantized; nothing when its dtype says it all. With it, `part.scales` and
  // `part.biases` are there too.
  virtual Result<std::optional<AffineFormat>> affine(std::string_view part) const {
    static_cast<void>(part);
    return std::optional<AffineFormat>();
  }
};

// "blk.3.attn_q.weight" -> "model.layers.3.self_attn.q_proj.weight"; empty: no such tensor.
std::string folder_tensor_name(const Architecture& architecture, std::string_view name);

// The file must outlive it.
class GgufSource final : public WeightSource {
 public:
  explicit GgufSource(const io::GgufFile& file) : file_(file) {}
  std::optional<StoredTensor> find(std::string_view name) const override;
  Status read(const StoredTensor& tensor, std::uint64_t offset,
              std::span<std::byte> out) const override;

 private:
  const io::GgufFile& file_;
};

// A folder of Hugging Face or MLX: config.json and safetensors.
class FolderSource final : public WeightSource {
 public:
  static Result<FolderSource> open(const std::string& folder);
  // Of a config.json and the tensors beside it.
  static Result<FolderSource> create(const io::Json& config,
                                     std::shared_ptr<const io::SafetensorsFile> file);
  const ModelConfig& config() const noexcept { return config_; }
  const io::SafetensorsFile& file() const noexcept { return *file_; }

  std::optional<StoredTensor> find(std::string_view name) const override;
  Status read(const StoredTensor& tensor, std::uint64_t offset,
              std::span<std::byte> out) const override;
  Result<std::optional<AffineFormat>> affine(std::string_view part) const override;

 private:
  // folder_tensor_name, but for the output head of tied models.
  std::string translate(std::string_view name) const;

  ModelConfig config_;
  Quantization quantization_;
  bool tied_ = false;  // the embedding is the output head too
  std::shared_ptr<const io::SafetensorsFile> file_;
};

}  // namespace onepass::llm
