// Softmax over the last dimension.
//
//   ops::softmax(s, {.x = scores, .out = p});
#pragma once

#include <cstdint>

#include "onepass/ops/common.h"

namespace onepass::ops {

void softmax(GraphSession& s, const Unary& a, Here here = Here::now());

}  // namespace onepass::ops
