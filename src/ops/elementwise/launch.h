#pragma once

#include "onepass/kernel.h"

namespace onepass::ops {

Status launch_elementwise(const DeviceInfo& device, const Dispatch& d, Launch& launch);
Status launch_copy(const DeviceInfo& device, const Dispatch& d, Launch& launch);

}  // namespace onepass::ops
