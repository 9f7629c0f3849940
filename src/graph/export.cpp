// Pictures and dumps of graphs and plans; empty for want of memory.
#include <algorithm>
#include <new>
#include <string>
#include <utility>

#include "graph/hazards.h"
#include "graph/nodes.h"
#include "graph/plan_state.h"
#include "onepass/graph.h"
#include "onepass/plan.h"

namespace onepass {
namespace {

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      constexpr const char* hex = "0123456789abcdef";
      out += "\\u00";
      out += hex[static_cast<unsigned char>(c) >> 4];
      out += hex[static_cast<unsigned char>(c) & 15];
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string num(std::uint64_t n) { return std::to_string(n); }

// One node of either picture.
struct Drawn {
  std::string name;
  bool fence = false;
  std::uint32_t level = 0;
};

std::string dot(const std::vector<Drawn>& nodes, const auto& preds_of) {
  std::string out = "digraph onepass {\n  rankdir=TB;\n  node [shape=box, fontname=\"sans\"];\n";
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    out += "  n" + num(i) +
           " [label=" + quoted(nodes[i].fence ? "fence" : num(i) + " " + nodes[i].name) +
           (nodes[i].fence ? ", shape=point" : "") + "];\n";
  }
  std::size_t i = 0;
  while (i < nodes.size()) {  // dispatches of one level stand side by side
    std::string rank;
    const std::uint32_t level = nodes[i].level;
    for (; i < nodes.size() && nodes[i].level == level; ++i) {
      if (!nodes[i].fence) rank += " n" + num(i) + ";";
    }
    out += "  { rank=same;" + rank + " }\n";
  }
  for (std::size_t v = 0; v < nodes.size(); ++v) {
    for (const std::uint32_t u : preds_of(v)) out += "  n" + num(u) + " -> n" + num(v) + ";\n";
  }
  return out + "}\n";
}

}  // namespace

std::string ComputeGraph::to_dot() const try {
  if (!list_) return "digraph onepass {\n}\n";
  const NodeList::ProgramStorage storage = list_->program();
  graph::HazardWorkspace workspace;
  graph::Dag dag;
  graph::dependencies(storage.view(), workspace, dag);
  std::vector<Drawn> nodes;
  for (std::uint32_t i = 0; i < dag.size(); ++i) {
    const StoredNode& n = list_->node(storage.nodes[i]);
    nodes.push_back({n.label ? n.label : dispatch_name(list_->device(), n.op, n.kernel),
                     n.kind == CapturedNode::Kind::fence, dag.level[i]});
  }
  return dot(nodes, [&](std::size_t v) { return dag.preds_of(static_cast<std::uint32_t>(v)); });
} catch (const std::bad_alloc&) {
  return {};
}

std::string ComputeGraph::to_json() const try {
  const GraphStats s = stats();
  std::string out = "{\"dispatches\":" + num(s.dispatches) + ",\"barriers\":" + num(s.barriers) +
                    ",\"fences\":" + num(s.fences) + ",\"levels\":" + num(s.levels) +
                    ",\"edges\":" + num(s.edges) + ",\"nodes\":[";
  for (std::uint32_t i = 0; i < len(); ++i) {
    const StoredNode& n = list_->node(i);
    if (i != 0) out += ',';
    if (n.kind != CapturedNode::Kind::dispatch) {
      out +=
          n.kind == CapturedNode::Kind::fence ? "{\"kind\":\"fence\"}" : "{\"kind\":\"barrier\"}";
      continue;
    }
    out +=
        "{\"kind\":\"dispatch\",\"op\":" + quoted(dispatch_name(list_->device(), n.op, n.kernel)) +
        ",\"op_kind\":" + quoted(name(n.op_kind));
    if (n.label) out += ",\"label\":" + quoted(n.label);
    if (n.group) out += ",\"group\":" + quoted(n.group);
    for (const bool write : {false, true}) {
      out += write ? "],\"writes\":[" : ",\"reads\":[";
      bool first = true;
      for (const graph::Range& r : list_->ranges(i)) {
        if (r.write != write) continue;
        out += std::string(first ? "" : ",") + "[" + num(r.region) + "," + num(r.lo) + "," +
               num(r.hi) + "]";
        first = false;
      }
    }
    out += "]}";
  }
  return out + "]}\n";
} catch (const std::bad_alloc&) {
  return {};
}

std::vector<PlanStep> Plan::steps() const try {
  if (!state_) return {};
  const Recording& r = state_->pass->recording;
  const auto is_arena = [&](std::uint64_t region) {
    const auto& blocks = state_->pass->arenas;
    return std::any_of(blocks.begin(), blocks.end(),
                       [=](const auto& block) { return block->region() == region; });
  };
  std::vector<PlanStep> steps;
  steps.reserve(r.launches.size());
  for (std::size_t i = 0; i < r.launches.size(); ++i) {
    const RecordedLaunch& l = r.launches[i];
    PlanStep& step = steps.emplace_back();
    step.kernel = kernel_text(l);
    if (l.label != nullptr) step.label = l.label;
    if (l.group != nullptr) step.group = l.group;
    step.index = l.index;
    step.level = l.level;
    step.tiles = l.launch.tiles;
    step.bytes_moved = l.launch.bytes_moved;
    step.flops = l.launch.flops;
    const auto after = state_->dependencies.of(static_cast<std::uint32_t>(i));
    step.after.assign(after.begin(), after.end());
    for (std::uint32_t k = r.range_offsets[i]; k < r.range_offsets[i + 1]; ++k) {
      const PhysicalRange& range = r.ranges[k];
      if (range.hi > range.lo && is_arena(range.region)) {
        step.arena.push_back({range.lo, range.hi, range.write});
      }
    }
  }
  return steps;
} catch (const std::bad_alloc&) {
  return {};
}

std::string Plan::to_dot() const try {
  if (!state_) return "digraph onepass {\n}\n";
  const Recording& r = state_->pass->recording;
  std::vector<Drawn> nodes;
  for (const RecordedLaunch& l : r.launches) {
    nodes.push_back({l.label        ? l.label
                     : l.is_fence() ? ""
                                    : kernel_text(l),
                     l.is_fence(), l.level});
  }
  return dot(nodes,
             [&](std::size_t v) { return state_->dependencies.of(static_cast<std::uint32_t>(v)); });
} catch (const std::bad_alloc&) {
  return {};
}

std::string Plan::to_json() const try {
  const PlanReport& p = report();
  std::string out = "{\"dispatches\":" + num(p.dispatches) + ",\"barriers\":" + num(p.barriers) +
                    ",\"levels\":" + num(p.levels) + ",\"longest_path\":" + num(p.longest_path) +
                    ",\"moved\":" + num(p.moved) + ",\"edges\":" + num(p.edges) +
                    ",\"hazard_edges\":" + num(p.hazard_edges) + ",\"fences\":" + num(p.fences) +
                    ",\"edges_issued\":" + num(p.edges_issued) +
                    ",\"programmatic\":" + num(p.programmatic) + ",\"added\":" + num(p.added) +
                    ",\"arena_bytes\":" + num(p.arena_bytes) +
                    ",\"scratch_bytes\":" + num(p.scratch_bytes) + ",\"fused\":{";
  for (std::size_t i = 0; i < p.fused.rules.size(); ++i) {
    out += std::string(i ? "," : "") + quoted(p.fused.rules[i].name) + ":" +
           num(p.fused.rules[i].count);
  }
  out += "},\"launches\":[";
  if (state_) {
    const Recording& r = state_->pass->recording;
    for (std::size_t i = 0; i < r.launches.size(); ++i) {
      const RecordedLaunch& l = r.launches[i];
      out += std::string(i ? "," : "") + "{\"kernel\":" + quoted(kernel_text(l)) +
             ",\"level\":" + num(l.level);
      if (l.label) out += ",\"label\":" + quoted(l.label);
      if (l.group) out += ",\"group\":" + quoted(l.group);
      out += ",\"tiles\":" + num(l.launch.tiles) + ",\"bytes\":" + num(l.launch.bytes_moved) +
             ",\"preds\":[";
      const char* comma = "";
      for (const std::uint32_t u : state_->dependencies.of(static_cast<std::uint32_t>(i))) {
        out += std::exchange(comma, ",") + num(u);
      }
      out += "]}";
    }
  }
  return out + "]}\n";
} catch (const std::bad_alloc&) {
  return {};
}

}  // namespace onepass
