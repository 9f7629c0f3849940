#include "machine.h"

#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "device.h"
#include "fiber.h"
#include "onepass/cuda_kernel.h"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace onepass::emu {
namespace {

constexpr std::size_t max_threads = 1024, max_cluster_threads = 2048;
constexpr std::size_t stack_bytes = 256u << 10;
constexpr std::byte poison{0xff};  // NaN in every floating-point format

struct Copy {
  void* to;
  const void* from;
  std::uint32_t bytes, size, group;
};

enum class State : std::uint8_t { ready, in_barrier, in_warp, in_grid_wait, returned };

// Bytes that a kernel finds before it waits, and what they hold then.
struct Hidden {
  std::byte* at;
  std::vector<std::byte> before, after;
};

struct Thread {
  Fiber fiber;
  uint3 index;
  std::uint32_t block = 0;  // of the cluster
  State state = State::ready;
  Place place;  // where it waits
  std::uint32_t mask = 0;
  Meet meet = nullptr;
  const void* in = nullptr;
  void* out = nullptr;
  std::uint32_t copy_group = 0;
  std::vector<Copy> copies;
};

// One of the blocks that run at the same time.
struct Block {
  uint3 index;
  std::uint32_t waiting = 0, predicates = 0, last_predicates = 0;  // of its barrier
  std::byte* shared = nullptr;
};

class Machine {
 public:
  // args: null of a kernel that does not wait.
  Failure run(const std::function<void()>& thread, const CudaArgs* args,
              const KernelLaunch& launch);

  unsigned barrier(bool predicate, const Place& place);
  void cluster_barrier(const Place& place);
  void meet(std::uint32_t mask, const void* in, void* out, Meet call, const Place& place);
  [[noreturn]] void stop(const std::string& why);
  Thread& self() { return threads_[current_]; }
  std::byte* shared() { return blocks_[self().block].shared; }
  std::byte* shared_of(std::uint32_t rank);
  std::uint32_t rank() { return self().block; }
  void wait_for_grid();

 private:
  static void entry();
  void run_cluster();
  void next();
  void enter(std::uint32_t thread);
  void make_ready(std::uint32_t thread);
  void hide();
  void show();
  std::uint64_t random();
  std::string where() const;
  std::string stuck() const;

  const std::function<void()>* thread_ = nullptr;
  const CudaArgs* args_ = nullptr;
  const KernelLaunch* launch_ = nullptr;
  std::byte* stacks_ = nullptr;
  std::size_t stride_ = 0;
  Fiber main_;
  std::vector<Thread> threads_{max_cluster_threads};
  std::vector<Block> blocks_;  // of the cluster
  std::vector<std::uint32_t> ready_;
  std::uint32_t n_threads_ = 0;  // of a block
  std::uint32_t all_threads_ = 0, current_ = 0, cluster_waiting_ = 0;
  std::uint32_t returned_ = 0;
  std::uint32_t parked_ = 0;  // threads in grid_wait
  bool waited_ = false;
  std::vector<Hidden> hidden_;
  std::uint64_t random_ = 0;
  Failure failure_;
};

Machine machine;
std::mutex machine_mutex;

std::uint64_t Machine::random() {
  std::uint64_t x = random_ += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

std::string Machine::where() const {
  char text[160];
  std::snprintf(text, sizeof text, "%s, block (%u, %u, %u)", launch_->name, blockIdx.x, blockIdx.y,
                blockIdx.z);
  return text;
}

void Machine::make_ready(std::uint32_t thread) {
  threads_[thread].state = State::ready;
  ready_.push_back(thread);
}

void Machine::enter(std::uint32_t thread) {
  current_ = thread;
  threadIdx = threads_[thread].index;
  blockIdx = blocks_[threads_[thread].block].index;
}

// Goes on with some thread that can; back to run_cluster where there is none.
void Machine::next() {
  Thread& from = threads_[current_];
  Fiber* to = &main_;
  if (ready_.empty() && parked_ > 0) {
    show();
    parked_ = 0;
    for (std::uint32_t i = 0; i < all_threads_; ++i) {
      if (threads_[i].state == State::in_grid_wait) make_ready(i);
    }
  }
  if (!ready_.empty()) {
    std::swap(ready_[random() % ready_.size()], ready_.back());
    if (ready_.back() == current_) {
      ready_.pop_back();
      return;
    }
    enter(ready_.back());
    ready_.pop_back();
    to = &threads_[current_].fiber;
  }
  if (from.state == State::returned) Fiber::leave_for(*to);
  Fiber::switch_to(from.fiber, *to);
}

void Machine::hide() {
  struct Range {
    void* at;
    std::uint64_t bytes;
    bool early;
  };
  std::vector<Range> ranges{{args_->scratch, launch_->scratch_bytes, false},
                            {args_->persistent, launch_->persistent_bytes, false}};
  for (std::uint32_t i = 0; i < launch_->n_views; ++i) {
    ranges.push_back({args_->views[i], args_->bytes[i], (launch_->reads_early >> i & 1) != 0});
  }
  const auto overlap = [](const Range& a, const Range& b) {
    const auto x = reinterpret_cast<std::uintptr_t>(a.at),
               y = reinterpret_cast<std::uintptr_t>(b.at);
    return x < y + b.bytes && y < x + a.bytes;
  };
  for (const Range& r : ranges) {
    const bool early = std::any_of(ranges.begin(), ranges.end(),
                                   [&](const Range& e) { return e.early && overlap(r, e); });
    if (r.at == nullptr || r.bytes == 0 || early) continue;
    auto* at = static_cast<std::byte*>(r.at);
    hidden_.push_back({at, std::vector<std::byte>(r.bytes, poison), {at, at + r.bytes}});
  }
  for (const KernelLaunch::AtStart& s : launch_->at_start) {
    hidden_.push_back({s.at, s.bytes, {s.at, s.at + s.bytes.size()}});
  }
  for (const Hidden& h : hidden_) std::copy(h.before.begin(), h.before.end(), h.at);
}

// Gives the bytes back. It is a failure when they were written.
void Machine::show() {
  for (const Hidden& h : hidden_) {
    const bool written = !std::equal(h.before.begin(), h.before.end(), h.at);
    if (written && failure_.empty()) {
      failure_ = where() + ": wrote memory before it waited for the kernels before it";
    }
  }
  for (const Hidden& h : hidden_) std::copy(h.after.begin(), h.after.end(), h.at);
  hidden_.clear();
}

void Machine::wait_for_grid() {
  waited_ = true;
  if (hidden_.empty()) return;
  self().state = State::in_grid_wait;
  ++parked_;
  next();
}

void Machine::entry() {
  Fiber::started();
  (*machine.thread_)();
  Thread& t = machine.self();
  async_commit();
  async_wait(0);
  t.state = State::returned;
  ++machine.returned_;
  machine.next();
  __builtin_unreachable();
}

unsigned Machine::barrier(bool predicate, const Place& place) {
  Thread& t = self();
  t.state = State::in_barrier;
  t.place = place;
  const std::uint32_t block = t.block;
  Block& b = blocks_[block];
  b.predicates += predicate ? 1 : 0;
  if (++b.waiting == n_threads_) {
    b.waiting = 0;
    b.last_predicates = b.predicates;
    b.predicates = 0;
    for (std::uint32_t i = 0; i < n_threads_; ++i) make_ready(block * n_threads_ + i);
  }
  next();
  return b.last_predicates;  // nobody passes the next barrier before everybody read it
}

void Machine::cluster_barrier(const Place& place) {
  Thread& t = self();
  t.state = State::in_barrier;
  t.place = place;
  if (++cluster_waiting_ == all_threads_) {
    cluster_waiting_ = 0;
    for (std::uint32_t i = 0; i < all_threads_; ++i) make_ready(i);
  }
  next();
}

std::byte* Machine::shared_of(std::uint32_t rank) {
  if (rank >= blocks_.size()) {
    fault("shared memory of block %u of a cluster of %zu", rank, blocks_.size());
  }
  return blocks_[rank].shared;
}

void Machine::meet(std::uint32_t mask, const void* in, void* out, Meet call, const Place& place) {
  Thread& t = self();
  const std::uint32_t lane = current_ % n_threads_ % 32, first = current_ - lane;
  const std::uint32_t end = (t.block + 1) * n_threads_;
  if ((mask >> lane & 1) == 0)
    fault("%s: lane %u is not in its own mask 0x%08x", place.what, lane, mask);
  t.state = State::in_warp;
  t.place = place;
  t.mask = mask;
  t.meet = call;
  t.in = in;
  t.out = out;
  Lanes lanes;
  bool complete = true;
  for (std::uint32_t i = 0; i < 32 && complete; ++i) {
    if ((mask >> i & 1) == 0 || first + i >= end) continue;
    const Thread& other = threads_[first + i];
    complete = other.state == State::in_warp && other.mask == mask && other.meet == call;
    lanes.mask |= 1u << i;
    lanes.in[i] = other.in;
    lanes.out[i] = other.out;
  }
  if (complete) {
    call(lanes, place);
    for (std::uint32_t i = 0; i < 32; ++i) {
      if (lanes.has(i)) make_ready(first + i);
    }
  }
  next();
}

void Machine::stop(const std::string& why) {
  const uint3 t = self().index;
  char text[64];
  std::snprintf(text, sizeof text, ", thread (%u, %u, %u): ", t.x, t.y, t.z);
  failure_ = where() + text + why;
  ready_.clear();
  Fiber::switch_to(self().fiber, main_);
  __builtin_unreachable();
}

// Where the threads are that will never meet.
std::string Machine::stuck() const {
  std::map<std::string, std::pair<std::uint32_t, std::uint32_t>> places;  // count, first thread
  for (std::uint32_t i = 0; i < all_threads_; ++i) {
    const Thread& t = threads_[i];
    char text[160] = "returned";
    if (t.state == State::in_barrier) {
      std::snprintf(text, sizeof text, "wait at %s (line %d)", t.place.what, t.place.line);
    } else if (t.state == State::in_warp) {
      std::snprintf(text, sizeof text, "wait in %s (line %d) for lanes 0x%08x", t.place.what,
                    t.place.line, t.mask);
    }
    const auto it = places.emplace(text, std::pair{0u, i}).first;
    ++it->second.first;
  }
  std::string text = where() + ": threads that do not meet";
  for (const auto& [place, threads] : places) {
    char line[240];
    std::snprintf(line, sizeof line, "; %u %s, thread %u among them", threads.first, place.c_str(),
                  threads.second);
    text += line;
  }
  return text;
}

void Machine::run_cluster() {
  ready_.clear();
  cluster_waiting_ = returned_ = parked_ = 0;
  waited_ = false;
  for (Block& b : blocks_) b.waiting = b.predicates = 0;
  for (std::uint32_t i = 0; i < all_threads_; ++i) {
    Thread& t = threads_[i];
    t.fiber.reset(stacks_ + i * stride_, stack_bytes, entry);
    const std::uint32_t in_block = i % n_threads_;
    t.block = i / n_threads_;
    t.index = {in_block % blockDim.x, in_block / blockDim.x % blockDim.y,
               in_block / blockDim.x / blockDim.y};
    t.copies.clear();
    t.copy_group = 0;
    make_ready(i);
  }
  std::swap(ready_[random() % ready_.size()], ready_.back());
  enter(ready_.back());
  ready_.pop_back();
  Fiber::switch_to(main_, threads_[current_].fiber);
  if (!failure_.empty()) return;
  if (returned_ != all_threads_) {
    failure_ = stuck();
  } else if (launch_->waits_first && !waited_) {
    failure_ = where() + ": no thread waited for the kernels before it";
  }
}

Failure Machine::run(const std::function<void()>& thread, const CudaArgs* args,
                     const KernelLaunch& launch) {
  thread_ = &thread;
  args_ = args;
  launch_ = &launch;
  failure_.clear();
  main_ = Fiber();
  const std::uint64_t threads = std::uint64_t{launch.group[0]} * launch.group[1] * launch.group[2];
  const std::uint64_t blocks = std::uint64_t{launch.grid[0]} * launch.grid[1] * launch.grid[2];
  const std::uint32_t cluster = std::max(launch.cluster, 1u);
  if (threads == 0 || threads > max_threads || blocks == 0 || launch.grid[1] % cluster != 0 ||
      threads * cluster > max_cluster_threads) {
    return std::string(launch.name) + ": " + std::to_string(blocks) + " blocks of " +
           std::to_string(threads) + " threads, " + std::to_string(cluster) +
           " in a cluster, cannot be launched";
  }
  if (!stacks_) {
    stacks_ = map_stacks(max_cluster_threads, stack_bytes);
    stride_ = stack_bytes + static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    if (!stacks_) return "no memory for the stacks of a block";
    ready_.reserve(max_cluster_threads);
  }
  n_threads_ = static_cast<std::uint32_t>(threads);
  all_threads_ = n_threads_ * cluster;
  blockDim = dim3(launch.group[0], launch.group[1], launch.group[2]);
  gridDim = dim3(launch.grid[0], launch.grid[1], launch.grid[2]);
  random_ = launch.seed;
  // Exactly as many bytes as asked for, so that a sanitizer sees what is beyond.
  const std::align_val_t alignment{128};
  blocks_.assign(cluster, Block());
  for (Block& b : blocks_) {
    b.shared = static_cast<std::byte*>(
        ::operator new(std::max<std::size_t>(launch.shared_bytes, 1), alignment));
  }
  // A step that is coprime to the number of clusters visits each once.
  const std::uint64_t clusters = blocks / cluster;
  std::uint64_t step = random() % clusters | 1;
  const auto gcd = [](std::uint64_t a, std::uint64_t b) {
    while (b != 0) a = std::exchange(b, a % b);
    return a;
  };
  while (gcd(step, clusters) != 1) step += 2;
  std::uint64_t at = random() % clusters;
  for (std::uint64_t i = 0; i < clusters && failure_.empty(); ++i) {
    at = (at + step) % clusters;
    const std::uint64_t rows = gridDim.y / cluster;
    for (std::uint32_t rank = 0; rank < cluster; ++rank) {
      blocks_[rank].index = {static_cast<unsigned>(at % gridDim.x),
                             static_cast<unsigned>(at / gridDim.x % rows * cluster + rank),
                             static_cast<unsigned>(at / gridDim.x / rows)};
      std::memset(blocks_[rank].shared, static_cast<int>(poison), launch.shared_bytes);
    }
    if (i == 0 && launch.waits_first) hide();
    run_cluster();
    show();
  }
  for (const Block& b : blocks_) ::operator delete(b.shared, alignment);
  blocks_.clear();
  return failure_;
}

}  // namespace

Failure run_kernel(KernelFn kernel, const CudaArgs& args, const KernelLaunch& launch) {
  const std::lock_guard lock(machine_mutex);
  return machine.run([&] { kernel(args); }, &args, launch);
}

Failure run_kernel(CallersKernelFn kernel, const CudaKernelArgs& args, const KernelLaunch& launch) {
  const std::lock_guard lock(machine_mutex);
  return machine.run([&] { kernel(args); }, nullptr, launch);
}

void fault(const char* format, ...) {
  char text[240];
  std::va_list list;
  va_start(list, format);
  std::vsnprintf(text, sizeof text, format, list);
  va_end(list);
  machine.stop(text);
}

unsigned block_barrier(bool predicate, const Place& place) {
  return machine.barrier(predicate, place);
}

void warp_meet(std::uint32_t mask, const void* in, void* out, Meet meet, const Place& place) {
  machine.meet(mask, in, out, meet, place);
}

void async_copy(void* to, const void* from, std::uint32_t bytes, std::uint32_t size) {
  if (reinterpret_cast<std::uintptr_t>(to) % bytes != 0 ||
      reinterpret_cast<std::uintptr_t>(from) % bytes != 0) {
    fault("cp.async of %u bytes from %p to %p: misaligned", bytes, from, to);
  }
  Thread& t = machine.self();
  t.copies.push_back({to, from, bytes, size, t.copy_group});
}

void async_commit() { ++machine.self().copy_group; }

void async_wait(std::uint32_t groups_left) {
  Thread& t = machine.self();
  std::size_t n = 0;
  for (; n < t.copies.size() && t.copies[n].group + groups_left < t.copy_group; ++n) {
    const Copy& c = t.copies[n];
    std::memcpy(c.to, c.from, c.size);
    std::memset(static_cast<std::byte*>(c.to) + c.size, 0, c.bytes - c.size);
  }
  t.copies.erase(t.copies.begin(), t.copies.begin() + static_cast<std::ptrdiff_t>(n));
}

std::byte* dynamic_shared() { return machine.shared(); }
std::byte* cluster_shared(std::uint32_t rank) { return machine.shared_of(rank); }
std::uint32_t cluster_rank() { return machine.rank(); }
void cluster_barrier(const Place& place) { machine.cluster_barrier(place); }
void grid_wait() { machine.wait_for_grid(); }

}  // namespace onepass::emu
