// A pass that feeds itself: the device chooses a token and makes the next step from it, so that
// replay needs nothing from the host.
#include <cstdio>
#include <vector>

#include "onepass/onepass.hpp"
#include "onepass/ops.h"

using namespace onepass;

namespace {

Status run() {
  ONEPASS_ASSIGN(const Device device, Device::open("cpu"));
  constexpr std::uint32_t vocab = 8;
  // A model of one table: the logits after token t are largest for t + 1.
  std::vector<float> rows(vocab * vocab, 0.0f);
  for (std::uint32_t t = 0; t < vocab; ++t) rows[t * vocab + (t + 1) % vocab] = 1.0f;
  ONEPASS_ASSIGN(const Buffer weights, device.allocate(rows.size() * sizeof(float)));
  ONEPASS_TRY(device.write_as<float>(weights.view(), rows));
  ONEPASS_ASSIGN(const Buffer chosen, device.allocate(sizeof(std::uint32_t)));
  const Tensor next = chosen.tensor(DType::u32, {1});

  ONEPASS_ASSIGN(const StepState step, StepState::create(device, 1, 1));
  const GraphExecutor executor(device);
  GraphSession s = executor.begin_recorded();
  const Tensor logits = s.scratch(DType::f32, {1, vocab});
  ops::embed(
      s,
      {.table = weights.tensor(DType::f32, {vocab, vocab}), .out = logits, .tokens = step.view()});
  ops::argmax(s, {.x = logits, .out = next});
  ops::step_advance(s, {.tokens = next, .step = step.view()});
  ONEPASS_ASSIGN(const Plan plan, s.compile({.step = &step}));

  std::uint32_t token = 5;
  for (int i = 0; i < 6; ++i) {
    // The first run says where to begin, the others go on.
    ONEPASS_TRY(i == 0 ? plan.run(SingleStep(token, 0).values()) : plan.run());
    std::uint32_t read = 0;
    ONEPASS_TRY(device.read_as<std::uint32_t>(next.view, {&read, 1}));
    std::printf("%u ", read);
    if (read != (token + 1) % vocab) return fail(ErrorCode::internal, "wrong token");
    token = read;
  }
  std::printf("\n");
  return {};
}

}  // namespace

int main() {
  const Status status = run();
  if (!status) std::fprintf(stderr, "%s\n", status.error().to_string().c_str());
  return status ? 0 : 1;
}
