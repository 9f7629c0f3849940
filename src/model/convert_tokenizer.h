// Vocabularies between tokenizer.json and the keys tokenizer.* of GGUF files. Whatever is written
// is read again and must give the ids of the source on a text of many kinds of words.
#pragma once

#include <cstdint>
#include <string>

#include "io/gguf.h"
#include "io/gguf_output.h"

namespace onepass::llm {

// Sets the keys by the files in the folder; false: there is no tokenizer.json. The list of tokens
// gets `vocab` entries.
Result<bool> tokenizer_to_gguf(const std::string& folder, std::uint32_t vocab, io::GgufOutput& out);
// Writes tokenizer.json and tokenizer_config.json; false: the file has no vocabulary.
Result<bool> tokenizer_to_folder(const io::Gguf& file, const std::string& folder);

}  // namespace onepass::llm
