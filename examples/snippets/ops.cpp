// The ops, each on a few numbers that can be checked by hand.
#include <cmath>
#include <cstring>

#include "snippets.h"

namespace snippets {
namespace {

using onepass::Device;
using onepass::DType;
using onepass::Status;
using onepass::StepState;
using onepass::Tensor;
namespace ops = onepass::ops;

bool near(float a, float b) { return std::abs(a - b) <= 1e-3f * (1.0f + std::abs(b)); }

// A session and arrays for it.
struct Pass : Arrays {
  explicit Pass(const Device& device) : Arrays(device), executor(device) {}
  Status run() {
    ONEPASS_TRY(status());
    ONEPASS_TRY(s.finish());
    return {};
  }
  onepass::GraphExecutor executor;
  onepass::GraphSession s = executor.begin_recorded();
};

// A pass of one token at `position`.
Status run_at(Pass& pass, const StepState& step, std::uint32_t token, std::uint32_t position) {
  ONEPASS_TRY(pass.status());
  ONEPASS_ASSIGN(const onepass::Plan plan, pass.s.compile({.step = &step}));
  return plan.run(onepass::SingleStep(token, position).values());
}

Status all(const Device& device) {
  Pass pass(device);
  onepass::GraphSession& s = pass.s;
  const Tensor h = pass.fill({1, 64}, 3.0f), w = pass.fill({64}, 1.0f);
  const Tensor wq = pass.fill({32, 64}, 0.5f), q = pass.zeros({1, 32});
  const Tensor n = s.scratch(DType::f32, {1, 64});
  {
    // [ops.h]
    namespace ops = onepass::ops;
    ops::rms_norm(s, {.x = h, .weight = w, .out = n, .eps = 1e-5f});
    ops::matmul(s, {.x = n, .weight = wq, .out = q});
    // [ops.h]
  }
  ONEPASS_TRY(pass.run());
  ONEPASS_ASSIGN(const std::vector<float> out, pass.read(q));
  return check(near(out[31], 32.0f));
}

Status attention(const Device& device) {
  Pass pass(device);
  onepass::GraphSession& s = pass.s;
  ONEPASS_ASSIGN(const StepState step, StepState::create(device, 1, 1));
  const Tensor q = pass.fill({1, 2, 8}, 1.0f), o = pass.zeros({1, 2, 8});
  const Tensor k_cache = pass.fill({1, 1, 16, 8}, 1.0f), v_cache = pass.fill({1, 1, 16, 8}, 4.0f);
  // [ops/attention.h]
  ops::attention(s, {.q = q, .k = k_cache, .v = v_cache, .out = o, .step = step.view()});
  // [ops/attention.h]
  ONEPASS_TRY(run_at(pass, step, 0, 3));
  ONEPASS_ASSIGN(const std::vector<float> out, pass.read(o));
  return check(near(out[0], 4.0f) && near(out[15], 4.0f));
}

Status elementwise(const Device& device) {
  Pass pass(device);
  onepass::GraphSession& s = pass.s;
  const Tensor gate = pass.fill({2, 8}, 20.0f), up = pass.fill({2, 8}, 2.0f),
               h = pass.zeros({2, 8});
  const Tensor q = pass.fill({2, 8}, 1.0f), q_bias = pass.fill({8}, 0.5f);
  // [ops/elementwise.h]
  ops::silu_mul(s, {.a = gate, .b = up, .out = h});
  ops::add(s, {.a = q, .b = q_bias, .out = q});  // b [dim]: added to every row
  // [ops/elementwise.h]
  ONEPASS_TRY(pass.run());
  ONEPASS_ASSIGN(const std::vector<float> gated, pass.read(h));
  ONEPASS_ASSIGN(const std::vector<float> sum, pass.read(q));
  return check(near(gated[15], 40.0f) && sum[15] == 1.5f);
}

Status embed(const Device& device) {
  Pass pass(device);
  onepass::GraphSession& s = pass.s;
  ONEPASS_ASSIGN(const StepState step, StepState::create(device, 1, 1));
  const Tensor tokens = pass.f32({2, 4}, {0, 1, 2, 3, 4, 5, 6, 7}), h = pass.zeros({1, 4});
  // [ops/embed.h]
  ops::embed(s, {.table = tokens, .out = h, .tokens = step.view()});
  // [ops/embed.h]
  ONEPASS_TRY(run_at(pass, step, 1, 0));
  ONEPASS_ASSIGN(const std::vector<float> out, pass.read(h));
  return check(out == std::vector<float>{4, 5, 6, 7});
}

Status kv_cache(const Device& device) {
  Pass pass(device);
  onepass::GraphSession& s = pass.s;
  ONEPASS_ASSIGN(const StepState step, StepState::create(device, 1, 1));
  const Tensor k = pass.fill({1, 1, 8}, 2.0f), k_cache = pass.zeros({1, 1, 4, 8});
  // [ops/kv_cache.h]
  ops::kv_store(s, {.x = k, .cache = k_cache, .step = step.view()});
  // [ops/kv_cache.h]
  ONEPASS_TRY(run_at(pass, step, 0, 3));
  ONEPASS_ASSIGN(const std::vector<float> out, pass.read(k_cache));
  return check(out[23] == 0.0f && out[24] == 2.0f && out[31] == 2.0f);
}

Status matmul(const Device& device) {
  Pass pass(device);
  onepass::GraphSession& s = pass.s;
  const Tensor n = pass.fill({1, 8}, 1.0f), q = pass.zeros({1, 2});
  const Tensor wq = pass.f32({2, 8}, {1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2});
  // [ops/matmul.h]
  ops::matmul(s, {.x = n, .weight = wq, .out = q});
  // [ops/matmul.h]
  ONEPASS_TRY(pass.run());
  ONEPASS_ASSIGN(const std::vector<float> out, pass.read(q));
  return check(near(out[0], 8.0f) && near(out[1], 16.0f));
}

Status moe(const Device& device) {
  constexpr std::uint32_t experts = 4, used = 2, dim = 32;
  Pass pass(device);
  onepass::GraphSession& s = pass.s;
  const Tensor router = pass.f32({1, experts}, {0.0f, 5.0f, 1.0f, 5.0f});
  const Tensor ids = pass.empty(DType::u32, {1, used}), w = pass.zeros({1, used});
  const Tensor h = pass.fill({1, dim}, 1.0f), down = pass.fill({experts, dim, dim}, 0.25f);
  const Tensor y = pass.zeros({1, used, dim});
  // [ops/moe.h]
  ops::moe_gate(s, {.logits = router, .ids = ids, .weights = w});
  ops::matmul_id(s, {.x = h, .weight = down, .ids = ids, .out = y});
  ops::moe_reduce(s, {.y = y, .weights = w, .out = h, .residual = h});
  // [ops/moe.h]
  ONEPASS_TRY(pass.run());
  ONEPASS_ASSIGN(const std::vector<std::uint32_t> chosen, pass.read<std::uint32_t>(ids));
  ONEPASS_ASSIGN(const std::vector<float> out, pass.read(h));
  return check(chosen == std::vector<std::uint32_t>{1, 3} && near(out[0], 9.0f));
}

Status move(const Device& device) {
  constexpr std::uint32_t q_dim = 2;
  Pass pass(device);
  onepass::GraphSession& s = pass.s;
  const Tensor rows = pass.f32({3, 2}, {0, 1, 2, 3, 4, 5}), ids = pass.u32({2}, {2, 0});
  const Tensor picked = pass.zeros({2, 2});
  const Tensor qkv = pass.f32({1, 4}, {0, 1, 2, 3}), k = pass.zeros({1, 1});
  // [ops/move.h]
  ops::gather(s, {.x = rows, .indices = ids, .out = picked});
  ops::slice(s, {.x = qkv, .out = k, .start = q_dim});
  // [ops/move.h]
  ONEPASS_TRY(pass.run());
  ONEPASS_ASSIGN(const std::vector<float> out, pass.read(picked));
  ONEPASS_ASSIGN(const std::vector<float> key, pass.read(k));
  return check(out == std::vector<float>{4, 5, 0, 1} && key[0] == 2.0f);
}

Status norm(const Device& device) {
  Pass pass(device);
  onepass::GraphSession& s = pass.s;
  const Tensor h = pass.fill({1, 64}, -3.0f), w = pass.fill({64}, 2.0f), n = pass.zeros({1, 64});
  // [ops/norm.h]
  ops::rms_norm(s, {.x = h, .weight = w, .out = n, .eps = 1e-5f});
  // [ops/norm.h]
  ONEPASS_TRY(pass.run());
  ONEPASS_ASSIGN(const std::vector<float> out, pass.read(n));
  return check(near(out[0], -2.0f));
}

Status quantize(const Device& device) {
  Pass pass(device);
  onepass::GraphSession& s = pass.s;
  const Tensor h = pass.fill({1, 4096}, 1.5f), back = pass.zeros({1, 4096});
  const Tensor blocks = s.scratch(DType::q8_0, {1, 4096});
  // [ops/quantize.h]
  ops::quantize(s, {.x = h, .out = blocks});  // q8_0: 34 bytes for 32 numbers
  // [ops/quantize.h]
  ops::dequantize(s, {.x = blocks, .out = back});
  ONEPASS_TRY(pass.run());
  ONEPASS_ASSIGN(const std::vector<float> out, pass.read(back));
  return check(near(out[4095], 1.5f));
}

Status rope(const Device& device) {
  Pass pass(device);
  onepass::GraphSession& s = pass.s;
  ONEPASS_ASSIGN(const StepState step, StepState::create(device, 1, 1));
  const Tensor q = pass.fill({1, 1, 8}, 1.0f);
  // [ops/rope.h]
  ops::rope(s, {.x = q, .out = q, .positions = step.view(), .theta = 10000.0f});
  // [ops/rope.h]
  ONEPASS_TRY(run_at(pass, step, 0, 1));
  ONEPASS_ASSIGN(const std::vector<float> out, pass.read(q));
  return check(near(out[0], std::cos(1.0f) - std::sin(1.0f)) &&
               near(out[1], std::cos(1.0f) + std::sin(1.0f)));
}

Status sample(const Device& device) {
  Pass pass(device);
  onepass::GraphSession& s = pass.s;
  ONEPASS_ASSIGN(const StepState step, StepState::create(device, 1, 1));
  const Tensor logits = pass.f32({1, 4}, {0, 0, 50, 0}), tokens = pass.u32({1}, {0});
  // [ops/sample.h]
  ops::sample(s, {.logits = logits, .out = tokens, .step = step.view(), .top_k = 40});
  ops::step_advance(s, {.tokens = tokens, .step = step.view()});
  // [ops/sample.h]
  ONEPASS_TRY(run_at(pass, step, 0, 7));
  std::vector<std::byte> bytes(StepState::size_bytes(1, 1));
  ONEPASS_TRY(device.read(step.view(), bytes));
  onepass::StepRow row;
  std::memcpy(&row, bytes.data() + sizeof(onepass::StepHeader), sizeof row);
  return check(row.token == 2 && row.position == 8);
}

Status softmax(const Device& device) {
  Pass pass(device);
  onepass::GraphSession& s = pass.s;
  const Tensor scores = pass.fill({2, 4}, 8.0f), p = pass.zeros({2, 4});
  const Tensor mask = pass.f32({1, 4}, {0.0f, 0.0f, -INFINITY, -INFINITY});
  // [ops/softmax.h]
  ops::softmax(s, {.x = scores, .out = p, .mask = mask, .scale = 0.125f});
  // [ops/softmax.h]
  ONEPASS_TRY(pass.run());
  ONEPASS_ASSIGN(const std::vector<float> out, pass.read(p));
  return check(near(out[4], 0.5f) && out[6] == 0.0f);
}

constexpr Snippet list[] = {
    {"ops.h", all},
    {"ops/attention.h", attention},
    {"ops/elementwise.h", elementwise},
    {"ops/embed.h", embed},
    {"ops/kv_cache.h", kv_cache},
    {"ops/matmul.h", matmul},
    {"ops/moe.h", moe},
    {"ops/move.h", move},
    {"ops/norm.h", norm},
    {"ops/quantize.h", quantize},
    {"ops/rope.h", rope},
    {"ops/sample.h", sample},
    {"ops/softmax.h", softmax},
};

}  // namespace

std::span<const Snippet> ops() { return list; }

}  // namespace snippets
