// The names of the ancestor's encoder and graph, as thin wrappers over one encode and one finish.
// docs/seed-api.md has a row for each.
//
//   namespace compat = onepass::compat;
//   compat::CommandEncoder encoder(device);
//   compat::GraphExecutor executor(device);
#pragma once

#include "onepass/compat/args.h"
#include "onepass/compat/encoder.h"
#include "onepass/compat/session.h"
