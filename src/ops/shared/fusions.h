// The functions that rows of tables/fusions.def name. True: `fused` does what first and second do.
#pragma once

#include "onepass/dispatch.h"

namespace onepass::ops {

#define MERGE(merge) bool merge(const Dispatch& first, const Dispatch& second, Dispatch& fused);
#define CHAIN(name, first, second, fused, in_place, exact, merge) MERGE(merge)
#define CHAIN_KEEPING(name, first, second, fused, in_place, exact, merge) MERGE(merge)
#define PAIR(name, first, second, fused, in_place, exact, merge) MERGE(merge)
#include "onepass/tables/fusions.def"
#undef MERGE

}  // namespace onepass::ops
