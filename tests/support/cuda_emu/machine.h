// Runs CUDA kernels on the host, one cluster of blocks after another, for tests. Each thread of a
// block is a fiber; threads switch where they meet (barriers, warp collectives) and otherwise run
// in a random order, so that a missing barrier gives other numbers.
//
//   Failure f = run_kernel(add_f32, args, {.grid = {8, 1, 1}, .group = {256, 1, 1}});
//   if (!f.empty()) ...        // "add_f32, block 3: thread 7 waits at __syncthreads (line 12) ..."
//
// What a device would only show as a hang or as garbage is a failure here: a barrier that a thread
// never reaches, a collective that a named lane never reaches, a shuffle from a lane that is not
// there, a wide access at an address that does not allow it. Of a kernel that waits for the
// kernels before it, the views that are not read early hold garbage until the first block run has
// waited.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "backends/cuda/args.h"

namespace onepass {
struct CudaKernelArgs;
}

namespace onepass::emu {

using KernelFn = void (*)(CudaArgs);
using CallersKernelFn = void (*)(CudaKernelArgs);

struct KernelLaunch {
  const char* name = "";
  std::array<std::uint32_t, 3> grid{1, 1, 1}, group{1, 1, 1};
  std::uint32_t shared_bytes = 0;
  std::uint32_t cluster = 1;      // blocks along y that run together
  std::uint64_t seed = 0;         // of the order of blocks and threads
  bool waits_first = false;       // a block must wait for the kernels before this one
  std::uint32_t reads_early = 0;  // views (bits) that may be read before the wait
  std::uint32_t n_views = 0;
  std::uint64_t scratch_bytes = 0, persistent_bytes = 0;
  // Memory as it was when the kernel started: what its first block reads before it waits.
  struct AtStart {
    std::byte* at;
    std::vector<std::byte> bytes;
  };
  std::span<const AtStart> at_start{};
};

// Empty: it ran to the end.
using Failure = std::string;

// One kernel at a time in a process.
Failure run_kernel(KernelFn kernel, const CudaArgs& args, const KernelLaunch& launch);
// Callers' kernels wait for nothing themselves.
Failure run_kernel(CallersKernelFn kernel, const CudaKernelArgs& args, const KernelLaunch& launch);

// What kernels call, through device.h.

// Ends the kernel with a failure.
[[noreturn]] void fault(const char* format, ...) __attribute__((format(printf, 1, 2)));

struct Place {
  const char* what = "";
  int line = 0;
};

// All threads of the block. Returns how many came with a true predicate.
unsigned block_barrier(bool predicate, const Place& place);

// The lanes of a warp that meet in one collective.
struct Lanes {
  std::uint32_t mask = 0;  // who is there
  std::array<const void*, 32> in{};
  std::array<void*, 32> out{};

  bool has(unsigned lane) const { return lane < 32 && (mask >> lane & 1) != 0; }
};
using Meet = void (*)(const Lanes& lanes, const Place& place);

// Waits for the lanes in mask, which must come with the same mask and the same meet; the last one
// calls it.
void warp_meet(std::uint32_t mask, const void* in, void* out, Meet meet, const Place& place);

// Asynchronous copies happen when they are waited for.
void async_copy(void* to, const void* from, std::uint32_t bytes, std::uint32_t size);
void async_commit();
void async_wait(std::uint32_t groups_left);

std::byte* dynamic_shared();
std::byte* cluster_shared(std::uint32_t rank);  // dynamic_shared() of another block
std::uint32_t cluster_rank();
void cluster_barrier(const Place& place);  // all threads of the cluster
void grid_wait();                          // for the kernels before this one

}  // namespace onepass::emu
