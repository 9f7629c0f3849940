// Kernels, dispatches, passes and plans.
#include <array>

#include "snippets.h"

namespace snippets {
namespace {

namespace ops = onepass::ops;
using onepass::Device;
using onepass::Status;
using onepass::Tensor;

onepass::Result<onepass::KernelId> add_twice(const Device& device) {
  // [kernel.h]
  const onepass::KernelDesc desc{
      .name = "twice", .slots = "io", .cpu = [](const onepass::KernelArgs& a) noexcept {
        a.ptr<float>(1)[a.tile] = 2 * a.ptr<float>(0)[a.tile];  // tiles run side by side
      }};
  ONEPASS_ASSIGN(const onepass::KernelId twice, device.kernels().add(desc));
  // [kernel.h]
  return twice;
}

onepass::Dispatch twice_of(onepass::KernelId kernel, const Tensor& x, const Tensor& y) {
  onepass::Dispatch d = onepass::make_dispatch(onepass::Op::custom);
  d.kernel = kernel;
  d.grid = onepass::Grid::groups({64, 1, 1}, {1, 1, 1});
  d.bind(x.view, onepass::Access::read);
  d.bind(y.view, onepass::Access::write);
  return d;
}

Status dispatch(const Device& device) {
  Arrays arrays(device);
  const Tensor x = arrays.fill({1}, 3.0f);
  onepass::KernelDesc desc{.name = "square", .slots = "x"};
  desc.cpu = [](const onepass::KernelArgs& a) noexcept { *a.ptr<float>(0) *= *a.ptr<float>(0); };
  ONEPASS_ASSIGN(const onepass::KernelId square, device.kernels().add(desc));
  const onepass::GraphExecutor executor(device);
  onepass::GraphSession session = executor.begin_recorded();
  // [dispatch.h]
  onepass::Dispatch d = onepass::make_dispatch(onepass::Op::custom);
  d.kernel = square;  // built-in ops are asked for by onepass/ops.h
  d.bind(x.view, onepass::Access::read_write);
  session.encode(d);
  // [dispatch.h]
  ONEPASS_TRY(session.finish());
  ONEPASS_ASSIGN(const std::vector<float> out, arrays.read(x));
  return check(out[0] == 9.0f);
}

Status encoder(const Device& device) {
  Arrays arrays(device);
  const Tensor x = arrays.fill({64}, 3.0f), y = arrays.zeros({64}), z = arrays.zeros({64});
  ONEPASS_ASSIGN(const onepass::KernelId kernel, add_twice(device));
  const std::array dispatches{twice_of(kernel, x, y), twice_of(kernel, y, z)};
  // [encoder.h]
  onepass::CommandEncoder encoder(device);
  for (const onepass::Dispatch& d : dispatches) encoder.encode(d);  // barriers included
  ONEPASS_ASSIGN(const onepass::Submission done, encoder.commit("layer 0"));
  ONEPASS_TRY(done.wait());
  // [encoder.h]
  ONEPASS_ASSIGN(const std::vector<float> out, arrays.read(z));
  return check(out == std::vector<float>(64, 12.0f));
}

Status graph(const Device& device) {
  Arrays arrays(device);
  const Tensor x = arrays.fill({64}, 3.0f), y = arrays.zeros({64}), z = arrays.zeros({64});
  ONEPASS_ASSIGN(const onepass::KernelId kernel, add_twice(device));
  onepass::CommandEncoder encoder(device);
  encoder.start_capture();
  encoder.encode(twice_of(kernel, x, y));
  encoder.encode(twice_of(kernel, y, z));
  // [graph.h]
  std::optional<onepass::ComputeGraph> graph = encoder.take_capture();  // after start_capture()
  ONEPASS_TRY(graph->fuse(device));
  ONEPASS_TRY(graph->reorder(onepass::Policy::exact));
  ONEPASS_ASSIGN(const std::uint32_t barriers, graph->encode_with_barriers(encoder));
  // [graph.h]
  ONEPASS_TRY(encoder.commit_and_wait());
  ONEPASS_ASSIGN(const std::vector<float> out, arrays.read(z));
  return check(barriers == 1 && out == std::vector<float>(64, 12.0f));
}

Status kernel(const Device& device) {
  ONEPASS_ASSIGN(const onepass::KernelId id, add_twice(device));
  return check(device.kernels().label(id) == "twice");
}

Status session(const Device& device) {
  Arrays arrays(device);
  const Tensor x = arrays.fill({1, 64}, 3.0f), w = arrays.fill({64}, 2.0f);
  const Tensor y = arrays.zeros({1, 64});
  ONEPASS_TRY(arrays.status());
  const onepass::GraphExecutor executor(device);
  // [session.h]
  onepass::GraphSession s = executor.begin_recorded();
  const onepass::Tensor h = s.scratch(onepass::DType::f32, {1, 64});
  onepass::ops::rms_norm(s, {.x = x, .weight = w, .out = h});
  onepass::ops::add(s, {.a = h, .b = x, .out = y});
  ONEPASS_ASSIGN(const onepass::FinishReport report, s.finish());
  // [session.h]
  ONEPASS_ASSIGN(const std::vector<float> out, arrays.read(y));
  return check(report.submissions == 1 && out[63] > 4.99f && out[63] < 5.01f);
}

// Row t of the table is largest at t + 1.
std::vector<float> next_token_table(std::uint32_t vocab) {
  std::vector<float> rows(std::size_t{vocab} * vocab, 0.0f);
  for (std::uint32_t t = 0; t < vocab; ++t) rows[t * vocab + (t + 1) % vocab] = 1.0f;
  return rows;
}

Status plan(const Device& device) {
  constexpr std::uint32_t vocab = 8, token = 2;
  Arrays arrays(device);
  const Tensor table = arrays.f32({vocab, vocab}, next_token_table(vocab));
  const Tensor next = arrays.empty(onepass::DType::u32, {1});
  ONEPASS_TRY(arrays.status());
  ONEPASS_ASSIGN(const onepass::StepState step, onepass::StepState::create(device, 1, 1));
  const onepass::GraphExecutor executor(device);
  onepass::GraphSession session = executor.begin_recorded();
  const Tensor logits = session.scratch(onepass::DType::f32, {1, vocab});
  ops::embed(session, {.table = table, .out = logits, .tokens = step.view()});
  ops::argmax(session, {.x = logits, .out = next});
  ops::step_advance(session, {.tokens = next, .step = step.view()});
  // [plan.h]
  ONEPASS_ASSIGN(const onepass::Plan plan, session.compile({.step = &step}));
  ONEPASS_TRY(plan.run(onepass::SingleStep(token, 0).values()));
  ONEPASS_TRY(plan.run());  // the device advanced the state itself
  ONEPASS_ASSIGN(const onepass::Submission last, plan.run_async());
  // [plan.h]
  ONEPASS_TRY(last.wait());
  ONEPASS_ASSIGN(const std::vector<std::uint32_t> out, arrays.read<std::uint32_t>(next));
  return check(out[0] == token + 3);
}

Status step_state(const Device& device) {
  constexpr std::uint32_t token = 0, position = 5;
  Arrays arrays(device);
  const Tensor q = arrays.fill({1, 2, 8}, 1.0f);
  ONEPASS_TRY(arrays.status());
  const onepass::GraphExecutor executor(device);
  onepass::GraphSession s = executor.begin_recorded();
  // [step_state.h]
  ONEPASS_ASSIGN(const onepass::StepState step, onepass::StepState::create(device, 1, 1));
  ops::rope(s, {.x = q, .out = q, .positions = step.view()});
  ONEPASS_ASSIGN(const onepass::Plan plan, s.compile({.step = &step}));
  ONEPASS_TRY(plan.run(onepass::SingleStep(token, position).values()));  // writes it, then runs
  // [step_state.h]
  ONEPASS_ASSIGN(const std::vector<float> out, arrays.read(q));
  // Turned by five radians: cos(5) - sin(5).
  return check(out[0] > 1.24f && out[0] < 1.25f);
}

constexpr Snippet list[] = {
    {"dispatch.h", dispatch},     {"encoder.h", encoder}, {"graph.h", graph},
    {"kernel.h", kernel},         {"plan.h", plan},       {"session.h", session},
    {"step_state.h", step_state},
};

}  // namespace

std::span<const Snippet> graph() { return list; }

}  // namespace snippets
