#include <array>
#include <cstddef>

#include "conformance/case.h"
#include "conformance/reference.h"

namespace onepass::conformance {
namespace {

struct EmbedCase {
  Format format;
  std::uint32_t rows = 1, vocab = 1, dim = 32, n_rows = 1;
  bool step = false, by_position = false;
  float scale = 1.0f;
  std::uint32_t bits = 0, group = 64;  // not 0: MLX affine, format is that of the scales
  std::size_t variant = 0;
};

Case embed_case(const EmbedCase& c) {
  const std::size_t offset = odd_offset(c.format, c.variant);
  std::string text = label(c.bits != 0 ? "embed_affine " : "embed ", name(c.format), " rows",
                           c.rows, " vocab", c.vocab, " dim", c.dim, " view+", offset);
  if (c.step) text += label(c.by_position ? " position" : " step", c.n_rows);
  if (c.bits != 0) text += label(" bits", c.bits, " group", c.group);
  if (c.scale != 1.0f) text += label(" scale", c.scale);
  const auto prepare = [=](std::optional<std::uint32_t> row) {
    Random random(text);
    Weights w;
    AffineWeights affine;
    if (c.bits != 0) {
      affine = random_affine(random, c.format.type, c.vocab, c.dim, c.bits, c.group);
      w.values = affine.values;
      w.magnitudes = affine.magnitudes;
    } else {
      w = any_weights(random, c.format, 1, c.vocab, c.dim);
    }
    std::vector<std::uint32_t> tokens(c.rows);
    // Now and then a token that does not exist: zeros.
    for (std::uint32_t& t : tokens) {
      t = random.below(c.vocab);
      if (random.below(9) == 0) t += c.vocab;
    }
    const auto step_of = [&](std::uint32_t first, std::uint32_t count) {
      std::vector<StepRow> rows;
      for (std::uint32_t r = first; r < first + count; ++r) {
        rows.push_back(c.by_position ? StepRow{r, tokens[r], 0, 0} : StepRow{tokens[r], r, 0, 0});
      }
      return step_bytes(rows, {StepSlot{c.rows, 0, 0, 0}}, std::min(c.n_rows, count));
    };
    Prepared p;
    if (c.bits != 0) {
      p.add(input(DType::u32, {c.vocab, c.dim * c.bits / 32}, affine.stream, 4));
    } else {
      p.add(input(c.format, {c.vocab, c.dim}, w.bytes, offset));
    }
    p.add(c.step ? input(DType::u8, {1}, row ? step_of(*row, 1) : step_of(0, c.rows), 4)
                 : input(DType::u32, {c.rows}, words(row ? std::vector{tokens[*row]} : tokens), 4));
    p.add(output(DType::f32, {c.rows, c.dim}, odd_offset(DType::f32, c.variant + 1)));
    const Shape groups{c.vocab, c.dim / c.group};
    p.add(input(c.format, groups, affine.scales, odd_offset(c.format, c.variant)));
    p.add(input(c.format, groups, affine.biases, odd_offset(c.format, c.variant + 1)));
    p.encode = [c](GraphSession& s, Tensors t) {
      if (c.bits == 0) {
        ops::embed(s, {.table = t[0],
                       .out = t[2],
                       .tokens = t[1].view,
                       .tokens_are_u32 = !c.step,
                       .by_position = c.by_position,
                       .scale = c.scale});
        return;
      }
      ops::embed_affine(s, {.weight = t[0],
                            .scales = t[3],
                            .biases = t[4],
                            .out = t[2],
                            .tokens = t[1].view,
                            .tokens_are_u32 = !c.step,
                            .bits = c.bits,
                            .group_size = c.group,
                            .scale = c.scale});
    };
    p.expect = [=](bool) {
      Expect e{.operand = 2};
      const std::uint32_t active = c.step ? c.n_rows : c.rows;
      for (std::uint32_t r = 0; r < c.rows; ++r) {
        for (std::uint32_t i = 0; i < c.dim; ++i) {
          const std::size_t at = std::size_t{tokens[r]} * c.dim + i;
          const double scale = static_cast<double>(c.scale);
          e.want.push_back(tokens[r] < c.vocab ? w.values[at] * scale : 0.0);
          e.bound.push_back(tokens[r] < c.vocab ? 5 * f32_unit * w.magnitudes[at] * scale : 0.0);
        }
      }
      const std::size_t row_bytes = std::size_t{4} * c.dim;
      if (active < c.rows) e.untouched.push_back({active * row_bytes, c.rows * row_bytes});
      return std::vector{e};
    };
    const std::size_t per_row[] = {2};
    return row ? take_row(p, *row, per_row) : p;
  };
  return Case{"embed",
              text,
              c.bits != 0 ? Op::embed_affine : Op::embed,
              c.format,
              c.step ? c.n_rows : c.rows,
              0,
              prepare};
}

Case argmax_case(std::uint32_t rows, std::uint32_t cols, std::size_t variant) {
  const std::string text =
      label("argmax f32 rows", rows, " cols", cols, " view+", odd_offset(DType::f32, variant));
  const auto prepare = [=](std::optional<std::uint32_t> row) {
    Random random(text);
    // Few different values, so that there are ties.
    Doubles values(std::size_t{rows} * cols);
    for (double& v : values) v = random.below(20) == 0 ? -infinity : random.below(40) - 20.0;
    Prepared p;
    p.add(input(DType::f32, {rows, cols}, store(DType::f32, values).bytes,
                odd_offset(DType::f32, variant)));
    p.add(output(DType::u32, {rows}, odd_offset(DType::u32, variant + 1)));
    p.encode = [](GraphSession& s, Tensors t) { ops::argmax(s, {.x = t[0], .out = t[1]}); };
    p.expect = [=](bool) {
      std::vector<std::uint32_t> best;
      for (std::uint32_t r = 0; r < rows; ++r) {
        const auto first = values.begin() + static_cast<std::ptrdiff_t>(std::size_t{r} * cols);
        best.push_back(static_cast<std::uint32_t>(std::max_element(first, first + cols) - first));
      }
      return std::vector{Expect{.operand = 1, .exact = words(best)}};
    };
    const std::size_t per_row[] = {0, 1};
    return row ? take_row(p, *row, per_row) : p;
  };
  return Case{"sample", text, Op::argmax, DType::f32, rows, 0, prepare};
}

// Largest first, equal ones by their index.
std::vector<std::uint32_t> sorted(const double* x, std::uint32_t n) {
  std::vector<std::uint32_t> ids(n);
  for (std::uint32_t i = 0; i < n; ++i) ids[i] = i;
  std::stable_sort(ids.begin(), ids.end(),
                   [x](std::uint32_t a, std::uint32_t b) { return x[a] > x[b]; });
  return ids;
}

// k = 0: argsort.
Case select_case(std::uint32_t rows, std::uint32_t cols, std::uint32_t k, std::size_t variant) {
  const bool all = k == 0;
  const std::string text =
      label(all ? "argsort f32 rows" : "top_k f32 rows", rows, " cols", cols,
            all ? "" : label(" k", k), " view+", odd_offset(DType::f32, variant));
  const auto prepare = [=](std::optional<std::uint32_t> row) {
    Random random(text);
    Doubles values(std::size_t{rows} * cols);
    for (double& v : values) v = random.below(20) == 0 ? -infinity : random.below(90) - 20.0;
    Prepared p;
    p.add(input(DType::f32, {rows, cols}, store(DType::f32, values).bytes,
                odd_offset(DType::f32, variant)));
    p.add(output(DType::u32, {rows, all ? cols : k}, odd_offset(DType::u32, variant + 1)));
    if (!all) p.add(output(DType::f32, {rows, k}, odd_offset(DType::f32, variant + 2)));
    p.encode = [all](GraphSession& s, Tensors t) {
      if (all) {
        ops::argsort(s, {.x = t[0], .out = t[1]});
      } else {
        ops::top_k(s, {.x = t[0], .values = t[2], .ids = t[1]});
      }
    };
    p.expect = [=](bool) {
      std::vector<std::uint32_t> ids;
      Doubles chosen;
      for (std::uint32_t r = 0; r < rows; ++r) {
        const double* x = &values[std::size_t{r} * cols];
        const std::vector<std::uint32_t> order = sorted(x, cols);
        for (std::uint32_t i = 0; i < (all ? cols : k); ++i) {
          ids.push_back(order[i]);
          chosen.push_back(x[order[i]]);
        }
      }
      std::vector<Expect> list{Expect{.operand = 1, .exact = words(ids)}};
      if (!all) list.push_back(Expect{.operand = 2, .exact = store(DType::f32, chosen).bytes});
      return list;
    };
    std::vector<std::size_t> per_row{0, 1};
    if (!all) per_row.push_back(2);
    return row ? take_row(p, *row, per_row) : p;
  };
  return Case{"sample", text, all ? Op::argsort : Op::top_k, DType::f32, rows, 0, prepare};
}

// First word of Philox4x32-10.
std::uint32_t philox(std::array<std::uint32_t, 4> c, std::uint32_t k0, std::uint32_t k1) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xd2511f53} * c[0], b = std::uint64_t{0xcd9e8d57} * c[2];
    c = {static_cast<std::uint32_t>(b >> 32) ^ c[1] ^ k0, static_cast<std::uint32_t>(b),
         static_cast<std::uint32_t>(a >> 32) ^ c[3] ^ k1, static_cast<std::uint32_t>(a)};
    k0 += 0x9e3779b9;
    k1 += 0xbb67ae85;
  }
  return c[0];
}

struct SampleCase {
  std::uint32_t rows = 1, n_rows = 1, vocab = 10;
  float temperature = 1.0f;
  std::uint32_t top_k = 0;
  float top_p = 1.0f, min_p = 0.0f;
};

// The token for a draw u, or nothing where rounding could decide.
std::optional<std::uint32_t> choose(const SampleCase& c, const double* logits, double u) {
  constexpr double margin = 1e-5;
  const std::vector<std::uint32_t> order = sorted(logits, c.vocab);
  if (c.temperature == 0.0f) return order[0];
  std::size_t kept = c.top_k == 0 ? c.vocab : std::min(c.top_k, c.vocab);
  Doubles p(kept);
  double sum = 0.0;
  for (std::size_t i = 0; i < kept; ++i) {
    p[i] = std::exp((logits[order[i]] - logits[order[0]]) / static_cast<double>(c.temperature));
    sum += p[i];
  }
  for (double& v : p) v /= sum;
  if (c.top_p < 1.0f) {
    double reached = 0.0;
    std::size_t n = 0;
    while (n < kept && !(n > 0 && reached >= static_cast<double>(c.top_p))) {
      reached += p[n++];
      if (std::abs(reached - static_cast<double>(c.top_p)) < margin) return std::nullopt;
    }
    kept = n;
  }
  if (c.min_p > 0.0f) {
    const double floor = static_cast<double>(c.min_p) * p[0];
    std::size_t n = 1;
    for (; n < kept && p[n] >= floor; ++n) {
    }
    for (std::size_t i = 0; i < kept; ++i) {
      if (std::abs(p[i] - floor) < margin * floor) return std::nullopt;
    }
    kept = n;
  }
  double total = 0.0, passed = 0.0;
  for (std::size_t i = 0; i < kept; ++i) total += p[i];
  for (std::size_t i = 0; i < kept; ++i) {
    passed += p[i];
    if (std::abs(passed - u * total) < margin * total) return std::nullopt;
    if (passed > u * total) return order[i];
  }
  return order[kept - 1];
}

Case sample_case(const SampleCase& c) {
  const std::string text =
      label("sample f32 rows", c.rows, " n", c.n_rows, " vocab", c.vocab, " temperature",
            c.temperature, " k", c.top_k, " p", c.top_p, " min", c.min_p);
  const auto prepare = [=](std::optional<std::uint32_t>) {
    Random random(text);
    std::vector<StepRow> rows(c.rows);
    std::vector<std::uint32_t> tokens(c.rows);
    const auto k0 = static_cast<std::uint32_t>(random.next());
    const auto k1 = static_cast<std::uint32_t>(random.next());
    Doubles logits;
    for (std::uint32_t r = 0; r < c.rows; ++r) {
      for (bool clear = false; !clear;) {
        rows[r] = {0, random.below(5000), random.below(3), 0};
        const Doubles x = random_values(random, DType::f32, c.vocab, 4.0).values;
        const std::uint32_t bits = philox({rows[r].position, rows[r].slot, 0, 0}, k0, k1);
        const auto token = choose(c, x.data(), std::ldexp(static_cast<double>(bits >> 8), -24));
        clear = token.has_value();
        if (!clear) continue;
        tokens[r] = *token;
        logits.insert(logits.end(), x.begin(), x.end());
      }
    }
    Bytes step = step_bytes(rows, std::vector<StepSlot>(3), c.n_rows);
    std::memcpy(step.data() + offsetof(StepHeader, seed_lo), &k0, 4);
    std::memcpy(step.data() + offsetof(StepHeader, seed_hi), &k1, 4);
    Prepared p;
    p.add(input(DType::f32, {c.rows, c.vocab}, store(DType::f32, logits).bytes, 4));
    p.add(input(DType::u8, {1}, step, 8));
    p.add(output(DType::u32, {c.rows}, 4));
    p.encode = [c](GraphSession& s, Tensors t) {
      ops::sample(s, {.logits = t[0],
                      .out = t[2],
                      .step = t[1].view,
                      .temperature = c.temperature,
                      .top_k = c.top_k,
                      .top_p = c.top_p,
                      .min_p = c.min_p});
    };
    p.expect = [=](bool) {
      Expect e{.operand = 2, .exact = words(tokens)};
      if (c.n_rows < c.rows) {
        e.untouched.push_back({std::size_t{4} * c.n_rows, std::size_t{4} * c.rows});
      }
      return std::vector{e};
    };
    return p;
  };
  return Case{"sample", text, Op::sample, DType::f32, 1, 0, prepare};
}

// history: columns of it; 0: none.
Case advance_case(std::uint32_t rows, std::uint32_t n_rows, std::uint32_t slots,
                  std::uint32_t history) {
  const std::string text =
      label("step_advance rows", rows, " n", n_rows, " slots", slots, " history", history);
  const auto prepare = [=](std::optional<std::uint32_t>) {
    Random random(text);
    std::vector<StepRow> step_rows(rows);
    std::vector<StepSlot> step_slots(slots);
    std::vector<std::uint32_t> tokens(rows);
    for (StepRow& r : step_rows) {
      r = {random.below(100), random.below(100), random.below(slots), random.below(100)};
    }
    for (StepSlot& s : step_slots) s = {random.below(100), random.below(9), 5, 6};
    for (std::uint32_t& t : tokens) t = random.below(1000);
    std::vector<std::uint32_t> past(std::size_t{rows} * history);
    for (std::uint32_t& t : past) t = random.below(1000);
    Prepared p;
    p.add(input(DType::u32, {rows}, words(tokens), 4));
    Operand step = input(DType::u8, {1}, step_bytes(step_rows, step_slots, n_rows), 8);
    step.role = Role::in_out;
    p.add(step);
    if (history != 0) {
      Operand kept = input(DType::u32, {rows, history}, words(past), 4);
      kept.role = Role::in_out;
      p.add(kept);
    }
    p.encode = [](GraphSession& s, Tensors t) {
      ops::step_advance(
          s, {.tokens = t[0], .step = t[1].view, .history = t.size() > 2 ? t[2] : Tensor{}});
    };
    p.expect = [=](bool) {
      std::vector<StepRow> want_rows = step_rows;
      std::vector<StepSlot> want_slots = step_slots;
      for (std::uint32_t r = 0; r < n_rows; ++r) {
        want_rows[r].token = tokens[r];
        ++want_rows[r].position;
        ++want_slots[want_rows[r].slot].kv_length;
      }
      std::vector want{Expect{.operand = 1, .exact = step_bytes(want_rows, want_slots, n_rows)}};
      if (history != 0) {
        std::vector<std::uint32_t> kept = past;
        for (std::size_t r = 0; r < n_rows; ++r) {
          kept[r * history + want_rows[r].position % history] = tokens[r];
        }
        want.push_back(Expect{.operand = 2, .exact = words(kept)});
      }
      return want;
    };
    return p;
  };
  return Case{"sample", text, Op::step_advance, DType::u32, 1, 0, prepare};
}

}  // namespace

void add_embed(Set set, std::vector<Case>& cases) {
  static const std::vector<Format> formats = weight_formats();
  draw(cases, "embed", set == Set::full ? 1500 : 280, [](Random& r, std::size_t i) {
    EmbedCase c;
    c.format = formats[i % formats.size()];
    const std::uint32_t block = info(c.format).block_elements;
    c.rows = r.pick<std::uint32_t>({1, 2, 7, 33});
    c.vocab = r.pick<std::uint32_t>({1, 17, 40});
    c.dim = block > 1 ? block * r.pick<std::uint32_t>({1, 3, 5})
                      : r.pick<std::uint32_t>({1, 7, 64, 100});
    c.step = r.below(2) == 0;
    c.n_rows = c.step && r.below(3) == 0 ? (c.rows + 1) / 2 : c.rows;
    c.variant = r.below(5);
    if (r.below(3) == 0) c.scale = 2.5f;
    if (i % 5 == 4) {
      c.format = float_types()[i / 5 % 3];
      c.bits = r.pick<std::uint32_t>({2, 3, 4, 5, 6, 8});
      c.group = r.pick<std::uint32_t>({32, 64, 128});
      c.dim = c.group * r.pick<std::uint32_t>({1, 3});
    }
    c.by_position = c.step && c.bits == 0 && r.below(3) == 0;
    return embed_case(c);
  });
}

void add_sample(Set set, std::vector<Case>& cases) {
  draw(cases, "argmax", set == Set::full ? 300 : 60, [](Random& r, std::size_t) {
    const std::uint32_t variant = r.below(5);
    const auto cols = r.pick<std::uint32_t>({1, 2, 7, 33, 100, 257, 1000});
    const auto rows = r.pick<std::uint32_t>({1, 2, 7, 33});
    return argmax_case(rows, cols, variant);
  });
  draw(cases, "select", set == Set::full ? 600 : 120, [](Random& r, std::size_t i) {
    const std::uint32_t cols = r.pick<std::uint32_t>({1, 2, 7, 33, 100, 257, 1000, 5000});
    const std::uint32_t variant = r.below(5);
    const std::uint32_t k = i % 2 == 0 ? 0 : std::min(cols, r.pick<std::uint32_t>({1, 3, 40, 600}));
    const std::uint32_t rows = cols > 1000 ? 1 + r.below(2) : r.pick<std::uint32_t>({1, 2, 7, 33});
    return select_case(rows, cols, k, variant);
  });
  draw(cases, "sample", set == Set::full ? 600 : 120, [](Random& r, std::size_t) {
    SampleCase c;
    c.rows = r.pick<std::uint32_t>({1, 2, 5});
    c.n_rows = r.below(3) == 0 ? (c.rows + 1) / 2 : c.rows;
    c.vocab = r.pick<std::uint32_t>({2, 17, 100, 1000, 4097});
    c.temperature = r.pick<float>({0.0f, 0.7f, 1.0f, 1.5f});
    c.top_k = r.pick<std::uint32_t>({0, 1, 5, 40, 600});
    c.top_p = r.pick<float>({1.0f, 0.9f, 0.5f});
    c.min_p = r.pick<float>({0.0f, 0.05f});
    return sample_case(c);
  });
  draw(cases, "advance", set == Set::full ? 60 : 20, [](Random& r, std::size_t) {
    const std::uint32_t rows = r.pick<std::uint32_t>({1, 2, 5, 9});
    const auto slots = r.pick<std::uint32_t>({1, 2, 4});
    const std::uint32_t n_rows = 1 + r.below(rows);
    return advance_case(rows, n_rows, slots, r.pick<std::uint32_t>({0, 0, 1, 7, 128}));
  });
}

}  // namespace onepass::conformance
