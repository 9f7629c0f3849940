// One row of a decoder from its products to the attention's result: norms, rope, caches, attention
// and quantize, recorded separately. Devices may run them as one kernel.
#include "conformance/attend.h"
#include "conformance/cache.h"

namespace onepass::conformance {
namespace {

constexpr double u = f32_unit;

struct DecodeCase {
  CacheKind kind = CacheKind::linear;
  std::uint32_t heads = 2, kv_heads = 1, head_dim = 64, slots = 1, capacity = 64;
  std::uint32_t position = 0;
  bool norms = false, interleaved = false, sinks = false, factors = false, inactive = false;
  std::uint32_t window = 0;
  float softcap = 0.0f;
  std::size_t variant = 0;
};

std::string text_of(const DecodeCase& c) {
  std::string text = label("rope_attention_q", name(c.kind), " heads", c.heads, "/", c.kv_heads,
                           " dim", c.head_dim, " capacity", c.capacity, " slots", c.slots,
                           " position", c.position, " view+", 16 * c.variant);
  if (c.norms) text += " norms";
  if (c.interleaved) text += " interleaved";
  if (c.factors) text += " factors";
  if (c.window != 0) text += label(" window", c.window);
  if (c.softcap != 0.0f) text += label(" cap", c.softcap);
  if (c.sinks) text += " sinks";
  if (c.inactive) text += " inactive";
  return text;
}

// Heads of x normed and rotated, with their errors.
Expect turned(const DecodeCase& c, const Stored& x, const Doubles& weight, const Doubles& factors) {
  const std::size_t n = x.values.size(), dim = c.head_dim;
  Expect e{.want = x.values, .bound = Doubles(n)};
  for (std::size_t at = 0; at < n; at += dim) {
    double* y = &e.want[at];
    double* error = &e.bound[at];
    if (c.norms) {
      rms_norm(&x.values[at], dim, static_cast<double>(1e-5f), weight.data(), y, error);
    }
    for (std::size_t i = 0; i < dim / 2; ++i) {
      double angle =
          c.position * std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(dim));
      if (c.factors) angle /= factors[i];
      const std::size_t lo = c.interleaved ? 2 * i : i, hi = c.interleaved ? lo + 1 : i + dim / 2;
      const double a = y[lo], b = y[hi];
      y[lo] = a * std::cos(angle) - b * std::sin(angle);
      y[hi] = a * std::sin(angle) + b * std::cos(angle);
      error[lo] = error[hi] =
          error[lo] + error[hi] +
          (std::abs(a) + std::abs(b)) * (2e-7 + 6.3 * 0x1p-25 + 1e-13 * c.position + 4 * u);
    }
  }
  return e;
}

// The caches as they are afterwards: rows [kv_heads, dim] of the new position, then its error.
struct NewRows {
  Doubles values, errors;
};
NewRows rounded(const Expect& x) {
  NewRows rows{x.want, x.bound};
  for (std::size_t i = 0; i < rows.values.size(); ++i) {
    rows.errors[i] += store_error(DType::f16, std::abs(x.want[i]) + x.bound[i]);
  }
  return rows;
}

Case decode_case(const DecodeCase& c) {
  const std::string text = text_of(c);
  const auto prepare = [=](std::optional<std::uint32_t>) {
    Random random(text);
    Cache cache{c.kind, c.slots, c.kv_heads, c.capacity, c.head_dim};
    if (c.kind == CacheKind::paged) deal_pages(cache, c.slots, c.capacity / 256, random);
    const std::uint32_t slot = random.below(c.slots);
    std::vector<StepSlot> slots(c.slots);
    for (std::uint32_t i = 0; i < c.slots; ++i) {
      slots[i] = {c.position + 1, c.kind == CacheKind::paged ? cache.offsets[i] : 0, 0, 0};
    }
    const std::vector<StepRow> rows{{0, c.position, slot, 0}};
    const Shape q_shape{1, c.heads, c.head_dim}, k_shape{1, c.kv_heads, c.head_dim};
    const std::size_t cache_rows = cache.shape().elements() / c.head_dim;
    const Stored q = random_values(random, DType::f32, q_shape.elements(), 1.5);
    const Stored k = random_values(random, DType::f32, k_shape.elements(), 1.5);
    const Stored v = random_values(random, DType::f32, k_shape.elements(), 1.5);
    const Stored qw = random_values(random, DType::f32, c.head_dim, 1.5);
    const Stored kw = random_values(random, DType::f32, c.head_dim, 1.5);
    const Weights old_k = random_weights(random, DType::f16, cache_rows, c.head_dim);
    const Weights old_v = random_weights(random, DType::f16, cache_rows, c.head_dim);
    const Stored sinks = random_values(random, DType::f32, c.heads, 2.0);
    Doubles spread(c.head_dim / 2);
    for (double& x : spread) x = 1.0 + random.below(8);
    const Stored factors = store(DType::f32, spread);

    Prepared p;
    const auto at = [&](std::size_t i) { return odd_offset(DType::f32, c.variant + i); };
    p.add(input(DType::f32, q_shape, q.bytes, at(0)));
    p.add(input(DType::f32, k_shape, k.bytes, at(1)));
    p.add(input(DType::f32, k_shape, v.bytes, at(2)));
    p.add(input(DType::f32, {c.head_dim}, c.norms ? qw.bytes : Bytes{}, at(3)));
    p.add(input(DType::f32, {c.head_dim}, c.norms ? kw.bytes : Bytes{}, at(4)));
    p.add(input(DType::u8, {1}, step_bytes(rows, slots, c.inactive ? 0 : 1), 4));
    p.add(output(DType::q8a, {1, c.heads * c.head_dim}, 8));
    for (const Weights* w : {&old_k, &old_v}) {
      Operand kept =
          input(DType::f16, cache.shape(), w->bytes, 16 * (c.variant + (w == &old_v ? 2 : 0)));
      kept.role = Role::in_out;
      p.add(kept);
    }
    p.add(input(DType::u32, {1}, words(cache.pages), 4));
    p.add(input(DType::f32, {c.heads}, c.sinks ? sinks.bytes : Bytes{}, 4));
    p.add(input(DType::f32, {c.head_dim / 2}, c.factors ? factors.bytes : Bytes{}, 4));
    p.encode = [c](GraphSession& s, Tensors t) {
      const bool ring = c.kind == CacheKind::ring;
      const auto rope = [&](const Tensor& x, const Tensor& weight) {
        Tensor from = x;
        if (c.norms) {
          from = s.scratch(DType::f32, x.shape);
          ops::rms_norm(s, {.x = x, .weight = weight, .out = from});
        }
        const Tensor out = s.scratch(DType::f32, x.shape);
        ops::rope(s, {.x = from,
                      .out = out,
                      .positions = t[5].view,
                      .mode = c.interleaved ? ops::RopeMode::interleaved : ops::RopeMode::neox,
                      .freq_factors = t[11]});
        return out;
      };
      const Tensor queries = rope(t[0], t[3]), keys = rope(t[1], t[4]);
      ops::kv_store(
          s, {.x = keys, .cache = t[7], .step = t[5].view, .pages = t[9].view, .ring = ring});
      ops::kv_store(
          s, {.x = t[2], .cache = t[8], .step = t[5].view, .pages = t[9].view, .ring = ring});
      const Tensor attended = s.scratch(DType::f32, queries.shape);
      ops::attention(s, {.q = queries,
                         .k = t[7],
                         .v = t[8],
                         .out = attended,
                         .step = t[5].view,
                         .window = c.window,
                         .softcap = c.softcap,
                         .sinks = t[10],
                         .pages = t[9].view,
                         .ring = ring});
      Tensor flat = attended;
      flat.shape = t[6].shape;
      ops::quantize(s, {.x = flat, .out = t[6]});
    };
    const std::size_t bytes = old_k.bytes.size();
    p.expect = [=](bool) {
      Expect result{
          .operand = 6, .want = Doubles(q.values.size()), .bound = Doubles(q.values.size())};
      const Expect queries = turned(c, q, qw.values, factors.values);
      const NewRows key = rounded(turned(c, k, kw.values, factors.values));
      const NewRows value = rounded(Expect{.want = v.values, .bound = Doubles(v.values.size())});
      std::vector<Expect> list;
      if (c.inactive) {
        result.untouched.push_back({0, q.values.size() / 32 * 40});
        result.want.assign(q.values.size(), 0.0);
        Expect k_kept{.operand = 7, .exact = old_k.bytes},
            v_kept{.operand = 8, .exact = old_v.bytes};
        return std::vector{result, k_kept, v_kept};
      }
      Doubles ks = old_k.values, vs = old_v.values, k_errors(ks.size()), v_errors(vs.size());
      std::vector<bool> touched(cache_rows);
      const std::size_t dim = c.head_dim;
      for (std::uint32_t h = 0; h < c.kv_heads; ++h) {
        const std::size_t to = *cache.row(slot, h, c.position);
        touched[to] = true;
        for (std::size_t i = 0; i < dim; ++i) {
          ks[to * dim + i] = key.values[h * dim + i];
          k_errors[to * dim + i] = key.errors[h * dim + i];
          vs[to * dim + i] = value.values[h * dim + i];
          v_errors[to * dim + i] = value.errors[h * dim + i];
        }
      }
      const std::uint32_t begin =
          c.window != 0 && c.position + 1 > c.window ? c.position + 1 - c.window : 0;
      for (std::uint32_t h = 0; h < c.heads; ++h) {
        std::vector<std::size_t> seen;
        for (std::uint32_t i = begin; i <= c.position; ++i) {
          seen.push_back(*cache.row(slot, h / (c.heads / c.kv_heads), i));
        }
        const std::size_t first = h * dim;
        attend({.dim = dim,
                .softcap = static_cast<double>(c.softcap),
                .sink = c.sinks ? &sinks.values[h] : nullptr,
                .q_error = &queries.bound[first],
                .k_error = &k_errors,
                .v_error = &v_errors},
               &queries.want[first], ks, vs, seen, &result.want[first], &result.bound[first]);
      }
      result.bound = q8a_error(result.want, result.bound);
      const auto after = [&](std::size_t operand, const Doubles& want, const Doubles& errors) {
        Expect e{.operand = operand, .want = want, .bound = errors};
        const std::size_t row_bytes = bytes / cache_rows;
        for (std::size_t i = 0; i < cache_rows; ++i) {
          if (!touched[i]) e.untouched.push_back({i * row_bytes, (i + 1) * row_bytes});
        }
        return e;
      };
      return std::vector{result, after(7, ks, k_errors), after(8, vs, v_errors)};
    };
    return p;
  };
  return Case{"decode", text, Op::rope_attention, DType::f16, 1, 1, prepare, true};
}

}  // namespace

void add_decode(Set set, std::vector<Case>& cases) {
  draw(cases, "decode", set == Set::full ? 600 : 90, [](Random& r, std::size_t i) {
    DecodeCase c;
    c.head_dim = i % 2 == 0 ? 64 : 128;
    c.kv_heads = r.pick<std::uint32_t>({1, 2, 3});
    c.heads = c.kv_heads * r.pick<std::uint32_t>({1, 2, 3, 4, 7, 8});
    c.kind = static_cast<CacheKind>(r.below(5) % 3);
    c.capacity = c.kind == CacheKind::paged
                     ? r.pick<std::uint32_t>({256, 512})
                     : r.pick<std::uint32_t>({7, 16, 33, 100, 300, 1100, 2100});
    c.slots = r.pick<std::uint32_t>({1, 1, 2});
    c.position = r.below(c.capacity);
    if (c.kind == CacheKind::ring) c.position += r.below(2) * c.capacity;
    if (r.below(3) == 0) c.position = std::min(c.position, r.below(40));
    c.norms = r.below(2) == 0;
    c.interleaved = r.below(2) == 0;
    c.factors = r.below(4) == 0;
    c.window = r.below(3) == 0 ? r.pick<std::uint32_t>({1, 4, 33, 100}) : 0;
    if (c.kind == CacheKind::ring) c.window = 1 + r.below(c.capacity);
    if (r.below(4) == 0) c.softcap = r.pick<float>({5.0f, 50.0f});
    c.sinks = r.below(4) == 0;
    c.inactive = r.below(12) == 0;
    c.variant = r.below(5);
    return decode_case(c);
  });
}

}  // namespace onepass::conformance
