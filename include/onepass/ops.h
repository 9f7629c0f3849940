// The ops. Each checks shapes and dtypes, then asks the session for one dispatch; an error sticks
// to the session with the place of the call.
//
//   namespace ops = onepass::ops;
//   ops::rms_norm(s, {.x = h, .weight = w, .out = n, .eps = 1e-5f});
//   ops::matmul(s, {.x = n, .weight = wq, .out = q});
#pragma once

#include "onepass/ops/attention.h"
#include "onepass/ops/elementwise.h"
#include "onepass/ops/embed.h"
#include "onepass/ops/kv_cache.h"
#include "onepass/ops/matmul.h"
#include "onepass/ops/moe.h"
#include "onepass/ops/move.h"
#include "onepass/ops/norm.h"
#include "onepass/ops/quantize.h"
#include "onepass/ops/rope.h"
#include "onepass/ops/sample.h"
#include "onepass/ops/softmax.h"
