// The recorded list of a pass, and the passes over it.
//
//   std::optional<onepass::ComputeGraph> graph = encoder.take_capture();  // after start_capture()
//   ONEPASS_TRY(graph->fuse(device));
//   ONEPASS_TRY(graph->reorder(onepass::Policy::exact));
//   ONEPASS_ASSIGN(const std::uint32_t barriers, graph->encode_with_barriers(encoder));
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "onepass/encoder.h"

namespace onepass {

class NodeList;
struct NodeMemory;  // what keeps a node's buffers alive

// A node as callers see and make it; one that comes from a graph keeps its kernel and its buffers
// alive. The list itself is stored denser.
struct CapturedNode {
  enum class Kind : std::uint8_t { dispatch, barrier, fence };
  Kind kind = Kind::dispatch;
  Dispatch dispatch;  // kind dispatch
  CapturedOpKind op_kind = CapturedOpKind::other;
  std::vector<MemRange> reads, writes;  // both empty: unknown, a full fence
  std::shared_ptr<const DispatchExtra> extra;
  std::shared_ptr<const NodeMemory> memory;  // null for nodes a caller made

  static CapturedNode barrier() {
    CapturedNode n;
    n.kind = Kind::barrier;
    return n;
  }
};

// The order of dispatches: by exact level, by the ancestor's greedy window, or as recorded.
enum class Policy : std::uint8_t { exact, greedy64, recorded };

struct FuseReport {
  struct Rule {
    const char* name;
    std::uint32_t count;
  };
  // Dispatches that stayed apart, and why.
  struct Kept {
    const char* name;
    std::uint32_t count;
    const char* reason;
  };
  std::uint32_t count = 0;
  std::vector<Rule> rules;  // those that fired
  std::vector<Kept> kept;   // those that would have but for the reason
};
struct ReorderReport {
  std::uint32_t moved = 0;  // positions that hold another dispatch than before
  std::uint32_t dispatches = 0;
  std::uint32_t unannotated = 0;  // full fences for want of ranges
};

struct GraphStats {
  std::uint32_t dispatches = 0, barriers = 0, fences = 0;
  std::uint32_t levels = 0;       // of the exact schedule; barriers needed = levels - 1
  std::uint32_t edges = 0;        // after exact reduction
  std::uint32_t edges_found = 0;  // before
};

class ComputeGraph {
 public:
  ComputeGraph();
  explicit ComputeGraph(std::unique_ptr<NodeList> list);
  ComputeGraph(ComputeGraph&&) noexcept;
  ComputeGraph& operator=(ComputeGraph&&) noexcept;
  ~ComputeGraph();

  static Result<ComputeGraph> from_nodes(const Device& device,
                                         const std::vector<CapturedNode>& nodes);
  Status record(const Device& device, const CapturedNode& node);
  std::size_t len() const;
  bool is_empty() const { return len() == 0; }
  std::size_t dispatch_count() const;
  std::size_t barrier_count() const;               // barriers and fences
  std::size_t unannotated_dispatch_count() const;  // neither reads nor writes known
  std::vector<CapturedNode> nodes() const;
  std::vector<CapturedNode> into_nodes() &&;

  // Rows of fusions.def whose kernel the device has. With close = false only rows that keep every
  // bit. An error leaves the graph as it was.
  Result<FuseReport> fuse(const Device& device, bool close = false);
  // Drops barriers (not fences); the order is valid with encode_with_barriers.
  Result<ReorderReport> reorder(Policy policy);

  // Into an encoder in direct mode; each returns the barriers given.
  Result<std::uint32_t> encode_sequential(CommandEncoder& encoder) const;
  Result<std::uint32_t> encode_with_barriers(CommandEncoder& encoder) const;
  // The first max(first_min, first_percent %) dispatches go to `first`, which is committed at
  // once; the rest to `second`, which is not.
  Result<std::pair<std::uint32_t, std::uint32_t>> encode_dual_buffer(
      CommandEncoder& first, CommandEncoder& second, std::uint32_t first_min = 64,
      std::uint32_t first_percent = 10) const;

  // Index of the first node of the second part.
  std::uint32_t split_index(std::uint32_t first_min = 64, std::uint32_t first_percent = 10) const;

  GraphStats stats() const;
  std::string to_dot() const;
  std::string to_json() const;

  NodeList& list() const noexcept { return *list_; }
  std::unique_ptr<NodeList> take_list() noexcept;

 private:
  friend class GraphSession;
  Result<std::uint32_t> encode_range(CommandEncoder& encoder, std::uint32_t begin,
                                     std::uint32_t end, bool recomputed) const;

  std::unique_ptr<NodeList> list_;
};

}  // namespace onepass
