// The recorded list in its dense form: dispatches, barriers and fences with resolved byte ranges.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/device_state.h"
#include "graph/program.h"
#include "graph/tape.h"
#include "onepass/dispatch.h"
#include "onepass/graph.h"

namespace onepass {

// Ids of scratch have this bit in their index; the generation is the table's tag.
inline constexpr std::uint32_t scratch_bit = 0x80000000u;

// Scratch tensors of one session and, once placed, where their bytes are.
struct ScratchTable {
  struct Item {
    std::uint64_t bytes = 0;
    std::shared_ptr<ArenaBlock> block;  // null until placed
    std::uint64_t offset = 0;
  };
  std::uint32_t tag = 0;  // never 0
  std::vector<Item> items;
  std::shared_ptr<const void> labels;  // where the session's labels live
  bool made_by_compile = false;        // what a session knows nothing of

  static std::shared_ptr<ScratchTable> create(std::shared_ptr<const void> labels);
};

struct NodeMemory {
  std::shared_ptr<DeviceState> device;
  std::vector<Buffer> buffers;
  std::vector<std::shared_ptr<ScratchTable>> tables;
};

struct StoredNode {
  CapturedNode::Kind kind = CapturedNode::Kind::dispatch;
  CapturedOpKind op_kind = CapturedOpKind::other;
  bool opaque = false;   // accesses unknown: a full fence
  bool assumed = false;  // nobody gave accesses: every view counts as read and written
  std::uint8_t n_views = 0;
  Op op = Op::custom;
  Format format;
  DType input = DType::f32;
  std::uint8_t params_bytes = 0;
  KernelId kernel;
  int line = 0;
  const char* label = nullptr;
  const char* group = nullptr;
  const char* file = "";
  std::uint32_t first_view = 0;
  std::uint32_t first_param = 0;  // 16-byte steps
  std::uint32_t first_range = 0;
  std::uint32_t n_ranges = 0;
  std::uint32_t grid = 0;     // of callers' kernels
  std::uint32_t extra = ~0u;  // index of extras, if any
};

class NodeList {
 public:
  explicit NodeList(std::shared_ptr<DeviceState> device);
  ~NodeList();
  NodeList(const NodeList&) = delete;
  NodeList& operator=(const NodeList&) = delete;

  const char* default_label = nullptr;  // of dispatches that bring none
  const char* default_group = nullptr;

  // A region: one buffer, all imported host memory, or one scratch tensor.
  struct Region {
    BufferId buffer;             // none for host memory
    std::uint64_t physical = 0;  // region of the buffer; of scratch: unused
    std::uint32_t table = ~0u;   // of scratch: index of tables
    std::uint32_t item = 0;
    bool is_scratch() const noexcept { return table != ~0u; }
  };

  // Checks the dispatch against the op table, the kernel and its buffers and appends it. The
  // pending ranges count only where the kernel declares no access. An error changes nothing.
  Status append(const Dispatch& d, std::optional<CapturedOpKind> kind,
                std::span<const MemRange> pending_reads, std::span<const MemRange> pending_writes) {
    return append(d, kind, pending_reads, pending_writes, false);
  }
  void append_barrier();
  void append_fence();
  void insert_barrier_before_last();
  // Node i of another list of the same device.
  Status append_copy(const NodeList& other, std::uint32_t i);
  Status append_node(const CapturedNode& node);
  Status annotate_last(std::span<const MemRange> reads, std::span<const MemRange> writes);
  void clear() noexcept;
  void drop_barriers() noexcept;
  // Keeps the nodes named, in that order; the others (barriers) go.
  void permute(std::span<const std::uint32_t> order);
  struct Rewritten {
    std::uint32_t source = 0;            // a node that stays as it is,
    const Dispatch* dispatch = nullptr;  // or a new one
  };
  // The list has these nodes from now on. An error changes nothing.
  Status rewrite(std::span<const Rewritten> nodes);

  std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(nodes_.size()); }
  const StoredNode& node(std::uint32_t i) const noexcept { return nodes_[i]; }
  bool is_dispatch(std::uint32_t i) const noexcept {
    return nodes_[i].kind == CapturedNode::Kind::dispatch;
  }
  // One of the nodes [begin, end) is a dispatch.
  bool has_dispatch(std::uint32_t begin, std::uint32_t end) const noexcept {
    while (begin < end && !is_dispatch(begin)) ++begin;
    return begin < end;
  }
  std::span<const graph::Range> ranges(std::uint32_t i) const noexcept {
    return {ranges_.data() + nodes_[i].first_range, nodes_[i].n_ranges};
  }
  std::span<const View> views(std::uint32_t i) const noexcept {
    return {views_.data() + nodes_[i].first_view, nodes_[i].n_views};
  }
  Dispatch dispatch(std::uint32_t i) const noexcept {
    Dispatch d;
    read(i, d);
    return d;
  }
  void read(std::uint32_t i, Dispatch& out) const noexcept;
  CapturedNode captured(std::uint32_t i) const;
  const DispatchExtra* extra(std::uint32_t i) const noexcept {
    return nodes_[i].extra == ~0u ? nullptr : extras_[nodes_[i].extra].get();
  }
  std::span<const Region> regions() const noexcept { return regions_; }
  std::span<const std::shared_ptr<ScratchTable>> tables() const noexcept { return tables_; }
  std::span<const std::shared_ptr<const DispatchExtra>> extras() const noexcept { return extras_; }
  DeviceState& device() const noexcept { return *device_; }
  const std::shared_ptr<DeviceState>& device_ptr() const noexcept { return device_; }

  // Where a view's bytes are: an allocation and an offset. Scratch must be placed.
  BoundView bind(const View& view) const noexcept;
  // A range in the backend's regions.
  PhysicalRange physical(const graph::Range& r) const noexcept;
  std::uint32_t region_of(const View& view) const noexcept { return place_of(view).region; }
  // The range as callers know it.
  MemRange describe(const graph::Range& r) const noexcept;

  void add_table(const std::shared_ptr<ScratchTable>& table);
  // A new item of a table of this list.
  Result<View> add_scratch(ScratchTable& table, std::uint64_t bytes);
  void discard(const MemRange& range);
  std::span<const MemRange> discarded() const noexcept { return discarded_; }
  bool is_immutable(const View& view) const noexcept;
  // The bytes of a view of this list, as a read.
  graph::Range range_of(const View& view) const noexcept {
    const Resolved& r = place_of(view);
    const std::uint64_t lo = r.base + view.offset;
    return {lo, lo + view.bytes, r.region, false};
  }
  // True when nobody sees these bytes after the pass.
  bool is_dead_after(const View& view) const noexcept;

  // Program over all nodes but barriers; `nodes` maps its indices to this list's.
  struct ProgramStorage {
    std::vector<graph::NodeKind> kinds;
    std::vector<std::uint32_t> range_offsets;
    std::vector<graph::Range> ranges;
    std::vector<std::uint32_t> nodes;
    std::uint32_t n_regions = 0;
    graph::Program view() const noexcept { return {kinds, range_offsets, ranges, n_regions}; }
  };
  ProgramStorage program() const;

  // Takes over the references to the buffers: the list's users keep them from now on.
  std::vector<BufferId> take_retained() noexcept;
  void restore_retained(std::vector<BufferId> ids) noexcept;  // undoes take_retained
  // Those that a dispatch names; of imported host memory, which shares one region, all.
  std::vector<BufferId> buffers() const;

  std::size_t dispatch_count() const noexcept { return dispatches_; }
  std::size_t barrier_count() const noexcept { return nodes_.size() - dispatches_; }
  std::size_t unannotated_count() const noexcept;

 private:
  // Where a buffer or scratch tensor is.
  struct Resolved {
    std::uint32_t region = ~0u;
    bool immutable = false;
    std::uint64_t base = 0, bytes = 0;  // base: within the region
  };
  struct Local {
    std::uint32_t generation = 0;
    Resolved at;
  };
  const Resolved* known(BufferId id) const noexcept;          // null: the list does not name it yet
  const Resolved& place_of(const View& view) const noexcept;  // of a view of this list
  Result<Resolved> resolve(BufferId id);
  Result<Resolved> add_buffer(BufferId id);
  Status add_range(const MemRange& range, bool write);
  // With ranges_follow, the caller adds the ranges.
  Status append(const Dispatch& d, std::optional<CapturedOpKind> kind,
                std::span<const MemRange> reads, std::span<const MemRange> writes,
                bool ranges_follow);
  Status append_ranges(const Dispatch& d, const char* slots, bool passed);
  void append_mark(CapturedNode::Kind kind);
  Error view_error(const Dispatch& d, std::size_t i, const Resolved& r) const;
  struct Mark {
    std::size_t nodes, views, access, params, ranges, grids, extras;
  };
  Mark mark() const noexcept;
  void rollback(const Mark& m) noexcept;

  std::shared_ptr<DeviceState> device_;
  Tape<StoredNode> nodes_;
  Tape<View> views_;
  Tape<Access> access_;
  struct alignas(16) Param16 {
    std::byte bytes[16];
  };
  Tape<Param16> params_;
  Tape<graph::Range> ranges_;
  Tape<Grid> grids_;
  std::vector<std::shared_ptr<const DispatchExtra>> extras_;
  std::vector<Region> regions_;
  std::vector<Local> locals_;  // by buffer index
  std::vector<BufferId> retained_;
  std::vector<std::shared_ptr<ScratchTable>> tables_;
  std::vector<std::vector<Resolved>> scratch_;  // per table, per item; region ~0: none yet
  std::vector<MemRange> discarded_;
  std::uint32_t host_region_ = ~0u;
  std::size_t dispatches_ = 0;
};

// "rms_norm", or the name of a caller's kernel.
const char* dispatch_name(const DeviceState& device, Op op, KernelId kernel) noexcept;

}  // namespace onepass
