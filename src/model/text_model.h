// A model together with its tokenizer.
//
//   ONEPASS_ASSIGN(TextModel m, open_text_model(device, "model.gguf"));
//   ONEPASS_TRY(m.tokenizer);                                     // why there is none
//   ONEPASS_ASSIGN(std::vector<std::uint32_t> ids, m.tokenizer->encode("Once upon a time"));
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "model/weights.h"
#include "text/tokenizer/tokenizer.h"

namespace onepass::llm {

struct TextModel {
  std::shared_ptr<const Model> model;
  Result<Tokenizer> tokenizer;
};

struct OpenOptions {
  bool tokenizer = true;            // false: TextModel::tokenizer is an error
  std::uint64_t weight_budget = 0;  // WeightBudget::bytes
  // Told what is going to be loaded, before any of it is: the bytes of all weights as stored. An
  // error ends loading.
  std::function<Status(const ModelConfig& config, std::uint64_t weight_bytes)> before_load =
      nullptr;
  // Bytes of weights read so far, and of all (0: unknown). An error ends loading.
  std::function<Status(std::uint64_t done, std::uint64_t total)> progress = nullptr;
};

// A GGUF file, a folder with config.json and safetensors, or "synthetic:PRESET:QUANT", which has no
// tokenizer. A model whose tokenizer cannot be used still opens.
Result<TextModel> open_text_model(const Device& device, const std::string& path,
                                  const OpenOptions& options = {});

}  // namespace onepass::llm
