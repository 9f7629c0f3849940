#include "backends/cuda/recording.h"

#include <algorithm>
#include <string>

#include "backends/cuda/arguments.h"

namespace onepass::cuda {
namespace {

// First and last node of a launch: the same one unless it is timed.
struct Ends {
  std::uint32_t first = 0, last = 0;
};

class ShapeBuilder {
 public:
  explicit ShapeBuilder(const Recording& recording) : recording_(recording) {
    ends_.reserve(recording.launches.size());
    shape_.nodes.reserve(recording.launches.size());
    shape_.edges.reserve(recording.preds.size());
  }

  GraphShape build() {
    if (recording_.model() == ExecutionModel::levels) {
      add_levels();
    } else {
      for (std::uint32_t i = 0; i < recording_.launches.size(); ++i) {
        add_launch(i);
        if (recording_.serial) {
          if (i > 0) connect(ends_[i - 1].last, ends_[i].first);
        } else {
          for (std::uint32_t p = recording_.pred_offsets[i]; p < recording_.pred_offsets[i + 1];
               ++p)
            connect(ends_[recording_.preds[p]].last, ends_[i].first);
        }
      }
    }
    std::sort(shape_.edges.begin(), shape_.edges.end());
    shape_.edges.erase(std::unique(shape_.edges.begin(), shape_.edges.end()), shape_.edges.end());
    return std::move(shape_);
  }

 private:
  using Kind = GraphShape::Kind;

  std::uint32_t add_node(Kind kind, std::uint32_t launch) {
    shape_.nodes.push_back({kind, launch});
    return static_cast<std::uint32_t>(shape_.nodes.size() - 1);
  }

  void connect(std::uint32_t from, std::uint32_t to) { shape_.edges.push_back({from, to}); }

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

  // Between two levels of several launches each a join takes a + b edges instead of a * b.
  void add_levels() {
    std::vector<std::uint32_t> before, now;
    for (std::uint32_t level = 0; level < recording_.n_levels(); ++level) {
      const std::uint32_t begin = recording_.level_offsets[level];
      const std::uint32_t end = recording_.level_offsets[level + 1];
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

GraphShape graph_shape(const Recording& recording) { return ShapeBuilder(recording).build(); }

Result<std::unique_ptr<GraphPass>> GraphPass::create(const Context& context, Modules& modules,
                                                     const Recording& recording) {
  std::unique_ptr<GraphPass> pass(new GraphPass(context));
  const Current current(context);
  ONEPASS_TRY(current.status(ErrorCode::kernel_build));
  if (recording.step.bytes > 0) {
    pass->step_ = recording.step.memory.handle + recording.step.offset;
    pass->step_bytes_ = recording.step.bytes;
  }
  pass->timed_ = recording.timed;
  if (recording.timed) pass->spans_.resize(recording.launches.size());
  if (!recording.launches.empty()) ONEPASS_TRY(pass->build(modules, recording));
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
}

Status GraphPass::build(Modules& modules, const Recording& recording) {
  const Driver& d = *context_->driver;
  const GraphShape shape = graph_shape(recording);
  if (timed_) events_.resize(2 * recording.launches.size());

  GraphHolder holder{d};
  ONEPASS_TRY(
      check(d, d.cuGraphCreate(&holder.graph, 0), "cuGraphCreate", ErrorCode::kernel_build));
  std::vector<CUgraphNode> nodes(shape.nodes.size());
  ONEPASS_TRY(add_nodes(holder.graph, modules, recording, shape, nodes));

  if (!shape.edges.empty()) {
    std::vector<CUgraphNode> from, to;
    from.reserve(shape.edges.size());
    to.reserve(shape.edges.size());
    for (const GraphShape::Edge& edge : shape.edges) {
      from.push_back(nodes[edge.from]);
      to.push_back(nodes[edge.to]);
    }
    ONEPASS_TRY(check(
        d,
        d.cuGraphAddDependencies(holder.graph, from.data(), to.data(), nullptr, shape.edges.size()),
        "cuGraphAddDependencies", ErrorCode::kernel_build));
  }
  ONEPASS_TRY(check(d, d.cuGraphInstantiate(&exec_, holder.graph, 0), "cuGraphInstantiate",
                    ErrorCode::kernel_build));
  return check(d, d.cuGraphUpload(exec_, context_->stream), "cuGraphUpload",
               ErrorCode::kernel_build);
}

Status GraphPass::add_nodes(CUgraph graph, Modules& modules, const Recording& recording,
                            const GraphShape& shape, std::vector<CUgraphNode>& nodes) {
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
        const RecordedLaunch& l = recording.launches[node.launch];
        CUDA_KERNEL_NODE_PARAMS params{};
        ONEPASS_ASSIGN(params.func, modules.function(*l.kernel, l.launch));
        // The driver copies the arguments before it returns.
        CudaArgs args = arguments_of(l);
        void* pointers[] = {&args};
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
