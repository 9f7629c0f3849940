// The chat template that a model brings along.
#pragma once

#include <string>

#include "onepass/result.h"

namespace onepass::llm {

// The text of the template of a GGUF file (key tokenizer.chat_template) or of a folder
// (chat_template.jinja, chat_template.json or tokenizer_config.json); no tensor is read. not_found
// where the model has none.
Result<std::string> read_chat_template(const std::string& path);

}  // namespace onepass::llm
