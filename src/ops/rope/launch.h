#pragma once

#include "onepass/kernel.h"

namespace onepass::ops {

Status launch_rope(const DeviceInfo& device, const Dispatch& d, Launch& launch);

}  // namespace onepass::ops
