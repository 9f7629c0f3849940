// The vocabulary as GGUF metadata gives it (keys tokenizer.ggml.*).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "text/tokenizer/tokenizer.h"

namespace onepass::io {
class Gguf;
}

namespace onepass::llm {

struct VocabularyData {
  std::string model;       // "llama", "gpt2" or "gemma4"
  std::string pre;         // empty: key missing
  std::string model_name;  // general.name
  std::vector<std::string> tokens;
  std::vector<float> scores;        // empty or one for each token
  std::vector<std::int32_t> types;  // empty or one for each token, numbers as in the file
  std::vector<std::string> merges;  // "left right"
  SpecialIds ids;                   // 0xFFFFFFFF counts as none
  std::optional<bool> add_bos, add_eos, add_space_prefix;
};

Result<VocabularyData> vocabulary_from_gguf(const io::Gguf& file);

}  // namespace onepass::llm
