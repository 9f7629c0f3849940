// From a Recording to an executable CUDA graph.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backends/cuda/driver.h"
#include "backends/cuda/modules.h"
#include "core/backend.h"

namespace onepass::cuda {

// The nodes and edges that a recording becomes.
struct GraphShape {
  enum class Kind : std::uint8_t {
    kernel,
    empty,       // a fence, a launch without groups, or a join between two levels
    start_time,  // before and after the kernel of a timed recording
    end_time,
  };
  static constexpr std::uint32_t no_launch = ~0u;

  struct Node {
    Kind kind = Kind::empty;
    std::uint32_t launch = no_launch;
  };
  struct Edge {
    std::uint32_t from = 0, to = 0;
    friend auto operator<=>(const Edge&, const Edge&) = default;
  };

  std::vector<Node> nodes;  // launches in their order
  std::vector<Edge> edges;  // sorted, each once, from < to
};

// Edges: the predecessor lists; without them everything of one level before everything of the
// next; serial: one chain.
GraphShape graph_shape(const Recording& recording);

class GraphPass final : public Recorded {
 public:
  // The context must outlive the pass.
  static Result<std::unique_ptr<GraphPass>> create(const Context& context, Modules& modules,
                                                   const Recording& recording);
  ~GraphPass() override;

  CUgraphExec exec() const noexcept { return exec_; }  // null: nothing to run
  CUdeviceptr step() const noexcept { return step_; }
  std::uint64_t step_bytes() const noexcept { return step_bytes_; }
  bool timed() const noexcept { return timed_; }
  std::span<const TimeSpan> spans() const noexcept { return spans_; }

  // Takes the times of the last launch over; `base` was recorded before it, at base_ns. The
  // context must be current.
  void read_spans(CUevent base, std::uint64_t base_ns) noexcept;

 private:
  explicit GraphPass(const Context& context) noexcept : context_(&context) {}
  Status build(Modules& modules, const Recording& recording);
  Status add_nodes(CUgraph graph, Modules& modules, const Recording& recording,
                   const GraphShape& shape, std::vector<CUgraphNode>& nodes);

  const Context* context_;
  CUgraphExec exec_ = nullptr;
  CUdeviceptr step_ = 0;
  std::uint64_t step_bytes_ = 0;
  bool timed_ = false;
  std::vector<CUevent> events_;  // start and end of each launch; null where nothing is timed
  std::vector<TimeSpan> spans_;
};

// Time from one event to another; 0 when the driver cannot tell.
std::uint64_t elapsed_ns(const Driver& driver, CUevent from, CUevent to) noexcept;

}  // namespace onepass::cuda
