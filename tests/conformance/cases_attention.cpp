#include "conformance/attend.h"
#include "conformance/cache.h"
#include "conformance/reference.h"
#include "ops/shared/forms.h"

namespace onepass::conformance {
namespace {

struct AttentionCase {
  DType k_type = DType::f32, v_type = DType::f32;
  CacheKind kind = CacheKind::linear;
  std::uint32_t rows = 1, heads = 1, kv_heads = 1, head_dim = 8, slots = 1, capacity = 8;
  bool step = false;
  std::uint32_t n_rows = 1;
  std::uint32_t kv_len = 1;  // without step
  bool causal = true;
  std::uint32_t window = 0;
  float scale = 0.0f, softcap = 0.0f;
  bool sinks = false;
  bool quantized = false;  // the result as q8a
  bool alone = true;       // a row's bits do not depend on the others
  std::size_t variant = 0;
};

std::string text_of(const AttentionCase& c) {
  std::string text =
      label(c.quantized ? "attention_q " : "attention ", name(c.k_type), " ", name(c.v_type),
            name(c.kind), " rows", c.rows, " heads", c.heads, "/", c.kv_heads, " dim", c.head_dim,
            " capacity", c.capacity, c.step ? " step" : " keys", c.step ? c.n_rows : c.kv_len,
            " view+", odd_offset(c.k_type, c.variant));
  if (c.slots > 1) text += label(" slots", c.slots);
  if (!c.causal) text += " all";
  if (c.window != 0) text += label(" window", c.window);
  if (c.scale != 0.0f) text += label(" scale", c.scale);
  if (c.softcap != 0.0f) text += label(" cap", c.softcap);
  if (c.sinks) text += " sinks";
  return text;
}

// Keys a row sees.
struct Seen {
  std::uint32_t slot = 0, begin = 0, end = 0;
};

struct Scene {
  Cache cache;
  std::vector<StepRow> rows;
  std::vector<StepSlot> slots;
  std::vector<Seen> seen;
};

Scene scene_of(const AttentionCase& c, Random& random) {
  Scene scene;
  scene.cache = Cache{c.kind, c.slots, c.kv_heads, c.capacity, c.head_dim};
  const bool ring = c.kind == CacheKind::ring;
  if (c.kind == CacheKind::paged) deal_pages(scene.cache, c.slots, c.capacity / 256, random);
  for (std::uint32_t i = 0; i < c.slots; ++i) {
    const std::uint32_t least = std::min(c.rows, c.capacity);
    const std::uint32_t most = ring ? 3 * c.capacity : c.capacity;
    scene.slots.push_back({least + random.below(most - least + 1),
                           c.kind == CacheKind::paged ? scene.cache.offsets[i] : 0, 0, 0});
  }
  for (std::uint32_t r = 0; r < c.rows; ++r) {
    StepRow row{0, 0, c.step ? random.below(c.slots) : 0, 0};
    const std::uint32_t length = c.step ? scene.slots[row.slot].kv_length : c.kv_len;
    // A ring has forgotten what only earlier rows could see.
    row.position = !c.step ? c.kv_len - c.rows + r
                   : ring  ? length - 1 - random.below(std::min(length, c.rows))
                           : random.below(length);
    Seen s{row.slot, 0, c.causal ? row.position + 1 : length};
    if (c.window != 0 && row.position + 1 > c.window) s.begin = row.position + 1 - c.window;
    scene.rows.push_back(row);
    scene.seen.push_back(s);
  }
  return scene;
}

// Everything of a cache that no row sees.
std::vector<Range> unseen(const Cache& cache, const std::vector<Seen>& seen, std::size_t bytes) {
  const std::size_t n = std::size_t{cache.blocks} * cache.kv_heads * cache.capacity;
  const std::size_t row_bytes = bytes / n;
  std::vector<bool> used(n);
  for (const Seen& s : seen) {
    for (std::uint32_t at = s.begin; at < s.end; ++at) {
      for (std::uint32_t h = 0; h < cache.kv_heads; ++h) used[*cache.row(s.slot, h, at)] = true;
    }
  }
  std::vector<Range> dead;
  for (std::size_t i = 0; i < n; ++i) {
    if (!used[i]) dead.push_back({i * row_bytes, (i + 1) * row_bytes});
  }
  return dead;
}

Case attention_case(const AttentionCase& c) {
  const std::string text = text_of(c);
  const auto prepare = [=](std::optional<std::uint32_t> row) {
    Random random(text);
    const Shape shape{c.rows, c.heads, c.head_dim};
    const Scene scene = scene_of(c, random);
    const Cache& cache = scene.cache;
    const std::uint32_t active = c.step ? c.n_rows : c.rows;
    std::vector<Seen> seen(scene.seen.begin(), scene.seen.begin() + active);
    if (row) seen = {scene.seen[*row]};
    const std::size_t cache_rows = cache.shape().elements() / c.head_dim;
    const Stored q = random_values(random, DType::f32, shape.elements(), 2.0);
    const Weights k = random_weights(random, c.k_type, cache_rows, c.head_dim);
    const Weights v = random_weights(random, c.v_type, cache_rows, c.head_dim);
    const Stored sinks = random_values(random, DType::f32, c.heads, 2.0);
    Prepared p;
    p.add(input(DType::f32, shape, q.bytes, odd_offset(DType::f32, c.variant + 1)));
    p.add(input(c.k_type, cache.shape(), k.bytes, odd_offset(c.k_type, c.variant)));
    p.add(input(c.v_type, cache.shape(), v.bytes, odd_offset(c.v_type, c.variant + 2)));
    p.operands[1].dead = unseen(cache, seen, k.bytes.size());
    p.operands[2].dead = unseen(cache, seen, v.bytes.size());
    const std::vector<StepRow> rows = row ? std::vector{scene.rows[*row]} : scene.rows;
    p.add(input(DType::u8, {1},
                c.step ? step_bytes(rows, scene.slots, row ? 1 : c.n_rows) : Bytes{}, 4));
    p.add(c.quantized ? output(DType::q8a, {c.rows, c.heads * c.head_dim}, 8)
                      : output(DType::f32, shape, odd_offset(DType::f32, c.variant + 3)));
    p.add(input(DType::u32, {1}, words(cache.pages), 4));
    p.add(input(DType::f32, {c.heads}, c.sinks ? sinks.bytes : Bytes{}, 4));
    // Alone, a row without a step is the last of the keys it sees.
    const std::uint32_t keys = c.step ? 0 : row ? scene.rows[*row].position + 1 : c.kv_len;
    p.encode = [c, keys](GraphSession& s, Tensors t) {
      ops::attention(s, {.q = t[0],
                         .k = t[1],
                         .v = t[2],
                         .out = t[4],
                         .scale = c.scale,
                         .step = t[3].view,
                         .kv_len = keys,
                         .causal = c.causal,
                         .window = c.window,
                         .softcap = c.softcap,
                         .sinks = t[6],
                         .pages = t[5].view,
                         .ring = c.kind == CacheKind::ring});
    };
    p.expect = [=](bool) {
      Expect e{.operand = 4, .want = Doubles(q.values.size()), .bound = Doubles(q.values.size())};
      for (std::uint32_t r = 0; r < active; ++r) {
        for (std::uint32_t h = 0; h < c.heads; ++h) {
          const std::size_t at = (std::size_t{r} * c.heads + h) * c.head_dim;
          const Seen& seen_by = scene.seen[r];
          std::vector<std::size_t> rows_of_keys;
          for (std::uint32_t i = seen_by.begin; i < seen_by.end; ++i) {
            rows_of_keys.push_back(*cache.row(seen_by.slot, h / (c.heads / c.kv_heads), i));
          }
          attend({.dim = c.head_dim,
                  .scale = static_cast<double>(c.scale),
                  .softcap = static_cast<double>(c.softcap),
                  .sink = c.sinks ? &sinks.values[h] : nullptr},
                 &q.values[at], k.values, v.values, rows_of_keys, &e.want[at], &e.bound[at]);
        }
      }
      if (c.quantized) e.bound = q8a_error(e.want, e.bound);
      const std::size_t row_bytes = c.quantized ? std::size_t{c.heads} * c.head_dim / 32 * 40
                                                : std::size_t{4} * c.heads * c.head_dim;
      if (active < c.rows) e.untouched.push_back({active * row_bytes, c.rows * row_bytes});
      return std::vector{e};
    };
    return row ? take_row(p, *row, std::vector<std::size_t>{0, 4}) : p;
  };
  // Without causality and step a row alone would see fewer keys.
  const std::uint32_t rows = !c.alone ? 1 : c.step ? c.n_rows : c.causal ? c.rows : 1;
  Case made{"attention", text, Op::attention, c.k_type, rows, 0, prepare};
  made.form = c.quantized ? ops::form_quantized : 0;
  return made;
}

}  // namespace

void add_attention(Set set, std::vector<Case>& cases) {
  static const std::vector<DType> types{DType::f32, DType::f16, DType::q8_0};
  draw(cases, "attention", set == Set::full ? 4000 : 900, [](Random& r, std::size_t i) {
    AttentionCase c;
    c.k_type = types[i % 3];
    c.v_type = types[i / 3 % 3];
    const bool blocks = c.k_type == DType::q8_0 || c.v_type == DType::q8_0;
    c.rows = r.pick<std::uint32_t>({1, 1, 2, 3, 7});
    c.kv_heads = r.pick<std::uint32_t>({1, 2, 3});
    c.heads = c.kv_heads * r.pick<std::uint32_t>({1, 2, 3, 4});
    c.head_dim = blocks ? r.pick<std::uint32_t>({32, 64, 96, 128})
                        : r.pick<std::uint32_t>({8, 16, 24, 32, 40, 64, 80, 128});
    c.kind = static_cast<CacheKind>(r.below(5) % 3);
    c.capacity = c.kind == CacheKind::paged
                     ? r.pick<std::uint32_t>({256, 512})
                     : r.pick<std::uint32_t>({7, 16, 33, 64, 65, 100, 256, 300, 520});
    c.step = r.below(2) == 0;
    c.slots = c.step ? r.pick<std::uint32_t>({1, 2, 3}) : 1;
    c.n_rows = c.step && r.below(3) == 0 ? (c.rows + 1) / 2 : c.rows;
    c.kv_len = c.step ? 0 : c.rows + r.below(c.capacity - c.rows + 1);
    c.causal = c.kind == CacheKind::ring || r.below(5) != 0;
    c.window = r.below(3) == 0 ? r.pick<std::uint32_t>({1, 4, 33, 100, 256}) : 0;
    if (c.kind == CacheKind::ring) {
      c.window = 1 + r.below(c.capacity - c.rows + 1);
      if (!c.step && r.below(2) == 0) c.kv_len += 2 * c.capacity;
    }
    if (r.below(4) == 0) c.scale = 0.3f;
    if (r.below(4) == 0) c.softcap = r.pick<float>({5.0f, 50.0f});
    c.sinks = r.below(4) == 0;
    c.quantized = c.heads * c.head_dim % 32 == 0 && r.below(4) == 0;
    c.variant = r.below(5);
    return attention_case(c);
  });
  // Many rows: devices may have other kernels for them, with other bits.
  draw(cases, "attention rows", set == Set::full ? 400 : 60, [](Random& r, std::size_t i) {
    AttentionCase c;
    c.alone = false;
    c.k_type = c.v_type = i % 5 == 4 ? types[r.below(3)] : DType::f16;
    c.rows = r.pick<std::uint32_t>({9, 13, 16, 33, 40});
    c.kv_heads = r.pick<std::uint32_t>({1, 2});
    c.heads = c.kv_heads * r.pick<std::uint32_t>({1, 2, 3, 4, 9});
    c.head_dim = r.pick<std::uint32_t>({64, 64, 128, 128, 96, 256});
    c.kind = static_cast<CacheKind>(r.below(5) % 3);
    c.capacity = c.kind == CacheKind::paged ? 256 : r.pick<std::uint32_t>({64, 65, 100, 200});
    c.step = r.below(2) == 0;
    c.slots = c.step ? r.pick<std::uint32_t>({1, 1, 2, 3}) : 1;
    c.n_rows = c.step && r.below(3) == 0 ? (c.rows + 1) / 2 : c.rows;
    c.kv_len = c.step ? 0 : c.rows + r.below(c.capacity - c.rows + 1);
    c.causal = c.kind == CacheKind::ring || r.below(5) != 0;
    c.window = r.below(3) == 0 ? r.pick<std::uint32_t>({1, 4, 33, 100}) : 0;
    if (c.kind == CacheKind::ring) c.window = 1 + r.below(c.capacity - c.rows + 1);
    if (r.below(4) == 0) c.softcap = 50.0f;
    c.sinks = r.below(4) == 0;
    c.quantized = r.below(4) == 0;
    c.variant = r.below(5);
    return attention_case(c);
  });
}

}  // namespace onepass::conformance
