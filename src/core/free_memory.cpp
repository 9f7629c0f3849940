#include "core/free_memory.h"

#include "core/device_state.h"

namespace onepass {

std::uint64_t free_device_bytes(const Device& device) noexcept {
  auto* known = dynamic_cast<FreeMemory*>(&device.state().backend());
  return known == nullptr ? 0 : known->free_bytes();
}

}  // namespace onepass
