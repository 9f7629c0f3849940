// A backend that may change an order after it was proven, and runs it as changed.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "graph/validate.h"
#include "support/backends/forwarding.h"

namespace onepass::test {

class TamperingBackend final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;

  std::function<void(Order&)> tamper;  // empty: what comes is what runs
  // Of the recording that came last.
  const Order* got = nullptr;           // the object that came from above
  std::vector<graph::Violation> found;  // in what runs

  Result<std::unique_ptr<Recorded>> record(const Recording& r, const Order& order) override {
    got = &order;
    Order run = order;
    if (tamper) tamper(run);
    found = graph::find_violations(r, run);
    return inner_->record(r, run);
  }
};

}  // namespace onepass::test
