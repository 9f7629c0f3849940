// Proof that an order of a recording's launches keeps all that their bytes demand.
#pragma once

#include <string>
#include <vector>

#include "core/backend.h"
#include "core/order.h"

namespace onepass::graph {

struct Violation {
  std::uint32_t first = 0, second = 0;       // launches of the recording
  std::uint64_t region = 0, lo = 0, hi = 0;  // bytes both touch; lo == hi: a fence separates them
  bool first_writes = false, second_writes = false;
  bool early = false;  // ordered, but the second reads before it waits for the first
};

// Every conflicting pair that is unordered or stands the other way round in the program (by
// RecordedLaunch::index), at most `limit` of them. The first one is the pair that stands closest
// together; where a single edge is missing, it is that edge. A programmatic edge counts only
// between launches that wait first, and does not order what the second reads before its wait
// (core/order.h). A malformed recording or order gives one violation of a launch with itself.
std::vector<Violation> find_violations(const Recording& recording, const Order& order,
                                       std::size_t limit = 1);

// Names both launches, the hazard and the bytes.
std::string describe(const Recording& recording, const Order& order, const Violation& violation);

// Ok, or `internal` with the first violation's description or what is malformed.
Status validate(const Recording& recording, const Order& order);

}  // namespace onepass::graph
