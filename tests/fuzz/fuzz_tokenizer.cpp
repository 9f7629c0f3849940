// tokenizer.json, then a little text through what it describes.
#include "input.h"
#include "text/tokenizer/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace onepass;
  const auto tokenizer = llm::Tokenizer::from_json(text_of(data, size));
  if (!tokenizer) return 0;
  const auto ids = tokenizer->encode(" Once upon a time\n\xc3\xa9 12");
  if (ids) static_cast<void>(tokenizer->decode(*ids));
  return 0;
}
