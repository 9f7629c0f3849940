// How far logits move through arithmetic alone: a float64 forward pass, f32, and f32 with
// activations rounded to 8 bits before every matmul, the last two in two orders of summation.
// Tolerances of other tests stand on these figures.
//
//   noise_floor [FOLDER WITH gguf/stories15M-q4_0.gguf]
#include <array>
#include <cstdio>
#include <filesystem>
#include <span>
#include <string>

#include "io/gguf_file.h"
#include "support/forward_reference.h"
#include "support/random_model.h"

namespace {

namespace ref = onepass::test::reference;

struct InOrder {
  template <class F>
  static float sum(std::size_t n, const F& f) {
    float total = 0.0f;
    for (std::size_t i = 0; i < n; ++i) total += f(i);
    return total;
  }
};

// Element i into lane i % 16, then the lanes as a tree.
struct InLanes {
  template <class F>
  static float sum(std::size_t n, const F& f) {
    std::array<float, 16> lanes{};
    for (std::size_t i = 0; i < n; ++i) lanes[i % 16] += f(i);
    for (std::size_t width = 8; width > 0; width /= 2) {
      for (std::size_t j = 0; j < width; ++j) lanes[j] += lanes[j + width];
    }
    return lanes[0];
  }
};

template <class Order>
struct Float32 : Order {
  using Real = float;
  static void multiply(const ref::Matrix& m, const std::vector<float>& x, std::vector<float>& y) {
    y.resize(m.rows);
    for (std::uint32_t r = 0; r < m.rows; ++r) {
      const float* w = m.row(r);
      y[r] = Order::sum(m.cols, [&](std::size_t i) { return w[i] * x[i]; });
    }
  }
};

// Activations as 8-bit numbers with one f32 scale per 32; a block's products add up exactly, as
// integers would, and blocks are added in the given order.
template <class Order>
struct Int8 : Order {
  using Real = float;
  static void multiply(const ref::Matrix& m, const std::vector<float>& x, std::vector<float>& y) {
    constexpr std::size_t block = 32;
    const std::size_t n_blocks = (x.size() + block - 1) / block;
    std::vector<double> q(x.size());
    std::vector<float> scales(n_blocks);
    for (std::size_t b = 0; b < n_blocks; ++b) {
      const std::size_t begin = b * block, end = std::min(begin + block, x.size());
      float top = 0.0f;
      for (std::size_t i = begin; i < end; ++i) top = std::max(top, std::abs(x[i]));
      scales[b] = top / 127.0f;
      const float inverse = top > 0.0f ? 127.0f / top : 0.0f;
      for (std::size_t i = begin; i < end; ++i) {
        q[i] = std::round(static_cast<double>(x[i] * inverse));
      }
    }
    y.resize(m.rows);
    for (std::uint32_t r = 0; r < m.rows; ++r) {
      const float* w = m.row(r);
      y[r] = Order::sum(n_blocks, [&](std::size_t b) {
        double exact = 0.0;
        for (std::size_t i = b * block; i < std::min((b + 1) * block, x.size()); ++i) {
          exact += static_cast<double>(w[i]) * q[i];
        }
        return static_cast<float>(exact) * scales[b];
      });
    }
  }
};

using Logits = std::vector<std::vector<float>>;

template <class Arithmetic>
Logits logits_of(const ref::Model& model, std::span<const std::uint32_t> tokens) {
  ref::Forward<Arithmetic> forward(model);
  Logits logits;
  for (const std::uint32_t token : tokens) logits.push_back(forward.next(token));
  return logits;
}

void report(const char* name, const ref::Model& model, std::uint32_t first, std::size_t n) {
  ref::Forward<ref::Float64> forward(model);
  std::vector<std::uint32_t> tokens{first};
  std::vector<std::vector<double>> expected;
  for (std::size_t p = 0; p < n; ++p) {
    expected.push_back(forward.next(tokens.back()));
    if (p + 1 < n) tokens.push_back(ref::largest(expected.back()));
  }
  const auto line = [&](const char* what, const Logits& a, const auto& b) {
    double mean = 0.0, worst = 0.0;
    for (std::size_t p = 0; p < n; ++p) {
      const double error = ref::nmse(a[p], b[p]);
      mean += error / static_cast<double>(n);
      worst = std::max(worst, error);
    }
    std::printf("%-22s %-38s %10.2e %10.2e\n", name, what, mean, worst);
    std::fflush(stdout);
  };
  const Logits f32 = logits_of<Float32<InOrder>>(model, tokens);
  const Logits f32_lanes = logits_of<Float32<InLanes>>(model, tokens);
  const Logits int8 = logits_of<Int8<InOrder>>(model, tokens);
  const Logits int8_lanes = logits_of<Int8<InLanes>>(model, tokens);
  line("f32 in order, float64", f32, expected);
  line("f32 in 16 lanes, float64", f32_lanes, expected);
  line("f32 in order, f32 in 16 lanes", f32, f32_lanes);
  line("int8 in order, float64", int8, expected);
  line("int8 in 16 lanes, float64", int8_lanes, expected);
  line("int8 in order, int8 in 16 lanes", int8, int8_lanes);
}

}  // namespace

int main(int argc, char** argv) {
  const std::filesystem::path data = argc > 1 ? argv[1] : ONEPASS_TEST_DATA;
  std::printf("%-22s %-38s %10s %10s\n", "model", "NMSE of logits between", "mean", "worst");
  const auto path = data / "gguf" / "stories15M-q4_0.gguf";
  if (const auto file = onepass::io::GgufFile::open(path.string())) {
    const ref::Model model = ref::from_file(*file);
    if (!model.layers.empty()) report("stories15M q4_0", model, 1, 32);
  } else {
    std::printf("%-22s skipped: %s\n", "stories15M q4_0", file.error().message.c_str());
  }
  const onepass::test::RandomModel smollm({.layers = 4,
                                           .dim = 576,
                                           .heads = 9,
                                           .kv_heads = 3,
                                           .head_dim = 64,
                                           .ffn = 1536,
                                           .vocab = 49152,
                                           .matrix_type = 2});
  report("random smollm, q4_0", smollm.model(), 1, 16);
  return 0;
}
