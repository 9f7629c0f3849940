#include "backends/cuda/recording.h"

#include <algorithm>
#include <string>
#include <utility>

namespace onepass::cuda {
namespace {

// First and last node of a launch: the same one unless it is timed.
struct Ends {
  std::uint32_t first = 0, last = 0;
};

class ShapeBuilder {
 public:
  ShapeBuilder(const Recording& recording, const Order& order)
      : recording_(recording), order_(order) {
    ends_.reserve(recording.launches.size());
    shape_.nodes.reserve(recording.launches.size());
    shape_.edges.reserve(order.edges.size());
  }

  GraphShape build() {
    const auto n = static_cast<std::uint32_t>(recording_.launches.size());
    if (order_.kind == OrderKind::levels) {
      add_levels();
    } else {
      for (std::uint32_t i = 0; i < n; ++i) add_launch(i);
      for (std::uint32_t i = 0; i < n; ++i) add_edges_into(i);
    }
    std::sort(shape_.edges.begin(), shape_.edges.end());
    const auto same = [](const GraphShape::Edge& a, const GraphShape::Edge& b) {
      return a.from == b.from && a.to == b.to;
    };
    shape_.edges.erase(std::unique(shape_.edges.begin(), shape_.edges.end(), same),
                       shape_.edges.end());
    return std::move(shape_);
  }

 private:
  using Kind = GraphShape::Kind;

  std::uint32_t add_node(Kind kind, std::uint32_t launch) {
    shape_.nodes.push_back({kind, launch});
    return static_cast<std::uint32_t>(shape_.nodes.size() - 1);
  }

  void connect(std::uint32_t from, std::uint32_t to, bool programmatic = false) {
    shape_.edges.push_back({from, to, programmatic});
  }

  void add_launch(std::uint32_t i) {
    const RecordedLaunch& l = recording_.launches[i];
    Ends ends;
    if (is_empty(l)) {
      ends.first = ends.last = add_node(Kind::empty, i);
    } else if (!recording_.timed) {
      ends.first = ends.last = add_node(Kind::kernel, i);
    } else {
      ends.first = add_node(Kind::start_time, i);
      const std::uint32_t kernel = add_node(Kind::kernel, i);
      ends.last = add_node(Kind::end_time, i);
      connect(ends.first, kernel);
      connect(kernel, ends.last);
    }
    ends_.push_back(ends);
  }

  void add_edges_into(std::uint32_t i) {
    if (order_.kind == OrderKind::in_order) {
      if (i > 0) connect(ends_[i - 1].last, ends_[i].first);
      return;
    }
    for (const Edge& e : order_.edges_into(i)) {
      connect(ends_[e.from].last, ends_[i].first, e.programmatic);
    }
  }

  // Between two levels of several launches each a join takes a + b edges instead of a * b.
  void add_levels() {
    std::vector<std::uint32_t> before, now;
    for (std::uint32_t level = 0; level < order_.n_levels(); ++level) {
      const std::uint32_t begin = order_.level_offsets[level];
      const std::uint32_t end = order_.level_offsets[level + 1];
      if (begin == end) continue;
      if (before.size() > 1 && end - begin > 1) {
        const std::uint32_t join = add_node(Kind::empty, GraphShape::no_launch);
        for (const std::uint32_t node : before) connect(node, join);
        before.assign(1, join);
      }
      now.clear();
      for (std::uint32_t i = begin; i < end; ++i) {
        add_launch(i);
        for (const std::uint32_t node : before) connect(node, ends_[i].first);
        now.push_back(ends_[i].last);
      }
      before.swap(now);
    }
  }

  const Recording& recording_;
  const Order& order_;
  GraphShape shape_;
  std::vector<Ends> ends_;
};

// Destroys a graph under construction; the executable one does not need it.
struct GraphHolder {
  const Driver& driver;
  CUgraph graph = nullptr;
  ~GraphHolder() {
    if (graph) driver.cuGraphDestroy(graph);
  }
};

}  // namespace

GraphShape graph_shape(const Recording& recording, const Order& order) {
  return ShapeBuilder(recording, order).build();
}

Result<std::unique_ptr<GraphPass>> GraphPass::create(const Context& context, Modules& modules,
                                                     const Recording& recording, const Order& order,
                                                     const InlineBlocks& blocks,
                                                     DeviceBytes blocks_at) {
  std::unique_ptr<GraphPass> pass(new GraphPass(context, std::move(blocks_at)));
  const Source source{modules, recording, order, blocks};
  const Current current(context);
  ONEPASS_TRY(current.status(ErrorCode::kernel_build));
  if (recording.step.bytes > 0) {
    pass->step_ = recording.step.memory.handle + recording.step.offset;
    pass->step_bytes_ = recording.step.bytes;
  }
  pass->timed_ = recording.timed;
  if (recording.timed) pass->spans_.resize(recording.launches.size());
  if (recording.launches.empty()) return pass;
  if (recording.replayed || recording.timed) {
    pass->label_ = "pass of " + std::to_string(recording.launches.size()) + " launches";
    ONEPASS_TRY(pass->build(source));
  } else {
    ONEPASS_TRY(pass->bind(source));
  }
  return pass;
}

GraphPass::~GraphPass() {
  const Driver& d = *context_->driver;
  const Current current(*context_);
  if (current.result() != CUDA_SUCCESS) return;
  if (exec_) d.cuGraphExecDestroy(exec_);
  for (const CUevent event : events_) {
    if (event) d.cuEventDestroy(event);
  }
  blocks_at_.reset();
}

Status GraphPass::bind(const Source& source) {
  const auto n = static_cast<std::uint32_t>(source.recording.launches.size());
  const Order& order = source.order;
  const char* group = "";
  direct_.reserve(n);
  if (order.kind != OrderKind::levels) {
    for (std::uint32_t i = 0; i < n; ++i) ONEPASS_TRY(add_level(source, i, i + 1, group));
    return {};
  }
  for (std::uint32_t level = 0; level < order.n_levels(); ++level) {
    ONEPASS_TRY(
        add_level(source, order.level_offsets[level], order.level_offsets[level + 1], group));
  }
  return {};
}

Status GraphPass::add_level(const Source& source, std::uint32_t begin, std::uint32_t end,
                            const char*& group) {
  const std::size_t first = direct_.size();
  for (std::uint32_t i = begin; i < end; ++i) {
    const RecordedLaunch& l = source.recording.launches[i];
    if (is_empty(l)) continue;
    DirectLaunch direct;
    ONEPASS_ASSIGN(direct.function, source.modules.function(*l.kernel, l.launch));
    direct.grid = l.launch.grid;
    direct.group = l.launch.group;
    direct.shared_bytes = l.launch.shared_bytes;
    direct.args = arguments(source, i);
    if (nvtx_listens()) {
      direct.label = l.label ? l.label : l.kernel->name;
      const char* now = l.group ? l.group : "";
      direct.groups = GroupStep::between(std::exchange(group, now), now);
    }
    direct_.push_back(std::move(direct));
  }
  if (direct_.size() > first) level_ends_.push_back(direct_.size());
  return {};
}

CUresult GraphPass::launch(const char*& call) noexcept {
  if (exec_) {
    const NvtxRange range(label_.c_str());
    call = "cuGraphLaunch";
    return context_->driver->cuGraphLaunch(exec_, context_->stream);
  }
  NvtxGroups groups;
  std::size_t begin = 0;
  for (const std::size_t end : level_ends_) {
    const auto level = std::span(direct_).subspan(begin, end - begin);
    if (const CUresult r = launch_level(level, groups, call); r != CUDA_SUCCESS) return r;
    begin = end;
  }
  return CUDA_SUCCESS;
}

// A wait is for the event as it was last recorded, so the same few events serve every level.
CUresult GraphPass::launch_level(std::span<DirectLaunch> level, NvtxGroups& groups,
                                 const char*& call) noexcept {
  const Context& c = *context_;
  const Driver& d = *c.driver;
  const auto lanes = std::span(c.lanes).first(std::min(level.size() - 1, c.lanes.size()));
  CUresult r = CUDA_SUCCESS;
  const auto record = [&](CUevent event, CUstream stream) {
    if (r != CUDA_SUCCESS) return;
    call = "cuEventRecord";
    r = d.cuEventRecord(event, stream);
  };
  const auto wait = [&](CUstream stream, CUevent event) {
    if (r != CUDA_SUCCESS) return;
    call = "cuStreamWaitEvent";
    r = d.cuStreamWaitEvent(stream, event, CU_EVENT_WAIT_DEFAULT);
  };
  if (!lanes.empty()) record(c.forked, c.stream);
  for (const Lane& lane : lanes) wait(lane.stream, c.forked);
  for (std::size_t i = 0; i < level.size() && r == CUDA_SUCCESS; ++i) {
    DirectLaunch& l = level[i];
    const std::size_t turn = i % (lanes.size() + 1);
    groups.take(l.groups);
    const NvtxRange range(l.label.c_str());
    void* pointers[] = {address_of(l.args)};
    call = "cuLaunchKernel";
    r = d.cuLaunchKernel(l.function, l.grid[0], l.grid[1], l.grid[2], l.group[0], l.group[1],
                         l.group[2], l.shared_bytes, turn == 0 ? c.stream : lanes[turn - 1].stream,
                         pointers, nullptr);
  }
  for (const Lane& lane : lanes) {
    record(lane.done, lane.stream);
    wait(c.stream, lane.done);
  }
  return r;
}

Status GraphPass::build(const Source& source) {
  const Driver& d = *context_->driver;
  const GraphShape shape = graph_shape(source.recording, source.order);
  if (timed_) events_.resize(2 * source.recording.launches.size());

  GraphHolder holder{d};
  ONEPASS_TRY(
      check(d, d.cuGraphCreate(&holder.graph, 0), "cuGraphCreate", ErrorCode::kernel_build));
  std::vector<CUgraphNode> nodes(shape.nodes.size());
  ONEPASS_TRY(add_nodes(holder.graph, source, shape, nodes));

  if (!shape.edges.empty()) {
    std::vector<CUgraphNode> from, to;
    std::vector<CUgraphEdgeData> data(shape.edges.size());
    from.reserve(shape.edges.size());
    to.reserve(shape.edges.size());
    for (std::size_t i = 0; i < shape.edges.size(); ++i) {
      const GraphShape::Edge& edge = shape.edges[i];
      from.push_back(nodes[edge.from]);
      to.push_back(nodes[edge.to]);
      if (edge.programmatic) {
        data[i].from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
        data[i].type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
      }
    }
    ONEPASS_TRY(check(d,
                      d.cuGraphAddDependencies(holder.graph, from.data(), to.data(), data.data(),
                                               shape.edges.size()),
                      "cuGraphAddDependencies", ErrorCode::kernel_build));
  }
  ONEPASS_TRY(check(d, d.cuGraphInstantiate(&exec_, holder.graph, 0), "cuGraphInstantiate",
                    ErrorCode::kernel_build));
  return check(d, d.cuGraphUpload(exec_, context_->stream), "cuGraphUpload",
               ErrorCode::kernel_build);
}

Status GraphPass::add_nodes(CUgraph graph, const Source& source, const GraphShape& shape,
                            std::vector<CUgraphNode>& nodes) {
  const Driver& d = *context_->driver;
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    const GraphShape::Node& node = shape.nodes[n];
    switch (node.kind) {
      case GraphShape::Kind::empty:
        ONEPASS_TRY(check(d, d.cuGraphAddEmptyNode(&nodes[n], graph, nullptr, 0),
                          "cuGraphAddEmptyNode", ErrorCode::kernel_build));
        break;
      case GraphShape::Kind::start_time:
      case GraphShape::Kind::end_time: {
        const std::size_t at =
            2 * std::size_t{node.launch} + (node.kind == GraphShape::Kind::end_time ? 1 : 0);
        ONEPASS_TRY(check(d, d.cuEventCreate(&events_[at], CU_EVENT_DEFAULT), "cuEventCreate",
                          ErrorCode::kernel_build));
        ONEPASS_TRY(check(d, d.cuGraphAddEventRecordNode(&nodes[n], graph, nullptr, 0, events_[at]),
                          "cuGraphAddEventRecordNode", ErrorCode::kernel_build));
        break;
      }
      case GraphShape::Kind::kernel: {
        const RecordedLaunch& l = source.recording.launches[node.launch];
        CUDA_KERNEL_NODE_PARAMS params{};
        ONEPASS_ASSIGN(params.func, source.modules.function(*l.kernel, l.launch));
        // The driver copies the arguments before it returns.
        Arguments args = arguments(source, node.launch);
        void* pointers[] = {address_of(args)};
        params.gridDimX = l.launch.grid[0];
        params.gridDimY = l.launch.grid[1];
        params.gridDimZ = l.launch.grid[2];
        params.blockDimX = l.launch.group[0];
        params.blockDimY = l.launch.group[1];
        params.blockDimZ = l.launch.group[2];
        params.sharedMemBytes = l.launch.shared_bytes;
        params.kernelParams = pointers;
        ONEPASS_TRY(check(d, d.cuGraphAddKernelNode(&nodes[n], graph, nullptr, 0, &params),
                          (std::string("cuGraphAddKernelNode ") + l.kernel->name).c_str(),
                          ErrorCode::kernel_build));
        break;
      }
    }
  }
  return {};
}

void GraphPass::read_spans(CUevent base, std::uint64_t base_ns) noexcept {
  const Driver& d = *context_->driver;
  for (std::size_t i = 0; i < spans_.size(); ++i) {
    const CUevent start = events_.empty() ? nullptr : events_[2 * i];
    const CUevent end = events_.empty() ? nullptr : events_[2 * i + 1];
    spans_[i] = {base_ns, base_ns};
    if (!start || !end) continue;
    spans_[i].start_ns = base_ns + elapsed_ns(d, base, start);
    spans_[i].end_ns = spans_[i].start_ns + elapsed_ns(d, start, end);
  }
}

std::uint64_t elapsed_ns(const Driver& driver, CUevent from, CUevent to) noexcept {
  float ms = 0.0f;
  if (driver.cuEventElapsedTime(&ms, from, to) != CUDA_SUCCESS || !(ms > 0.0f)) return 0;
  return static_cast<std::uint64_t>(static_cast<double>(ms) * 1e6);
}

}  // namespace onepass::cuda
