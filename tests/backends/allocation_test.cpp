// Counts calls of operator new, so this file needs a program of its own. The operators are kept out
// of line: inlined, g++ 12 takes their malloc and free for a mismatched pair.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#include "backends/cpu/cpu.h"
#include "backends/null/null.h"
#include "core/os.h"
#include "onepass/backends/cpu.h"
#include "support/backends/shuffle.h"
#include "support/recordings.h"

namespace {
std::atomic<std::uint64_t> n_allocations{0};
}

#if !ONEPASS_SANITIZED  // sanitizers bring their own
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++n_allocations;
  if (void* p = std::malloc(size == 0 ? 1 : size)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }
[[gnu::noinline]] void* operator new(std::size_t size, std::align_val_t alignment) {
  ++n_allocations;
  const auto a = static_cast<std::size_t>(alignment);
  if (void* p = std::aligned_alloc(a, (size + a - 1) / a * a)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t, std::align_val_t) noexcept {
  std::free(p);
}
#endif

namespace onepass {
namespace {

using testing::OrderedRecording;

void expect_no_allocation(Backend& backend) {
  constexpr std::uint32_t n_cells = 20;
  const testing::Program program = testing::random_program(8, 100, n_cells);
  const Allocation memory =
      backend.allocate(n_cells * testing::cell_bytes, MemoryKind::device, true).value();
  const Allocation step = backend.allocate(256, MemoryKind::device, true).value();
  {
    OrderedRecording recording = testing::make_recording(program, memory, OrderKind::edges);
    recording.step = BoundView{step, 0, 256};
    recording.timed = true;
    auto recorded = testing::record(backend, recording);
    ASSERT_TRUE(recorded);
    const std::vector<std::byte> step_bytes(256);
    std::vector<Completion> completions(200);
    const std::uint64_t before = n_allocations;
    // More than the queue holds, and none waited for.
    for (Completion& c : completions) {
      if (!backend.submit(**recorded, step_bytes, c)) FAIL();
    }
    for (Completion& c : completions) backend.wait(c);
    EXPECT_EQ(n_allocations - before, 0u) << backend.info().name;
  }
  backend.release(memory);
  backend.release(step);
}

TEST(Allocation, SubmitAndWaitAllocateNothing) {
  if (os::sanitized) GTEST_SKIP() << "operator new belongs to the sanitizer";
  for (const std::uint32_t threads : {1u, 2u, 4u}) {
    DeviceOptions options;
    options.backend = {CpuOptions{.threads = threads}};
    expect_no_allocation(*make_cpu_backend(options));
  }
  NullBackend null;
  expect_no_allocation(null);
  for (const ShuffleOrder order :
       {ShuffleOrder::forward, ShuffleOrder::reverse, ShuffleOrder::random}) {
    ShuffleBackend shuffle({.order = order});
    expect_no_allocation(shuffle);
  }
}

}  // namespace
}  // namespace onepass
