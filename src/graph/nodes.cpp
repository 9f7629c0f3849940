#include "graph/nodes.h"

#include <algorithm>
#include <cstring>

#include "core/guarded.h"

namespace onepass {

std::shared_ptr<ScratchTable> ScratchTable::create(std::shared_ptr<const void> labels) {
  static std::atomic<std::uint32_t> next_tag{1};
  auto table = std::make_shared<ScratchTable>();
  table->labels = std::move(labels);
  do {
    table->tag = next_tag.fetch_add(1, std::memory_order_relaxed);
  } while (table->tag == 0);
  return table;
}

const char* dispatch_name(const DeviceState& device, Op op, KernelId kernel) noexcept {
  if (op != Op::custom) return info(op).name;
  const KernelEntry* e = device.find_kernel(kernel);
  return e ? e->name.c_str() : "unknown kernel";
}

NodeList::NodeList(std::shared_ptr<DeviceState> device) : device_(std::move(device)) {}

NodeList::~NodeList() {
  for (const BufferId id : retained_) device_->release(id);
}

void NodeList::clear() noexcept {
  for (const BufferId id : retained_) {
    locals_[id.index].generation = 0;
    device_->release(id);
  }
  retained_.clear();
  nodes_.clear();
  views_.clear();
  access_.clear();
  params_.clear();
  ranges_.clear();
  grids_.clear();
  extras_.clear();
  regions_.clear();
  tables_.clear();
  scratch_.clear();
  discarded_.clear();
  host_region_ = ~0u;
  dispatches_ = 0;
}

std::vector<BufferId> NodeList::take_retained() noexcept {
  for (const BufferId id : retained_) locals_[id.index].generation = 0;
  return std::exchange(retained_, {});
}

void NodeList::restore_retained(std::vector<BufferId> ids) noexcept {
  retained_ = std::move(ids);
  for (const BufferId id : retained_) locals_[id.index].generation = id.generation;
}

std::vector<BufferId> NodeList::buffers() const {
  std::vector<std::uint8_t> named(regions_.size(), 0);
  for (std::uint32_t i = 0; i < size(); ++i) {
    for (const View& v : views(i)) {
      if (v.buffer) named[region_of(v)] = 1;
    }
    for (const graph::Range& r : ranges(i)) named[r.region] = 1;
  }
  std::vector<BufferId> out;
  for (const BufferId id : retained_) {
    if (named[locals_[id.index].at.region] != 0) out.push_back(id);
  }
  return out;
}

void NodeList::add_table(const std::shared_ptr<ScratchTable>& table) {
  for (const auto& t : tables_) {
    if (t == table) return;
  }
  tables_.reserve(tables_.size() + 1);
  scratch_.emplace_back();
  tables_.push_back(table);
}

Result<View> NodeList::add_scratch(ScratchTable& table, std::uint64_t bytes) {
  const auto item = static_cast<std::uint32_t>(table.items.size());
  table.items.push_back({bytes, nullptr, 0});
  const View view{BufferId{scratch_bit | item, table.tag}, 0, bytes};
  ONEPASS_TRY(resolve(view.buffer));
  return view;
}

const NodeList::Resolved* NodeList::known(BufferId id) const noexcept {
  if ((id.index & scratch_bit) == 0) {
    const bool is_known =
        id && id.index < locals_.size() && locals_[id.index].generation == id.generation;
    return is_known ? &locals_[id.index].at : nullptr;
  }
  const std::uint32_t item = id.index & ~scratch_bit;
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    if (tables_[t]->tag != id.generation) continue;
    const bool is_known = item < scratch_[t].size() && scratch_[t][item].region != ~0u;
    return is_known ? &scratch_[t][item] : nullptr;
  }
  return nullptr;
}

const NodeList::Resolved& NodeList::place_of(const View& view) const noexcept {
  static constexpr Resolved nowhere;
  if ((view.buffer.index & scratch_bit) == 0) return locals_[view.buffer.index].at;
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    if (tables_[t]->tag == view.buffer.generation) {
      return scratch_[t][view.buffer.index & ~scratch_bit];
    }
  }
  return nowhere;
}

Result<NodeList::Resolved> NodeList::add_buffer(BufferId id) {
  // Room first: what is retained below must be noted.
  if (retained_.size() == retained_.capacity()) {
    retained_.reserve(std::max<std::size_t>(64, 2 * retained_.size()));
  }
  if (regions_.size() == regions_.capacity()) {
    regions_.reserve(std::max<std::size_t>(64, 2 * regions_.size()));
  }
  if (id.index >= (1u << 20)) return fail(ErrorCode::stale, "the view names no buffer");
  if (id.index >= locals_.size()) locals_.resize(std::max<std::size_t>(64, id.index * 3 / 2 + 1));
  if (!id) return fail(ErrorCode::invalid_argument, "the view names no buffer");
  if (!device_->retain(id)) {
    return fail(ErrorCode::stale, "buffer " + std::to_string(id.index) + " was freed");
  }
  retained_.push_back(id);
  const BufferFacts facts = device_->facts(id);
  Resolved at{static_cast<std::uint32_t>(regions_.size()), facts.immutable, facts.region_base,
              facts.bytes};
  if (facts.region != 0) {
    regions_.push_back(Region{id, facts.region});
  } else {  // imported host memory shares one region
    if (host_region_ == ~0u) {
      host_region_ = at.region;
      regions_.push_back(Region{});
    }
    at.region = host_region_;
  }
  locals_[id.index] = Local{id.generation, at};
  return at;
}

Result<NodeList::Resolved> NodeList::resolve(BufferId id) {
  if (const Resolved* const place = known(id)) return *place;
  if ((id.index & scratch_bit) == 0) return add_buffer(id);
  const std::uint32_t item = id.index & ~scratch_bit;
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    if (tables_[t]->tag != id.generation || item >= tables_[t]->items.size()) continue;
    std::vector<Resolved>& places = scratch_[t];
    if (places.size() <= item) places.resize(std::max<std::size_t>(item + 1, places.size() * 2));
    regions_.push_back(Region{id, 0, static_cast<std::uint32_t>(t), item});
    places[item].region = static_cast<std::uint32_t>(regions_.size() - 1);
    places[item].bytes = tables_[t]->items[item].bytes;
    return places[item];
  }
  return fail(ErrorCode::stale, "scratch of another session");
}

NodeList::Mark NodeList::mark() const noexcept {
  return {nodes_.size(),  views_.size(), access_.size(), params_.size(),
          ranges_.size(), grids_.size(), extras_.size()};
}

void NodeList::rollback(const Mark& m) noexcept {
  nodes_.truncate(m.nodes);
  views_.truncate(m.views);
  access_.truncate(m.access);
  params_.truncate(m.params);
  ranges_.truncate(m.ranges);
  grids_.truncate(m.grids);
  extras_.resize(m.extras);
}

Error NodeList::view_error(const Dispatch& d, std::size_t i, const Resolved& r) const {
  const View& v = d.views[i];
  std::string text =
      std::string(dispatch_name(*device_, d.op, d.kernel)) + ": view " + std::to_string(i);
  if (v.offset > r.bytes || v.bytes > r.bytes - v.offset) {
    text += " is bytes [" + std::to_string(v.offset) + ", +" + std::to_string(v.bytes) +
            ") of a buffer of " + std::to_string(r.bytes);
  } else {
    text += " is written, but its buffer is immutable";
  }
  return make_error(ErrorCode::invalid_argument, std::move(text), d.file, d.line);
}

Status NodeList::add_range(const MemRange& m, bool write) {
  ONEPASS_ASSIGN(const Resolved r, resolve(m.buffer));
  if (m.start > m.end || m.end > r.bytes) {
    return fail(ErrorCode::invalid_argument, "range [" + std::to_string(m.start) + ", " +
                                                 std::to_string(m.end) + ") of a buffer of " +
                                                 std::to_string(r.bytes) + " bytes");
  }
  if (r.immutable && write) {
    return fail(ErrorCode::invalid_argument, "a declared write to an immutable buffer");
  }
  if (m.start < m.end && !r.immutable) {
    ranges_.push_back(graph::Range{r.base + m.start, r.base + m.end, r.region, write});
  }
  return {};
}

namespace {

Status check_extra(const char* name, const Dispatch& d) {
  std::vector<std::uint32_t> slots(d.extra->slots.begin(), d.extra->slots.begin() + d.n_views);
  std::vector<std::uint32_t> shared;
  for (const DispatchExtra::Block& block : d.extra->blocks) {
    slots.push_back(block.slot);
    if (block.bytes.size() > max_block_bytes) {
      return fail(ErrorCode::limit,
                  std::string(name) + ": " + std::to_string(block.bytes.size()) +
                      " inline bytes in slot " + std::to_string(block.slot) + ", at most " +
                      std::to_string(max_block_bytes),
                  d.file, d.line);
    }
  }
  for (const DispatchExtra::Shared& s : d.extra->shared) shared.push_back(s.slot);
  for (std::vector<std::uint32_t>* list : {&slots, &shared}) {
    std::sort(list->begin(), list->end());
    if (!list->empty() && list->back() >= max_kernel_slots) {
      return fail(ErrorCode::invalid_argument,
                  std::string(name) + ": slot " + std::to_string(list->back()) +
                      ", expected 0 to " + std::to_string(max_kernel_slots - 1),
                  d.file, d.line);
    }
    const auto twice = std::adjacent_find(list->begin(), list->end());
    if (twice != list->end()) {
      return fail(ErrorCode::invalid_argument,
                  std::string(name) + ": slot " + std::to_string(*twice) + " is bound twice",
                  d.file, d.line);
    }
  }
  return {};
}

}  // namespace

Status NodeList::append(const Dispatch& d, std::optional<CapturedOpKind> kind,
                        std::span<const MemRange> reads_, std::span<const MemRange> writes_,
                        bool ranges_follow) {
  const char* slots = nullptr;
  std::uint32_t n_slots = 0, params_bytes = 0;
  CapturedOpKind own_kind = CapturedOpKind::other;
  if (d.op < Op::count_) {
    const OpInfo& op = info(d.op);
    slots = op.slots;
    n_slots = op.n_slots;
    params_bytes = op.params_bytes;
    own_kind = op.captured;
  } else {
    const KernelEntry* e = d.op == Op::custom ? device_->find_kernel(d.kernel) : nullptr;
    if (e == nullptr) {
      return fail(ErrorCode::not_found, "the dispatch names no kernel of this device", d.file,
                  d.line);
    }
    own_kind = e->row.kind;
    n_slots = d.n_views;
    params_bytes = d.params_bytes;
    if (!e->slots.empty()) {
      slots = e->slots.c_str();
      n_slots = static_cast<std::uint32_t>(e->slots.size());
      params_bytes = e->builtin || e->params_bytes != 0 ? e->params_bytes : d.params_bytes;
    }
  }
  const bool ends_early = d.n_views < n_slots;
  if (d.n_views > max_views || d.n_views > n_slots || (ends_early && info(d.op).forms == 0) ||
      d.params_bytes != params_bytes) {
    return fail(ErrorCode::invalid_argument,
                std::string(dispatch_name(*device_, d.op, d.kernel)) + ": " +
                    std::to_string(d.n_views) + " views and " + std::to_string(d.params_bytes) +
                    " bytes of parameters, expected " + std::to_string(n_slots) + " and " +
                    std::to_string(params_bytes),
                d.file, d.line);
  }
  if (d.op == Op::custom && d.extra != nullptr) {
    ONEPASS_TRY(check_extra(dispatch_name(*device_, d.op, d.kernel), d));
  }
  // Access: the kernel's declaration, else the ranges passed, else every view both ways.
  const bool passed = ranges_follow || (slots == nullptr && (!reads_.empty() || !writes_.empty()));
  const Mark m = mark();
  try {
    if (Status ok = append_ranges(d, slots, passed); !ok) {
      rollback(m);
      return ok;
    }
    if (passed && !ranges_follow) {
      for (const bool write : {false, true}) {
        for (const MemRange& range : write ? writes_ : reads_) {
          if (Status ok = add_range(range, write); !ok) {
            rollback(m);
            return ok;
          }
        }
      }
    }
    const std::size_t steps = (d.params_bytes + 15u) / 16u;
    if (steps != 0) std::memcpy(params_.room(steps)->bytes, d.params.data(), steps * 16);
    params_.commit(steps);
    if (d.op == Op::custom) {
      grids_.push_back(d.grid);
      if (d.extra != nullptr) extras_.push_back(std::make_shared<const DispatchExtra>(*d.extra));
    }
    const bool has_extra = d.op == Op::custom && d.extra != nullptr;
    new (nodes_.room(1)) StoredNode{
        .op_kind = kind.value_or(own_kind),
        .assumed = slots == nullptr && !passed,
        .n_views = d.n_views,
        .op = d.op,
        .format = d.format,
        .input = d.input,
        .params_bytes = d.params_bytes,
        .kernel = d.kernel,
        .line = d.line,
        .label = d.label != nullptr ? d.label : default_label,
        .group = d.group != nullptr ? d.group : default_group,
        .file = d.file,
        .first_view = static_cast<std::uint32_t>(m.views),
        .first_param = static_cast<std::uint32_t>(m.params),
        .first_range = static_cast<std::uint32_t>(m.ranges),
        .n_ranges = static_cast<std::uint32_t>(ranges_.size() - m.ranges),
        .grid = static_cast<std::uint32_t>(m.grids),
        .extra = has_extra ? static_cast<std::uint32_t>(m.extras) : ~0u,
    };
    nodes_.commit(1);
  } catch (...) {
    rollback(m);
    throw;
  }
  ++dispatches_;
  return {};
}

// Ranges of the views, straight from the table of buffers already used by this list.
Status NodeList::append_ranges(const Dispatch& d, const char* slots, bool passed) {
  graph::Range* out = ranges_.room(d.n_views);
  View* const views = views_.room(d.n_views);
  std::memcpy(static_cast<void*>(access_.room(max_views)), d.access.data(), max_views);
  Resolved added;
  for (std::size_t i = 0; i < d.n_views; ++i) {
    const View& v = d.views[i];
    views[i] = v;
    if (v.bytes == 0 && !v.buffer) continue;  // an optional operand that is not there
    const Resolved* place = known(v.buffer);
    if (place == nullptr) {
      Result<Resolved> resolved = resolve(v.buffer);
      if (!resolved) {
        return fail(resolved.error().code,
                    std::string(dispatch_name(*device_, d.op, d.kernel)) + ": view " +
                        std::to_string(i) + ": " + resolved.error().message,
                    d.file, d.line);
      }
      added = *resolved;
      place = &added;
    }
    const Resolved& r = *place;
    const Access a = passed             ? Access::none
                     : slots == nullptr ? d.access[i]
                     : slots[i] == 'i'  ? Access::read
                     : slots[i] == 'o'  ? Access::write
                                        : Access::read_write;
    if (v.offset > r.bytes || v.bytes > r.bytes - v.offset || (r.immutable && writes(a))) {
      return view_error(d, i, r);
    }
    if (r.immutable || v.bytes == 0 || a == Access::none) continue;
    // A range that is read and written counts once, as a write, which orders at least as much.
    *out++ = graph::Range{r.base + v.offset, r.base + v.offset + v.bytes, r.region, writes(a)};
  }
  views_.commit(d.n_views);
  access_.commit(d.n_views);
  ranges_.commit(static_cast<std::size_t>(out - ranges_.data()) - ranges_.size());
  return {};
}

void NodeList::append_mark(CapturedNode::Kind kind) {
  StoredNode n;
  n.kind = kind;
  nodes_.push_back(n);
}
void NodeList::append_barrier() { append_mark(CapturedNode::Kind::barrier); }
void NodeList::append_fence() { append_mark(CapturedNode::Kind::fence); }

void NodeList::insert_barrier_before_last() {
  StoredNode barrier;
  barrier.kind = CapturedNode::Kind::barrier;
  const StoredNode last = nodes_.back();
  nodes_.push_back(last);
  nodes_[nodes_.size() - 2] = barrier;
}

Status NodeList::append_copy(const NodeList& other, std::uint32_t i) {
  const StoredNode& n = other.nodes_[i];
  if (n.kind != CapturedNode::Kind::dispatch) {
    n.kind == CapturedNode::Kind::barrier ? append_barrier() : append_fence();
    return {};
  }
  for (const auto& table : other.tables_) add_table(table);
  const Dispatch d = other.dispatch(i);
  const Mark m = mark();
  // The other list's ranges count: they may have been given by hand.
  ONEPASS_TRY(append(d, n.op_kind, {}, {}, true));
  StoredNode& copy = nodes_.back();
  copy.opaque = n.opaque;
  copy.assumed = n.assumed;
  for (const graph::Range& r : other.ranges(i)) {
    if (Status ok = add_range(other.describe(r), r.write); !ok) {
      rollback(m);
      --dispatches_;
      return ok;
    }
  }
  copy.n_ranges = static_cast<std::uint32_t>(ranges_.size() - m.ranges);
  return {};
}

Status NodeList::append_node(const CapturedNode& node) {
  if (node.kind == CapturedNode::Kind::barrier) {
    append_barrier();
    return {};
  }
  if (node.kind == CapturedNode::Kind::fence) {
    append_fence();
    return {};
  }
  Dispatch d = node.dispatch;
  d.extra = node.extra.get();
  if (node.memory) {
    if (node.memory->device != device_) {
      return fail(ErrorCode::invalid_argument, "record: the node belongs to another device");
    }
    for (const auto& table : node.memory->tables) add_table(table);
  }
  const std::size_t before = ranges_.size();
  ONEPASS_TRY(append(d, node.op_kind, node.reads, node.writes));
  if (nodes_.back().assumed) {
    ranges_.truncate(before);
    nodes_.back().n_ranges = 0;
    nodes_.back().opaque = true;
    nodes_.back().assumed = false;
  }
  return {};
}

Status NodeList::annotate_last(std::span<const MemRange> reads_,
                               std::span<const MemRange> writes_) {
  if (nodes_.empty() || !is_dispatch(size() - 1)) return {};
  StoredNode& n = nodes_.back();
  const bool declared = n.op != Op::custom || !device_->find_kernel(n.kernel)->slots.empty();
  if (declared || (reads_.empty() && writes_.empty())) return {};
  // What was assumed for want of anything better gives way; what was passed stays.
  if (n.assumed) {
    ranges_.truncate(n.first_range);
    n.n_ranges = 0;
    n.assumed = false;
  }
  n.opaque = false;
  bool has_reads = false, has_writes = false;
  for (const graph::Range& r : ranges(size() - 1)) (r.write ? has_writes : has_reads) = true;
  const std::size_t before = ranges_.size();
  if (!has_reads) {
    for (const MemRange& r : reads_) ONEPASS_TRY(add_range(r, false));
  }
  if (!has_writes) {
    for (const MemRange& r : writes_) ONEPASS_TRY(add_range(r, true));
  }
  n.n_ranges += static_cast<std::uint32_t>(ranges_.size() - before);
  return {};
}

void NodeList::drop_barriers() noexcept {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].kind != CapturedNode::Kind::barrier) nodes_[kept++] = nodes_[i];
  }
  nodes_.truncate(kept);
}

void NodeList::permute(std::span<const std::uint32_t> order) {
  Tape<StoredNode> next;
  next.room(order.size());
  for (const std::uint32_t i : order) next.push_back(nodes_[i]);
  nodes_ = std::move(next);
}

Status NodeList::rewrite(std::span<const Rewritten> nodes) {
  // What is appended on the way stands nowhere until the end.
  struct Undo {
    NodeList& list;
    const Mark mark;
    const std::size_t dispatches;
    bool is_due = true;
    ~Undo() {
      if (!is_due) return;
      list.rollback(mark);
      list.dispatches_ = dispatches;
    }
  } undo{*this, mark(), dispatches_};
  default_label = default_group = nullptr;
  Tape<StoredNode> next;
  next.room(nodes.size());
  std::size_t dispatches = 0;
  for (const Rewritten& n : nodes) {
    if (n.dispatch != nullptr) ONEPASS_TRY(append(*n.dispatch, std::nullopt, {}, {}));
    next.push_back(n.dispatch != nullptr ? nodes_.back() : nodes_[n.source]);
    dispatches += next.back().kind == CapturedNode::Kind::dispatch ? 1 : 0;
  }
  undo.is_due = false;
  nodes_ = std::move(next);
  dispatches_ = dispatches;
  return {};
}

void NodeList::read(std::uint32_t i, Dispatch& d) const noexcept {
  const StoredNode& n = nodes_[i];
  d.op = n.op;
  d.format = n.format;
  d.input = n.input;
  d.n_views = n.n_views;
  d.params_bytes = n.params_bytes;
  d.kernel = n.kernel;
  d.label = n.label;
  d.group = n.group;
  d.file = n.file;
  d.line = n.line;
  if (n.op == Op::custom) d.grid = grids_[n.grid];
  d.extra = extra(i);
  std::copy_n(access_.data() + n.first_view, n.n_views, d.access.begin());
  std::copy_n(views_.data() + n.first_view, n.n_views, d.views.begin());
  if (n.params_bytes != 0) {
    std::memcpy(d.params.data(), params_.data() + n.first_param, n.params_bytes);
  }
}

MemRange NodeList::describe(const graph::Range& r) const noexcept {
  const Region& region = regions_[r.region];
  if (region.buffer) return MemRange{region.buffer, r.lo, r.hi};
  // Host memory: any imported buffer that holds the range.
  for (const BufferId id : retained_) {
    const Resolved& l = locals_[id.index].at;
    if (l.region == r.region && r.lo >= l.base && r.hi <= l.base + l.bytes) {
      return MemRange{id, r.lo - l.base, r.hi - l.base};
    }
  }
  return MemRange{{}, r.lo, r.hi};
}

CapturedNode NodeList::captured(std::uint32_t i) const {
  CapturedNode c;
  c.kind = nodes_[i].kind;
  if (c.kind != CapturedNode::Kind::dispatch) return c;
  c.dispatch = dispatch(i);
  c.op_kind = nodes_[i].op_kind;
  if (nodes_[i].extra != ~0u) c.extra = extras_[nodes_[i].extra];
  c.dispatch.extra = c.extra.get();
  for (const graph::Range& r : ranges(i)) (r.write ? c.writes : c.reads).push_back(describe(r));

  auto memory = std::make_shared<NodeMemory>();
  memory->device = device_;
  memory->tables = tables_;
  const auto keep = [&](BufferId id) {
    if (!id || (id.index & scratch_bit) != 0) return;
    const auto same = [id](const Buffer& b) { return b.id() == id; };
    if (std::any_of(memory->buffers.begin(), memory->buffers.end(), same)) return;
    if (device_->retain(id))
      memory->buffers.push_back(device_->adopt(id, locals_[id.index].at.bytes));
  };
  for (const View& v : views(i)) keep(v.buffer);
  for (const MemRange& r : c.reads) keep(r.buffer);
  for (const MemRange& r : c.writes) keep(r.buffer);
  c.memory = std::move(memory);
  return c;
}

BoundView NodeList::bind(const View& view) const noexcept {
  if (!view.buffer) return {};
  if ((view.buffer.index & scratch_bit) == 0) {
    const BufferFacts facts = device_->facts(view.buffer);
    return BoundView{facts.memory, view.offset, view.bytes};
  }
  const Region& region = regions_[region_of(view)];
  const ScratchTable::Item& item = tables_[region.table]->items[region.item];
  return BoundView{item.block->memory(), item.offset + view.offset, view.bytes};
}

PhysicalRange NodeList::physical(const graph::Range& r) const noexcept {
  const Region& region = regions_[r.region];
  if (!region.is_scratch()) return PhysicalRange{region.physical, r.lo, r.hi, r.write};
  const ScratchTable::Item& item = tables_[region.table]->items[region.item];
  return PhysicalRange{item.block->region(), item.offset + r.lo, item.offset + r.hi, r.write};
}

bool NodeList::is_immutable(const View& view) const noexcept { return place_of(view).immutable; }

void NodeList::discard(const MemRange& range) { discarded_.push_back(range); }

bool NodeList::is_dead_after(const View& view) const noexcept {
  if ((view.buffer.index & scratch_bit) != 0) return true;
  return std::any_of(discarded_.begin(), discarded_.end(), [&](const MemRange& d) {
    return d.buffer == view.buffer && d.start <= view.offset && view.offset + view.bytes <= d.end;
  });
}

NodeList::ProgramStorage NodeList::program() const {
  ProgramStorage p;
  p.kinds.reserve(nodes_.size());
  p.nodes.reserve(nodes_.size());
  p.range_offsets.reserve(nodes_.size() + 1);
  p.ranges.reserve(ranges_.size());
  p.range_offsets.push_back(0);
  for (std::uint32_t i = 0; i < size(); ++i) {
    const StoredNode& n = nodes_[i];
    if (n.kind == CapturedNode::Kind::barrier) continue;
    p.kinds.push_back(n.kind == CapturedNode::Kind::fence ? graph::NodeKind::fence
                      : n.opaque                          ? graph::NodeKind::opaque
                                                          : graph::NodeKind::dispatch);
    p.nodes.push_back(i);
    const auto r = ranges(i);
    p.ranges.insert(p.ranges.end(), r.begin(), r.end());
    p.range_offsets.push_back(static_cast<std::uint32_t>(p.ranges.size()));
  }
  p.n_regions = static_cast<std::uint32_t>(regions_.size());
  return p;
}

std::size_t NodeList::unannotated_count() const noexcept {
  return static_cast<std::size_t>(
      std::count_if(nodes_.begin(), nodes_.end(), [](const StoredNode& n) { return n.opaque; }));
}

}  // namespace onepass
