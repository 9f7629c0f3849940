// Bytes through the vocabulary of the model in the box: decoding the ids gives valid text back.
#include <cstdlib>
#include <iostream>

#include "input.h"
#include "io/gguf_file.h"
#include "text/tokenizer/tokenizer.h"
#include "text/tokenizer/vocabulary.h"

namespace {

onepass::Result<onepass::llm::Tokenizer> open_tokenizer() {
  using namespace onepass;
  ONEPASS_ASSIGN(const io::GgufFile file,
                 io::GgufFile::open(ONEPASS_SOURCE_DIR "/models/stories-12m-q8_0.gguf"));
  ONEPASS_ASSIGN(llm::VocabularyData data, llm::vocabulary_from_gguf(file.metadata()));
  return llm::Tokenizer::from_vocabulary(std::move(data));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto tokenizer = open_tokenizer();
  if (!tokenizer) {
    std::cerr << tokenizer.error().to_string() << '\n';
    std::abort();
  }
  const auto ids = tokenizer->encode(text_of(data, size));
  if (!ids) return 0;
  const auto text = tokenizer->decode(*ids);
  if (!text) std::abort();
  return 0;
}
