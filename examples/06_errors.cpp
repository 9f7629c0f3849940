// Errors are values: nothing aborts, nothing throws, and what failed can be tried again.
#include <cstdio>
#include <vector>

#include "onepass/onepass.hpp"
#include "onepass/ops.h"

using namespace onepass;

namespace {

// Prints the error that is expected; another one, or none, is the example's own error.
template <class T>
Status expect(const Result<T>& result, ErrorCode code) {
  if (result || result.error().code != code) {
    return fail(ErrorCode::internal, std::string("expected the error ") + name(code));
  }
  std::printf("%s\n", result.error().to_string().c_str());
  return {};
}

Status run() {
  ONEPASS_TRY(expect(Device::open("abacus"), ErrorCode::not_found));
  ONEPASS_ASSIGN(const Device device, Device::open("cpu"));
  ONEPASS_ASSIGN(Buffer a, device.allocate(64 * sizeof(float)));
  ONEPASS_ASSIGN(const Buffer b, device.allocate(32 * sizeof(float)));
  const Tensor wide = a.tensor(DType::f32, {64}), narrow = b.tensor(DType::f32, {32});
  const GraphExecutor executor(device);

  // Ops return nothing. The session keeps the first error, with the line of the call.
  GraphSession wrong = executor.begin_recorded();
  ops::mul(wrong, {.a = wide, .b = narrow, .out = wide});
  ops::mul(wrong, {.a = wide, .b = wide, .out = wide});
  ONEPASS_TRY(expect(wrong.finish(), ErrorCode::invalid_argument));

  GraphSession s = executor.begin_recorded();
  ops::mul(s, {.a = wide, .b = wide, .out = wide});
  ONEPASS_ASSIGN(const Plan plan, s.compile());
  ONEPASS_TRY(plan.run());
  a.reset();  // while the plan still names it: its id tells
  ONEPASS_TRY(expect(plan.run(), ErrorCode::stale));

  // The device is as good as before.
  GraphSession again = executor.begin_recorded();
  ops::mul(again, {.a = narrow, .b = narrow, .out = narrow});
  ONEPASS_TRY(again.finish());
  return {};
}

}  // namespace

int main() {
  const Status status = run();
  if (!status) std::fprintf(stderr, "%s\n", status.error().to_string().c_str());
  return status ? 0 : 1;
}
