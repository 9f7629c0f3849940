#pragma once

#include "onepass/kernel.h"

namespace onepass::ops {

Status launch_argmax(const DeviceInfo& device, const Dispatch& d, Launch& launch);
Status launch_step_advance(const DeviceInfo& device, const Dispatch& d, Launch& launch);

}  // namespace onepass::ops
