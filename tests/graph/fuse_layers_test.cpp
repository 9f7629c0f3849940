// Decoder layers of several kinds: the fused plan gives the bits of the separate dispatches, and
// has as few dispatches as promised.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "onepass/onepass.hpp"
#include "onepass/ops.h"
#include "quant/packed.h"
#include "quant/q4_0.h"
#include "quant/q8_0.h"

namespace onepass::test::fuse_layers_test {
namespace {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  float next() {  // [-1, 1)
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    return static_cast<float>(z >> 40) * (1.0f / 8388608.0f) - 1.0f;
  }

 private:
  std::uint64_t state_;
};

struct LayerKind {
  const char* name;
  Format weights = formats::q4_0_r16;
  Format value_weights = DType::count_;  // of v; count_: as the others
  bool bias = false, head_norms = false, post_norms = false, gelu = false;
  std::uint32_t dispatches = 8;  // per layer, at most
  std::uint32_t rows = 1;
  DType kv = DType::f16;
};

void PrintTo(const LayerKind& k, std::ostream* out) { *out << k.name; }

constexpr std::uint32_t dim = 64, heads = 4, kv_heads = 2, head_dim = 32, ffn = 96, layers = 2;
constexpr std::uint32_t context = 16;

class Layers {
 public:
  Layers(const LayerKind& kind, const Device& device)
      : kind_(kind), device_(device), executor_(device) {
    step_ = StepState::create(device, kind.rows, 1).value();
    for (std::uint32_t i = 0; i < layers; ++i) {
      Layer l;
      l.attn_norm = norm(dim);
      l.ffn_norm = norm(dim);
      l.post_attn = norm(dim);
      l.post_ffn = norm(dim);
      l.q_norm = norm(head_dim);
      l.k_norm = norm(head_dim);
      l.q = weight(heads * head_dim, dim, kind.weights);
      l.k = weight(kv_heads * head_dim, dim, kind.weights);
      const Format v = kind.value_weights == DType::count_ ? kind.weights : kind.value_weights;
      l.v = weight(kv_heads * head_dim, dim, v);
      l.o = weight(dim, heads * head_dim, kind.weights);
      l.gate = weight(ffn, dim, kind.weights);
      l.up = weight(ffn, dim, kind.weights);
      l.down = weight(dim, ffn, kind.weights);
      l.q_bias = norm(heads * head_dim);
      l.k_bias = norm(kv_heads * head_dim);
      l.v_bias = norm(kv_heads * head_dim);
      l.k_cache = memory(kind.kv, {1, kv_heads, context, head_dim});
      l.v_cache = memory(kind.kv, {1, kv_heads, context, head_dim});
      layers_.push_back(l);
    }
    x_ = memory(DType::f32, {kind.rows, dim});
    out_ = memory(DType::f32, {kind.rows, dim});
  }

  Plan compile(bool fuse, Policy policy = Policy::exact) {
    GraphSession s = executor_.begin_recorded();
    Tensor h = x_;
    for (const Layer& l : layers_) h = forward(s, l, h);
    ops::scale(s, {.x = h, .out = out_, .factor = 1.0f});
    Result<Plan> plan = s.compile({.step = &step_, .fuse = fuse, .policy = policy});
    EXPECT_TRUE(plan) << (plan ? "" : plan.error().to_string());
    return plan ? *plan : Plan();
  }

  // Outputs of some passes over fresh caches, and the caches.
  std::vector<std::byte> run(const Plan& plan) {
    for (const Buffer& b : caches_) {
      std::vector<std::byte> zero(b.bytes());
      EXPECT_TRUE(device_.write(b.view(), zero));
    }
    Random random(7);
    std::vector<std::byte> all;
    std::uint32_t position = 0;
    for (int pass = 0; pass < 4; ++pass) {
      std::vector<float> x(std::size_t{kind_.rows} * dim);
      for (float& v : x) v = random.next();
      EXPECT_TRUE(device_.write_as<float>(x_.view, x));
      std::vector<StepRow> rows;
      for (std::uint32_t r = 0; r < kind_.rows; ++r) rows.push_back({0, position++, 0, 0});
      const StepSlot slot{position, 0, 0, 0};
      const Status status = plan.run(StepValues{0, 0, 0, rows, {&slot, 1}});
      EXPECT_TRUE(status) << (status ? "" : status.error().to_string());
      append(all, out_.view);
    }
    for (const Buffer& b : caches_) append(all, b.view());
    return all;
  }

 private:
  struct Layer {
    Tensor attn_norm, ffn_norm, post_attn, post_ffn, q_norm, k_norm;
    Tensor q, k, v, o, gate, up, down, q_bias, k_bias, v_bias, k_cache, v_cache;
  };

  Tensor forward(GraphSession& s, const Layer& l, const Tensor& h) {
    const std::uint32_t rows = kind_.rows;
    const auto wide = [&](std::uint32_t n) { return s.scratch(DType::f32, {rows, n}); };
    const auto split = [&](const Tensor& t, std::uint32_t n) {
      return tensor(t.view, t.dtype, {rows, n, head_dim});
    };
    const View step = step_.view();
    const Tensor x = wide(dim), v = wide(kv_heads * head_dim);
    Tensor q = wide(heads * head_dim), k = wide(kv_heads * head_dim);
    ops::rms_norm(s, {.x = h, .weight = l.attn_norm, .out = x});
    ops::matmul(s, {.x = x, .weight = l.q, .out = q});
    ops::matmul(s, {.x = x, .weight = l.k, .out = k});
    ops::matmul(s, {.x = x, .weight = l.v, .out = v});
    if (kind_.bias) {
      ops::add(s, {.a = q, .b = l.q_bias, .out = q});
      ops::add(s, {.a = k, .b = l.k_bias, .out = k});
      ops::add(s, {.a = v, .b = l.v_bias, .out = v});
    }
    if (kind_.head_norms) {
      const Tensor qn = wide(heads * head_dim), kn = wide(kv_heads * head_dim);
      ops::rms_norm(s, {.x = split(q, heads), .weight = l.q_norm, .out = split(qn, heads)});
      ops::rms_norm(s, {.x = split(k, kv_heads), .weight = l.k_norm, .out = split(kn, kv_heads)});
      q = qn;
      k = kn;
    }
    ops::rope(s, {.x = split(q, heads), .out = split(q, heads), .positions = step});
    ops::rope(s, {.x = split(k, kv_heads), .out = split(k, kv_heads), .positions = step});
    ops::kv_store(s, {.x = split(k, kv_heads), .cache = l.k_cache, .step = step});
    ops::kv_store(s, {.x = split(v, kv_heads), .cache = l.v_cache, .step = step});
    const Tensor a = wide(heads * head_dim), o = wide(dim);
    ops::attention(s, {.q = split(q, heads),
                       .k = l.k_cache,
                       .v = l.v_cache,
                       .out = split(a, heads),
                       .step = step});
    ops::matmul(s, {.x = a, .weight = l.o, .out = o});
    const Tensor r = add_residual(s, o, l.post_attn, h);
    const Tensor y = wide(dim), gate = wide(ffn), up = wide(ffn), gated = wide(ffn);
    ops::rms_norm(s, {.x = r, .weight = l.ffn_norm, .out = y});
    ops::matmul(s, {.x = y, .weight = l.gate, .out = gate});
    ops::matmul(s, {.x = y, .weight = l.up, .out = up});
    if (kind_.gelu) {
      ops::gelu_mul(s, {.a = gate, .b = up, .out = gated});
    } else {
      ops::silu_mul(s, {.a = gate, .b = up, .out = gated});
    }
    const Tensor down = wide(dim);
    ops::matmul(s, {.x = gated, .weight = l.down, .out = down});
    return add_residual(s, down, l.post_ffn, r);
  }

  Tensor add_residual(GraphSession& s, Tensor x, const Tensor& post, const Tensor& residual) {
    if (kind_.post_norms) {
      const Tensor normed = s.scratch(DType::f32, {kind_.rows, dim});
      ops::rms_norm(s, {.x = x, .weight = post, .out = normed});
      x = normed;
    }
    const Tensor sum = s.scratch(DType::f32, {kind_.rows, dim});
    ops::add(s, {.a = residual, .b = x, .out = sum});
    return sum;
  }

  Tensor memory(Format type, const Shape& shape) {
    Buffer b = device_.allocate(*storage_bytes(type, shape)).value();
    const Tensor t = b.tensor(type, shape);
    (shape.rank == 4 ? caches_ : buffers_).push_back(std::move(b));
    return t;
  }

  Tensor norm(std::uint32_t n) {
    const Tensor t = memory(DType::f32, {n});
    std::vector<float> values(n);
    for (float& v : values) v = 1.0f + 0.1f * random_.next();
    EXPECT_TRUE(device_.write_as<float>(t.view, values));
    return t;
  }

  template <class Block>
  static std::vector<std::byte> quantized(const std::vector<float>& values) {
    std::vector<std::byte> out(values.size() / Block::elements * sizeof(Block));
    for (std::size_t i = 0; i < values.size() / Block::elements; ++i) {
      Block block;
      quant::quantize(values.data() + i * Block::elements, block);
      std::memcpy(out.data() + i * sizeof(Block), &block, sizeof(Block));
    }
    return out;
  }

  Tensor weight(std::uint32_t n, std::uint32_t k, Format type) {
    std::vector<float> values(std::size_t{n} * k);
    for (float& v : values) v = random_.next() * 1.7f / std::sqrt(static_cast<float>(k));
    DType native = DType::f32;
    std::vector<std::byte> bytes(values.size() * 4);
    std::memcpy(bytes.data(), values.data(), bytes.size());
    if (type == formats::q4_0_r16 || type == DType::q4_0) {
      native = DType::q4_0;
      bytes = quantized<quant::BlockQ4_0>(values);
    } else if (type == formats::q8_0_r16) {
      native = DType::q8_0;
      bytes = quantized<quant::BlockQ8_0>(values);
    }
    const Tensor t = memory(type, {n, k});
    if (type == native) {
      EXPECT_TRUE(device_.write(t.view, bytes));
    } else {
      std::vector<std::byte> packed(t.view.bytes);
      EXPECT_TRUE(quant::pack(type, n, k, bytes, packed));
      EXPECT_TRUE(device_.write(t.view, packed));
    }
    return t;
  }

  static void append_to(std::vector<std::byte>& all, const std::vector<std::byte>& part) {
    all.insert(all.end(), part.begin(), part.end());
  }
  void append(std::vector<std::byte>& all, const View& view) {
    std::vector<std::byte> bytes(view.bytes);
    EXPECT_TRUE(device_.read(view, bytes));
    append_to(all, bytes);
  }

  LayerKind kind_;
  Device device_;
  GraphExecutor executor_;
  Random random_{3};
  StepState step_;
  std::vector<Buffer> buffers_, caches_;
  std::vector<Layer> layers_;
  Tensor x_, out_;
};

class FuseLayers : public ::testing::TestWithParam<LayerKind> {};

TEST_P(FuseLayers, GiveTheBitsOfTheSeparateDispatches) {
  const Device device = Device::open("cpu", {.backend = {CpuOptions{.threads = 2}}}).value();
  Layers model(GetParam(), device);
  const Plan separate = model.compile(false), fused = model.compile(true);
  EXPECT_EQ(model.run(fused), model.run(separate));
  for (const bool fuse : {false, true}) {
    EXPECT_EQ(model.run(model.compile(fuse, Policy::greedy64)), model.run(fused));
  }
  const std::uint32_t last = 1;  // the copy of the result
  EXPECT_LE(fused.report().dispatches, GetParam().dispatches * layers + last);
  EXPECT_GT(separate.report().dispatches, fused.report().dispatches);
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, FuseLayers,
    ::testing::Values(
        LayerKind{.name = "llama_q4_0"},
        LayerKind{.name = "llama_q8_0", .weights = formats::q8_0_r16},
        LayerKind{.name = "llama_f32_packed", .weights = formats::f32_r16},
        LayerKind{.name = "llama_f32", .weights = DType::f32},
        LayerKind{.name = "llama_q4_0_as_in_files", .weights = DType::q4_0},
        LayerKind{.name = "llama_mixed", .value_weights = formats::q8_0_r16, .dispatches = 9},
        LayerKind{.name = "qwen2_bias", .bias = true},
        LayerKind{.name = "qwen3_head_norms", .head_norms = true},
        LayerKind{.name = "gemma_post_norms",
                  .head_norms = true,
                  .post_norms = true,
                  .gelu = true,
                  .dispatches = 10},
        LayerKind{.name = "llama_prefill", .rows = 4},
        LayerKind{.name = "llama_q8_0_cache", .kv = DType::q8_0}),
    [](const auto& p) { return std::string(p.param.name); });

}  // namespace
}  // namespace onepass::test::fuse_layers_test
