#include "graph/fuse.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "graph/lower.h"

namespace onepass::graph {
namespace {

// How far ahead of a dispatch its partner of a pair is looked for.
constexpr std::uint32_t pair_window = 24;

class Fuser {
 public:
  Fuser(NodeList& list, bool close, std::span<const FusionRow> rows)
      : list_(list), close_(close), rows_(rows) {}

  Result<Fused> run() {
    Fused out;
    if (!has_candidates()) return out;
    ONEPASS_TRY(load());
    for (const FusionRow& row : rows_) {
      if (!row.exact && !close_) continue;
      const std::vector<std::uint32_t>& candidates = by_op_[static_cast<std::size_t>(row.first)];
      for (std::size_t at = 0; at < candidates.size(); ++at) {
        const std::uint32_t i = candidates[at];
        // A node that took another in may take a third: Q, K, V.
        while (nodes_[i].alive && nodes_[i].d.op == row.first && try_row(row, i)) {
          count(row, out.report);
        }
      }
    }
    if (out.report.count == 0 && conversions_ == nullptr) return out;
    ONEPASS_ASSIGN(out.list, rebuild());
    return out;
  }

 private:
  struct Node {
    std::uint32_t source = 0;  // of the list; not of a conversion
    bool is_dispatch = false;
    bool is_fence = false;
    bool alive = true;
    bool changed = false;
    bool by_hand = false;  // accesses were not given by the views
    bool opaque = false;
    Dispatch d;
    std::array<Range, max_views> bytes;  // of d.views
  };

  void set_bytes(Node& n) const {
    for (std::size_t k = 0; k < n.d.n_views; ++k) {
      n.bytes[k] = is_bound(n.d.views[k]) ? list_.range_of(n.d.views[k]) : Range{};
    }
  }

  bool has_candidates() const {
    for (std::uint32_t i = 0; i < list_.size(); ++i) {
      if (!list_.is_dispatch(i)) continue;
      if (conversion_row(i) != nullptr) return true;
      for (const FusionRow& row : rows_) {
        if (row.first == list_.node(i).op) return true;
      }
    }
    return false;
  }

  // The row of a product whose kernel takes view 0 in another form than it was recorded with.
  const KernelRow* conversion_row(std::uint32_t i) const {
    const StoredNode& n = list_.node(i);
    const KernelRow* row = list_.device().find_row(n.op, n.format);
    return row != nullptr && row->convert != nullptr && row->input != n.input ? row : nullptr;
  }

  Status load() {
    nodes_.reserve(list_.size());
    touching_.resize(list_.regions().size());
    for (std::uint32_t i = 0; i < list_.size(); ++i) {
      Node n;
      n.source = i;
      n.is_dispatch = list_.is_dispatch(i);
      n.is_fence = list_.node(i).kind == CapturedNode::Kind::fence;
      if (!n.is_dispatch) {
        nodes_.push_back(n);
        continue;
      }
      n.d = list_.dispatch(i);
      const KernelEntry* e =
          n.d.op == Op::custom ? list_.device().find_kernel(n.d.kernel) : nullptr;
      n.opaque = list_.node(i).opaque;
      n.by_hand = n.opaque || (e != nullptr && e->slots.empty());
      if (e != nullptr && !e->slots.empty()) set_access(n.d, e->slots.c_str());
      if (e == nullptr) set_access(n.d, info(n.d.op).slots);
      if (const KernelRow* row = conversion_row(i)) ONEPASS_TRY(convert(*row, n));
      const auto at = static_cast<std::uint32_t>(nodes_.size());
      nodes_.push_back(n);
      if (n.opaque) opaque_.push_back(at);
      for (const Range& r : list_.ranges(i)) touch(r.region, at);
      if (n.changed) touch(list_.region_of(n.d.views[0]), at);
    }
    for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
      Node& n = nodes_[i];
      if (n.is_fence || n.opaque) walls_.push_back(i);
      if (!n.is_dispatch) continue;
      set_bytes(n);
      for (std::size_t k = 0; k < n.d.n_views; ++k) {
        if (is_bound(n.d.views[k])) touch(n.bytes[k].region, i);
      }
      if (n.d.op < Op::count_) by_op_[static_cast<std::size_t>(n.d.op)].push_back(i);
    }
    return {};
  }

  // A dispatch in front of the product, which from now on reads what it writes.
  Status convert(const KernelRow& row, Node& product) {
    Node n;
    std::uint64_t bytes = 0;
    if (!row.convert(product.d, n.d, bytes)) {
      return fail(ErrorCode::unsupported,
                  std::string(info(product.d.op).name) + ": x is " + name(product.d.input) +
                      ", weights of " + name(product.d.format) + " take " + name(row.input),
                  product.d.file, product.d.line);
    }
    if (conversions_ == nullptr) {
      conversions_ = ScratchTable::create(nullptr);
      conversions_->made_by_compile = true;
      list_.add_table(conversions_);
    }
    ONEPASS_ASSIGN(const View out, list_.add_scratch(*conversions_, bytes));
    touching_.resize(list_.regions().size());
    n.d.bind(out);
    n.d.file = product.d.file;
    n.d.line = product.d.line;
    n.is_dispatch = n.changed = true;
    const auto at = static_cast<std::uint32_t>(nodes_.size());
    for (std::size_t k = 0; k < n.d.n_views; ++k) touch(list_.region_of(n.d.views[k]), at);
    nodes_.push_back(n);
    product.d.views[0] = out;
    product.d.input = row.input;
    product.changed = true;
    return {};
  }

  static void set_access(Dispatch& d, const char* slots) {
    for (std::size_t i = 0; i < d.n_views; ++i) {
      d.access[i] = slots[i] == 'i'   ? Access::read
                    : slots[i] == 'o' ? Access::write
                                      : Access::read_write;
    }
  }

  static void insert(std::vector<std::uint32_t>& ascending, std::uint32_t node) {
    const auto it = std::lower_bound(ascending.begin(), ascending.end(), node);
    if (it == ascending.end() || *it != node) ascending.insert(it, node);
  }
  void touch(std::uint32_t region, std::uint32_t node) { insert(touching_[region], node); }

  static bool overlap(const Range& a, const Range& b) {
    return a.region == b.region && a.lo < b.hi && b.lo < a.hi;
  }
  static bool is_bound(const View& v) { return v.bytes != 0 && v.buffer; }

  // In bytes, not in buffer ids: two imports of the same host memory overlap.
  bool same_bytes(const View& a, const View& b) const {
    return is_bound(a) && is_bound(b) && overlap(list_.range_of(a), list_.range_of(b));
  }

  // What dispatch i does to the bytes of a view.
  struct Effect {
    bool touches = false, reads = false, writes = false, covers = false, by_hand = false;
  };
  Effect effect(std::uint32_t i, const View& v) const {
    Effect e;
    if (!is_bound(v)) return e;
    const Node& n = nodes_[i];
    if (n.by_hand) {
      const Range bytes = list_.range_of(v);
      for (const Range& r : list_.ranges(n.source)) e.by_hand |= overlap(r, bytes);
      e.touches = e.reads = e.writes = e.by_hand || n.opaque;
      return e;
    }
    const Range bytes = list_.range_of(v);
    for (std::size_t k = 0; k < n.d.n_views; ++k) {
      if (!is_bound(n.d.views[k]) || !overlap(n.bytes[k], bytes)) continue;
      e.touches = true;
      e.reads |= reads(n.d.access[k]);
      e.writes |= writes(n.d.access[k]);
      e.covers |= writes(n.d.access[k]) && n.bytes[k].lo <= bytes.lo && bytes.hi <= n.bytes[k].hi;
    }
    return e;
  }

  // The only reader of what dispatch `first` wrote to the view, or ~0.
  std::uint32_t single_consumer(std::uint32_t first, const View& v) const {
    std::uint32_t consumer = ~0u;
    const auto opaque = std::upper_bound(opaque_.begin(), opaque_.end(), first);
    const std::uint32_t may_read = opaque == opaque_.end() ? ~0u : *opaque;
    const std::vector<std::uint32_t>& t = touching_[list_.region_of(v)];
    for (auto it = std::upper_bound(t.begin(), t.end(), first); it != t.end(); ++it) {
      if (*it > may_read) return ~0u;
      if (!nodes_[*it].alive) continue;
      const Effect e = effect(*it, v);
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

  // Whether the dispatch can be run after node k instead of before it.
  bool may_pass(const Dispatch& d, std::uint32_t k) const {
    const Node& n = nodes_[k];
    if (n.is_fence) return false;
    if (!n.is_dispatch || !n.alive) return true;
    if (n.opaque) return false;
    for (std::size_t i = 0; i < d.n_views; ++i) {
      const Effect e = effect(k, d.views[i]);
      if (writes(d.access[i]) ? e.touches : e.writes) return false;
    }
    return true;
  }

  bool try_row(const FusionRow& row, std::uint32_t i) {
    if (nodes_[i].by_hand) return false;
    switch (row.kind) {
      case FusionKind::chain:
      case FusionKind::chain_keeping:
        return try_chain(row, i);
      case FusionKind::pair:
        return try_pair(row, i);
      case FusionKind::same:
        return try_same(i);
    }
    return false;
  }

  bool try_chain(const FusionRow& row, std::uint32_t i) {
    const Dispatch& first = nodes_[i].d;
    std::uint32_t j = ~0u;
    vanished_.clear();
    for (std::size_t k = 0; k < first.n_views; ++k) {
      if (!writes(first.access[k]) || !is_bound(first.views[k])) continue;
      const View& v = first.views[k];
      const std::uint32_t reader =
          list_.is_dead_after(v) && !reads(first.access[k]) ? single_consumer(i, v) : ~0u;
      if (reader == ~0u || nodes_[reader].d.op != row.second) continue;
      if (j == ~0u) j = reader;
      if (j == reader) vanished_.push_back(v);
    }
    if (j == ~0u || nodes_[j].by_hand) return false;
    const Dispatch& second = nodes_[j].d;
    for (std::size_t k = 0; k < second.n_views; ++k) {
      for (std::size_t o = 0; o < first.n_views; ++o) {
        if (!writes(first.access[o]) || !same_bytes(first.views[o], second.views[k])) continue;
        // Read whole, or overwritten whole once it has been read.
        const bool may_stay = row.kind == FusionKind::chain_keeping && !writes(second.access[k]);
        if (!has_vanished(first.views[o]) && !may_stay) return false;
        if (second.views[k] != first.views[o]) return false;
      }
    }
    for (std::uint32_t k = i + 1; k < j; ++k) {
      if (!may_pass(first, k)) return false;
    }
    return merge(row, i, j);
  }

  bool try_pair(const FusionRow& row, std::uint32_t i) {
    vanished_.clear();
    const auto end = static_cast<std::uint32_t>(
        std::min<std::size_t>(nodes_.size(), std::size_t{i} + 1 + pair_window));
    for (std::uint32_t j = i + 1; j < end; ++j) {
      const Node& n = nodes_[j];
      if (n.is_dispatch && n.alive && !n.by_hand && n.d.op == row.second && merge(row, i, j)) {
        return true;
      }
      if (!may_pass(nodes_[i].d, j)) return false;
    }
    return false;
  }

  bool merge(const FusionRow& row, std::uint32_t i, std::uint32_t j) {
    const Dispatch& first = nodes_[i].d;
    const Dispatch& second = nodes_[j].d;
    Dispatch fused = make_dispatch(row.fused, second.format);
    fused.label = second.label ? second.label : first.label;
    fused.group = second.group ? second.group : first.group;
    fused.file = second.file;
    fused.line = second.line;
    if (!row.merge(first, second, fused)) return false;
    if (fused.n_views > info(fused.op).n_slots) return false;
    const KernelRow* const kernel = list_.device().find_row(fused);
    Launch launch;
    if (kernel == nullptr || !launch_of(list_.device(), *kernel, fused, launch)) return false;
    fused.input = kernel->input;
    if (!same_accesses(first, second, fused) || !safe_overlaps(row, fused)) return false;

    nodes_[i].alive = false;
    nodes_[j].d = fused;
    nodes_[j].changed = true;
    set_bytes(nodes_[j]);
    insert(by_op_[static_cast<std::size_t>(fused.op)], j);
    for (std::size_t k = 0; k < fused.n_views; ++k) {
      if (is_bound(fused.views[k])) touch(list_.region_of(fused.views[k]), j);
    }
    return true;
  }

  bool has_vanished(const View& v) const {
    return std::find(vanished_.begin(), vanished_.end(), v) != vanished_.end();
  }

  static bool has(const Dispatch& d, const View& v, bool as_written) {
    for (std::size_t k = 0; k < d.n_views; ++k) {
      if (d.views[k] == v && (as_written ? writes(d.access[k]) : reads(d.access[k]))) return true;
    }
    return false;
  }

  // The fused dispatch writes what both wrote, less what vanished, and reads nothing else than they
  // read. What second rewrites in place of an intermediate stays written.
  bool same_accesses(const Dispatch& first, const Dispatch& second, const Dispatch& fused) const {
    for (std::size_t k = 0; k < fused.n_views; ++k) {
      const View& v = fused.views[k];
      if (!is_bound(v)) continue;
      if (writes(fused.access[k])) {
        const bool by_first = has(first, v, true) && !has_vanished(v);
        if (!by_first && !has(second, v, true)) return false;
      }
      if (reads(fused.access[k])) {
        const bool by_second = has(second, v, false) && !has_vanished(v);
        if (!by_second && !has(first, v, false)) return false;
      }
    }
    for (std::size_t k = 0; k < first.n_views; ++k) {
      const View& v = first.views[k];
      if (is_bound(v) && writes(first.access[k]) && !has_vanished(v) && !has(fused, v, true)) {
        return false;
      }
    }
    for (std::size_t k = 0; k < second.n_views; ++k) {
      const View& v = second.views[k];
      if (is_bound(v) && writes(second.access[k]) && !has(fused, v, true)) return false;
    }
    return true;
  }

  bool safe_overlaps(const FusionRow& row, const Dispatch& d) const {
    for (std::size_t o = 0; o < d.n_views; ++o) {
      if (!writes(d.access[o]) || !is_bound(d.views[o])) continue;
      for (std::size_t i = 0; i < d.n_views; ++i) {
        if (i == o || !same_bytes(d.views[o], d.views[i])) continue;
        const bool allowed = reads(d.access[i]) && !writes(d.access[i]) &&
                             std::strchr(row.in_place, "0123456789abcdef"[i]) != nullptr;
        if (!allowed || d.views[o] != d.views[i]) return false;
      }
    }
    return true;
  }

  // A later dispatch that computes the same from the same: its readers read the earlier result.
  bool try_same(std::uint32_t i) {
    const Dispatch& first = nodes_[i].d;
    const std::size_t out = only_output(first);
    if (out == first.n_views) return false;
    const View result = first.views[out];
    const auto wall = std::upper_bound(walls_.begin(), walls_.end(), i);
    const auto end = wall == walls_.end() ? static_cast<std::uint32_t>(nodes_.size()) : *wall;
    for (const std::uint32_t j : touching_operands(i)) {
      if (j >= end) return false;
      if (!nodes_[j].alive) continue;
      if (computes_same(first, nodes_[j].d, out) && redirect(j, out, result)) return true;
      // From here on the operands or the result are other values.
      for (std::size_t k = 0; k < first.n_views; ++k) {
        if (effect(j, first.views[k]).writes) return false;
      }
    }
    return false;
  }

  // Those behind i that touch memory of an operand, ascending.
  std::vector<std::uint32_t> touching_operands(std::uint32_t i) {
    std::vector<std::uint32_t> all;
    const Node& n = nodes_[i];
    for (std::size_t k = 0; k < n.d.n_views; ++k) {
      if (!is_bound(n.d.views[k])) continue;
      const std::vector<std::uint32_t>& t = touching_[n.bytes[k].region];
      all.insert(all.end(), std::upper_bound(t.begin(), t.end(), i), t.end());
    }
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    return all;
  }

  static std::size_t only_output(const Dispatch& d) {
    std::size_t out = d.n_views;
    for (std::size_t k = 0; k < d.n_views; ++k) {
      if (!writes(d.access[k])) continue;
      if (reads(d.access[k]) || out != d.n_views) return d.n_views;
      out = k;
    }
    return out;
  }

  static bool computes_same(const Dispatch& a, const Dispatch& b, std::size_t out) {
    if (a.op != b.op || a.format != b.format || a.n_views != b.n_views ||
        a.params_bytes != b.params_bytes ||
        std::memcmp(a.params.data(), b.params.data(), a.params_bytes) != 0) {
      return false;
    }
    for (std::size_t k = 0; k < a.n_views; ++k) {
      if (k != out && a.views[k] != b.views[k]) return false;
    }
    return a.views[out].bytes == b.views[out].bytes;
  }

  // Readers of dispatch j's output read `result` instead, as far as both live; then j goes.
  bool redirect(std::uint32_t j, std::size_t out, const View& result) {
    const View v = nodes_[j].d.views[out];
    if (!list_.is_dead_after(v) || same_bytes(v, result)) return false;
    readers_.clear();
    bool redefined = false;
    for (std::uint32_t k = j + 1; k < nodes_.size() && !redefined; ++k) {
      if (!nodes_[k].is_dispatch || !nodes_[k].alive) continue;
      if (nodes_[k].opaque) return false;
      const Effect e = effect(k, v);
      if (e.by_hand) return false;
      if (e.reads) {
        if (e.writes || !reads_whole(nodes_[k].d, v)) return false;
        readers_.push_back(k);
      } else if (e.writes) {
        if (!e.covers) return false;
        redefined = true;
      }
    }
    if (readers_.empty()) return false;
    for (std::uint32_t k = j + 1; k <= readers_.back(); ++k) {
      if (nodes_[k].is_dispatch && nodes_[k].alive && effect(k, result).writes) return false;
    }
    for (const std::uint32_t k : readers_) {
      Dispatch& d = nodes_[k].d;
      for (std::size_t s = 0; s < d.n_views; ++s) {
        if (d.views[s] == v) d.views[s] = result;
      }
      nodes_[k].changed = true;
      set_bytes(nodes_[k]);
      touch(list_.region_of(result), k);
    }
    nodes_[j].alive = false;
    return true;
  }

  // True when the dispatch touches the view's bytes only as exactly this view.
  bool reads_whole(const Dispatch& d, const View& v) const {
    for (std::size_t k = 0; k < d.n_views; ++k) {
      if (same_bytes(d.views[k], v) && d.views[k] != v) return false;
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
        ONEPASS_TRY(out->append_copy(list_, nodes_[i].source));
      }
    }
    return out;
  }

  NodeList& list_;
  bool close_;
  std::span<const FusionRow> rows_;
  std::vector<Node> nodes_;
  std::vector<std::vector<std::uint32_t>> touching_;  // per region, ascending
  std::vector<std::uint32_t> opaque_;                 // nodes of unknown accesses, ascending
  std::shared_ptr<ScratchTable> conversions_;         // null: none was necessary
  std::vector<std::uint32_t> walls_;                  // fences and those, ascending
  // Per op, ascending; also nodes that have become another op or nothing.
  std::array<std::vector<std::uint32_t>, static_cast<std::size_t>(Op::count_)> by_op_;
  std::vector<View> vanished_;
  std::vector<std::uint32_t> readers_;
};

}  // namespace

Result<Fused> fuse(NodeList& list, bool close, std::span<const FusionRow> rows) {
  return Fuser(list, close, rows).run();
}

}  // namespace onepass::graph
