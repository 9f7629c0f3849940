#include "common/text_windows.h"

#include "commands/common.h"
#include "io/safetensors_file.h"

namespace onepass::tool {

Result<std::string> read_input(const std::string& path) {
  return path == "-" ? read_stdin() : io::read_text(path, max_input_bytes);
}

Result<std::optional<std::uint32_t>> begin_token(const llm::Tokenizer& tokenizer, bool always,
                                                 const char* command) {
  const auto bos = tokenizer.special_ids().bos;
  if (always && !bos) {
    return fail(ErrorCode::not_found,
                std::string(command) + " --bos: the model names no token that begins a text");
  }
  if (always) return bos;
  const auto empty = tokenizer.encode("");
  return bos && empty && !empty->empty() && empty->front() == *bos ? bos : std::nullopt;
}

Result<std::vector<std::uint32_t>> read_windows(const std::string& text, std::uint32_t window,
                                                const llm::Tokenizer& tokenizer,
                                                const char* command) {
  llm::EncodeOptions encode;
  encode.max_bytes = max_input_bytes;
  encode.max_tokens = max_input_bytes;
  ONEPASS_ASSIGN(std::vector<std::uint32_t> tokens, tokenizer.encode(text, encode));
  if (tokens.size() < 2 * std::size_t{window}) {
    return fail(ErrorCode::invalid_argument,
                std::string(command) + ": the text has " + std::to_string(tokens.size()) +
                    " tokens, two windows of " + std::to_string(window) + " are needed");
  }
  tokens.resize(tokens.size() / window * window);
  return tokens;
}

}  // namespace onepass::tool
