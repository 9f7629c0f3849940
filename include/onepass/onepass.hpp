// Everything but compat.h and ops.h.
//
//   const onepass::Result<onepass::Device> device = onepass::Device::open("cpu");
//   if (!device) return device.error();  // what, expected, got, where
//   const onepass::GraphExecutor executor(*device);
//   onepass::GraphSession s = executor.begin_recorded();
#pragma once

#include "onepass/backends/cpu.h"
#include "onepass/backends/cuda.h"
#include "onepass/backends/vulkan.h"
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
