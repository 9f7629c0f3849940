// The schedules of whole models: no unordered pair, no barrier too many, few dispatches.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "graph/plan_state.h"
#include "model/synthetic.h"
#include "run/decoder.h"
#include "support/order_proof.h"

namespace onepass::test::graph_test {
namespace {

using llm::Decoder;
using llm::Model;

// One small synthetic model of each architecture.
std::vector<std::string> small_presets() {
  std::vector<std::string> list{"tiny"};
  for (const llm::SyntheticPreset& p : llm::synthetic_presets()) {
    if (p.name.starts_with("tiny-")) list.emplace_back(p.name);
  }
  return list;
}

class ModelGraph : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const Result<Device> device = Device::open("cpu");
    ASSERT_TRUE(device);
    auto model = Model::open(*device, "synthetic:" + GetParam() + ":q4_0");
    ASSERT_TRUE(model) << model.error().to_string();
    model_ = *model;
    auto d = Decoder::create(model_, {.context = 1024});
    ASSERT_TRUE(d) << d.error().to_string();
    decoder_.emplace(std::move(*d));
  }
  Plan inspect(std::uint32_t rows, const PlanOptions& options = {},
               std::uint32_t layers = llm::max_layers) const {
    const Result<Plan> plan = decoder_->inspect(rows, options, layers);
    EXPECT_TRUE(plan) << plan.error().to_string();
    return plan ? *plan : Plan();
  }

  std::shared_ptr<const Model> model_;
  std::optional<Decoder> decoder_;
};

TEST_P(ModelGraph, HasNoHazardAndNoBarrierTooMany) {
  for (const std::uint32_t rows : {1u, 2u, 64u, 512u}) {
    for (const bool fuse : {true, false}) {
      const Plan plan = inspect(rows, {.fuse = fuse, .validate = false});
      ASSERT_TRUE(plan);
      const PlanReport& r = plan.report();
      EXPECT_EQ(plan.count_hazards().value(), 0u) << rows;
      EXPECT_EQ(r.barriers + 1, r.longest_path) << rows;
      EXPECT_EQ(r.levels, r.longest_path) << rows;
      EXPECT_EQ(r.fused.rules.empty(), !fuse);
      EXPECT_LE(r.arena_bytes, r.scratch_bytes);
      // Without them nothing but embedding and, for one row, head and choice is left.
      const Plan none = inspect(rows, {.fuse = fuse, .validate = false}, 0);
      EXPECT_LE(none.report().dispatches, model_->config().per_layer_dim > 0 ? 15u : 8u);
    }
  }
}

// The same on a card: run/card_test.cpp.
TEST_P(ModelGraph, EveryEdgeAndBoundaryIsNeeded) {
  Removals totals;
  for (const std::uint32_t rows : {1u, 64u}) {
    const Plan plan = inspect(rows);
    ASSERT_TRUE(plan);
    const Recording& r = plan.state().pass->recording;
    EXPECT_EQ(check_removals(r, plan.state().pass->order, totals), "") << rows;
    EXPECT_EQ(check_removals(r, graph::order_by_levels(r), totals), "") << rows;
  }
  EXPECT_EQ(totals.orders, 4u);
  EXPECT_TRUE(totals.implied.empty());
  EXPECT_GT(totals.edges, 20u);
}

TEST_P(ModelGraph, GreedyOrderIsCorrectAndHasNoFewerBarriers) {
  for (const std::uint32_t rows : {1u, 64u}) {
    for (const bool fuse : {true, false}) {
      const Plan exact = inspect(rows, {.fuse = fuse});
      const Plan greedy =
          inspect(rows, {.fuse = fuse, .validate = false, .policy = Policy::greedy64});
      ASSERT_TRUE(exact && greedy);
      EXPECT_EQ(greedy.count_hazards().value(), 0u);
      EXPECT_GE(greedy.report().barriers, exact.report().barriers);
      EXPECT_EQ(greedy.report().barriers + 1, greedy.report().levels);
      EXPECT_EQ(greedy.report().longest_path, exact.report().longest_path);
      EXPECT_EQ(greedy.report().dispatches, exact.report().dispatches);
    }
  }
}

// Of a layer: eight of a Llama's, and what parts cost that no kernel takes in.
std::uint32_t most_dispatches(const llm::ModelConfig& c) {
  const llm::Architecture& a = *c.architecture;
  const auto has = [&](llm::Linear llm::LayerWeights::*weights) {
    return std::any_of(a.tensors.begin(), a.tensors.end(),
                       [&](const auto& row) { return row.into[0].weights == weights; });
  };
  using llm::LayerWeights;
  std::uint32_t most = 8;
  if (c.n_experts > 0) most += 4;
  if (c.shared_ffn_dim > 0) most += has(&LayerWeights::shared_router) ? 7 : 3;
  if (has(&LayerWeights::post_attention_norm)) most += 2;
  if (a.norm == llm::NormKind::layer) most += 4;  // quantized apart
  if (a.norm_after_rope) most += 5;
  const bool gated = has(&LayerWeights::gate) || c.n_experts > 0;
  if (!gated && a.activation == llm::Activation::relu2) most += 2;
  if (c.residual_scale != 1.0f) most += 2;
  const bool whole_rows = std::any_of(a.tensors.begin(), a.tensors.end(), [](const auto& row) {
    return row.into[0].weights == &LayerWeights::q_norm && row.cols == llm::Extent::queries;
  });
  const bool biased_norms = std::any_of(a.tensors.begin(), a.tensors.end(), [](const auto& row) {
    return row.into[0].weights == &LayerWeights::attn_norm && row.bias != llm::Need::never;
  });
  if (biased_norms && a.norm == llm::NormKind::rms) most += 4;
  if (whole_rows) most += 2;
  if (!c.rope.still.empty()) most += 1;  // keys are stored apart
  if (a.value_norm) most += 2;
  if (c.per_layer_dim > 0) most += 7;  // a part of the inputs, two products, a norm, a scale
  return most;
}

TEST_P(ModelGraph, LayersHaveFewDispatches) {
  const std::uint32_t layers = model_->config().n_layers;
  const std::uint32_t most = most_dispatches(model_->config());
  for (const std::uint32_t rows : {1u, 512u}) {
    const std::uint32_t all = inspect(rows).report().dispatches;
    EXPECT_LE(all - inspect(rows, {}, layers - 1).report().dispatches, most) << rows;
    EXPECT_LE(all - inspect(rows, {}, 0).report().dispatches, most * layers) << rows;
  }
}

// docs/families.md has a row for each number of dispatches.
TEST_P(ModelGraph, LayersHaveTheDispatchesThatTheDocumentsSay) {
  const std::uint32_t layers = model_->config().n_layers;
  const std::uint32_t dispatches = inspect(1).report().dispatches;
  const std::uint32_t layer = dispatches - inspect(1, {}, layers - 1).report().dispatches;
  std::ifstream in(std::string(ONEPASS_SOURCE_DIR) + "/docs/families.md");
  const std::string row = "| " + std::to_string(layer) + " | ";
  const std::string name = " " + std::string(model_->config().architecture->name);
  bool said = false;
  for (std::string line; std::getline(in, line);) {
    const bool named = (line + ",").find(name + ",") != line.npos || line.ends_with(name + " |");
    said = said || (line.starts_with(row) && named);
  }
  EXPECT_TRUE(said) << layer << " of" << name;
}

TEST_P(ModelGraph, TheLastLayerOfAPromptOnlyFillsTheCache) {
  const auto dispatches = [&](std::uint32_t layers) {
    return inspect(64, {.fuse = false}, layers).report().dispatches;
  };
  const std::uint32_t last = dispatches(1) - dispatches(0);
  const std::uint32_t whole = dispatches(2) - dispatches(1);
  EXPECT_GE(last, 6u);  // norm, two products, rope, two stores
  EXPECT_LT(2 * last, whole);
}

TEST_P(ModelGraph, LooksAtThePassThatRuns) {
  const PlanReport seen = inspect(1).report();
  ASSERT_TRUE(decoder_->append(std::vector<std::uint32_t>{1}));
  EXPECT_EQ(decoder_->decode_plan().report().dispatches, seen.dispatches);
  EXPECT_EQ(decoder_->decode_plan().report().barriers, seen.barriers);
  EXPECT_EQ(decoder_->length(), 1u);
}

TEST_P(ModelGraph, HasFiniteLogits) {
  ASSERT_TRUE(decoder_->append(std::vector<std::uint32_t>{1, 2, 3, 4, 5, 6, 7}));
  double squares = 0.0;
  const std::vector<float> logits = decoder_->logits().value();
  for (const float x : logits) squares += static_cast<double>(x) * static_cast<double>(x);
  const double rms = std::sqrt(squares / static_cast<double>(logits.size()));
  EXPECT_GT(rms, 0.3);
  EXPECT_LT(rms, 3.0);
}

TEST_P(ModelGraph, EveryTensorOfTheSourceIsLoaded) {
  const auto source = llm::SyntheticSource::create("synthetic:" + GetParam() + ":f32");
  ASSERT_TRUE(source);
  class Seen final : public llm::WeightSource {
   public:
    explicit Seen(const llm::WeightSource& inner) : inner_(inner) {}
    std::optional<llm::StoredTensor> find(std::string_view name) const override {
      return inner_.find(name);
    }
    std::vector<llm::StoredTensor> stored() const override { return inner_.stored(); }
    const llm::Harmless* harmless(std::string_view name) const override {
      return inner_.harmless(name);
    }
    Status read(const llm::StoredTensor& t, std::uint64_t at,
                std::span<std::byte> out) const override {
      bytes[t.name] += out.size();
      return inner_.read(t, at, out);
    }
    mutable std::map<std::string, std::uint64_t> bytes;

   private:
    const llm::WeightSource& inner_;
  };
  const Seen seen(*source);
  ASSERT_TRUE(Model::load(model_->device(), source->config(), seen));
  std::map<std::string, std::uint64_t> expected;
  for (const llm::StoredTensor& t : source->stored()) expected[t.name] = t.bytes;
  EXPECT_EQ(seen.bytes, expected);
}

TEST_P(ModelGraph, RefusesRowsThatNoPassHas) {
  for (const std::uint32_t rows : {0u, llm::max_chunk_rows + 1}) {
    const Result<Plan> plan = decoder_->inspect(rows);
    ASSERT_FALSE(plan);
    EXPECT_EQ(plan.error().code, ErrorCode::invalid_argument);
  }
}

std::string test_name(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Presets, ModelGraph, testing::ValuesIn(small_presets()), test_name);

TEST(SmallPresets, CoverEveryArchitecture) {
  std::set<std::string_view> covered;
  for (const std::string& name : small_presets()) {
    for (const llm::SyntheticPreset& p : llm::synthetic_presets()) {
      if (p.name == name) covered.insert(p.architecture);
    }
  }
  for (const llm::Architecture* a : llm::architectures()) {
    EXPECT_TRUE(covered.contains(a->name)) << a->name;
  }
}

TEST(CountHazards, NeedsAPlan) {
  const Result<std::uint32_t> count = Plan().count_hazards();
  ASSERT_FALSE(count);
  EXPECT_EQ(count.error().code, ErrorCode::invalid_state);
}

}  // namespace
}  // namespace onepass::test::graph_test
