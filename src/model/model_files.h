// What the path of a model leads to, and what it offers. The one place that tells a GGUF file, a
// folder and a synthetic model apart.
//
//   ONEPASS_ASSIGN(const std::unique_ptr<ModelFiles> files, ModelFiles::open("model.gguf"));
//   ONEPASS_ASSIGN(const Tokenizer tokenizer, files->tokenizer());
//   ONEPASS_ASSIGN(const ModelConfig config, files->config());
//   ONEPASS_ASSIGN(const auto weights, files->weights());
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "io/gguf.h"
#include "io/json.h"
#include "model/config.h"
#include "model/source.h"
#include "text/tokenizer/tokenizer.h"

namespace onepass::llm {

enum class ModelStore : std::uint8_t {
  gguf,       // one file or the first of several
  folder,     // config.json and safetensors
  synthetic,  // "synthetic:PRESET:QUANT"
};
// By the path alone, but for a folder, which must be there.
ModelStore model_store(const std::string& path) noexcept;

struct FileTensor {
  std::string name, type;
  std::vector<std::uint64_t> dims;  // as in the file: GGUF has the contiguous one first
  std::uint64_t bytes = 0;
};

// Of a folder nothing is read before it is asked for, so that one with a tokenizer alone opens.
class ModelFiles {
 public:
  static Result<std::unique_ptr<ModelFiles>> open(const std::string& path);
  virtual ~ModelFiles() = default;

  virtual Result<ModelConfig> config() = 0;
  // Valid as long as this.
  virtual Result<std::unique_ptr<const WeightSource>> weights() = 0;
  virtual Result<std::vector<FileTensor>> tensors() = 0;
  // Bytes of a tensor from an offset on, by its name in the file.
  virtual Status read(const std::string& tensor, std::uint64_t offset,
                      std::span<std::byte> out) = 0;
  virtual Result<std::size_t> n_shards() = 0;
  virtual Result<Tokenizer> tokenizer() = 0;
  // not_found where the model has none.
  virtual Result<std::string> chat_template() = 0;
  // Null where it is another kind.
  virtual const io::Gguf* gguf_metadata() const noexcept { return nullptr; }
  // config.json of a folder; not_found where it is another kind.
  virtual Result<io::Json> folder_config();

  // Of all tensors as stored.
  Result<std::uint64_t> weight_bytes();
};

struct TokenizerTexts {
  std::string tokenizer, config;  // tokenizer.json and tokenizer_config.json, which may be missing
  std::vector<std::uint32_t> ends;  // eos_token_id of config.json and generation_config.json
};
Result<TokenizerTexts> read_tokenizer_texts(const std::string& folder);

}  // namespace onepass::llm
