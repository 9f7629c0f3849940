#pragma once

#include "onepass/kernel.h"

namespace onepass::ops {

// On the CPU a tile is one head of one row.
Status launch_attention(const DeviceInfo& device, const Dispatch& d, Launch& launch);

}  // namespace onepass::ops
