#include "graph/fuse.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <memory>
#include <utility>

#include "graph/lower.h"

namespace onepass::graph {
namespace {

// How far ahead of a dispatch its partner of a pair is looked for.
constexpr std::uint32_t pair_window = 24;

constexpr std::uint32_t none = ~0u;

class Fuser {
 public:
  Fuser(NodeList& list, bool close, std::span<const FusionRow> rows, MadeLaunches* made)
      : list_(list), close_(close), rows_(rows), made_(made) {}

  Result<FuseReport> run() {
    FuseReport report;
    if (!has_candidates()) return report;
    ONEPASS_TRY(load());
    for (const FusionRow& row : rows_) {
      if ((!row.exact && !close_) || count_of(row.first) == 0 || count_of(row.second) == 0)
        continue;
      for (std::uint32_t i = 0; i < ops_.size(); ++i) {
        // A node that took another in may take a third: Q, K, V.
        while (ops_[i] == row.first && try_row(row, i)) count(row, report);
      }
    }
    report_kept(report);
    if (report.count != 0 || conversions_ != nullptr) ONEPASS_TRY(rewrite());
    return report;
  }

 private:
  // Positions of the bits that are set, ascending.
  struct Bits {
    std::uint32_t left;
    Bits begin() const noexcept { return *this; }
    Bits end() const noexcept { return {0}; }
    std::size_t operator*() const noexcept {
      return static_cast<std::size_t>(std::countr_zero(left));
    }
    Bits& operator++() noexcept {
      left &= left - 1;
      return *this;
    }
    bool operator!=(const Bits& other) const noexcept { return left != other.left; }
  };
  // Of the bound views of a dispatch; the rest is uninitialised.
  struct Bytes {
    Bytes() noexcept {}
    std::uint32_t bound = 0;  // a bit per view
    Bits each() const noexcept { return {bound}; }
    Range& operator[](std::size_t k) noexcept { return ranges[k]; }
    const Range& operator[](std::size_t k) const noexcept { return ranges[k]; }
    union {
      std::array<Range, max_views> ranges;
    };
  };
  // A dispatch with the bytes of its views, by set_bytes. Large, so it changes hands, not place.
  struct Work {
    Work() noexcept {}  // leaves d for NodeList::read: made for every dispatch of a pass
    union {
      Dispatch d;
    };
    Bytes bytes;
  };
  struct Node {
    Node() noexcept {}         // leaves touches as they are
    std::uint32_t source = 0;  // of the list; not of a conversion
    bool is_dispatch = false;
    bool is_fence = false;
    bool alive = true;
    bool changed = false;
    bool by_hand = false;  // accesses were not given by the views
    bool opaque = false;
    std::uint32_t made = none;                     // of made_: what the dispatch launches
    Work* work = nullptr;                          // of a dispatch
    std::array<std::uint32_t, max_views> touches;  // of bound views: index of touches_

    Dispatch& d() const noexcept { return work->d; }
    Bytes& bytes() const noexcept { return work->bytes; }
  };

  static bool is_bound(const View& v) { return v.bytes != 0 && v.buffer; }
  void set_bytes(Work& work) const {
    work.bytes.bound = 0;
    for (std::size_t k = 0; k < work.d.n_views; ++k) {
      const View& v = work.d.views[k];
      if (!is_bound(v)) continue;
      work.bytes.bound |= 1u << k;
      work.bytes[k] = list_.range_of(v);
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

  // Dispatches of an op that are still there.
  std::uint32_t& count_of(Op op) { return counts_[static_cast<std::size_t>(op)]; }

  // The row of a product whose kernel takes view 0 in another form than it was recorded with.
  const KernelRow* conversion_row(std::uint32_t i) const {
    const StoredNode& n = list_.node(i);
    const OpKind kind = info(n.op).kind;
    if (kind != OpKind::matmul && kind != OpKind::matmul_id) return nullptr;
    const KernelRow* row = list_.device().find_row(n.op, n.format);
    return row != nullptr && row->convert != nullptr && row->input != n.input ? row : nullptr;
  }

  Status load() {
    nodes_.reserve(list_.size() * 2);  // conversions too
    works_.reserve(list_.size() * 2 + 1);
    fused_ = &works_.emplace_back();
    if (made_ != nullptr) made_->all.reserve(list_.size());
    for (std::uint32_t i = 0; i < list_.size(); ++i) {
      const KernelRow* const conversion = list_.is_dispatch(i) ? conversion_row(i) : nullptr;
      Node* const converted = conversion != nullptr ? &nodes_.emplace_back() : nullptr;
      Node& n = nodes_.emplace_back();
      n.source = i;
      n.is_fence = list_.node(i).kind == CapturedNode::Kind::fence;
      if (!list_.is_dispatch(i)) continue;
      n.is_dispatch = true;
      n.work = &works_.emplace_back();
      list_.read(i, n.d());
      const KernelEntry* e =
          n.d().op == Op::custom ? list_.device().find_kernel(n.d().kernel) : nullptr;
      n.opaque = list_.node(i).opaque;
      n.by_hand = n.opaque || (e != nullptr && e->slots.empty());
      if (e != nullptr && !e->slots.empty()) set_access(n.d(), e->slots.c_str());
      if (e == nullptr) set_access(n.d(), info(n.d().op).slots);
      if (converted == nullptr) continue;
      ONEPASS_TRY(convert(*conversion, n, *converted));
      move_up(nodes_.size() - 2);
    }
    last_touch_.assign(list_.regions().size(), none);
    touches_.reserve(nodes_.size() * 4);
    ops_.assign(nodes_.size(), Op::custom);
    for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
      Node& n = nodes_[i];
      if (n.opaque) opaque_.push_back(i);
      if (n.is_fence || n.opaque) walls_.push_back(i);
      if (!n.is_dispatch) continue;
      set_op(i, n.d().op);
      set_bytes(*n.work);
      for (const std::size_t k : n.bytes().each()) {
        n.touches[k] = add_touch(n.bytes()[k].region, i);
      }
      if (!n.by_hand) continue;
      for (const Range& r : list_.ranges(n.source)) add_touch(r.region, i);
    }
    return {};
  }

  // What stands in front of the product, which from now on reads what that writes.
  Status convert(const KernelRow& row, Node& product, Node& n) {
    std::uint64_t bytes = 0;
    n.work = &works_.emplace_back();
    if (!row.convert(product.d(), n.d(), bytes)) {
      return fail(ErrorCode::unsupported,
                  std::string(info(product.d().op).name) + ": x is " + name(product.d().input) +
                      ", weights of " + name(product.d().format) + " take " + name(row.input),
                  product.d().file, product.d().line);
    }
    if (conversions_ == nullptr) {
      conversions_ = ScratchTable::create(nullptr);
      conversions_->made_by_compile = true;
      list_.add_table(conversions_);
    }
    ONEPASS_ASSIGN(const View out, list_.add_scratch(*conversions_, bytes));
    n.d().bind(out);
    n.d().file = product.d().file;
    n.d().line = product.d().line;
    n.is_dispatch = n.changed = true;
    product.d().views[0] = out;
    product.d().input = row.input;
    product.changed = true;
    return {};
  }

  // Moves a conversion, which writes memory of its own, behind what wrote its input, if that is
  // near: there the two can be one. Nodes have no ranges yet.
  void move_up(std::size_t at) {
    const Range input = list_.range_of(nodes_[at].d().views[0]);
    const std::size_t least = at > pair_window ? at - pair_window : 0;
    std::size_t to = at;
    for (; to > least; --to) {
      const Node& n = nodes_[to - 1];
      if (!n.is_dispatch || n.by_hand || writes_into(n.d(), input)) break;
    }
    if (to == least) return;  // written further away
    std::rotate(nodes_.begin() + static_cast<std::ptrdiff_t>(to),
                nodes_.begin() + static_cast<std::ptrdiff_t>(at),
                nodes_.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
  bool writes_into(const Dispatch& d, const Range& bytes) const {
    for (std::size_t k = 0; k < d.n_views; ++k) {
      if (writes(d.access[k]) && is_bound(d.views[k]) &&
          overlap(list_.range_of(d.views[k]), bytes)) {
        return true;
      }
    }
    return false;
  }

  static void set_access(Dispatch& d, const char* slots) {
    for (std::size_t i = 0; i < d.n_views; ++i) {
      d.access[i] = slots[i] == 'i'   ? Access::read
                    : slots[i] == 'o' ? Access::write
                                      : Access::read_write;
    }
  }

  // Those that touch a region are a chain in the order of the list.
  struct Touch {
    std::uint32_t node = 0, next = none;  // next: index of touches_
  };
  // Of the last node so far.
  std::uint32_t add_touch(std::uint32_t region, std::uint32_t node) {
    std::uint32_t& last = last_touch_[region];
    if (last != none && touches_[last].node == node) return last;
    const auto added = static_cast<std::uint32_t>(touches_.size());
    if (last != none) touches_[last].next = added;
    touches_.push_back({node, none});
    return last = added;
  }
  // Of a node behind that of touch `from`, which touches the same region.
  std::uint32_t insert_touch(std::uint32_t from, std::uint32_t node) {
    std::uint32_t next = touches_[from].next;
    for (; next != none && touches_[next].node < node; next = touches_[from].next) from = next;
    if (next != none && touches_[next].node == node) return next;
    const auto added = static_cast<std::uint32_t>(touches_.size());
    touches_.push_back({node, next});
    return touches_[from].next = added;
  }
  // The touch of a region by one of a node's views.
  std::uint32_t touch_of(std::uint32_t i, std::uint32_t region) const {
    const Node& n = nodes_[i];
    for (const std::size_t k : n.bytes().each()) {
      if (n.bytes()[k].region == region) return n.touches[k];
    }
    return none;
  }

  static bool overlap(const Range& a, const Range& b) {
    return a.region == b.region && a.lo < b.hi && b.lo < a.hi;
  }
  static bool contains(const Range& a, const Range& b) {
    return a.region == b.region && a.lo <= b.lo && b.hi <= a.hi;
  }

  // What dispatch i does to bytes.
  struct Effect {
    bool touches = false, reads = false, writes = false, covers = false, by_hand = false;
  };
  Effect effect(std::uint32_t i, const Range& bytes) const {
    Effect e;
    if (bytes.lo == bytes.hi) return e;
    const Node& n = nodes_[i];
    if (n.by_hand) {
      for (const Range& r : list_.ranges(n.source)) e.by_hand |= overlap(r, bytes);
      e.touches = e.reads = e.writes = e.by_hand || n.opaque;
      return e;
    }
    for (const std::size_t k : n.bytes().each()) {
      if (!overlap(n.bytes()[k], bytes)) continue;
      e.touches = true;
      e.reads |= reads(n.d().access[k]);
      e.writes |= writes(n.d().access[k]);
      e.covers |= writes(n.d().access[k]) && contains(n.bytes()[k], bytes);
    }
    return e;
  }

  // Whether a dispatch writes every byte of its view k, which a kernel need not: rows of ops that
  // read a StepState may be left out, a caller's kernel may write less than it declares, and a view
  // made by hand may be too large. A launch of norms, products and the like refuses smaller views.
  bool writes_whole(const Dispatch& d, std::size_t k) const {
    const OpKind kind = info(d.op).kind;
    if (kind != OpKind::norm && kind != OpKind::elementwise && kind != OpKind::matmul) return false;
    const KernelRow* const row = list_.device().find_row(d);
    const auto has_launch = [&](const Dispatch& of) {
      Launch launch;
      return row != nullptr && launch_of(list_.device(), *row, of, launch).has_value();
    };
    Dispatch smaller = d;
    --smaller.views[k].bytes;
    return has_launch(d) && !has_launch(smaller);
  }

  // Whether nothing of what was in the bytes is left behind node i.
  bool overwrites(std::uint32_t i, const Range& bytes) const {
    const Node& n = nodes_[i];
    for (const std::size_t k : n.bytes().each()) {
      if (writes(n.d().access[k]) && contains(n.bytes()[k], bytes) && writes_whole(n.d(), k))
        return true;
    }
    return false;
  }

  // The only dispatch that reads what dispatch `first` wrote to its view k.
  struct Reader {
    std::uint32_t node = ~0u;  // ~0: there is none, or several
    bool is_kept = false;      // the value is seen after the pass, too: it is in a caller's buffer
  };
  Reader single_reader(std::uint32_t first, std::size_t k) const {
    const Range& bytes = nodes_[first].bytes()[k];
    const bool is_dead_after = list_.is_dead_after(nodes_[first].d().views[k]);
    std::uint32_t reader = ~0u;
    const auto opaque = std::upper_bound(opaque_.begin(), opaque_.end(), first);
    const std::uint32_t may_read = opaque == opaque_.end() ? ~0u : *opaque;
    for (std::uint32_t t = touches_[nodes_[first].touches[k]].next; t != none;
         t = touches_[t].next) {
      const std::uint32_t node = touches_[t].node;
      if (node > may_read) return {};
      if (!nodes_[node].alive) continue;
      const Effect e = effect(node, bytes);
      if (!e.touches) continue;
      if (e.by_hand) return {};
      if (e.reads) {
        if (reader != ~0u) return {};
        reader = node;
      } else if (!e.covers) {
        return {};
      }
      // Redefined: what comes later reads other values.
      if (e.covers && (is_dead_after || overwrites(node, bytes))) return {reader};
      if (!e.reads) return {};
    }
    if (may_read != ~0u) return {};
    return {reader, !is_dead_after};
  }

  // Whether dispatch i can be run after node k instead of before it.
  bool may_pass(std::uint32_t i, std::uint32_t k) const {
    const Node &first = nodes_[i], &n = nodes_[k];
    if (n.is_fence) return false;
    if (!n.is_dispatch || !n.alive) return true;
    if (n.opaque) return false;
    for (const std::size_t v : first.bytes().each()) {
      const Effect e = effect(k, first.bytes()[v]);
      if (writes(first.d().access[v]) ? e.touches : e.writes) return false;
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
    const Work& a = *nodes_[i].work;
    const Dispatch& first = a.d;
    std::uint32_t j = ~0u;
    bool is_kept = false;
    vanished_.clear();
    for (const std::size_t k : a.bytes.each()) {
      const View& v = first.views[k];
      if (!writes(first.access[k]) || reads(first.access[k])) continue;
      const Reader reader = single_reader(i, k);
      if (reader.node == ~0u || nodes_[reader.node].d().op != row.second) continue;
      if (j == ~0u) j = reader.node;
      if (j != reader.node) continue;
      vanished_.push_back(v);
      is_kept |= reader.is_kept;
    }
    if (j == ~0u || nodes_[j].by_hand) return false;
    const Work& b = *nodes_[j].work;
    const Dispatch& second = b.d;
    for (const std::size_t k : b.bytes.each()) {
      for (const std::size_t o : a.bytes.each()) {
        if (!writes(first.access[o]) || !overlap(a.bytes[o], b.bytes[k])) continue;
        // Read whole, or overwritten whole once it has been read.
        const bool may_stay = row.kind == FusionKind::chain_keeping && !writes(second.access[k]);
        if (!has_vanished(first.views[o]) && !may_stay) return false;
        if (second.views[k] != first.views[o]) return false;
      }
    }
    for (std::uint32_t k = i + 1; k < j; ++k) {
      if (!may_pass(i, k)) return false;
    }
    if (!fits(row, i, j)) return false;
    if (is_kept) {
      kept_.push_back({&row, i, j});
      return false;
    }
    replace(i, j);
    return true;
  }

  bool try_pair(const FusionRow& row, std::uint32_t i) {
    vanished_.clear();
    const auto end = static_cast<std::uint32_t>(
        std::min<std::size_t>(nodes_.size(), std::size_t{i} + 1 + pair_window));
    for (std::uint32_t j = i + 1; j < end; ++j) {
      const Node& n = nodes_[j];
      if (ops_[j] == row.second && !n.by_hand && fits(row, i, j)) {
        replace(i, j);
        return true;
      }
      if (!may_pass(i, j)) return false;
    }
    return false;
  }

  // Whether dispatches i and j may be one, which is then *fused_.
  bool fits(const FusionRow& row, std::uint32_t i, std::uint32_t j) {
    const Dispatch& first = nodes_[i].d();
    const Dispatch& second = nodes_[j].d();
    Dispatch& d = fused_->d;
    std::construct_at(&d);
    d.op = row.fused;
    d.format = second.format;
    d.label = second.label ? second.label : first.label;
    d.group = second.group ? second.group : first.group;
    d.file = second.file;
    d.line = second.line;
    if (!row.merge(first, second, d)) return false;
    if (d.n_views > info(d.op).n_slots) return false;
    const KernelRow* const kernel = list_.device().find_row(d);
    if (kernel == nullptr) return false;
    d.input = kernel->input;
    set_bytes(*fused_);
    if (!same_accesses(*nodes_[i].work, *nodes_[j].work, *fused_)) return false;
    if (!safe_overlaps(row, *fused_)) return false;
    // Last: where the device's limits forbid the launch, an error is written.
    fused_launch_.kernel = kernel;
    std::construct_at(&fused_launch_.launch);
    return launch_of(list_.device(), *kernel, d, fused_launch_.launch).has_value();
  }

  // *fused_ takes the place of dispatch j; it touches no region that neither i nor j does.
  void replace(std::uint32_t i, std::uint32_t j) {
    std::array<std::uint32_t, max_views> touches;
    for (const std::size_t k : fused_->bytes.each()) {
      const std::uint32_t region = fused_->bytes[k].region, own = touch_of(j, region);
      touches[k] = own != none ? own : insert_touch(touch_of(i, region), j);
    }
    remove(i);
    std::swap(nodes_[j].work, fused_);
    nodes_[j].touches = touches;
    nodes_[j].changed = true;
    if (made_ != nullptr) {
      nodes_[j].made = static_cast<std::uint32_t>(made_->all.size());
      made_->all.push_back(fused_launch_);
    }
    set_op(j, nodes_[j].d().op);
  }

  void remove(std::uint32_t i) {
    nodes_[i].alive = false;
    set_op(i, Op::custom);
  }

  void set_op(std::uint32_t i, Op op) {
    if (ops_[i] != Op::custom) --count_of(ops_[i]);
    if (op != Op::custom) ++count_of(op);
    ops_[i] = op;
  }

  // Of the pairs that only their buffer kept apart, those that no later row has taken up.
  void report_kept(FuseReport& report) const {
    for (const Kept& kept : kept_) {
      const Node &first = nodes_[kept.first], &second = nodes_[kept.second];
      if (!first.alive || first.d().op != kept.row->first) continue;
      if (!second.alive || second.d().op != kept.row->second) continue;
      const auto known =
          std::find_if(report.kept.begin(), report.kept.end(),
                       [&](const FuseReport::Kept& k) { return k.name == kept.row->name; });
      if (known != report.kept.end()) {
        ++known->count;
      } else {
        report.kept.push_back({kept.row->name, 1, "in a caller's buffer; use scratch or discard"});
      }
    }
  }

  bool has_vanished(const View& v) const {
    return std::find(vanished_.begin(), vanished_.end(), v) != vanished_.end();
  }

  static bool has(const Work& work, const View& v, bool as_written) {
    for (const std::size_t k : work.bytes.each()) {
      const Access access = work.d.access[k];
      if ((as_written ? writes(access) : reads(access)) && work.d.views[k] == v) return true;
    }
    return false;
  }

  // The fused dispatch writes what both wrote, less what vanished, and reads nothing else than they
  // read. What second rewrites in place of an intermediate stays written.
  bool same_accesses(const Work& first, const Work& second, const Work& fused) const {
    for (const std::size_t k : fused.bytes.each()) {
      const View& v = fused.d.views[k];
      if (writes(fused.d.access[k])) {
        const bool by_first = has(first, v, true) && !has_vanished(v);
        if (!by_first && !has(second, v, true)) return false;
      }
      if (reads(fused.d.access[k])) {
        const bool by_second = has(second, v, false) && !has_vanished(v);
        if (!by_second && !has(first, v, false)) return false;
      }
    }
    for (const std::size_t k : first.bytes.each()) {
      const View& v = first.d.views[k];
      if (writes(first.d.access[k]) && !has_vanished(v) && !has(fused, v, true)) return false;
    }
    for (const std::size_t k : second.bytes.each()) {
      if (writes(second.d.access[k]) && !has(fused, second.d.views[k], true)) return false;
    }
    return true;
  }

  static bool safe_overlaps(const FusionRow& row, const Work& work) {
    const Dispatch& d = work.d;
    for (const std::size_t o : work.bytes.each()) {
      if (!writes(d.access[o])) continue;
      for (const std::size_t i : work.bytes.each()) {
        if (i == o || !overlap(work.bytes[o], work.bytes[i])) continue;
        const bool allowed = reads(d.access[i]) && !writes(d.access[i]) &&
                             std::strchr(row.in_place, "0123456789abcdef"[i]) != nullptr;
        if (!allowed || d.views[o] != d.views[i]) return false;
      }
    }
    return true;
  }

  // A later dispatch that computes the same from the same: its readers read the earlier result.
  bool try_same(std::uint32_t i) {
    const Dispatch& first = nodes_[i].d();
    const std::size_t out = only_output(first);
    if (out == first.n_views) return false;
    const View result = first.views[out];
    const auto wall = std::upper_bound(walls_.begin(), walls_.end(), i);
    const auto end = wall == walls_.end() ? static_cast<std::uint32_t>(nodes_.size()) : *wall;
    for (const std::uint32_t j : touching_operands(i)) {
      if (j >= end) return false;
      if (!nodes_[j].alive) continue;
      if (computes_same(first, nodes_[j].d(), out) &&
          redirect(j, out, result, nodes_[i].touches[out])) {
        return true;
      }
      // From here on the operands or the result are other values.
      for (const std::size_t k : nodes_[i].bytes().each()) {
        if (effect(j, nodes_[i].bytes()[k]).writes) return false;
      }
    }
    return false;
  }

  // Those behind i that touch memory of an operand, ascending.
  std::vector<std::uint32_t> touching_operands(std::uint32_t i) {
    std::vector<std::uint32_t> all;
    const Node& n = nodes_[i];
    for (const std::size_t k : n.bytes().each()) {
      for (std::uint32_t t = touches_[n.touches[k]].next; t != none; t = touches_[t].next) {
        all.push_back(touches_[t].node);
      }
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
  // touch: of the dispatch that writes the result.
  bool redirect(std::uint32_t j, std::size_t out, const View& result, std::uint32_t touch) {
    const View v = nodes_[j].d().views[out];
    const Range result_bytes = list_.range_of(result);
    const Range bytes = nodes_[j].bytes()[out];
    if (!list_.is_dead_after(v) || overlap(bytes, result_bytes)) return false;
    readers_.clear();
    bool redefined = false;
    for (std::uint32_t k = j + 1; k < nodes_.size() && !redefined; ++k) {
      if (!nodes_[k].is_dispatch || !nodes_[k].alive) continue;
      if (nodes_[k].opaque) return false;
      const Effect e = effect(k, bytes);
      if (e.by_hand) return false;
      if (e.reads) {
        if (e.writes || !reads_whole(nodes_[k], v, bytes)) return false;
        readers_.push_back(k);
      } else if (e.writes) {
        if (!e.covers) return false;
        redefined = true;
      }
    }
    if (readers_.empty()) return false;
    for (std::uint32_t k = j + 1; k <= readers_.back(); ++k) {
      if (nodes_[k].is_dispatch && nodes_[k].alive && effect(k, result_bytes).writes) return false;
    }
    for (const std::uint32_t k : readers_) {
      Dispatch& d = nodes_[k].d();
      for (std::size_t s = 0; s < d.n_views; ++s) {
        if (d.views[s] != v) continue;
        d.views[s] = result;
        nodes_[k].touches[s] = insert_touch(touch, k);
      }
      nodes_[k].changed = true;
      nodes_[k].made = none;  // a launch may depend on where its views begin
      set_bytes(*nodes_[k].work);
    }
    remove(j);
    return true;
  }

  // True when the dispatch touches the view's bytes only as exactly this view.
  static bool reads_whole(const Node& n, const View& v, const Range& bytes) {
    for (const std::size_t k : n.bytes().each()) {
      if (overlap(n.bytes()[k], bytes) && n.d().views[k] != v) return false;
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

  Status rewrite() const {
    std::vector<NodeList::Rewritten> nodes;
    nodes.reserve(nodes_.size());
    for (const Node& n : nodes_) {
      if (!n.alive) continue;
      nodes.push_back({n.source, n.changed ? &n.d() : nullptr});
      if (made_ != nullptr) made_->of_node.push_back(n.made);
    }
    return list_.rewrite(nodes);
  }

  struct Kept {
    const FusionRow* row;
    std::uint32_t first, second;
  };

  NodeList& list_;
  bool close_;
  std::span<const FusionRow> rows_;
  MadeLaunches* made_;  // null: nobody asks for them
  std::vector<Node> nodes_;
  std::vector<Touch> touches_;
  std::vector<std::uint32_t> last_touch_;      // per region, while loading
  std::vector<std::uint32_t> opaque_;          // nodes of unknown accesses, ascending
  std::shared_ptr<ScratchTable> conversions_;  // null: none was necessary
  std::vector<std::uint32_t> walls_;           // fences and those, ascending
  std::vector<Op> ops_;                        // of each node; custom: a caller's, none, or gone
  std::array<std::uint32_t, static_cast<std::size_t>(Op::count_)> counts_{};
  std::vector<Work> works_;          // never grows beyond what load reserved
  Work* fused_ = nullptr;            // what two dispatches would be as one
  MadeLaunches::Made fused_launch_;  // and what that launches
  std::vector<View> vanished_;
  std::vector<Kept> kept_;
  std::vector<std::uint32_t> readers_;
};

}  // namespace

Result<FuseReport> fuse(NodeList& list, bool close, std::span<const FusionRow> rows,
                        MadeLaunches* made) {
  return Fuser(list, close, rows, made).run();
}

}  // namespace onepass::graph
