// Where the weights of a model come from, by the names that GGUF files use.
//
//   GgufSource source(file);
//   std::optional<StoredTensor> t = source.find("blk.0.attn_q.weight");
//   ONEPASS_TRY(source.read(*t, 0, bytes));
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
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

struct Harmless;

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
  // Tensors of the file that it is made of, one after the other; none: it is one itself.
  std::vector<std::string> pieces{};
  std::string bad_piece{};  // the first one that is missing or not like the others
};

// MLX affine weights.
struct StoredAffine {
  StoredTensor weight, scales, biases;
  AffineFormat format;
};

class WeightSource {
 public:
  virtual ~WeightSource() = default;
  virtual std::optional<StoredTensor> find(std::string_view name) const = 0;
  // The name that the source itself has for a tensor.
  virtual std::string own_name(std::string_view name) const { return std::string(name); }
  // Every tensor there is, as stored.
  virtual std::vector<StoredTensor> stored() const = 0;
  // Why that tensor of the source need not be used; null: it must be.
  virtual const Harmless* harmless(std::string_view own_name) const = 0;
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

// The file must outlive it.
class GgufSource final : public WeightSource {
 public:
  explicit GgufSource(const io::GgufFile& file) : file_(file) {}
  std::optional<StoredTensor> find(std::string_view name) const override;
  std::vector<StoredTensor> stored() const override;
  const Harmless* harmless(std::string_view own_name) const override;
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
  std::string own_name(std::string_view name) const override;
  std::vector<StoredTensor> stored() const override;
  const Harmless* harmless(std::string_view own_name) const override;
  Status read(const StoredTensor& tensor, std::uint64_t offset,
              std::span<std::byte> out) const override;
  Result<std::optional<AffineFormat>> affine(std::string_view part) const override;

 private:
  void name_tensors();
  // Factors of rotation are numbers of config.json. Null: not one of their names.
  const std::vector<float>* factors(std::string_view name) const noexcept;

  ModelConfig config_;
  struct Name {
    std::vector<std::string> theirs;  // what may be there instead of each other
    std::uint32_t pieces = 0;         // of those with {}
    float add = 0.0f;
  };
  std::optional<StoredTensor> join_pieces(const std::string& name, std::uint32_t n) const;
  std::map<std::string, Name, std::less<>> names_;  // by those of GGUF files
  Quantization quantization_;
  bool tied_ = false;  // the embedding is the output head too
  std::shared_ptr<const io::SafetensorsFile> file_;
};

}  // namespace onepass::llm
