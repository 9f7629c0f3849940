// Plans replayed: as many fresh passes would do, side by side with other plans, and never with a
// buffer that was freed.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>

#include "core/device_state.h"
#include "graph/plan_state.h"
#include "property/bench.h"
#include "support/backends/fault.h"

namespace onepass::property::replay_test {
namespace {

constexpr std::uint32_t max_replays = 8;
constexpr std::uint32_t step_rows = 2;
constexpr std::uint32_t first_step_id = 120;  // beyond those of any graph

// A graph whose passes can follow each other.
GraphSpec repeatable_graph(std::uint64_t seed) {
  GraphSpec graph = random_graph(seed, {.max_ops = 32});
  graph.discards.clear();
  return graph;
}

// Reads the step before and after the graph and advances it with what the graph computed.
void record_step(Bench& bench, GraphSession& session, const GraphSpec& graph,
                 const StepState& step) {
  const auto read_step = [&](std::uint32_t id, const Place& out) {
    Dispatch d = make_dispatch(Op::custom);
    d.kernel = *bench.device().kernels().get("hash");
    d.set_params(HashParams{id, 1, 2, 0});
    d.bind(step.view(), Access::read);
    d.bind(bench.view(out), Access::write);
    session.encode(d);
  };
  read_step(first_step_id, {0, 16, 16});
  bench.record_into(session, graph);
  ops::step_advance(session,
                    {.tokens = tensor(bench.view({0, 16, 4 * step_rows}), DType::u32, {step_rows}),
                     .step = step.view()});
  read_step(first_step_id + 1, {1, 0, 24});
}

struct StepInput {
  std::array<StepRow, step_rows> rows{};
  std::array<StepSlot, step_rows> slots{};
  explicit StepInput(std::uint64_t seed) {
    Random random(seed);
    for (std::uint32_t i = 0; i < step_rows; ++i) {
      rows[i] = {random.in(0, 1000), random.in(0, 50), i, 0};
      slots[i] = {rows[i].position + 1, 0, 0, 0};
    }
  }
  StepValues values() const { return {0, 7, 3, rows, slots}; }
};

std::vector<std::byte> bytes_of(const Device& device, const View& view) {
  std::vector<std::byte> bytes(view.bytes);
  EXPECT_TRUE(device.read(view, bytes));
  return bytes;
}

// Everything a caller can look at.
struct Seen {
  std::vector<std::vector<std::byte>> buffers;
  InputLog log;
  friend bool operator==(const Seen& a, const Seen& b) {
    return a.buffers == b.buffers && a.log.hashes == b.log.hashes;
  }
};

Seen look(Bench& bench, const GraphSpec& graph, const StepState& step, const Outcome& which_bytes) {
  Seen seen;
  for (std::uint32_t i = 0; i < graph.buffers.size(); ++i) {
    const BufferSpec& b = graph.buffers[i];
    if (b.store == Store::scratch) continue;
    std::vector<std::byte> bytes(bench.host(i), bench.host(i) + b.bytes);
    // Pool memory that nobody wrote holds anything.
    for (std::uint32_t k = 0; b.store == Store::pool && k < b.bytes; ++k) {
      bytes[k] &= which_bytes.compared[b.memory].bytes[k];
    }
    seen.buffers.push_back(std::move(bytes));
  }
  seen.buffers.push_back(bytes_of(bench.device(), step.view()));
  seen.log = bench.log();
  return seen;
}

// After 1 .. max_replays passes, each recorded, submitted and waited for on its own.
std::vector<Seen> fresh_passes(const GraphSpec& graph, const StepInput& input,
                               const Outcome& which_bytes) {
  Bench bench;
  auto step = StepState::create(bench.device(), step_rows, step_rows);
  EXPECT_TRUE(step);
  std::vector<std::byte> first(step->view().bytes);
  EXPECT_TRUE(step->serialize(input.values(), first));
  EXPECT_TRUE(bench.device().write(step->view(), first));
  bench.load(graph);
  bench.start(RunOrder::forward, 0, std::byte{0xa5});
  std::vector<Seen> after;
  for (std::uint32_t pass = 0; pass < max_replays; ++pass) {
    GraphSession session = bench.executor().begin_recorded();
    record_step(bench, session, graph, *step);
    const auto report = session.finish({.fuse = false, .reorder = false});
    EXPECT_TRUE(report) << report.error().to_string();
    after.push_back(look(bench, graph, *step, which_bytes));
  }
  return after;
}

TEST(Replay, EqualsAsManyFreshPasses) {
  const std::uint32_t n = count(200, 2000);
  const Stopwatch watch;
  std::atomic<std::uint64_t> replays{0};
  const std::string failure = for_all_graphs(n, [&](Bench& bench, std::uint64_t seed) {
    const GraphSpec graph = repeatable_graph(seed);
    const Outcome which_bytes = run_reference(graph);
    const StepInput input(seed);
    const std::vector<Seen> expected = fresh_passes(graph, input, which_bytes);
    const auto step = StepState::create(bench.device(), step_rows, step_rows);
    if (!step) return step.error().to_string();
    bench.load(graph);
    GraphSession session = bench.executor().begin_recorded();
    record_step(bench, session, graph, *step);
    const auto plan = session.compile({.step = &*step});
    if (!plan) return plan.error().to_string();
    for (const RunOrder order : {RunOrder::forward, RunOrder::reverse, RunOrder::random}) {
      bench.start(order, seed, std::byte{0x5a});
      for (std::uint32_t pass = 0; pass < max_replays; ++pass) {
        // Nothing may survive in scratch from one replay to the next.
        bench.backend().poison(static_cast<std::byte>(pass * 37));
        const Status status = pass == 0 ? plan->run(input.values()) : plan->run();
        if (!status) return status.error().to_string();
        ++replays;
        if (!(look(bench, graph, *step, which_bytes) == expected[pass])) {
          return std::string(name(order)) + ": replay " + std::to_string(pass + 1) + " differs";
        }
      }
    }
    return std::string();
  });
  ASSERT_EQ(failure, "");
  std::printf("%u plans, %llu replays, %.1f s\n", n, static_cast<unsigned long long>(replays),
              watch.seconds());
}

TEST(Replay, QueuedReplaysEqualFreshPasses) {
  const std::uint32_t n = count(50, 500);
  FaultBackend* fault = nullptr;
  Bench bench([&](std::unique_ptr<Backend> inner) -> std::unique_ptr<Backend> {
    auto own = std::make_unique<FaultBackend>(std::move(inner));
    fault = own.get();
    return own;
  });
  for (std::uint64_t seed = 0; seed < n; ++seed) {
    SCOPED_TRACE(seed);
    const GraphSpec graph = repeatable_graph(seed);
    const Outcome which_bytes = run_reference(graph);
    const StepInput input(seed);
    const std::vector<Seen> expected = fresh_passes(graph, input, which_bytes);
    const auto step = StepState::create(bench.device(), step_rows, step_rows);
    ASSERT_TRUE(step);
    bench.load(graph);
    GraphSession session = bench.executor().begin_recorded();
    record_step(bench, session, graph, *step);
    const auto plan = session.compile({.step = &*step});
    ASSERT_TRUE(plan) << plan.error().to_string();
    const std::uint32_t queued = 1 + static_cast<std::uint32_t>(seed) % max_replays;
    bench.start(seed % 2 == 0 ? RunOrder::reverse : RunOrder::random, seed, std::byte{0xa5});
    fault->set_hold(true);
    std::vector<Submission> submissions;
    for (std::uint32_t pass = 0; pass < queued; ++pass) {
      auto s = pass == 0 ? plan->run_async(input.values()) : plan->run_async();
      ASSERT_TRUE(s) << s.error().to_string();
      submissions.push_back(std::move(*s));
    }
    EXPECT_EQ(fault->held(), queued);
    fault->release_held();
    fault->set_hold(false);
    for (const Submission& s : submissions) ASSERT_TRUE(s.wait());
    EXPECT_TRUE(look(bench, graph, *step, which_bytes) == expected[queued - 1]);
    if (HasFailure()) return;
  }
}

// Plans of one executor use the same scratch memory, one after the other.
TEST(Replay, InterleavedPlansShareOneArena) {
  const std::uint32_t n = count(100, 1000);
  const Stopwatch watch;
  std::atomic<std::uint64_t> runs{0}, shared{0};
  const std::string failure = for_all_graphs(n, [&](Bench& bench, std::uint64_t seed) {
    std::vector<GraphSpec> graphs;
    std::vector<Plan> plans;
    std::uint32_t n_memories = 0;
    for (std::uint64_t i = 0; i < 3; ++i) {
      graphs.push_back(random_graph(seed * 3 + i, {.max_ops = 24, .pool = false}));
      graphs.back().discards.clear();
      n_memories = std::max(n_memories, graphs.back().n_memories);
    }
    std::vector<const ArenaBlock*> arenas;
    for (const GraphSpec& graph : graphs) {
      bench.load(graph);
      auto plan = bench.record(graph).compile({.fuse = seed % 2 == 0});
      if (!plan) return plan.error().to_string();
      for (const auto& block : plan->state().pass->arenas) arenas.push_back(block.get());
      plans.push_back(std::move(*plan));
    }
    std::sort(arenas.begin(), arenas.end());
    shared += std::adjacent_find(arenas.begin(), arenas.end()) != arenas.end() ? 1 : 0;
    std::vector<Block> memory = initial_memory(graphs.back());
    memory.resize(n_memories);
    InputLog log;
    for (std::uint32_t b = 0; b < n_caller_buffers; ++b) {
      std::memcpy(bench.host(b), memory[b].bytes.data(), 256);
    }
    std::memcpy(bench.host(n_caller_buffers), memory[n_caller_buffers].bytes.data(), memory_bytes);
    bench.log().hashes.fill(0);
    Random random(seed);
    for (std::uint32_t run = 0; run < 16; ++run) {
      const std::uint32_t which = random.in(0, 2);
      bench.set_order(static_cast<RunOrder>(random.in(0, 4)), random.next());
      if (const Status status = plans[which].run(); !status) return status.error().to_string();
      for (const OpSpec& op : graphs[which].ops) run_op(graphs[which], op, memory, log);
      ++runs;
      bool equal = bench.log().hashes == log.hashes;
      for (std::uint32_t b = 0; b <= n_caller_buffers; ++b) {
        const std::size_t bytes = b < n_caller_buffers ? 256 : memory_bytes;
        equal &= std::memcmp(bench.host(b), memory[b].bytes.data(), bytes) == 0;
      }
      if (!equal) return "run " + std::to_string(run) + " of plan " + std::to_string(which);
    }
    return std::string();
  });
  ASSERT_EQ(failure, "");
  std::printf("%u groups of 3 plans, %llu runs, %llu groups share a block, %.1f s\n", n,
              static_cast<unsigned long long>(runs), static_cast<unsigned long long>(shared),
              watch.seconds());
  EXPECT_GT(shared, n / 2);
}

// ---- freed buffers ----

bool uses(const GraphSpec& graph, std::uint32_t buffer) {
  return std::any_of(graph.ops.begin(), graph.ops.end(), [&](const OpSpec& op) {
    return std::any_of(op.places.begin(), op.places.begin() + op.n,
                       [&](const Place& p) { return p.buffer == buffer; });
  });
}

TEST(Replay, IsStaleAfterAFreeAlsoAtTheSameAddress) {
  const std::uint32_t n = count(50, 500);
  std::uint64_t stale = 0, fine = 0, same_address = 0;
  for (std::uint64_t seed = 0; seed < n; ++seed) {
    SCOPED_TRACE(seed);
    const GraphSpec graph = random_graph(seed, {.pool = false});
    const Outcome expected = run_reference(graph);
    for (std::uint32_t buffer = 0; buffer <= weights_buffer; ++buffer) {
      Bench bench;
      bench.load(graph);
      const auto plan = bench.record(graph).compile({.fuse = false});
      ASSERT_TRUE(plan) << plan.error().to_string();
      for (int run = 0; run < 2; ++run) {
        bench.start(RunOrder::forward, 0, std::byte{0xa5});
        ASSERT_TRUE(plan->run());
        ASSERT_TRUE(bench.agrees(expected));
      }
      same_address += bench.replace(buffer) ? 1 : 0;
      bench.load(graph);
      bench.start(RunOrder::forward, 0, std::byte{0xa5});
      const Status again = plan->run();
      if (uses(graph, buffer)) {
        ASSERT_FALSE(again) << "buffer " << buffer;
        EXPECT_EQ(again.error().code, ErrorCode::stale);
        EXPECT_EQ(bench.log().hashes, InputLog{}.hashes) << "it ran";
        ++stale;
      } else {
        ASSERT_TRUE(again) << "buffer " << buffer << ": " << again.error().to_string();
        EXPECT_TRUE(bench.agrees(expected));
        ++fine;
      }
    }
  }
  std::printf("%llu stale, %llu not concerned, %llu at the same address\n",
              static_cast<unsigned long long>(stale), static_cast<unsigned long long>(fine),
              static_cast<unsigned long long>(same_address));
  EXPECT_EQ(same_address, stale + fine);
  EXPECT_GT(stale, n);
  EXPECT_GT(fine, 0u);
}

TEST(Replay, IsStaleAfterThePoolOrTheStepStateGaveItsBufferAway) {
  Bench bench;
  const GraphSpec graph = random_graph(3, {.pool = false});
  bench.load(graph);
  BufferPool pool(bench.device());
  Result<Buffer> taken = pool.take(64);
  auto step = StepState::create(bench.device(), 1, 1);
  ASSERT_TRUE(taken && step);
  const auto compile = [&](const View& read) {
    GraphSession session = bench.record(graph);
    Dispatch d = make_dispatch(Op::custom);
    d.kernel = *bench.device().kernels().get("hash");
    d.set_params(HashParams{first_step_id, 1, 0, 0});
    d.bind(read, Access::read);
    session.encode(d);
    return session.compile({.step = &*step});
  };
  const auto on_pool = compile(taken->view()), on_step = compile(step->view());
  ASSERT_TRUE(on_pool && on_step);
  ASSERT_TRUE(on_pool->run());
  ASSERT_TRUE(on_step->run(SingleStep(1, 0).values()));

  const std::byte* address = bench.device().map(taken->view())->data();
  ASSERT_TRUE(pool.release(std::move(*taken)));
  Result<Buffer> again = pool.take(64);
  ASSERT_TRUE(again);
  ASSERT_EQ(bench.device().map(again->view())->data(), address);
  EXPECT_EQ(on_pool->run().error().code, ErrorCode::stale);
  EXPECT_TRUE(on_step->run());

  *step = StepState{};
  EXPECT_EQ(on_step->run().error().code, ErrorCode::stale);
}

}  // namespace
}  // namespace onepass::property::replay_test
