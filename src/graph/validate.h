// Proof that a recording keeps every order its bytes demand.
#pragma once

#include <string>
#include <vector>

#include "core/backend.h"

namespace onepass::graph {

struct Violation {
  std::uint32_t first = 0, second = 0;       // launches of the recording
  std::uint64_t region = 0, lo = 0, hi = 0;  // bytes both touch; lo == hi: a fence separates them
  bool first_writes = false, second_writes = false;
};

// Every conflicting pair that is unordered or stands the other way round in the program (by
// RecordedLaunch::index), at most `limit` of them. `model` says which order the backend keeps:
// levels, the edges handed over, or the order of the list. The first one is the pair that stands
// closest together; where a single edge is missing, it is that edge. A malformed recording
// gives one violation of a launch with itself.
std::vector<Violation> find_violations(const Recording& recording, ExecutionModel model,
                                       std::size_t limit = 1);

// Names both launches, the hazard and the bytes.
std::string describe(const Recording& recording, const Violation& violation);

// Ok, or `internal` with the first violation's description or what is malformed.
Status validate(const Recording& recording, ExecutionModel model);

}  // namespace onepass::graph
