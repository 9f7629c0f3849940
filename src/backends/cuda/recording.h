// From a Recording to an executable CUDA graph.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/cuda/args.h"
#include "backends/cuda/driver.h"
#include "backends/cuda/modules.h"
#include "core/backend.h"

namespace onepass::cuda {

// The nodes and edges that a recording becomes.
//
// Along a programmatic edge u -> v, v starts when every block of u has allowed it or has ended, and
// v's blocks wait inside (griddepcontrol.wait) until u is complete and its writes are visible. Both
// rows say waits_first: every block waits before its first dependent access and before it ends. So
// u is complete only after everything u waits for is, and when v's wait returns, all that precedes
// v is complete, however many edges on the way were programmatic. What v reads before its wait
// (reads_early) is ordered after nothing but the nodes that are complete when v starts; therefore
// no launch before v may write it, else all edges into v are plain. A later launch that writes it
// waits for v, and the launches of the replay before are complete.
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
    bool programmatic = false;
    friend auto operator<=>(const Edge&, const Edge&) = default;
  };

  std::vector<Node> nodes;    // launches in their order
  std::vector<Edge> edges;    // sorted, each pair once, from < to
  std::uint32_t chained = 0;  // edges that the recording does not demand
};

struct ShapeOptions {
  // Of several edges into a node the one from the nearest launch: with two programmatic ones a
  // node starts as late as with plain ones. Timed and serial recordings have none.
  bool programmatic = false;
  // Two launches in a row of which one fills the device gain nothing from running side by side, so
  // one gets an edge to the other, which can be programmatic. 0: no such edges.
  std::uint32_t compute_units = 0;
};

// Edges: the predecessor lists; without them everything of one level before everything of the
// next; serial: one chain.
GraphShape graph_shape(const Recording& recording, const ShapeOptions& options = {});

// A recording that will run once is not worth an executable graph: its launches go to the stream
// one after another, unless they are timed.
class GraphPass final : public Recorded {
 public:
  // The context must outlive the pass.
  static Result<std::unique_ptr<GraphPass>> create(const Context& context, Modules& modules,
                                                   const Recording& recording,
                                                   const ShapeOptions& options);
  ~GraphPass() override;

  // Hands the work to the stream; `call` names what failed. The context must be current.
  CUresult launch(const char*& call) noexcept;
  CUdeviceptr step() const noexcept { return step_; }
  std::uint64_t step_bytes() const noexcept { return step_bytes_; }
  bool timed() const noexcept { return timed_; }
  std::span<const TimeSpan> spans() const noexcept { return spans_; }

  // Takes the times of the last launch over; `base` was recorded before it, at base_ns. The
  // context must be current.
  void read_spans(CUevent base, std::uint64_t base_ns) noexcept;

 private:
  explicit GraphPass(const Context& context) noexcept : context_(&context) {}
  Status build(Modules& modules, const Recording& recording, const ShapeOptions& options);
  Status bind(Modules& modules, const Recording& recording);
  Status add_nodes(CUgraph graph, Modules& modules, const Recording& recording,
                   const GraphShape& shape, std::vector<CUgraphNode>& nodes);

  struct DirectLaunch {
    CUfunction function = nullptr;
    std::array<std::uint32_t, 3> grid{}, group{};
    std::uint32_t shared_bytes = 0;
    CudaArgs args{};
    std::string label;  // for profilers; empty where none listens
  };

  const Context* context_;
  CUgraphExec exec_ = nullptr;
  std::string label_;  // of the graph, for profilers
  std::vector<DirectLaunch> direct_;
  CUdeviceptr step_ = 0;
  std::uint64_t step_bytes_ = 0;
  bool timed_ = false;
  std::vector<CUevent> events_;  // start and end of each launch; null where nothing is timed
  std::vector<TimeSpan> spans_;
};

// Time from one event to another; 0 when the driver cannot tell.
std::uint64_t elapsed_ns(const Driver& driver, CUevent from, CUevent to) noexcept;

}  // namespace onepass::cuda
