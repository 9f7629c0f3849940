// Models from one kind of file to the other: a folder of MLX or Hugging Face, and GGUF.
//
//   ONEPASS_ASSIGN(ConvertReport r, folder_to_gguf("folder", "model.gguf", {}));
//   ONEPASS_ASSIGN(ConvertReport r, gguf_to_folder("model.gguf", "folder", {.bits = 4}));
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "model/config.h"
#include "model/quant_mix.h"
#include "model/weight_plan.h"

namespace onepass::llm {

struct ConvertOptions {
  // Of matrices in a GGUF file; null: as they are stored, f16 for quantized ones.
  const QuantMix* mix = nullptr;
  // Of a folder, f32, f16 or bf16; none: as the embedding is stored, f16 for quantized ones.
  std::optional<DType> type = std::nullopt;
  std::uint32_t bits = 0;  // of a folder: MLX affine matrices; 0: plain ones
  std::uint32_t group_size = 64;
  bool tokenizer = true;  // false: without one
  std::uint32_t threads = 0;
  // Values done, and of all. An error ends the work.
  std::function<Status(std::uint64_t done, std::uint64_t total)> progress = nullptr;
};

struct ConvertReport {
  std::string architecture;
  std::uint64_t tensors = 0, values = 0;
  std::uint64_t bytes = 0;  // of tensors, in the new model
  bool tokenizer = false;   // the source had one
  std::vector<LeftOut> left_out{};
};

// What one side cannot say is an error of code unsupported. The result is there under its name only
// once it is complete; a file of the name is replaced, a folder must not be there.
Result<ConvertReport> folder_to_gguf(const std::string& folder, const std::string& path,
                                     const ConvertOptions& options);
Result<ConvertReport> gguf_to_folder(const std::string& path, const std::string& folder,
                                     const ConvertOptions& options);

// GGUF files of some architectures order the rows of a head of queries and keys pairwise: row 2 i +
// t there is row t * half + i in a folder. In place; rows of `cols` values, whole heads.
void pair_head_rows(std::span<float> values, std::uint64_t head_dim, std::uint64_t cols);
void unpair_head_rows(std::span<float> values, std::uint64_t head_dim, std::uint64_t cols);

// The text of config.json. `quantization` is a member of it, with its name, or empty.
Result<std::string> config_json(const ModelConfig& config, const io::Gguf& file,
                                const std::vector<float>& rope_factors, DType type, bool tied,
                                const std::string& quantization);

}  // namespace onepass::llm
