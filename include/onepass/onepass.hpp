// Everything but compat.h and ops.h.
//
//   #include <onepass/onepass.hpp>
//   #include <onepass/ops.h>
//   auto device = onepass::Device::open("cpu");
//   onepass::GraphExecutor executor(*device);
#pragma once

#include "onepass/buffer.h"
#include "onepass/device.h"
#include "onepass/dispatch.h"
#include "onepass/dtype.h"
#include "onepass/encoder.h"
#include "onepass/graph.h"
#include "onepass/kernel.h"
#include "onepass/plan.h"
#include "onepass/pool.h"
#include "onepass/result.h"
#include "onepass/session.h"
#include "onepass/step_state.h"
#include "onepass/tracker.h"
#include "onepass/version.h"
