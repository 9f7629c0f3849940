// Importance matrices against a forward pass in float64 that writes down what it multiplies.
#include "run/imatrix_collector.h"

#include <gtest/gtest.h>

#include <map>

#include "support/forward_reference.h"
#include "support/random_model.h"

namespace onepass::test::imatrix_collector_test {
namespace {

struct Seen {
  std::vector<double> sums;
  std::uint64_t rows = 0;
};

// By the matrix.
struct Observed : reference::Float64 {
  static inline std::map<const reference::Matrix*, Seen> seen;

  static void multiply(const reference::Matrix& m, const std::vector<Real>& x,
                       std::vector<Real>& y) {
    Seen& s = seen[&m];
    s.sums.resize(m.cols);
    for (std::uint32_t i = 0; i < m.cols; ++i) s.sums[i] += x[i] * x[i];
    ++s.rows;
    Float64::multiply(m, x, y);
  }
};

constexpr std::uint32_t window = 11, windows = 3;

std::vector<std::uint32_t> tokens_of(std::uint32_t i) {
  std::vector<std::uint32_t> tokens;
  for (std::uint32_t k = 0; k < window; ++k) tokens.push_back((k * 17 + i * 29 + 3) % 97);
  return tokens;
}

// What the entry of those matrices, of all experts, must be.
void expect_near(const llm::ImatrixEntry& entry, const std::vector<const reference::Matrix*>& of,
                 const std::string& name) {
  ASSERT_EQ(entry.counts.size(), of.size()) << name;
  const std::size_t cols = entry.sums.size() / of.size();
  for (std::size_t e = 0; e < of.size(); ++e) {
    const Seen& s = Observed::seen[of[e]];
    EXPECT_EQ(entry.counts[e], s.rows) << name << " " << e;
    for (std::size_t i = 0; i < s.sums.size(); ++i) {
      EXPECT_NEAR(entry.sums[e * cols + i], s.sums[i], 1e-2 * s.sums[i] + 1e-4) << name << " " << i;
    }
  }
}

class ImatrixCollectorTest : public testing::TestWithParam<const char*> {};

TEST_P(ImatrixCollectorTest, IsThatOfAPassInFloat64) {
  RandomModelOptions o;
  o.architecture = GetParam();
  o.layers = 2;
  const std::string architecture = o.architecture;
  if (architecture == "qwen3moe") o.experts = 4;
  if (architecture == "phi3") o.fused_qkv = true;
  const RandomModel random(o, 5);
  const TempFile path(random.writer.finish());
  const auto device = Device::open("cpu");
  const auto model = llm::Model::open(*device, path.path());
  ASSERT_TRUE(model) << model.error().to_string();
  auto collector = llm::ImatrixCollector::create(*model, window, !o.tied);
  ASSERT_TRUE(collector) << collector.error().to_string();
  Observed::seen.clear();
  const reference::Model& m = random.model();
  for (std::uint32_t i = 0; i < windows; ++i) {
    const Status added = collector->add(tokens_of(i));
    ASSERT_TRUE(added) << added.error().to_string();
    reference::Forward<Observed> forward(m);
    for (const std::uint32_t token : tokens_of(i)) forward.next(token);
  }
  const auto matrix = collector->finish();
  ASSERT_TRUE(matrix) << matrix.error().to_string();
  EXPECT_EQ(matrix->chunks, windows);
  EXPECT_EQ(matrix->chunk_tokens, window);

  std::map<std::string, std::vector<const reference::Matrix*>> expected;
  for (std::size_t i = 0; i < m.layers.size(); ++i) {
    const reference::Layer& l = m.layers[i];
    const auto add = [&](const char* part, const reference::Matrix& one) {
      if (one.rows != 0) expected["blk." + std::to_string(i) + "." + part + ".weight"] = {&one};
    };
    const auto add_experts = [&](const char* part, const std::vector<reference::Matrix>& all) {
      auto& list = expected["blk." + std::to_string(i) + "." + part + ".weight"];
      for (const reference::Matrix& one : all) list.push_back(&one);
      if (all.empty()) expected.erase("blk." + std::to_string(i) + "." + part + ".weight");
    };
    if (o.fused_qkv) {
      add("attn_qkv", l.q), add("ffn_up", l.gate);
    } else {
      add("attn_q", l.q), add("attn_k", l.k), add("attn_v", l.v);
      add("ffn_gate", l.gate), add("ffn_up", l.up);
    }
    add("attn_output", l.o), add("ffn_down", l.down), add("ffn_gate_inp", l.router);
    add_experts("ffn_gate_exps", l.gate_experts);
    add_experts("ffn_up_exps", l.up_experts);
    add_experts("ffn_down_exps", l.down_experts);
  }
  if (matrix->entries.count("output.weight") != 0) expected["output.weight"] = {&m.output};
  ASSERT_EQ(matrix->entries.size(), expected.size());
  for (const auto& [name, of] : expected) {
    const auto entry = matrix->entries.find(name);
    ASSERT_NE(entry, matrix->entries.end()) << name;
    expect_near(entry->second, of, name);
  }
}

INSTANTIATE_TEST_SUITE_P(Architectures, ImatrixCollectorTest,
                         testing::Values("llama", "qwen3moe", "phi3", "gemma2"));

TEST(ImatrixCollector, HeadOnlyWhereAsked) {
  const RandomModel random({.layers = 1});
  const TempFile path(random.writer.finish());
  const auto device = Device::open("cpu");
  const auto model = llm::Model::open(*device, path.path());
  for (const bool head : {false, true}) {
    auto collector = llm::ImatrixCollector::create(*model, window, head);
    ASSERT_TRUE(collector->add(tokens_of(0)));
    EXPECT_EQ(collector->finish()->entries.count("output.weight"), head ? 1u : 0u);
  }
}

TEST(ImatrixCollector, StopsWhenAskedAndRefusesTokensThatDoNotFit) {
  const RandomModel random({.layers = 1});
  const TempFile path(random.writer.finish());
  const auto device = Device::open("cpu");
  const auto model = llm::Model::open(*device, path.path());
  auto collector = llm::ImatrixCollector::create(*model, window);
  const std::atomic<bool> cancel{true};
  EXPECT_EQ(collector->add(tokens_of(0), &cancel).error().code, ErrorCode::cancelled);
  const std::vector<std::uint32_t> many(window + 1, 3), unknown{1000};
  EXPECT_EQ(collector->add(many).error().code, ErrorCode::limit);
  EXPECT_EQ(collector->add(unknown).error().code, ErrorCode::invalid_argument);
  EXPECT_TRUE(collector->add(tokens_of(0)));
}

// A decoder that was observed goes on as one that was not.
TEST(Decoder, ObservedTokensAreInTheCache) {
  const RandomModel random({.layers = 2});
  const TempFile path(random.writer.finish());
  const auto device = Device::open("cpu");
  const auto model = llm::Model::open(*device, path.path());
  auto plain = llm::Decoder::create(*model, {.kv = DType::f32});
  auto observed = llm::Decoder::create(*model, {.kv = DType::f32});
  const std::vector<std::uint32_t> tokens = tokens_of(0);
  std::size_t dispatches = 0;
  ASSERT_TRUE(observed->observe(tokens, [&](const Dispatch&, const auto&) -> Status {
    ++dispatches;
    return {};
  }));
  EXPECT_GT(dispatches, 2u * 3u * 10u);
  EXPECT_EQ(observed->length(), window);
  EXPECT_FALSE(observed->logits());
  ASSERT_TRUE(plain->append(tokens));
  const std::uint32_t more[] = {5, 6};
  ASSERT_TRUE(plain->append(more));
  ASSERT_TRUE(observed->append(more));
  const std::vector<float> a = plain->logits().value(), b = observed->logits().value();
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-4f) << i;
}

}  // namespace
}  // namespace onepass::test::imatrix_collector_test
