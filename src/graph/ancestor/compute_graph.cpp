#include "core/guarded.h"
#include "graph/ancestor/encoder_state.h"
#include "graph/ancestor/greedy_order.h"
#include "graph/fuse.h"
#include "graph/hazards.h"
#include "graph/nodes.h"
#include "graph/schedule.h"
#include "onepass/graph.h"

namespace onepass {

ComputeGraph::ComputeGraph() = default;
ComputeGraph::ComputeGraph(std::unique_ptr<NodeList> list) : list_(std::move(list)) {}
ComputeGraph::ComputeGraph(ComputeGraph&&) noexcept = default;
ComputeGraph& ComputeGraph::operator=(ComputeGraph&&) noexcept = default;
ComputeGraph::~ComputeGraph() = default;

Result<ComputeGraph> ComputeGraph::from_nodes(const Device& device,
                                              const std::vector<CapturedNode>& nodes) {
  ComputeGraph g;
  for (const CapturedNode& node : nodes) ONEPASS_TRY(g.record(device, node));
  return g;
}

Status ComputeGraph::record(const Device& device, const CapturedNode& node) {
  return guarded([&]() -> Status {
    if (!list_) list_ = std::make_unique<NodeList>(device.state().shared_from_this());
    if (&list_->device() != &device.state()) {
      return fail(ErrorCode::invalid_argument, "record: the graph belongs to another device");
    }
    return list_->append_node(node);
  });
}

std::unique_ptr<NodeList> ComputeGraph::take_list() noexcept { return std::move(list_); }
std::size_t ComputeGraph::len() const { return list_ ? list_->size() : 0; }
std::size_t ComputeGraph::dispatch_count() const { return list_ ? list_->dispatch_count() : 0; }
std::size_t ComputeGraph::barrier_count() const { return list_ ? list_->barrier_count() : 0; }
std::size_t ComputeGraph::unannotated_dispatch_count() const {
  return list_ ? list_->unannotated_count() : 0;
}

std::vector<CapturedNode> ComputeGraph::nodes() const try {
  std::vector<CapturedNode> out;
  out.reserve(len());
  for (std::uint32_t i = 0; i < len(); ++i) out.push_back(list_->captured(i));
  return out;
} catch (const std::bad_alloc&) {
  return {};
}

std::vector<CapturedNode> ComputeGraph::into_nodes() && {
  std::vector<CapturedNode> out = nodes();
  list_.reset();
  return out;
}

Result<FuseReport> ComputeGraph::fuse(const Device& device, bool close) {
  return guarded([&]() -> Result<FuseReport> {
    if (!list_) return FuseReport{};
    if (&list_->device() != &device.state()) {
      return fail(ErrorCode::invalid_argument, "fuse: the graph belongs to another device");
    }
    return graph::fuse(*list_, close);
  });
}

Result<ReorderReport> ComputeGraph::reorder(Policy policy) {
  return guarded([&]() -> Result<ReorderReport> {
    ReorderReport report;
    if (!list_) return report;
    const NodeList::ProgramStorage storage = list_->program();
    const graph::Program program = storage.view();
    std::vector<std::uint32_t> order;
    if (policy == Policy::exact) {
      graph::HazardWorkspace workspace;
      graph::Dag dag;
      graph::dependencies(program, workspace, dag);
      order = graph::level_order(program, dag);
    } else {
      std::vector<std::uint8_t> movable(program.size());
      for (std::uint32_t i = 0; i < program.size(); ++i) {
        movable[i] = is_reorderable(list_->node(storage.nodes[i]).op_kind) ? 1 : 0;
      }
      order = graph::greedy_order(program, movable);
    }
    report.moved = graph::moved_count(program, order);
    report.dispatches = static_cast<std::uint32_t>(list_->dispatch_count());
    report.unannotated = static_cast<std::uint32_t>(list_->unannotated_count());
    for (std::uint32_t& i : order) i = storage.nodes[i];
    list_->permute(order);
    return report;
  });
}

Result<std::uint32_t> ComputeGraph::encode_range(CommandEncoder& encoder, std::uint32_t begin,
                                                 std::uint32_t end, bool recomputed) const {
  return guarded([&]() -> Result<std::uint32_t> {
    EncoderState* state = encoder.live_state();
    if (state == nullptr) return host_out_of_memory();
    const Entered in(*state);
    if (!in) return two_threads_error();
    Result<std::uint32_t> encoded = guarded([&]() -> Result<std::uint32_t> {
      std::uint32_t barriers = 0;
      for (std::uint32_t i = begin; i < end; ++i) {
        if (!list_->is_dispatch(i)) {
          ONEPASS_TRY(state->replay_barrier());
          ++barriers;
          continue;
        }
        const bool check = recomputed || state->automatic();
        ONEPASS_ASSIGN(const bool added, state->replay(*list_, i, check));
        barriers += added ? 1 : 0;
      }
      return barriers;
    });
    // Half a graph is in the encoder: it must not be committed.
    if (!encoded) {
      try {
        state->fail(Error(encoded.error()));
      } catch (const std::bad_alloc&) {
        state->fail(host_out_of_memory());
      }
    }
    return encoded;
  });
}

Result<std::uint32_t> ComputeGraph::encode_sequential(CommandEncoder& encoder) const {
  return encode_range(encoder, 0, static_cast<std::uint32_t>(len()), false);
}

Result<std::uint32_t> ComputeGraph::encode_with_barriers(CommandEncoder& encoder) const {
  return encode_range(encoder, 0, static_cast<std::uint32_t>(len()), true);
}

std::uint32_t ComputeGraph::split_index(std::uint32_t first_min,
                                        std::uint32_t first_percent) const {
  const std::uint64_t total = dispatch_count();
  const std::uint64_t first = std::max<std::uint64_t>(first_min, total * first_percent / 100);
  if (total < first) return static_cast<std::uint32_t>(len());
  std::uint64_t seen = 0;
  for (std::uint32_t i = 0; i < len(); ++i) {
    if (list_->is_dispatch(i) && ++seen == first) return i + 1;
  }
  return static_cast<std::uint32_t>(len());
}

Result<std::pair<std::uint32_t, std::uint32_t>> ComputeGraph::encode_dual_buffer(
    CommandEncoder& first, CommandEncoder& second, std::uint32_t first_min,
    std::uint32_t first_percent) const {
  const std::uint32_t split = split_index(first_min, first_percent);
  ONEPASS_ASSIGN(const std::uint32_t early, encode_range(first, 0, split, true));
  ONEPASS_TRY(first.commit());
  ONEPASS_ASSIGN(const std::uint32_t rest,
                 encode_range(second, split, static_cast<std::uint32_t>(len()), true));
  return std::pair{early, rest};
}

GraphStats ComputeGraph::stats() const try {
  GraphStats s;
  if (!list_) return s;
  for (std::uint32_t i = 0; i < list_->size(); ++i) {
    switch (list_->node(i).kind) {
      case CapturedNode::Kind::dispatch:
        ++s.dispatches;
        break;
      case CapturedNode::Kind::barrier:
        ++s.barriers;
        break;
      case CapturedNode::Kind::fence:
        ++s.fences;
        break;
    }
  }
  const NodeList::ProgramStorage storage = list_->program();
  graph::HazardWorkspace workspace;
  graph::Dag dag;
  graph::dependencies(storage.view(), workspace, dag);
  s.levels = dag.n_levels;
  s.edges = static_cast<std::uint32_t>(dag.preds.size());
  s.edges_found = dag.edges_found;
  return s;
} catch (const std::bad_alloc&) {
  return {};
}

}  // namespace onepass
