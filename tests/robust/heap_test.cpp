// Every operator new fails once: out_of_memory or an unharmed success, never an exception, no leak,
// and the next try works.
#include "support/heap.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <optional>

#include "onepass/backends/cpu.h"
#include "robust/programs.h"

namespace onepass::test::heap_test {
namespace {

constexpr std::uint64_t seed = 7;

// Vulkan's drivers are C++, too: one that is thrown out of keeps its loader's lock.
class NoVulkanDrivers : public testing::Environment {
 public:
  void SetUp() override {
    ::setenv("VK_DRIVER_FILES", "/dev/null", 1);
    ::setenv("VK_ICD_FILENAMES", "/dev/null", 1);
  }
};
const testing::Environment* const no_vulkan_drivers =
    testing::AddGlobalTestEnvironment(new NoVulkanDrivers);

// Calls `prepare` and `run` until no allocation is left to fail; run() is everything under test.
// `check` is told what came of it, with nothing armed. Returns how many allocations failed.
struct Sweep {
  bool steady = true;  // check leaves the heap as it found it when the sweep began
  std::function<void()> prepare = [] {};
  std::function<Status()> run;
  std::function<void(const Status&)> check = [](const Status&) {};

  std::uint64_t operator()() const {
    const std::int64_t heap = heap_live();
    for (std::uint64_t n = 1; n < 100000; ++n) {
      prepare();
      std::optional<Status> status;
      std::string escaped;
      fail_heap_allocation(n);
      try {
        status.emplace(run());
      } catch (...) {
        escaped = "an exception left the library";
      }
      const bool fired = heap_failure_fired();
      fail_heap_allocation(0);
      EXPECT_EQ(escaped, "") << "allocation " << n;
      if (!status) return n;
      if (!*status) {
        EXPECT_EQ(status->error().code, ErrorCode::out_of_memory)
            << "allocation " << n << ": " << status->error().to_string();
        EXPECT_FALSE(status->error().message.empty()) << "allocation " << n;
      }
      check(*status);
      const bool succeeded = status->has_value();
      status.reset();
      if (steady) {
        EXPECT_EQ(heap_live(), heap) << "allocation " << n;
      }
      if (::testing::Test::HasFailure()) return n;
      if (!fired) {
        EXPECT_TRUE(succeeded);
        return n - 1;
      }
    }
    ADD_FAILURE() << "allocations without end";
    return 0;
  }
};

class HeapSweep : public ::testing::TestWithParam<ProgramKind> {};

TEST_P(HeapSweep, EveryAllocationOfAWarmDeviceFails) {
  const ProgramKind kind = GetParam();
  const Logits expected = expected_logits(kind, tiny_block(), seed);
  const std::int64_t heap_at_start = warm_heap();
  std::shared_ptr<Ledger> ledger;
  {
    FaultyDevice faulty({.backend = {CpuOptions{.threads = 1}}, .command_buffers = 4});
    ledger = faulty.ledger;
    const Device& device = faulty.device;
    const test::Block block = test::Block::create(device, tiny_block(), seed).value();
    const GraphExecutor executor(device);
    Logits logits(expected.size());
    const auto run = [&] { return run_program(kind, device, block, executor, logits); };
    for (int warm = 0; warm < 2; ++warm) {
      ASSERT_TRUE(block.restart(3, 0));
      ASSERT_TRUE(run());
      ASSERT_EQ(open_slots(device, block, executor), 4u);
    }
    const std::uint64_t bytes = device.live_bytes();
    const std::uint64_t failed = Sweep{
        .prepare = [&] { ASSERT_TRUE(block.restart(3, 0)); },
        .run = run,
        .check =
            [&](const Status& status) {
              if (status) {
                EXPECT_EQ(logits, expected);
              }
              EXPECT_EQ(extra_references(device), 0u);
              EXPECT_EQ(open_slots(device, block, executor), 4u);
              std::fill(logits.begin(), logits.end(), 0.0f);
              ASSERT_TRUE(block.restart(3, 0));
              ASSERT_TRUE(run());
              EXPECT_EQ(logits, expected);
              EXPECT_EQ(device.live_bytes(), bytes);
              EXPECT_TRUE(device.take_errors().empty());
            },
    }();
    EXPECT_GT(failed, 10u);
  }
  EXPECT_EQ(ledger->allocations.load(), 0);
  ledger.reset();
  EXPECT_EQ(heap_live(), heap_at_start);
}

// Cold: device, model and executor are new each time, so first uses of every cache fail too.
TEST_P(HeapSweep, EveryAllocationOfAColdDeviceFails) {
  const ProgramKind kind = GetParam();
  const Logits expected = expected_logits(kind, tiny_block(), seed);
  warm_heap();
  Logits logits(expected.size());
  std::optional<FaultyDevice> faulty;
  std::optional<test::Block> block;
  const std::uint64_t failed = Sweep{
      .prepare =
          [&] {
            faulty.emplace(DeviceOptions{.backend = {CpuOptions{.threads = 1}},
                                         .command_buffers = 4,
                                         .profile = Profile::dispatches});
            block.emplace(test::Block::create(faulty->device, tiny_block(), seed).value());
            ASSERT_TRUE(block->restart(3, 0));
          },
      .run =
          [&] {
            const GraphExecutor executor(faulty->device);
            return run_program(kind, faulty->device, *block, executor, logits);
          },
      .check =
          [&](const Status& status) {
            if (status) {
              EXPECT_EQ(logits, expected);
            }
            EXPECT_EQ(extra_references(faulty->device), 0u);
            EXPECT_EQ(open_slots(faulty->device, *block, GraphExecutor(faulty->device)), 4u);
            const std::shared_ptr<Ledger> ledger = faulty->ledger;
            block.reset();
            faulty.reset();
            EXPECT_EQ(ledger->allocations.load(), 0);
          },
  }();
  EXPECT_GT(failed, 10u);
  RecordProperty("allocations", static_cast<int>(failed));
}

INSTANTIATE_TEST_SUITE_P(Programs, HeapSweep, ::testing::ValuesIn(all_programs),
                         [](const auto& p) { return std::string(name(p.param)); });

// What one call site of the rest of the API does; each runs alone, and again after each failure.
struct Api {
  explicit Api(Profile profile = Profile::none)
      : device(Device::open("cpu", {.backend = {CpuOptions{.threads = 1}}, .profile = profile})
                   .value()) {}
  Device device;
  test::Block block = test::Block::create(device, tiny_block(), seed).value();
  GraphExecutor executor{device};
};

void sweep_twice(const std::function<Status()>& run, std::uint64_t at_least = 1) {
  for (int warm = 0; warm < 2; ++warm) ASSERT_TRUE(run());
  const std::uint64_t failed = Sweep{
      .run = run,
      .check =
          [&](const Status&) {
            const Status again = run();
            ASSERT_TRUE(again) << again.error().to_string();
          },
  }();
  EXPECT_GE(failed, at_least);
}

TEST(Heap, OpeningADevice) {
  const DeviceOptions options{.backend = {CpuOptions{.threads = 4}}};
  sweep_twice(
      [&]() -> Status {
        ONEPASS_ASSIGN(const Device device, Device::open("cpu", options));
        return device.fence();
      },
      8);
}

TEST(Heap, ListingDevices) {
  std::size_t n = Device::list().size();
  ASSERT_GE(n, 2u);
  sweep_twice([&]() -> Status {
    n = Device::list().size();
    return {};
  });
  EXPECT_EQ(n, Device::list().size());
}

TEST(Heap, AnUnknownDevice) {
  for (const char* wrong : {"no such device of a long name", "cpu:17"}) {
    Sweep{.run = [&]() -> Status {
      const Result<Device> device = Device::open(wrong);
      if (!device && device.error().code == ErrorCode::not_found) return {};
      return device.error();
    }}();
  }
}

TEST(Heap, BuffersAndStepStates) {
  const Api api;
  sweep_twice(
      [&]() -> Status {
        ONEPASS_ASSIGN(Buffer buffer, api.device.allocate(5000));
        ONEPASS_ASSIGN(const StepState step, StepState::create(api.device, 4, 4));
        std::array<std::byte, 256> host{};
        ONEPASS_ASSIGN(const Buffer imported, api.device.import_host(host));
        const Buffer shared = buffer.share();
        ONEPASS_TRY(buffer.set_immutable());
        return api.device.read(imported.view(), host);
      },
      0);
}

// Objects whose making failed say so, whatever they are asked.
TEST(Heap, ObjectsWithoutMemory) {
  const Api api;
  const auto without_memory = [](auto make) {
    fail_heap_allocation(1);
    auto made = make();
    EXPECT_TRUE(heap_failure_fired());
    fail_heap_allocation(0);
    return made;
  };
  const auto expect_no_memory = [](const auto& result) {
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, ErrorCode::out_of_memory);
    EXPECT_FALSE(result.error().message.empty());
  };
  const GraphExecutor executor = without_memory([&] { return GraphExecutor(api.device); });
  EXPECT_EQ(&executor.device().state(), &api.device.state());
  for (int i = 0; i < 4; ++i) {
    GraphSession s = i == 0   ? executor.begin()
                     : i == 1 ? executor.begin_recorded()
                     : i == 2 ? without_memory([&] { return api.executor.begin(); })
                              : without_memory([&] { return api.executor.begin_recorded(); });
    expect_no_memory(s.status());
    EXPECT_EQ(&s.device().state(), &api.device.state());
    api.block.forward(s);
    s.barrier();
    s.set_label("label");
    s.discard(api.block.logits().view);
    EXPECT_FALSE(s.scratch(DType::f32, {4}));
    EXPECT_FALSE(s.is_recording());
    expect_no_memory(s.encoder().status());
    EXPECT_EQ(s.barrier_count(), 0u);
    EXPECT_EQ(s.group_stats().groups, 0u);
    if (i % 2 == 0) {
      expect_no_memory(s.finish());
    } else {
      expect_no_memory(s.compile());
    }
    expect_no_memory(s.commit());
  }
  CommandEncoder encoder = without_memory([&] { return CommandEncoder(api.device); });
  expect_no_memory(encoder.status());
  encoder.encode(make_dispatch(Op::add));
  encoder.memory_barrier();
  encoder.start_capture();
  EXPECT_FALSE(encoder.is_capturing());
  EXPECT_FALSE(encoder.take_capture());
  expect_no_memory(encoder.commit());
  expect_no_memory(encoder.validate());
  expect_no_memory(encoder.wait_until_completed());
}

// The first buffers of a device make room in its table.
TEST(Heap, FirstBuffers) {
  warm_heap();
  std::optional<Device> device;
  std::vector<Buffer> buffers;
  Sweep{
      .prepare =
          [&] {
            device.emplace(Device::open("cpu", {.backend = {CpuOptions{.threads = 1}}}).value());
            buffers.reserve(300);
          },
      .run = [&]() -> Status {
        for (int i = 0; i < 300; ++i) {
          ONEPASS_ASSIGN(Buffer b, device->allocate(64));
          buffers.push_back(std::move(b));
        }
        return {};
      },
      .check =
          [&](const Status&) {
            while (buffers.size() < 300) buffers.push_back(device->allocate(64).value());
            EXPECT_EQ(device->live_bytes(), 300u * 64u);
            buffers.clear();
            EXPECT_TRUE(device->fence());
            EXPECT_EQ(device->live_bytes(), 0u);
            buffers = std::vector<Buffer>();
            device.reset();
          },
  }();
}

TEST(Heap, Pool) {
  const Api api;
  const std::uint64_t before = api.device.live_bytes();
  {
    std::optional<BufferPool> pool;
    Buffer kept;
    Sweep{
        .prepare = [&] { pool.emplace(api.device); },
        .run = [&]() -> Status {
          ONEPASS_ASSIGN(Buffer a, pool->take(1000));
          ONEPASS_ASSIGN(kept, pool->take(5000));
          {
            ONEPASS_ASSIGN(Buffer b, pool->take(1000));
            ONEPASS_ASSIGN(Buffer c, pool->take(9000));
          }
          ONEPASS_TRY(pool->release(std::move(a)));
          pool->reset();
          ONEPASS_ASSIGN(Buffer again, pool->take(1000));
          return {};
        },
        .check =
            [&](const Status& status) {
              if (kept) {
                EXPECT_EQ(api.device.state().references(kept.id()), 2u);
              }
              pool->reset();
              EXPECT_EQ(pool->in_use_count(), kept ? 1u : 0u);
              if (status) {
                EXPECT_EQ(pool->free_count(), 3u);
              }
              kept.reset();
              pool->reset();
              EXPECT_EQ(pool->in_use_count(), 0u);
              pool.reset();
              ASSERT_TRUE(api.device.fence());
              EXPECT_EQ(api.device.live_bytes(), before);
            },
    }();
  }
}

void twice(const KernelArgs& a) noexcept { a.ptr<float>(1)[0] = 2 * a.ptr<const float>(0)[0]; }
void thrice(const KernelArgs& a) noexcept { a.ptr<float>(1)[0] = 3 * a.ptr<const float>(0)[0]; }

// A failed add keeps the kernel there was.
TEST(Heap, Kernels) {
  const char* const long_name = "a kernel with a name that is longer than a small string";
  std::optional<Device> device;
  const std::array spec{SpecValue{3, 1}, SpecValue{1, 2}};
  const KernelDesc old{.name = long_name, .slots = "io", .cpu = twice};
  const KernelDesc fresh{.name = long_name, .slots = "io", .cpu = thrice};
  const KernelDesc other{.name = "another", .slots = "io", .cpu = thrice};
  warm_heap();
  Sweep{
      .prepare =
          [&] {
            device.emplace(Device::open("cpu", {.backend = {CpuOptions{.threads = 1}}}).value());
            ASSERT_TRUE(device->kernels().add(old));
            ASSERT_TRUE(device->kernels().get(long_name, spec));
          },
      .run = [&]() -> Status {
        ONEPASS_TRY(device->kernels().add(fresh));
        ONEPASS_TRY(device->kernels().get(long_name, spec));
        ONEPASS_TRY(device->kernels().add(other));
        constexpr std::array<std::string_view, 2> names{"rms_norm_f32", "add_f32"};
        return device->kernels().prewarm(names);
      },
      .check =
          [&](const Status&) {
            const Result<KernelId> id = device->kernels().get(long_name, spec);
            ASSERT_TRUE(id) << id.error().to_string();
            const CpuKernelFn code = cpu_function(device->state().find_kernel(*id)->row);
            EXPECT_TRUE(code == twice || code == thrice);
            EXPECT_EQ(device->state().find_kernel(*id)->spec.size(), 2u);
            device.reset();
          },
  }();
}

TEST(Heap, EncodersAndGraphs) {
  const Api api;
  const Buffer x = api.device.allocate(4096).value();
  const std::array<View, 2> parts{x.view(0, 64), x.view(64, 64)};
  const auto add = [&](GraphSession& s, std::uint64_t from, std::uint64_t to) {
    const Tensor a = tensor(x.view(from * 64, 64), DType::f32, {16});
    ops::add(s, {.a = a, .b = a, .out = tensor(x.view(to * 64, 64), DType::f32, {16})});
  };
  sweep_twice(
      [&]() -> Status {
        GraphSession s = api.executor.begin_recorded();
        s.set_label("a label that is longer than a small string");
        s.barrier_between({parts.data(), 1}, {parts.data() + 1, 1});
        add(s, 0, 1);
        s.barrier_between({parts.data() + 1, 1}, {parts.data(), 1});
        add(s, 1, 2);
        s.track_dispatch({parts.data(), 1}, {});
        s.barrier();
        add(s, 2, 3);
        s.discard(x.view(64, 64));
        ONEPASS_TRY(s.status());
        CommandEncoder& capturing = s.encoder();
        ONEPASS_TRY(capturing.validate());
        std::optional<ComputeGraph> graph = capturing.take_capture();
        if (!graph) return fail(ErrorCode::internal, "no capture");
        ONEPASS_TRY(graph->fuse(api.device, true));
        ONEPASS_TRY(graph->reorder(Policy::exact));
        ONEPASS_TRY(graph->reorder(Policy::greedy64));
        CommandEncoder first(api.device), second(api.device);
        ONEPASS_TRY(graph->encode_dual_buffer(first, second, 1, 0));
        ONEPASS_TRY(second.commit_and_wait("second"));
        ONEPASS_TRY(first.wait_until_completed());
        const Result<std::uint32_t> encoded = graph->encode_sequential(first);
        Status committed = first.commit_and_wait();
        // Half a graph does not run.
        if (!encoded && committed) return fail(ErrorCode::internal, "half a graph was committed");
        return committed;
      },
      20);
}

// Reports and pictures: empty for want of memory, never an exception.
TEST(Heap, Reports) {
  const Api api(Profile::dispatches);
  GraphSession s = api.executor.begin_recorded();
  api.block.forward(s);
  std::optional<ComputeGraph> graph = s.encoder().take_capture();
  ASSERT_TRUE(graph);
  GraphSession again = api.executor.begin_recorded();
  api.block.forward(again);
  const Plan plan = again.compile({.step = &api.block.step()}).value();
  ASSERT_TRUE(plan.run(SingleStep(3, 0).values()));
  const Submission submission = plan.run_async().value();
  ASSERT_TRUE(submission.wait());
  std::size_t n = 0;
  const std::vector<std::function<void()>> calls{
      [&] { n += graph->to_dot().size(); },
      [&] { n += graph->to_json().size(); },
      [&] { n += graph->nodes().size(); },
      [&] { n += graph->stats().dispatches; },
      [&] { n += plan.to_dot().size(); },
      [&] { n += plan.to_json().size(); },
      [&] { n += api.device.profile().samples.size(); },
      [&] { n += api.device.take_errors().size(); },
      [&] { n += submission.label().size(); },
      [&] { n += api.device.kernels().label(KernelId{1}).size(); },
      [&] {
        n += GroupStats{.bins = {1, 2, 3, 4, 5, 6, 7, 8}}.to_string().size();
      },
  };
  for (std::size_t i = 0; i < calls.size(); ++i) {
    SCOPED_TRACE(i);
    sweep_twice(
        [&]() -> Status {
          calls[i]();
          return {};
        },
        0);
  }
  EXPECT_GT(n, 1000u);
}

// Errors are made of strings: what they say may be lost, that they are errors may not.
TEST(Heap, Errors) {
  const Api api;
  Buffer freed = api.device.allocate(64).value();
  const View stale = freed.view();
  freed.reset();
  const StepState step = StepState::create(api.device, 1, 1).value();
  std::vector<float> values(1000);
  std::vector<std::byte> bytes(StepState::size_bytes(1, 1));
  Plan no_plan;
  GraphSession ended = api.executor.begin();
  ASSERT_TRUE(ended.finish());
  const std::vector<std::function<Status()>> calls{
      [&]() -> Status { return api.device.read_as<float>(stale, values); },
      [&]() -> Status { return api.device.write_as<float>(step.view(), values); },
      [&]() -> Status { return step.serialize(SingleStep(1, 0).values(), {}); },
      [&]() -> Status { return step.serialize({}, bytes); },
      [&]() -> Status {
        ONEPASS_TRY(StepState::create(api.device, 0, 1));
        return {};
      },
      [&]() -> Status {
        ONEPASS_TRY(stale.sub(60, 60));
        return {};
      },
      [&]() -> Status { return Submission().wait(); },
      [&]() -> Status { return no_plan.run(); },
      [&]() -> Status { return ended.status(); },
      [&]() -> Status {
        ONEPASS_TRY(ended.finish());
        return {};
      },
      [&]() -> Status {
        ONEPASS_TRY(ended.compile());
        return {};
      },
      [&]() -> Status {
        ONEPASS_TRY(no_plan.run_async(SingleStep(1, 0).values()));
        return {};
      },
      [&]() -> Status { return CommandEncoder(api.device).wait_until_completed(); },
      [&]() -> Status { return Buffer().set_immutable(); },
      [&]() -> Status {
        ONEPASS_TRY(BufferPool(api.device).take(0));
        return {};
      },
      [&]() -> Status { return BufferPool(api.device).release({}); },
      [&]() -> Status {
        ONEPASS_TRY(api.device.kernels().get("there is no kernel of this name"));
        return {};
      },
      [&]() -> Status {
        GraphSession s = api.executor.begin();
        ops::softmax(s, {.x = api.block.logits(), .out = {}});
        ONEPASS_TRY(s.status());
        ONEPASS_TRY(s.finish());
        return {};
      },
      [&]() -> Status {
        GraphSession s = api.executor.begin_recorded();
        s.scratch(DType::f32, {0});
        ONEPASS_TRY(s.finish());
        return {};
      },
  };
  for (std::size_t i = 0; i < calls.size(); ++i) {
    SCOPED_TRACE(i);
    const ErrorCode expected = calls[i]().error().code;
    EXPECT_NE(expected, ErrorCode::out_of_memory);
    Sweep{.run = [&]() -> Status {
      Status status = calls[i]();
      if (!status && status.error().code == expected) return {};
      if (!status) return status;
      return fail(ErrorCode::internal, "an error was lost");
    }}();
  }
}

}  // namespace
}  // namespace onepass::test::heap_test
