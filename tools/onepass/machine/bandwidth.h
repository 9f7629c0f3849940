// How fast this machine reads a model's weights.
#pragma once

#include "model/weights.h"

namespace onepass::tool {

// Bytes per second that the device's threads read from the weights when they do nothing else,
// over about 20 ms. 0: not known, the device is not the CPU.
double read_bandwidth(const llm::Model& model);

}  // namespace onepass::tool
