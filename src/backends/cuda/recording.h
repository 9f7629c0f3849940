// From a Recording to an executable CUDA graph.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/arguments.h"
#include "backends/cuda/driver.h"
#include "backends/cuda/memory.h"
#include "backends/cuda/modules.h"
#include "backends/cuda/nvtx.h"
#include "core/backend.h"

namespace onepass::cuda {

// The nodes and edges that a recording and its order become: the order itself, with a join between
// two levels of several launches each, and nodes that take the time.
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

  std::vector<Node> nodes;  // launches in their order
  std::vector<Edge> edges;  // sorted, each pair once, from < to
};
GraphShape graph_shape(const Recording& recording, const Order& order);

// A recording that will run once is not worth an executable graph, unless it is timed: the launches
// of a level go to the context's stream and its lanes, in turn, and the stream waits for the lanes
// before the next level. In other orders one launch follows the other on the stream.
class GraphPass final : public Recorded {
 public:
  // The context must outlive the pass. blocks_at: the recording's inline blocks, in device memory.
  static Result<std::unique_ptr<GraphPass>> create(const Context& context, Modules& modules,
                                                   const Recording& recording, const Order& order,
                                                   const InlineBlocks& blocks,
                                                   DeviceBytes blocks_at);
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
  // What its launches are made from.
  struct Source {
    Modules& modules;
    const Recording& recording;
    const Order& order;
    const InlineBlocks& blocks;
  };

  GraphPass(const Context& context, DeviceBytes blocks_at) noexcept
      : context_(&context), blocks_at_(std::move(blocks_at)) {}
  Status build(const Source& source);
  Status bind(const Source& source);
  Status add_nodes(CUgraph graph, const Source& source, const GraphShape& shape,
                   std::vector<CUgraphNode>& nodes);
  Arguments arguments(const Source& source, std::uint32_t launch) const noexcept {
    return arguments_of(source.recording.launches[launch],
                        blocks_at_.address() + source.blocks.offsets[launch]);
  }

  struct DirectLaunch {
    CUfunction function = nullptr;
    std::array<std::uint32_t, 3> grid{}, group{};
    std::uint32_t shared_bytes = 0;
    Arguments args{};
    std::string label;  // for profilers, as the next; empty where none listens
    GroupStep groups;   // from the launch before
  };
  // Launches [begin, end); group: of the launch before.
  Status add_level(const Source& source, std::uint32_t begin, std::uint32_t end,
                   const char*& group);
  CUresult launch_level(std::span<DirectLaunch> level, NvtxGroups& groups,
                        const char*& call) noexcept;

  const Context* context_;
  DeviceBytes blocks_at_;
  CUgraphExec exec_ = nullptr;
  std::string label_;  // of the graph, for profilers
  std::vector<DirectLaunch> direct_;
  std::vector<std::size_t> level_ends_;  // in direct_; no level is empty
  CUdeviceptr step_ = 0;
  std::uint64_t step_bytes_ = 0;
  bool timed_ = false;
  std::vector<CUevent> events_;  // start and end of each launch; null where nothing is timed
  std::vector<TimeSpan> spans_;
};

// Time from one event to another; 0 when the driver cannot tell.
std::uint64_t elapsed_ns(const Driver& driver, CUevent from, CUevent to) noexcept;

}  // namespace onepass::cuda
