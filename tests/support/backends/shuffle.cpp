#include "support/backends/shuffle.h"

#include <algorithm>
#include <new>
#include <numeric>
#include <string>
#include <utility>

#include "core/os.h"

namespace onepass {
namespace {

// SplitMix64.
std::uint64_t next_random(std::uint64_t& state) noexcept {
  std::uint64_t x = state += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

std::size_t random_below(std::uint64_t& state, std::size_t n) noexcept {
  return static_cast<std::size_t>(next_random(state) % n);
}

void arrange(std::span<std::uint32_t> list, ShuffleOrder order, std::uint64_t& state) noexcept {
  if (order == ShuffleOrder::reverse) std::reverse(list.begin(), list.end());
  if (order != ShuffleOrder::random) return;
  for (std::size_t i = list.size(); i > 1; --i)
    std::swap(list[i - 1], list[random_below(state, i)]);
}

struct ShuffleRecorded final : Recorded {
  TaskList tasks;
  BoundView step;
  bool by_edges = false;
  std::vector<std::uint32_t> level_offsets;
  std::vector<std::uint32_t> n_preds, succ_offsets, succs;
  std::vector<std::uint32_t> order, left, ready, tiles;  // of the last submission
  std::vector<TimeSpan> spans;                           // empty: not timed

  void invert(const Order& edges);
  void choose_order(ShuffleOrder mode, std::uint64_t& state) noexcept;
};

void ShuffleRecorded::invert(const Order& edges) {
  const std::size_t n = edges.edge_offsets.size() - 1;
  n_preds.resize(n);
  succ_offsets.assign(n + 1, 0);
  succs.resize(edges.edges.size());
  for (const Edge& e : edges.edges) ++succ_offsets[e.from + 1];
  std::partial_sum(succ_offsets.begin(), succ_offsets.end(), succ_offsets.begin());
  std::vector<std::uint32_t> at(succ_offsets.begin(), succ_offsets.end() - 1);
  for (std::uint32_t v = 0; v < n; ++v) {
    const auto into = edges.edges_into(v);
    n_preds[v] = static_cast<std::uint32_t>(into.size());
    for (const Edge& e : into) succs[at[e.from]++] = v;
  }
}

// The levels that the launches say they are in.
std::vector<std::uint32_t> levels_of(const Recording& recording) {
  std::vector<std::uint32_t> offsets;
  const auto n = static_cast<std::uint32_t>(recording.launches.size());
  for (std::uint32_t i = 0; i < n; ++i) {
    if (i == 0 || recording.launches[i].level != recording.launches[i - 1].level) {
      offsets.push_back(i);
    }
  }
  offsets.push_back(n);
  return offsets;
}

void ShuffleRecorded::choose_order(ShuffleOrder mode, std::uint64_t& state) noexcept {
  if (!by_edges) {
    std::iota(order.begin(), order.end(), 0u);
    for (std::size_t level = 0; level + 1 < level_offsets.size(); ++level) {
      const std::uint32_t begin = level_offsets[level];
      arrange(std::span(order).subspan(begin, level_offsets[level + 1] - begin), mode, state);
    }
    return;
  }
  // Capacities were reserved by record: nothing here allocates.
  order.clear();
  ready.clear();
  left.assign(n_preds.begin(), n_preds.end());
  const auto add_ready = [&](std::uint32_t i) {
    ready.push_back(i);
    if (mode == ShuffleOrder::reverse) std::push_heap(ready.begin(), ready.end());
  };
  for (std::uint32_t i = 0; i < left.size(); ++i) {
    if (left[i] == 0) add_ready(i);
  }
  while (!ready.empty()) {
    if (mode == ShuffleOrder::reverse) {
      std::pop_heap(ready.begin(), ready.end());
    } else {
      std::swap(ready[random_below(state, ready.size())], ready.back());
    }
    const std::uint32_t i = ready.back();
    ready.pop_back();
    order.push_back(i);
    for (std::uint32_t s = succ_offsets[i]; s < succ_offsets[i + 1]; ++s) {
      if (--left[succs[s]] == 0) add_ready(succs[s]);
    }
  }
}

}  // namespace

ShuffleBackend::ShuffleBackend(const ShuffleOptions& options)
    : HostBackend(host_device_info("shuffle", 1)), options_(options), random_state_(options.seed) {
  info_.max_binding_bytes = options.max_binding_bytes;
  if (options.use_levels) info_.order = OrderKind::levels;
}

void ShuffleBackend::reseed(std::uint64_t seed) {
  const std::lock_guard lock(mutex_);
  random_state_ = seed;
}

std::span<const std::uint32_t> ShuffleBackend::last_order(const Recorded& recorded) {
  return static_cast<const ShuffleRecorded&>(recorded).order;
}

Result<std::unique_ptr<Recorded>> ShuffleBackend::record(const Recording& recording,
                                                         const Order& order) {
  try {
    ONEPASS_ASSIGN(TaskList tasks, TaskList::bind(recording));
    auto recorded = std::make_unique<ShuffleRecorded>();
    const std::size_t n = recording.launches.size();
    std::uint32_t max_tiles = 0;
    for (std::uint32_t i = 0; i < n; ++i) max_tiles = std::max(max_tiles, tasks.tiles(i));
    recorded->tasks = std::move(tasks);
    recorded->step = recording.step;
    recorded->order.resize(n);
    recorded->tiles.resize(max_tiles);
    if (recording.timed) recorded->spans.resize(n);

    OrderKind kind = order.kind;
    if (options_.use_levels && kind == OrderKind::edges) kind = OrderKind::levels;
    if (options_.order == ShuffleOrder::forward) kind = OrderKind::in_order;
    if (kind == OrderKind::levels) {
      recorded->level_offsets =
          order.kind == OrderKind::levels ? order.level_offsets : levels_of(recording);
    }
    if (kind == OrderKind::edges) {
      recorded->by_edges = true;
      recorded->ready.reserve(n);
      recorded->left.reserve(n);
      recorded->invert(order);
    }
    return std::unique_ptr<Recorded>(std::move(recorded));
  } catch (const std::bad_alloc&) {
    return fail(
        ErrorCode::out_of_memory,
        "shuffle: no memory to record " + std::to_string(recording.launches.size()) + " launches");
  }
}

Status ShuffleBackend::submit(Recorded& recorded, std::span<const std::byte> step_bytes,
                              Completion& completion) {
  auto& r = static_cast<ShuffleRecorded&>(recorded);
  const std::lock_guard lock(mutex_);
  completion.failed.store(false, std::memory_order_relaxed);
  completion.done.store(false, std::memory_order_relaxed);
  completion.serial = ++serial_;
  completion.span.start_ns = os::now_ns();
  write_step(r.step, step_bytes);
  r.choose_order(options_.order, random_state_);
  for (const std::uint32_t i : r.order) {
    const std::span<std::uint32_t> tiles(r.tiles.data(), r.tasks.tiles(i));
    std::iota(tiles.begin(), tiles.end(), 0u);
    arrange(tiles, options_.order, random_state_);
    if (!r.spans.empty()) r.spans[i].start_ns = os::now_ns();
    for (const std::uint32_t tile : tiles) r.tasks.run(i, tile);
    if (!r.spans.empty()) r.spans[i].end_ns = os::now_ns();
  }
  completion.span.end_ns = os::now_ns();
  completion.done.store(true, std::memory_order_release);
  return {};
}

Status ShuffleBackend::timestamps(Recorded& recorded, std::span<TimeSpan> out) {
  const auto& r = static_cast<const ShuffleRecorded&>(recorded);
  if (r.spans.empty() && r.tasks.size() > 0)
    return fail(ErrorCode::invalid_state, "timestamps: the recording was not timed");
  std::copy_n(r.spans.begin(), std::min(out.size(), r.spans.size()), out.begin());
  return {};
}

}  // namespace onepass
