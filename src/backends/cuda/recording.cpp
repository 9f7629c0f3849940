#include "backends/cuda/recording.h"

#include <algorithm>
#include <string>
#include <utility>

#include "backends/cuda/arguments.h"
#include "backends/cuda/nvtx.h"

namespace onepass::cuda {
namespace {

// First and last node of a launch: the same one unless it is timed.
struct Ends {
  std::uint32_t first = 0, last = 0;
};

// Bytes that launches of a recording write: who does, and as disjoint intervals of addresses.
class WrittenBytes {
 public:
  explicit WrittenBytes(const Recording& recording) {
    for (std::uint32_t i = 0; i < recording.launches.size(); ++i) {
      const RecordedLaunch& l = recording.launches[i];
      if (is_empty(l)) continue;
      launch_ = i;
      const OpInfo& op = info(l.kernel->op);
      for (std::size_t v = 0; v < l.n_views; ++v) {
        // Nothing is known about a caller's kernel but what its row says.
        const bool read_only =
            v < op.n_slots ? op.slots[v] == 'i' : (l.kernel->reads_early >> v & 1) != 0;
        if (!read_only) add(l.views[v]);
      }
      add(l.scratch);
      add(l.persistent);
    }
    std::sort(intervals_.begin(), intervals_.end());
    std::size_t last = 0;
    for (std::size_t i = 1; i < intervals_.size(); ++i) {
      if (intervals_[i].first <= intervals_[last].second) {
        intervals_[last].second = std::max(intervals_[last].second, intervals_[i].second);
      } else {
        intervals_[++last] = intervals_[i];
      }
    }
    if (!intervals_.empty()) intervals_.resize(last + 1);
  }

  // Whether a launch before this one writes some of the view. What later ones write, and what the
  // launch itself writes, is not written before it has waited.
  bool before(std::uint32_t launch, const BoundView& view) const {
    if (view.memory.handle == 0 || view.bytes == 0) return false;
    const std::uint64_t begin = view.memory.handle + view.offset, end = begin + view.bytes;
    const auto after = std::partition_point(intervals_.begin(), intervals_.end(),
                                            [&](const auto& i) { return i.second <= begin; });
    if (after == intervals_.end() || after->first >= end) return false;
    return std::any_of(writes_.begin(), writes_.end(), [&](const Write& w) {
      return w.launch < launch && w.begin < end && begin < w.end;
    });
  }

 private:
  struct Write {
    std::uint64_t begin, end;
    std::uint32_t launch;
  };

  void add(const BoundView& view) {
    if (view.memory.handle == 0 || view.bytes == 0) return;
    const std::uint64_t begin = view.memory.handle + view.offset;
    intervals_.emplace_back(begin, begin + view.bytes);
    writes_.push_back({begin, begin + view.bytes, launch_});
  }

  std::uint32_t launch_ = 0;
  std::vector<Write> writes_;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> intervals_;
};

// Which launches come before which, as rows of bits.
class Ancestors {
 public:
  explicit Ancestors(std::size_t n) : words_((n + 63) / 64), bits_(words_ * n) {}
  bool has(std::uint32_t of, std::uint32_t ancestor) const {
    return (bits_[of * words_ + ancestor / 64] >> (ancestor % 64) & 1) != 0;
  }
  void add(std::uint32_t to, std::uint32_t parent) {
    for (std::size_t w = 0; w < words_; ++w) bits_[to * words_ + w] |= bits_[parent * words_ + w];
    bits_[to * words_ + parent / 64] |= std::uint64_t{1} << (parent % 64);
  }

 private:
  std::size_t words_;
  std::vector<std::uint64_t> bits_;
};

constexpr std::size_t max_chained_launches = 8192;

class ShapeBuilder {
 public:
  ShapeBuilder(const Recording& recording, const ShapeOptions& options)
      : recording_(recording), options_(options) {
    ends_.reserve(recording.launches.size());
    shape_.nodes.reserve(recording.launches.size());
    shape_.edges.reserve(recording.preds.size());
  }

  GraphShape build() {
    const std::size_t n = recording_.launches.size();
    if (recording_.model() == ExecutionModel::levels) {
      add_levels();
    } else {
      for (std::uint32_t i = 0; i < n; ++i) add_launch(i);
      if (recording_.serial) {
        for (std::uint32_t i = 1; i < n; ++i) connect(ends_[i - 1].last, ends_[i].first);
      } else {
        add_edges();
      }
    }
    std::sort(shape_.edges.begin(), shape_.edges.end());
    const auto same = [](const GraphShape::Edge& a, const GraphShape::Edge& b) {
      return a.from == b.from && a.to == b.to;
    };
    shape_.edges.erase(std::unique(shape_.edges.begin(), shape_.edges.end(), same),
                       shape_.edges.end());
    if (options_.programmatic && !recording_.timed && !recording_.serial && !has_many_rows()) {
      mark_programmatic();
    }
    return std::move(shape_);
  }

 private:
  using Kind = GraphShape::Kind;

  std::uint32_t add_node(Kind kind, std::uint32_t launch) {
    shape_.nodes.push_back({kind, launch});
    return static_cast<std::uint32_t>(shape_.nodes.size() - 1);
  }

  void connect(std::uint32_t from, std::uint32_t to) { shape_.edges.push_back({from, to, false}); }

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

  bool fills(std::uint32_t i) const {
    const auto& grid = recording_.launches[i].launch.grid;
    return std::uint64_t{grid[0]} * grid[1] * grid[2] >= options_.compute_units;
  }

  void add_edges() {
    const auto n = static_cast<std::uint32_t>(recording_.launches.size());
    const bool chains = options_.compute_units > 0 && n <= max_chained_launches;
    Ancestors ancestors(chains ? n : 0);
    std::vector<std::uint32_t> preds;
    for (std::uint32_t i = 0; i < n; ++i) {
      preds.assign(recording_.preds.begin() + recording_.pred_offsets[i],
                   recording_.preds.begin() + recording_.pred_offsets[i + 1]);
      if (chains) {
        for (const std::uint32_t p : preds) ancestors.add(i, p);
        const std::uint32_t before = i - 1;
        if (i > 0 && !is_empty(recording_.launches[i]) && !is_empty(recording_.launches[before]) &&
            !ancestors.has(i, before) && (fills(i) || fills(before))) {
          preds.push_back(before);
          ancestors.add(i, before);
          ++shape_.chained;
          // What comes before the new predecessor needs no edge of its own.
          std::erase_if(preds, [&](std::uint32_t p) { return ancestors.has(before, p); });
        }
      }
      for (const std::uint32_t p : preds) connect(ends_[p].last, ends_[i].first);
    }
  }

  bool waits(std::uint32_t node) const {
    const GraphShape::Node& n = shape_.nodes[node];
    return n.kind == Kind::kernel && recording_.launches[n.launch].kernel->waits_first;
  }

  // Passes of many rows, by the arithmetic per byte of one of their launches: there kernels that
  // start early cost more than they gain.
  bool has_many_rows() const {
    return std::any_of(
        recording_.launches.begin(), recording_.launches.end(),
        [](const RecordedLaunch& l) { return l.launch.flops / 64 > l.launch.bytes_moved; });
  }

  void mark_programmatic() {
    const WrittenBytes written(recording_);
    std::vector<GraphShape::Edge*> nearest(shape_.nodes.size(), nullptr);
    for (GraphShape::Edge& e : shape_.edges) nearest[e.to] = &e;  // sorted by their source
    for (std::uint32_t node = 0; node < nearest.size(); ++node) {
      if (!nearest[node] || !waits(node) || !waits(nearest[node]->from)) continue;
      const RecordedLaunch& l = recording_.launches[shape_.nodes[node].launch];
      bool early_is_constant = true;
      for (std::uint32_t v = 0; v < l.n_views; ++v) {
        if ((l.kernel->reads_early >> v & 1) != 0 &&
            written.before(shape_.nodes[node].launch, l.views[v])) {
          early_is_constant = false;
        }
      }
      nearest[node]->programmatic = early_is_constant;
    }
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
  const ShapeOptions options_;
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

GraphShape graph_shape(const Recording& recording, const ShapeOptions& options) {
  return ShapeBuilder(recording, options).build();
}

Result<std::unique_ptr<GraphPass>> GraphPass::create(const Context& context, Modules& modules,
                                                     const Recording& recording,
                                                     const ShapeOptions& options) {
  std::unique_ptr<GraphPass> pass(new GraphPass(context));
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
    ONEPASS_TRY(pass->build(modules, recording, options));
  } else {
    ONEPASS_TRY(pass->bind(modules, recording));
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
}

Status GraphPass::bind(Modules& modules, const Recording& recording) {
  direct_.reserve(recording.launches.size());
  for (const RecordedLaunch& l : recording.launches) {
    if (is_empty(l)) continue;
    DirectLaunch direct;
    ONEPASS_ASSIGN(direct.function, modules.function(*l.kernel, l.launch));
    direct.grid = l.launch.grid;
    direct.group = l.launch.group;
    direct.shared_bytes = l.launch.shared_bytes;
    direct.args = arguments_of(l);
    if (nvtx_listens()) direct.label = l.label ? l.label : l.kernel->name;
    direct_.push_back(std::move(direct));
  }
  return {};
}

CUresult GraphPass::launch(const char*& call) noexcept {
  const Driver& d = *context_->driver;
  if (exec_) {
    const NvtxRange range(label_.c_str());
    call = "cuGraphLaunch";
    return d.cuGraphLaunch(exec_, context_->stream);
  }
  call = "cuLaunchKernel";
  for (DirectLaunch& l : direct_) {
    const NvtxRange range(l.label.c_str());
    void* pointers[] = {&l.args};
    const CUresult r =
        d.cuLaunchKernel(l.function, l.grid[0], l.grid[1], l.grid[2], l.group[0], l.group[1],
                         l.group[2], l.shared_bytes, context_->stream, pointers, nullptr);
    if (r != CUDA_SUCCESS) return r;
  }
  return CUDA_SUCCESS;
}

Status GraphPass::build(Modules& modules, const Recording& recording, const ShapeOptions& options) {
  const Driver& d = *context_->driver;
  const GraphShape shape = graph_shape(recording, options);
  if (timed_) events_.resize(2 * recording.launches.size());

  GraphHolder holder{d};
  ONEPASS_TRY(
      check(d, d.cuGraphCreate(&holder.graph, 0), "cuGraphCreate", ErrorCode::kernel_build));
  std::vector<CUgraphNode> nodes(shape.nodes.size());
  ONEPASS_TRY(add_nodes(holder.graph, modules, recording, shape, nodes));

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
