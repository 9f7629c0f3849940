// The header of a safetensors file.
#include "input.h"
#include "io/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static_cast<void>(onepass::io::Safetensors::parse(bytes_of(data, size)));
  return 0;
}
