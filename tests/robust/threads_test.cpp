// Many threads, one device: the bits of one thread, and nothing that the thread sanitizer minds.
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <random>
#include <thread>

#include "core/os.h"
#include "onepass/backends/cpu.h"
#include "robust/programs.h"

namespace onepass::test::threads_test {
namespace {

constexpr int n_threads = 8;
constexpr int n_plans = 4;
constexpr int rounds = os::sanitized ? 6 : 25;

// Runs f(thread index) on n threads that start together.
template <class F>
void on_threads(int n, F&& f) {
  std::barrier start(n);
  std::vector<std::thread> threads;
  for (int t = 0; t < n; ++t) {
    threads.emplace_back([&, t] {
      start.arrive_and_wait();
      f(t);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// A chain over shared weights: out = norm(x) * w, twice, plus x. Only x and out are the caller's.
struct Chain {
  static constexpr std::uint32_t dim = 64, rows = 4;

  static Tensor rows_of(const Buffer& b) { return b.tensor(DType::f32, {rows, dim}); }
  static void forward(GraphSession& s, const Buffer& weight, const Tensor& x, const Tensor& out) {
    const Tensor a = s.scratch(DType::f32, {rows, dim}), b = s.scratch(DType::f32, {rows, dim});
    const Tensor c = s.scratch(DType::f32, {rows, dim});
    const Tensor w = weight.tensor(DType::f32, {dim, dim});
    ops::rms_norm(s, {.x = x, .weight = weight.tensor(DType::f32, {dim}), .out = a});
    ops::matmul(s, {.x = a, .weight = w, .out = b});
    ops::silu_mul(s, {.a = b, .b = a, .out = c});
    ops::matmul(s, {.x = c, .weight = w, .out = a});
    ops::add(s, {.a = a, .b = x, .out = out});
  }
  static std::vector<float> input(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::vector<float> values(std::size_t{rows} * dim);
    for (float& v : values) v = static_cast<float>(random() >> 40) / 8388608.0f - 1.0f;
    return values;
  }
};

struct Shared {
  explicit Shared(const DeviceOptions& options) : device(Device::open("cpu", options).value()) {
    std::mt19937_64 random(99);
    std::vector<float> values(std::size_t{Chain::dim} * Chain::dim);
    for (float& v : values) v = static_cast<float>(random() >> 40) / 16777216.0f - 0.5f;
    weight = device.allocate(values.size() * sizeof(float)).value();
    EXPECT_TRUE(device.write_as<float>(weight.view(), values));
    EXPECT_TRUE(weight.set_immutable());
  }
  Device device;
  Buffer weight;
};

std::vector<float> single_threaded(std::uint64_t seed) {
  const Shared shared({.backend = {CpuOptions{.threads = 1}}, .serial = true});
  const std::vector<float> input = Chain::input(seed);
  const Buffer x = shared.device.allocate(input.size() * 4).value();
  const Buffer out = shared.device.allocate(input.size() * 4).value();
  EXPECT_TRUE(shared.device.write_as<float>(x.view(), input));
  GraphSession s = GraphExecutor(shared.device).begin();
  Chain::forward(s, shared.weight, Chain::rows_of(x), Chain::rows_of(out));
  EXPECT_TRUE(s.finish());
  std::vector<float> result(input.size());
  EXPECT_TRUE(shared.device.read_as<float>(out.view(), result));
  return result;
}

// Collects the first thing that went wrong; gtest's own reports stay on one thread.
class Trouble {
 public:
  void report(const std::string& what) {
    const std::lock_guard lock(mutex_);
    if (text_.empty()) text_ = what;
  }
  template <class R>
  bool ok(const R& result, const char* what) {
    if (result) return true;
    report(std::string(what) + ": " + result.error().to_string());
    return false;
  }
  std::string text() const { return text_; }

 private:
  std::mutex mutex_;
  std::string text_;
};

class Threads : public ::testing::TestWithParam<Profile> {};

// Sessions of all kinds and plans that all threads share, with buffers made, freed and pooled all
// the while, kernels added, and reports read.
TEST_P(Threads, SessionsPlansBuffersKernelsAndReports) {
  const Shared shared(
      {.backend = {CpuOptions{.threads = 2}}, .command_buffers = 64, .profile = GetParam()});
  const Device& device = shared.device;
  const GraphExecutor executor(device);
  constexpr std::size_t n = std::size_t{Chain::rows} * Chain::dim;

  struct PlanIo {
    Buffer x, out;
    Plan plan;
    std::vector<float> expected;
  };
  std::vector<PlanIo> plans(n_plans);
  for (int p = 0; p < n_plans; ++p) {
    PlanIo& io = plans[static_cast<std::size_t>(p)];
    io.x = device.allocate(n * 4).value();
    io.out = device.allocate(n * 4).value();
    ASSERT_TRUE(
        device.write_as<float>(io.x.view(), Chain::input(1000u + static_cast<unsigned>(p))));
    GraphSession s = executor.begin_recorded();
    Chain::forward(s, shared.weight, Chain::rows_of(io.x), Chain::rows_of(io.out));
    io.plan = s.compile().value();
    io.expected = single_threaded(1000u + static_cast<unsigned>(p));
  }
  std::vector<std::vector<float>> expected;
  for (int t = 0; t < n_threads; ++t) expected.push_back(single_threaded(static_cast<unsigned>(t)));

  Trouble trouble;
  std::atomic<std::uint64_t> passes{0};
  const auto work = [&](int t) {
    BufferPool pool(device);
    const std::vector<float> input = Chain::input(static_cast<unsigned>(t));
    std::vector<float> got(n);
    const auto fresh = [&](Result<Buffer> b) {
      return trouble.ok(b, "buffer") ? std::move(*b) : Buffer();
    };
    for (int r = 0; r < rounds; ++r) {
      // Four sessions open at once: direct, recorded, two command buffers, dropped.
      std::vector<Buffer> x, out;
      std::vector<GraphSession> sessions;
      for (int k = 0; k < 4; ++k) {
        x.push_back(fresh(k % 2 == 0 ? device.allocate(n * 4) : pool.take(n * 4)));
        out.push_back(fresh(k % 2 == 0 ? pool.take(n * 4) : device.allocate(n * 4)));
        if (!trouble.ok(device.write_as<float>(x.back().view(), input), "write")) return;
        sessions.push_back(k == 0 || k == 3 ? executor.begin() : executor.begin_recorded());
        Chain::forward(sessions.back(), shared.weight, Chain::rows_of(x.back()),
                       Chain::rows_of(out.back()));
      }
      for (std::size_t k = 0; k < 3; ++k) {
        const Result<FinishReport> report = sessions[k].finish(
            {.command_buffers = k == 2 ? 2u : 1u, .first_min = 2, .label = "threads"});
        if (!trouble.ok(report, "finish")) return;
        if (!trouble.ok(device.read_as<float>(out[k].view(), got), "read")) return;
        if (got != expected[static_cast<std::size_t>(t)]) trouble.report("a session's bits differ");
        passes.fetch_add(1, std::memory_order_relaxed);
      }
      sessions.clear();
      x.clear();
      out.clear();
      pool.reset();
      const PlanIo& io = plans[static_cast<std::size_t>((t + r) % n_plans)];
      for (int k = 0; k < 3; ++k) {
        if (!trouble.ok(io.plan.run(), "run")) return;
      }
      const Result<Submission> queued = io.plan.run_async();
      if (!trouble.ok(queued, "run_async") || !trouble.ok(queued->wait(), "wait")) return;
      if (!trouble.ok(device.read_as<float>(io.out.view(), got), "read plan")) return;
      if (got != io.expected) trouble.report("a plan's bits differ");
      passes.fetch_add(4, std::memory_order_relaxed);

      const std::string own = "kernel " + std::to_string((t * 31 + r) % 50);
      const auto nothing = [](const KernelArgs&) noexcept {};
      if (!trouble.ok(device.kernels().add({.name = own, .slots = "x", .cpu = nothing}), "add"))
        return;
      const SpecValue spec{0, r % 5};
      const Result<KernelId> id = device.kernels().get(own, {&spec, 1});
      if (!trouble.ok(id, "get")) return;
      if (device.kernels().label(*id) != own + "|0:i" + std::to_string(r % 5)) {
        trouble.report("a kernel's label differs");
      }
      if (!trouble.ok(device.kernels().get("rms_norm_f32"), "get rms_norm")) return;
      device.kernels().is_cached(own);
      device.kernels().cached_count();
      const Counters c = device.counters();
      if (c.dispatches == 0) trouble.report("no dispatches counted");
      if (t == 0) device.profile();
      if (t == 1 && r % 4 == 0) device.reset_profile();
      device.take_errors();
      device.live_bytes();
    }
  };
  on_threads(n_threads, work);
  EXPECT_EQ(trouble.text(), "");
  EXPECT_EQ(passes.load(), static_cast<std::uint64_t>(n_threads) * rounds * 7);
  EXPECT_TRUE(device.fence());
  EXPECT_EQ(device.state().references(shared.weight.id()), 1u);
}

INSTANTIATE_TEST_SUITE_P(Profiles, Threads, ::testing::Values(Profile::none, Profile::dispatches),
                         [](const auto& p) {
                           return std::string(p.param == Profile::none ? "plain" : "profiled");
                         });

// Another thread frees a buffer of a plan while it runs: correct bits or `stale`, nothing else.
TEST(PlanBuffers, FreedByAnotherThread) {
  const Shared shared({.backend = {CpuOptions{.threads = 2}}});
  const Device& device = shared.device;
  const GraphExecutor executor(device);
  constexpr std::size_t n = std::size_t{Chain::rows} * Chain::dim;
  const std::vector<float> input = Chain::input(5), expected = single_threaded(5);
  int stale = 0, ran = 0;
  for (int round = 0; round < rounds * 4; ++round) {
    std::array<Buffer, 2> x{device.allocate(n * 4).value(), Buffer()};
    const Buffer out = device.allocate(n * 4).value();
    ASSERT_TRUE(device.write_as<float>(x[0].view(), input));
    GraphSession s = executor.begin_recorded();
    Chain::forward(s, shared.weight, Chain::rows_of(x[0]), Chain::rows_of(out));
    const Plan plan = s.compile().value();
    Trouble trouble;
    std::atomic<int> seen_stale{0}, seen_ran{0};
    on_threads(3, [&](int t) {
      if (t == 0) {
        for (int k = 0; k < round % 7; ++k) os::yield();
        x[0].reset();
        // Takes the place of the freed one as soon as it can.
        Result<Buffer> next = device.allocate(n * 4);
        if (!trouble.ok(next, "allocate")) return;
        x[1] = std::move(*next);
        const std::vector<float> other(n, 1e30f);
        trouble.ok(device.write_as<float>(x[1].view(), other), "write");
        return;
      }
      for (int k = 0; k < 8; ++k) {
        const Status status = plan.run();
        if (!status) {
          if (status.error().code != ErrorCode::stale) trouble.report(status.error().to_string());
          seen_stale.fetch_add(1);
          continue;
        }
        seen_ran.fetch_add(1);
      }
    });
    ASSERT_EQ(trouble.text(), "");
    if (seen_ran > 0) {
      std::vector<float> got(n);
      ASSERT_TRUE(device.read_as<float>(out.view(), got));
      ASSERT_EQ(got, expected);
    }
    const Status after = plan.run();
    ASSERT_FALSE(after);
    EXPECT_EQ(after.error().code, ErrorCode::stale);
    stale += seen_stale;
    ran += seen_ran;
  }
  EXPECT_GT(stale, 0);
  EXPECT_GT(ran, 0);
}

// A session goes from thread to thread between calls; two threads inside it at once are told.
TEST(SessionThreads, MovesBetweenCalls) {
  const Shared shared({.backend = {CpuOptions{.threads = 2}}});
  const GraphExecutor executor(shared.device);
  constexpr std::size_t n = std::size_t{Chain::rows} * Chain::dim;
  const Buffer x = shared.device.allocate(n * 4).value(),
               out = shared.device.allocate(n * 4).value();
  ASSERT_TRUE(shared.device.write_as<float>(x.view(), Chain::input(2)));
  for (const bool recorded : {false, true}) {
    std::optional<GraphSession> s(recorded ? executor.begin_recorded() : executor.begin());
    std::thread([&] {
      Chain::forward(*s, shared.weight, Chain::rows_of(x), Chain::rows_of(out));
    }).join();
    Result<FinishReport> report = FinishReport{};
    std::thread([&, moved = std::move(*s)]() mutable {
      report = moved.finish({.wait = false});
    }).join();
    ASSERT_TRUE(report);
    Status waited;
    std::thread([&] { waited = report->submission.wait(); }).join();
    ASSERT_TRUE(waited);
    std::vector<float> got(n);
    ASSERT_TRUE(shared.device.read_as<float>(out.view(), got));
    EXPECT_EQ(got, single_threaded(2));
  }
}

TEST(SessionThreads, TwoAtOnceAreDetected) {
  const Device device = Device::open("cpu", {.backend = {CpuOptions{.threads = 1}}}).value();
  const Buffer b = device.allocate(64).value();
  const Tensor t = b.tensor(DType::f32, {16});
  const GraphExecutor executor(device);
  bool detected = false;
  // Longer with every attempt: on a loaded machine only a preempted call meets another.
  for (int attempt = 0; attempt < 100 && !detected; ++attempt) {
    GraphSession s = executor.begin_recorded();
    on_threads(2, [&](int) {
      const int n = 200 + 500 * attempt;
      for (int i = 0; i < n; ++i) ops::add(s, {.a = t, .b = t, .out = t});
    });
    const Status status = s.status();
    detected = !status;
    if (detected) {
      EXPECT_EQ(status.error().code, ErrorCode::invalid_state);
    }
    // Either way the list is sound: nothing was written by two threads at once.
    const Result<FinishReport> report = s.finish();
    EXPECT_EQ(report.has_value(), !detected);
  }
  EXPECT_TRUE(detected);
}

// One submission, waited for, asked and copied by all.
TEST(Submissions, SharedByAllThreads) {
  FaultyDevice faulty({.backend = {CpuOptions{.threads = 2}}}, {.hold = true});
  const Buffer b = faulty.device.allocate(64).value();
  const Tensor t = b.tensor(DType::f32, {16});
  const GraphExecutor executor(faulty.device);
  for (int round = 0; round < rounds; ++round) {
    GraphSession s = executor.begin();
    ops::add(s, {.a = t, .b = t, .out = t});
    const bool fails = round % 3 == 0;
    if (fails) faulty.fault->arm({.call = BackendCall::wait, .persistent = true});
    const Submission submission = s.commit("shared").value();
    Trouble trouble;
    on_threads(n_threads, [&](int i) {
      const Submission copy = submission;
      if (i % 2 == 0) copy.is_done();
      const Status status = copy.wait();
      if (status.has_value() == fails) trouble.report("threads saw different results");
      if (!fails && !copy.is_done()) trouble.report("not done after wait");
      if (copy.label() != "shared") trouble.report("label");
    });
    EXPECT_EQ(trouble.text(), "");
    faulty.fault->disarm();
  }
}

}  // namespace
}  // namespace onepass::test::threads_test
