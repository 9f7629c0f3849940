// The chat template that a model brings along.
#pragma once

#include <string>

#include "io/gguf.h"
#include "onepass/result.h"

namespace onepass::llm {

// not_found where the model has none; no tensor is read.

// chat_template.jinja, or chat_template of chat_template.json or tokenizer_config.json.
Result<std::string> folder_chat_template(const std::string& folder);
// Key tokenizer.chat_template. path: for errors.
Result<std::string> gguf_chat_template(const io::Gguf& file, const std::string& path);

}  // namespace onepass::llm
