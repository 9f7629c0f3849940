// A GGUF header: metadata, tensors, configuration, vocabulary, and text through that vocabulary.
#include "input.h"
#include "io/gguf.h"
#include "model/config.h"
#include "text/tokenizer/tokenizer.h"
#include "text/tokenizer/vocabulary.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace onepass;
  const auto file = io::Gguf::parse(bytes_of(data, size));
  if (!file) return 0;
  static_cast<void>(llm::read_config(*file));
  auto vocabulary = llm::vocabulary_from_gguf(*file);
  if (!vocabulary) return 0;
  const auto tokenizer = llm::Tokenizer::from_vocabulary(std::move(*vocabulary));
  if (!tokenizer) return 0;
  const auto ids = tokenizer->encode(" Once upon a time\n\xc3\xa9 12");
  if (ids) static_cast<void>(tokenizer->decode(*ids));
  return 0;
}
