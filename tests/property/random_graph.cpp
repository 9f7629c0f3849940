#include "property/random_graph.h"

#include <algorithm>
#include <bitset>
#include <optional>

namespace onepass::property {
namespace {

constexpr std::uint32_t float_alignment = 16;

class Generator {
 public:
  Generator(std::uint64_t seed, const GraphOptions& options) : options_(options), random_(seed) {
    graph_.seed = seed;
  }

  GraphSpec run() {
    add_buffers();
    const std::uint32_t n = random_.in(options_.min_ops, options_.max_ops);
    write_percent_ = random_.in(20, 70);
    while (n_dispatches_ < n) {
      if (random_.percent(options_.fence_percent)) add_order_point(OpType::fence);
      if (random_.percent(options_.barrier_percent)) add_order_point(OpType::barrier);
      if (random_.percent(options_.pair_percent)) {
        add_pair();
      } else {
        add_hash();
      }
    }
    mark_old_bytes();
    return std::move(graph_);
  }

 private:
  void add_buffer(Store store, std::uint32_t bytes, std::uint32_t base = 0) {
    const bool shares = store == Store::imported && base != 0;
    if (!shares) {
      defined_.emplace_back();
      if (store != Store::pool && store != Store::scratch) defined_.back().set();
    }
    const auto memory = static_cast<std::uint32_t>(defined_.size() - 1);
    graph_.buffers.push_back({store, bytes, memory, base});
    graph_.n_memories = memory + 1;
  }

  void add_buffers() {
    for (std::uint32_t i = 0; i < n_caller_buffers; ++i) {
      add_buffer(Store::caller, 32 * random_.in(2, 8));
    }
    add_buffer(Store::imported, 256);
    add_buffer(Store::imported, 256, import_base);
    add_buffer(Store::weights, 128);
    const auto first_own = static_cast<std::uint32_t>(graph_.buffers.size());
    if (options_.pool) {
      for (std::uint32_t i = random_.in(0, 2); i > 0; --i) {
        add_buffer(Store::pool, 32 * random_.in(2, 8));
      }
    }
    for (std::uint32_t i = random_.in(0, options_.max_scratch); i > 0; --i) {
      add_buffer(Store::scratch, 32 * random_.in(2, 6));
    }
    // Few buffers make many conflicts.
    const std::uint32_t used_callers = random_.in(1, n_caller_buffers);
    for (std::uint32_t b = 0; b < used_callers; ++b) active_.push_back(b);
    if (options_.imports && random_.percent(40)) {
      active_.push_back(n_caller_buffers);
      active_.push_back(n_caller_buffers + 1);
    }
    for (auto b = first_own; b < graph_.buffers.size(); ++b) active_.push_back(b);
    last_.resize(graph_.buffers.size());
  }

  void add_order_point(OpType type) { graph_.ops.emplace_back().type = type; }

  OpSpec& add_dispatch(OpType type) {
    OpSpec& op = graph_.ops.emplace_back();
    op.type = type;
    op.id = n_dispatches_++;
    return op;
  }

  Place random_place(std::uint32_t buffer) {
    const std::uint32_t size = graph_.buffers[buffer].bytes;
    const Place& last = last_[buffer];
    Place p{buffer, 0, size};
    switch (random_.in(0, 5)) {
      case 0:
        break;
      case 1: {  // cells of a fixed grid: equal or adjacent
        const std::uint32_t cell = size / 4;
        p.offset = random_.in(0, 3) * cell;
        p.bytes = cell;
        break;
      }
      case 2:  // directly behind the last one
        if (last.bytes != 0 && last.offset + last.bytes < size) {
          p.offset = last.offset + last.bytes;
          p.bytes = random_.in(1, size - p.offset);
        }
        break;
      case 3:  // directly in front of the last one
        if (last.bytes != 0 && last.offset > 0) {
          p.offset = random_.in(0, last.offset - 1);
          p.bytes = last.offset - p.offset;
        }
        break;
      case 4:  // inside the last one
        if (last.bytes > 1) {
          p.offset = last.offset + random_.in(0, last.bytes - 1);
          p.bytes = random_.in(1, last.offset + last.bytes - p.offset);
        }
        break;
      default:
        p.offset = random_.in(0, size - 1);
        p.bytes = random_.in(1, size - p.offset);
        break;
    }
    return p;
  }

  std::uint32_t random_buffer() {
    return active_[random_.in(0, static_cast<std::uint32_t>(active_.size()) - 1)];
  }

  bool is_defined(const Place& p) const {
    const auto& bits = defined_[graph_.buffers[p.buffer].memory];
    const std::uint32_t lo = graph_.first_byte(p);
    for (std::uint32_t b = lo; b < lo + p.bytes; ++b) {
      if (!bits[b]) return false;
    }
    return true;
  }

  void define(const Place& p) {
    auto& bits = defined_[graph_.buffers[p.buffer].memory];
    const std::uint32_t lo = graph_.first_byte(p);
    for (std::uint32_t b = lo; b < lo + p.bytes; ++b) bits.set(b);
    last_[p.buffer] = p;
  }

  Place readable_place() {
    for (int tries = 0; tries < 6; ++tries) {
      const Place p = random_place(random_buffer());
      if (is_defined(p)) return p;
    }
    return random_place(0);
  }

  void add_hash() {
    OpSpec& op = add_dispatch(OpType::hash);
    const std::uint32_t n_reads = random_.in(0, 2);
    for (std::uint32_t i = 0; i < n_reads; ++i) op.add(readable_place(), Access::read);
    if (random_.percent(write_percent_) || n_reads == 0) {
      const std::uint32_t n_writes = random_.percent(15) ? 2 : 1;
      for (std::uint32_t i = 0; i < n_writes; ++i) add_output(op);
    }
    finish_hash(op);
  }

  void add_output(OpSpec& op) {
    if (random_.percent(25)) {
      op.add(readable_place(), Access::read_write);  // in place
    } else {
      op.add(random_place(random_buffer()), Access::write);
    }
  }

  void finish_hash(OpSpec& op) {
    op.declare = static_cast<Declare>(random_.in(0, 2));
    bool apart = true;
    for (std::uint32_t i = 0; i < op.n; ++i) {
      if (op.access[i] == Access::read_write) apart = false;
      for (std::uint32_t k = 0; k < op.n; ++k) {
        const bool writes_other = i != k && writes(op.access[i]);
        if (writes_other && graph_.overlap(op.places[i], op.places[k])) apart = false;
      }
      if (writes(op.access[i])) define(op.places[i]);
    }
    if (apart) op.tiles = random_.in(1, 3);
  }

  void hash_reading(const Place& p) {
    OpSpec& op = add_dispatch(OpType::hash);
    op.add(p, Access::read);
    op.add(random_place(random_buffer()), Access::write);
    finish_hash(op);
  }

  void hash_writing(const Place& p) {
    OpSpec& op = add_dispatch(OpType::hash);
    if (random_.percent(50)) op.add(readable_place(), Access::read);
    op.add(p, Access::write);
    finish_hash(op);
  }

  // Floats: aligned in the reference's memory, too.
  std::optional<Place> float_place(std::uint32_t buffer, std::uint32_t bytes) {
    const std::uint32_t size = graph_.buffers[buffer].bytes;
    if (size < bytes) return std::nullopt;
    const std::uint32_t cells = (size - bytes) / float_alignment;
    return Place{buffer, random_.in(0, cells) * float_alignment, bytes};
  }

  // Different places that share bytes, or one of them through two imports.
  bool clashes(const Place& a, const Place& b) const { return a != b && graph_.overlap(a, b); }

  std::optional<Place> float_place_of(Store store, std::uint32_t bytes, bool readable) {
    for (int tries = 0; tries < 8; ++tries) {
      const std::uint32_t buffer = random_buffer();
      if (graph_.buffers[buffer].store != store) continue;
      const auto p = float_place(buffer, bytes);
      if (p && (!readable || is_defined(*p))) return p;
    }
    return std::nullopt;
  }

  Place readable_floats(std::uint32_t bytes) {
    for (int tries = 0; tries < 8; ++tries) {
      const auto p = float_place(random_buffer(), bytes);
      if (p && is_defined(*p)) return *p;
    }
    return *float_place(0, bytes);
  }

  Place writable_floats(std::uint32_t bytes) {
    for (int tries = 0; tries < 8; ++tries) {
      if (const auto p = float_place(random_buffer(), bytes)) return *p;
    }
    return *float_place(0, bytes);
  }

  // What a fusion may and may not take: see the switch statements.
  void add_pair() {
    const std::uint32_t rows = random_.in(1, 2), dim = random_.percent(50) ? 8 : 4;
    const std::uint32_t bytes = rows * dim * 4;
    std::optional<Place> inter;
    bool discarded = false;
    const std::uint32_t where = random_.in(0, 9);
    if (where < 6) inter = float_place_of(Store::scratch, bytes, false);
    if (!inter && where < 8) {
      const Store store = random_.percent(50)   ? Store::caller
                          : random_.percent(50) ? Store::imported
                                                : Store::pool;
      inter = float_place_of(store, bytes, false);
      discarded = inter.has_value();
    }
    if (!inter) inter = writable_floats(bytes);
    if (discarded) discard_around(*inter);

    Place x = readable_floats(bytes);
    for (int tries = 0; tries < 8 && clashes(x, *inter); ++tries) x = readable_floats(bytes);
    if (clashes(x, *inter)) return;
    const Place weight{weights_buffer, random_.in(0, (128 - dim * 4) / 16) * 16, dim * 4};
    OpSpec& norm = add_dispatch(OpType::rms_norm);
    norm.rows = rows;
    norm.add(x, Access::read);
    norm.add(weight, Access::read);
    norm.add(*inter, Access::write);
    define(*inter);

    switch (random_.in(0, 9)) {  // between the two
      case 0:
        add_hash();
        break;
      case 1:
        if (options_.fence_percent > 0) add_order_point(OpType::fence);
        break;
      case 2:
        if (!graph_.is_immutable(x) && !graph_.overlap(x, *inter)) hash_writing(x);
        break;
      case 3:
        hash_reading(part_of(*inter));
        break;
      case 4:
        hash_writing(part_of(*inter));
        break;
      case 5:
        if (options_.barrier_percent > 0) add_order_point(OpType::barrier);
        break;
      default:
        break;
    }
    if (random_.percent(90)) add_product(*inter, x, rows, dim);
    switch (random_.in(0, 5)) {  // behind them
      case 0:
        hash_reading(part_of(*inter));
        break;
      case 1:
        hash_writing(*inter);
        hash_reading(*inter);
        break;
      case 2:
        hash_writing(part_of(*inter));
        break;
      default:
        break;
    }
  }

  void add_product(const Place& inter, const Place& x, std::uint32_t rows, std::uint32_t dim) {
    Place normed = inter;
    if (rows == 2 && random_.percent(10)) {  // through a view
      normed.bytes /= 2;
      if (random_.percent(50)) normed.offset += normed.bytes;
    }
    Place scale = readable_floats(normed.bytes);
    if (random_.percent(5)) scale = normed;  // read twice
    Place out;
    switch (random_.in(0, 4)) {
      case 0:
        out = normed;  // in place
        break;
      case 1:
        out = scale;
        break;
      case 2:
        out = x.bytes == normed.bytes ? x : writable_floats(normed.bytes);
        break;
      default:
        out = writable_floats(normed.bytes);
        break;
    }
    if (clashes(out, normed) || clashes(out, scale)) return;
    OpSpec& mul = add_dispatch(OpType::mul);
    mul.rows = normed.bytes / (dim * 4);
    const bool left = random_.percent(50);
    mul.add(left ? normed : scale, Access::read);
    mul.add(left ? scale : normed, Access::read);
    mul.add(out, Access::write);
    define(out);
  }

  Place part_of(const Place& p) {
    if (random_.percent(40)) return p;
    const std::uint32_t at = random_.in(0, p.bytes - 1);
    return {p.buffer, p.offset + at, random_.in(1, p.bytes - at)};
  }

  void discard_around(Place p) {
    if (random_.percent(30)) {
      p.offset -= std::min(p.offset, float_alignment);
      p.bytes = std::min(p.bytes + 2 * float_alignment, graph_.buffers[p.buffer].bytes - p.offset);
    }
    graph_.discards.push_back(p);
  }

  // Old bytes say whether two writes changed places; they are defined where every write happens.
  void mark_old_bytes() {
    for (OpSpec& op : graph_.ops) {
      if (op.type != OpType::hash || op.tiles > 1) continue;
      for (std::uint32_t i = 0; i < op.n; ++i) {
        const Store store = graph_.buffers[op.places[i].buffer].store;
        const bool kept = store == Store::caller || store == Store::imported;
        const bool discarded =
            std::any_of(graph_.discards.begin(), graph_.discards.end(),
                        [&](const Place& d) { return graph_.same_memory(d, op.places[i]); });
        if (writes(op.access[i]) && kept && !discarded) op.old_mask |= 1u << i;
      }
    }
  }

  const GraphOptions options_;
  Random random_;
  GraphSpec graph_;
  std::vector<std::bitset<memory_bytes>> defined_;  // per memory
  std::vector<std::uint32_t> active_;
  std::vector<Place> last_;  // per buffer, the last range written
  std::uint32_t n_dispatches_ = 0;
  std::uint32_t write_percent_ = 50;
};

}  // namespace

GraphSpec random_graph(std::uint64_t seed, const GraphOptions& options) {
  return Generator(seed, options).run();
}

}  // namespace onepass::property
