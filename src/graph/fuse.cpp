#include "graph/fuse.h"

#include <algorithm>

#include "core/tables.h"

namespace onepass::graph {
namespace {

class Fuser {
 public:
  Fuser(const NodeList& list, bool close) : list_(list), close_(close) {}

  Result<Fused> run() {
    Fused out;
    if (!has_candidates()) return out;
    load();
    for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
      if (!nodes_[i].is_dispatch) continue;
      const auto rows = fusion_rows();
      for (const FusionRow& row : rows) {
        if (nodes_[i].alive && row.first == nodes_[i].d.op && try_row(row, i)) {
          count(row, out.report);
        }
      }
    }
    if (out.report.count == 0) return out;
    ONEPASS_ASSIGN(out.list, rebuild());
    return out;
  }

 private:
  struct Node {
    bool is_dispatch = false;
    bool alive = true;
    bool changed = false;
    bool by_hand = false;  // accesses were not given by the views
    Dispatch d;
  };

  bool has_candidates() const {
    for (std::uint32_t i = 0; i < list_.size(); ++i) {
      if (!list_.is_dispatch(i)) continue;
      for (const FusionRow& row : fusion_rows()) {
        if (row.first == list_.node(i).op) return true;
      }
    }
    return false;
  }

  void load() {
    nodes_.resize(list_.size());
    touching_.resize(list_.regions().size());
    for (std::uint32_t i = 0; i < list_.size(); ++i) {
      Node& n = nodes_[i];
      n.is_dispatch = list_.is_dispatch(i);
      if (!n.is_dispatch) continue;
      n.d = list_.dispatch(i);
      const KernelEntry* e =
          n.d.op == Op::custom ? list_.device().find_kernel(n.d.kernel) : nullptr;
      n.by_hand = list_.node(i).opaque || (e != nullptr && e->slots.empty());
      if (list_.node(i).opaque) opaque_.push_back(i);
      if (e != nullptr && !e->slots.empty()) set_access(n.d, e->slots.c_str());
      if (e == nullptr) set_access(n.d, info(n.d.op).slots);
      for (const Range& r : list_.ranges(i)) touch(r.region, i);
    }
  }

  static void set_access(Dispatch& d, const char* slots) {
    for (std::size_t i = 0; i < d.n_views; ++i) {
      d.access[i] = slots[i] == 'i'   ? Access::read
                    : slots[i] == 'o' ? Access::write
                                      : Access::read_write;
    }
  }

  void touch(std::uint32_t region, std::uint32_t node) {
    std::vector<std::uint32_t>& t = touching_[region];
    const auto it = std::lower_bound(t.begin(), t.end(), node);
    if (it == t.end() || *it != node) t.insert(it, node);
  }

  // What a dispatch does to the bytes of a view.
  struct Effect {
    bool touches = false, reads = false, covers = false, by_hand = false;
  };
  Effect effect(const Node& n, std::uint32_t i, const View& v) const {
    Effect e;
    if (n.by_hand) {
      const Range bytes = list_.range_of(v);
      for (const Range& r : list_.ranges(i)) e.by_hand |= overlap(r, bytes);
      e.touches = e.by_hand || list_.node(i).opaque;
      return e;
    }
    for (std::size_t k = 0; k < n.d.n_views; ++k) {
      if (!same_bytes(n.d.views[k], v)) continue;
      e.touches = true;
      e.reads |= reads(n.d.access[k]);
      e.covers |= writes(n.d.access[k]) && covers(n.d.views[k], v);
    }
    return e;
  }

  static bool overlap(const Range& a, const Range& b) {
    return a.region == b.region && a.lo < b.hi && b.lo < a.hi;
  }

  // In bytes, not in buffer ids: two imports of the same host memory overlap.
  bool same_bytes(const View& a, const View& b) const {
    if (a.bytes == 0 || b.bytes == 0 || !a.buffer || !b.buffer) return false;
    return overlap(list_.range_of(a), list_.range_of(b));
  }

  bool covers(const View& outer, const View& inner) const {
    const Range o = list_.range_of(outer), i = list_.range_of(inner);
    return o.region == i.region && o.lo <= i.lo && i.hi <= o.hi;
  }

  // The only reader of the intermediate, or ~0.
  std::uint32_t single_consumer(std::uint32_t first, const View& v) const {
    std::uint32_t consumer = ~0u;
    const auto opaque = std::upper_bound(opaque_.begin(), opaque_.end(), first);
    const std::uint32_t may_read = opaque == opaque_.end() ? ~0u : *opaque;
    const std::vector<std::uint32_t>& t = touching_[list_.region_of(v)];
    for (auto it = std::upper_bound(t.begin(), t.end(), first); it != t.end(); ++it) {
      const Node& n = nodes_[*it];
      if (*it > may_read) return ~0u;
      if (!n.alive) continue;
      const Effect e = effect(n, *it, v);
      if (!e.touches) continue;
      if (e.by_hand) return ~0u;
      if (e.reads) {
        if (consumer != ~0u) return ~0u;
        consumer = *it;
        if (e.covers) return consumer;
      } else if (e.covers) {
        return consumer;  // redefined: what comes later reads other values
      } else {
        return ~0u;
      }
    }
    return may_read == ~0u && list_.is_dead_after(v) ? consumer : ~0u;
  }

  bool may_move(std::uint32_t first, std::uint32_t second) const {
    const Dispatch& d = nodes_[first].d;
    for (std::uint32_t k = first + 1; k < second; ++k) {
      const Node& n = nodes_[k];
      if (list_.node(k).kind == CapturedNode::Kind::fence) return false;
      if (!n.is_dispatch || !n.alive) continue;
      if (list_.node(k).opaque) return false;
      for (std::size_t i = 0; i < d.n_views; ++i) {
        if (!reads(d.access[i])) continue;
        if (n.by_hand) {
          if (effect(n, k, d.views[i]).touches) return false;
          continue;
        }
        for (std::size_t j = 0; j < n.d.n_views; ++j) {
          if (writes(n.d.access[j]) && same_bytes(n.d.views[j], d.views[i])) return false;
        }
      }
    }
    return true;
  }

  bool try_row(const FusionRow& row, std::uint32_t i) {
    if (!row.exact && !close_) return false;
    const Dispatch& first = nodes_[i].d;
    const View inter = first.views[row.out_slot];
    if (inter.bytes == 0 || !list_.is_dead_after(inter)) return false;
    const std::uint32_t j = single_consumer(i, inter);
    if (j == ~0u || nodes_[j].d.op != row.second) return false;
    const Dispatch& second = nodes_[j].d;

    int in_slot = -1;
    for (const char* c = row.in_slots; *c != '\0'; ++c) {
      const int slot = *c - '0';
      if (second.views[static_cast<std::size_t>(slot)] == inter) {
        if (in_slot >= 0) return false;  // read twice
        in_slot = slot;
      }
    }
    if (in_slot < 0) return false;
    for (std::size_t k = 0; k < second.n_views; ++k) {
      if (static_cast<int>(k) == in_slot || !same_bytes(second.views[k], inter)) continue;
      if (reads(second.access[k]) || !(second.views[k] == inter)) return false;
    }
    if (!may_move(i, j)) return false;

    Dispatch fused = make_dispatch(row.fused, second.format);
    fused.label = second.label ? second.label : first.label;
    fused.file = second.file;
    fused.line = second.line;
    for (const char* c = row.slots; *c != '\0'; c += 2) {
      int slot = c[1] - '0';
      if (c[1] == '*') {
        for (const char* s = row.in_slots; *s != '\0'; ++s) {
          if (*s - '0' != in_slot) slot = *s - '0';
        }
      }
      fused.bind((c[0] == 'a' ? first : second).views[static_cast<std::size_t>(slot)]);
    }
    if (!row.merge(first, second, fused)) return false;
    if (list_.device().find_row(fused.op, fused.format) == nullptr) return false;
    if (!safe_overlaps(fused)) return false;

    nodes_[i].alive = false;
    nodes_[j].d = fused;
    nodes_[j].changed = true;
    for (std::size_t k = 0; k < fused.n_views; ++k) {
      if (fused.views[k].buffer && fused.views[k].bytes != 0) {
        touch(list_.region_of(fused.views[k]), j);
      }
    }
    return true;
  }

  // An output may lie on an input only where both are the same view and the input is the first
  // operand, which kernels read at the index they write.
  bool safe_overlaps(const Dispatch& d) const {
    for (std::size_t o = 0; o < d.n_views; ++o) {
      if (!writes(d.access[o])) continue;
      for (std::size_t i = 0; i < d.n_views; ++i) {
        if (i == o || !same_bytes(d.views[o], d.views[i])) continue;
        const bool equal = d.views[o].buffer == d.views[i].buffer && d.views[o] == d.views[i];
        const bool elementwise = i == 0 || d.views[i].bytes == d.views[o].bytes;
        if (!equal || !elementwise) return false;
      }
    }
    return true;
  }

  static void count(const FusionRow& row, FuseReport& report) {
    ++report.count;
    for (FuseReport::Rule& rule : report.rules) {
      if (rule.name == row.name) {
        ++rule.count;
        return;
      }
    }
    report.rules.push_back({row.name, 1});
  }

  Result<std::unique_ptr<NodeList>> rebuild() const {
    auto out = std::make_unique<NodeList>(list_.device_ptr());
    for (const auto& table : list_.tables()) out->add_table(table);
    for (const MemRange& range : list_.discarded()) out->discard(range);
    for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
      if (!nodes_[i].alive) continue;
      if (nodes_[i].changed) {
        ONEPASS_TRY(out->append(nodes_[i].d, std::nullopt, {}, {}));
      } else {
        ONEPASS_TRY(out->append_copy(list_, i));
      }
    }
    return out;
  }

  const NodeList& list_;
  bool close_;
  std::vector<Node> nodes_;
  std::vector<std::vector<std::uint32_t>> touching_;  // per region, ascending
  std::vector<std::uint32_t> opaque_;                 // nodes of unknown accesses, ascending
};

}  // namespace

Result<Fused> fuse(const NodeList& list, bool close) { return Fuser(list, close).run(); }

}  // namespace onepass::graph
