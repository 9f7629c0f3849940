// config.json of a model folder.
#include "input.h"
#include "io/json.h"
#include "llm/config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace onepass;
  const auto json = io::JsonValue::parse(text_of(data, size));
  if (!json) return 0;
  static_cast<void>(llm::read_config(*json));
  static_cast<void>(llm::read_quantization(*json));
  return 0;
}
