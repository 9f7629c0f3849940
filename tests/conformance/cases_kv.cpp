#include "conformance/cache.h"
#include "conformance/reference.h"

namespace onepass::conformance {
namespace {

struct KvCase {
  DType type = DType::f32;
  CacheKind kind = CacheKind::linear;
  std::uint32_t rows = 1, n_rows = 1, kv_heads = 1, head_dim = 8, slots = 1, capacity = 4;
  bool strays = false;  // rows outside the cache, which are not stored
  std::size_t variant = 0;
};

// Replaces one row of head_dim values.
void store_row(DType type, const Doubles& values, std::size_t row, Expect& e,
               std::vector<bool>& touched) {
  const std::size_t dim = values.size();
  touched[row] = true;
  if (e.exact) {
    const Bytes bytes = store(type, values).bytes;
    std::copy(bytes.begin(), bytes.end(),
              e.exact->begin() + static_cast<std::ptrdiff_t>(row * bytes.size()));
    return;
  }
  // q8_0: half a step, and the step itself is rounded to f16.
  for (std::size_t begin = 0; begin < dim; begin += 32) {
    double top = 0.0;
    for (std::size_t i = begin; i < begin + 32; ++i) top = std::max(top, std::abs(values[i]));
    for (std::size_t i = begin; i < begin + 32; ++i) {
      e.want[row * dim + i] = values[i];
      e.bound[row * dim + i] =
          top / 127.0 * 0.50002 + 127.0 * store_error(DType::f16, top / 127.0) * 1.001;
    }
  }
}

Case kv_case(const KvCase& c) {
  std::string text = label("kv_store ", name(c.type), name(c.kind), " rows", c.rows, " n", c.n_rows,
                           " heads", c.kv_heads, " dim", c.head_dim, " slots", c.slots, " capacity",
                           c.capacity, " view+", odd_offset(c.type, c.variant));
  if (c.strays) text += " strays";
  const auto prepare = [=](std::optional<std::uint32_t>) {
    Random random(text);
    Cache cache{c.kind, c.slots, c.kv_heads, c.capacity, c.head_dim};
    if (c.kind == CacheKind::paged) deal_pages(cache, c.slots, c.capacity / 256, random);
    const Shape shape{c.rows, c.kv_heads, c.head_dim};
    const Stored x = random_values(random, DType::f32, shape.elements(), 3.0);
    Bytes before(storage_bytes(c.type, cache.shape()).value_or(0));
    for (std::byte& b : before) b = static_cast<std::byte>(random.next());
    std::vector<StepSlot> slots;
    for (std::uint32_t i = 0; i < c.slots; ++i) {
      slots.push_back({c.capacity, c.kind == CacheKind::paged ? cache.offsets[i] : 0, 0, 0});
    }
    // No two rows share a place. A ring's positions may be anywhere.
    std::set<std::size_t> places;
    std::vector<StepRow> rows(c.rows);
    for (StepRow& row : rows) {
      for (bool found = false; !found;) {
        row.slot = random.below(c.slots + (c.strays && c.kind == CacheKind::linear ? 1 : 0));
        row.position = random.below(c.kind == CacheKind::ring ? 5 * c.capacity
                                                              : c.capacity + (c.strays ? 2 : 0));
        if (row.slot >= c.slots) break;
        const auto place = cache.row(row.slot, 0, row.position);
        found = !place || places.insert(*place).second;
      }
    }
    Prepared p;
    p.add(input(DType::f32, shape, x.bytes, odd_offset(DType::f32, c.variant + 1)));
    p.add(input(DType::u8, {1}, step_bytes(rows, slots, c.n_rows), 8));
    Operand kept = input(c.type, cache.shape(), before, odd_offset(c.type, c.variant));
    kept.role = Role::in_out;
    p.add(kept);
    p.add(input(DType::u32, {1}, words(cache.pages), 12));
    p.encode = [kind = c.kind](GraphSession& s, Tensors t) {
      ops::kv_store(s, {.x = t[0],
                        .cache = t[2],
                        .step = t[1].view,
                        .pages = t[3].view,
                        .ring = kind == CacheKind::ring});
    };
    p.expect = [=](bool) {
      const std::size_t n = cache.shape().elements(), n_places = n / c.head_dim;
      Expect e{.operand = 2};
      if (is_block_format(c.type)) {
        e.want.resize(n);
        e.bound.resize(n);
      } else {
        e.exact = before;
      }
      std::vector<bool> touched(n_places);
      for (std::uint32_t r = 0; r < c.n_rows; ++r) {
        for (std::uint32_t h = 0; h < c.kv_heads && rows[r].slot < c.slots; ++h) {
          const auto place = cache.row(rows[r].slot, h, rows[r].position);
          const auto first = x.values.begin() + (r * c.kv_heads + h) * c.head_dim;
          if (place) store_row(c.type, {first, first + c.head_dim}, *place, e, touched);
        }
      }
      const std::size_t row_bytes = before.size() / n_places;
      for (std::size_t i = 0; i < n_places && !e.exact; ++i) {
        if (!touched[i]) e.untouched.push_back({i * row_bytes, (i + 1) * row_bytes});
      }
      return std::vector{e};
    };
    return p;
  };
  return Case{"kv", text, Op::kv_store, c.type, 1, 0, prepare};
}

Case copy_case(const KvCase& c, std::uint32_t from, std::uint32_t to, std::uint32_t n) {
  const bool ring = c.kind == CacheKind::ring;
  const std::string text =
      label("kv_copy ", name(c.type), name(c.kind), " ", n, " of ", from, " to ", to, " heads",
            c.kv_heads, " dim", c.head_dim, " slots", c.slots, " capacity", c.capacity, " view+",
            odd_offset(c.type, c.variant));
  const auto prepare = [=](std::optional<std::uint32_t>) {
    Random random(text);
    const Cache cache{CacheKind::linear, c.slots, c.kv_heads, c.capacity, c.head_dim};
    Bytes before(storage_bytes(c.type, cache.shape()).value_or(0));
    for (std::byte& b : before) b = static_cast<std::byte>(random.next());
    Prepared p;
    Operand kept = input(c.type, cache.shape(), before, odd_offset(c.type, c.variant));
    kept.role = Role::in_out;
    p.add(kept);
    p.encode = [=](GraphSession& s, Tensors t) {
      ops::kv_copy(s, {.cache = t[0], .from = from, .to = to, .n = n, .ring = ring});
    };
    p.expect = [=](bool) {
      Bytes want = before;
      const std::size_t row = before.size() / (cache.shape().elements() / c.head_dim);
      for (std::uint32_t h = 0; h < c.kv_heads; ++h) {
        for (std::uint32_t at = 0; at < std::min(n, c.capacity); ++at) {
          const auto source =
              before.begin() + static_cast<std::ptrdiff_t>(*cache.row(from, h, at) * row);
          std::copy_n(source, row,
                      want.begin() + static_cast<std::ptrdiff_t>(*cache.row(to, h, at) * row));
        }
      }
      return std::vector{Expect{.operand = 0, .exact = want}};
    };
    return p;
  };
  return Case{"kv", text, Op::kv_copy, c.type, 1, 0, prepare};
}

KvCase draw_case(Random& r, std::size_t i) {
  static const std::vector<DType> types{DType::f32, DType::f16, DType::q8_0};
  KvCase c;
  c.type = types[i % 3];
  c.rows = r.pick<std::uint32_t>({1, 2, 3, 8});
  c.n_rows = r.below(3) == 0 ? (c.rows + 1) / 2 : c.rows;
  c.kv_heads = r.pick<std::uint32_t>({1, 2, 3});
  c.head_dim = c.type == DType::q8_0 ? r.pick<std::uint32_t>({32, 64, 96})
                                     : r.pick<std::uint32_t>({2, 8, 16, 33, 64});
  c.slots = r.pick<std::uint32_t>({1, 2, 3});
  c.kind = static_cast<CacheKind>(r.below(5) % 3);
  c.capacity = c.kind == CacheKind::paged ? r.pick<std::uint32_t>({256, 512})
                                          : r.pick<std::uint32_t>({8, 9, 33, 64});
  c.strays = r.below(4) == 0;
  c.variant = r.below(5);
  return c;
}

}  // namespace

void add_kv(Set set, std::vector<Case>& cases) {
  draw(cases, "kv", set == Set::full ? 1500 : 300,
       [](Random& r, std::size_t i) { return kv_case(draw_case(r, i)); });
  draw(cases, "kv_copy", set == Set::full ? 400 : 80, [](Random& r, std::size_t i) {
    KvCase c = draw_case(r, i);
    c.slots += 1;
    if (c.kind == CacheKind::paged) c.capacity = 256;
    const std::uint32_t from = r.below(c.slots), to = (from + 1 + r.below(c.slots - 1)) % c.slots;
    const std::uint32_t n =
        c.kind == CacheKind::ring && r.below(2) == 0 ? 3 * c.capacity : 1 + r.below(c.capacity);
    return copy_case(c, from, to, n);
  });
}

}  // namespace onepass::conformance
