// Devices by more than their name.
#pragma once

#include <span>
#include <string>

#include "onepass/device.h"

namespace onepass::tool {

// The name of the one device, other than null, whose description has the text in it, in either
// case: a part of what the vendor calls it or of its UUID. Nothing where there is none or the text
// has fewer than three characters; an error where there are several, or the one is refused.
Result<std::string> find_device(const std::string& text, std::span<const DeviceListing> listed);

}  // namespace onepass::tool
