// What GraphExecutor and GraphSession share.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "graph/ancestor/encoder_state.h"
#include "graph/nodes.h"
#include "onepass/session.h"

namespace onepass {

class ExecutorState {
 public:
  explicit ExecutorState(std::shared_ptr<DeviceState> d) : device(std::move(d)) {}

  std::shared_ptr<DeviceState> device;
  std::mutex mutex;
  std::mutex arena_mutex;             // one compile at a time
  std::shared_ptr<ArenaBlock> arena;  // of plans; under arena_mutex
  // Under mutex. Passes in flight and plans hold it too: it may outlive the executor.
  using Labels = std::set<std::string, std::less<>>;
  std::shared_ptr<Labels> labels = std::make_shared<Labels>();
  std::vector<std::unique_ptr<NodeList>> spare;  // cleared lists with their storage; under mutex

  // Storage goes from pass to pass, so that recording allocates nothing once warm.
  std::unique_ptr<NodeList> take_list();
  void return_list(std::unique_ptr<NodeList> list) noexcept;
};

class SessionState {
 public:
  SessionState(std::shared_ptr<ExecutorState> e, bool recorded);
  ~SessionState();

  std::shared_ptr<ExecutorState> executor;
  CommandEncoder encoder;
  bool recording;
  bool ended = false;
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
  std::shared_ptr<ScratchTable> scratch;
  std::vector<MemRange> discarded;
  const char* label = nullptr;
  std::vector<const char*> groups_open;  // their paths, the innermost last

  graph::GroupTracker tracker;  // of barrier_between
  std::uint32_t barriers = 0, checked = 0, groups = 0, in_group = 0;
  std::array<std::uint32_t, 8> bins{};
  std::uint64_t tracker_ns = 0;

  // Gives everything back; the session says from now on that it has ended.
  void end() noexcept;
  void close_group() noexcept;
  bool to_ranges(std::span<const View> views, bool write, std::vector<graph::Range>& out,
                 std::vector<MemRange>& as_given);
};

}  // namespace onepass
