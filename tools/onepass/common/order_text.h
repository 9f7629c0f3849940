// What a device is given of a plan's order, in words.
#pragma once

#include <string>

#include "onepass/plan.h"

namespace onepass::tool {

const char* order_name(OrderKind order) noexcept;  // "levels", "edges", "in order"

// "68 barriers", "72 edges (60 programmatic, 3 added)", or "no barriers" where one dispatch follows
// the other anyway.
std::string issued_text(const PlanReport& report);

}  // namespace onepass::tool
