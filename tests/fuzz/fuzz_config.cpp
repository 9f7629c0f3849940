// config.json of a model folder.
#include "input.h"
#include "io/json.h"
#include "model/config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace onepass;
  const auto json = io::JsonDocument::parse(text_of(data, size));
  if (!json) return 0;
  static_cast<void>(llm::read_config(json->root()));
  static_cast<void>(llm::read_quantization(json->root()));
  return 0;
}
