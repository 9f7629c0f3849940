// The decoder against golden logits and against a float64 forward pass.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>

#include "io/gguf_file.h"
#include "run/decoder.h"
#include "support/forward_reference.h"
#include "support/random_model.h"

namespace onepass::test::golden_test {
namespace {

using llm::Decoder;
using llm::Model;

std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// The numbers of a list `"key": [1, 2, ...]`.
std::vector<std::uint32_t> list_in(const std::string& json, const std::string& key) {
  std::vector<std::uint32_t> list;
  const std::size_t begin = json.find('[', json.find("\"" + key + "\""));
  const std::size_t end = json.find(']', begin);
  for (std::size_t at = begin; at < end; at = json.find(',', at + 1)) {
    list.push_back(static_cast<std::uint32_t>(std::stoul(json.substr(at + 1))));
  }
  return list;
}

std::shared_ptr<const Model> load(const std::string& path) {
  const Result<Device> device = Device::open("cpu");
  const Result<io::GgufFile> file = io::GgufFile::open(path);
  if (!device || !file) return nullptr;
  auto model = Model::load(*device, *file);
  EXPECT_TRUE(model) << model.error().to_string();
  return model ? *model : nullptr;
}

Decoder decoder(std::shared_ptr<const Model> model, const llm::DecoderOptions& options) {
  auto d = Decoder::create(std::move(model), options);
  EXPECT_TRUE(d) << d.error().to_string();
  return std::move(d).value();
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

class Stories260K : public testing::Test {
 protected:
  void SetUp() override {
    const std::filesystem::path data = ONEPASS_TEST_DATA;
    const auto path = data / "gguf" / "stories260K-f32.gguf";
    if (data.empty() || !std::filesystem::exists(path)) {
      GTEST_SKIP() << "no stories260K-f32.gguf in ONEPASS_TEST_DATA (\"" << data.string() << "\")";
    }
    const std::string json = bytes_of(data / "golden" / "stories260K.json");
    ids_ = list_in(json, "greedy_ids");
    const std::string raw = bytes_of(data / "golden" / "stories260K.logits.f32");
    golden_.resize(raw.size() / 4);
    std::memcpy(golden_.data(), raw.data(), raw.size());
    model_ = load(path.string());
    ASSERT_NE(model_, nullptr);
    vocab_ = model_->config().vocab;
    ASSERT_GT(ids_.size(), 64u);
    ASSERT_EQ(golden_.size(), 64u * vocab_);
  }
  std::vector<float> golden(std::size_t p) const {
    const auto at = golden_.begin() + static_cast<std::ptrdiff_t>(p * vocab_);
    return {at, at + static_cast<std::ptrdiff_t>(vocab_)};
  }
  Decoder create() const {
    return decoder(model_, {.context = static_cast<std::uint32_t>(ids_.size()), .kv = DType::f32});
  }

  std::shared_ptr<const Model> model_;
  std::vector<std::uint32_t> ids_;
  std::vector<float> golden_;
  std::size_t vocab_ = 0;
};

TEST_F(Stories260K, GreedyThroughOneReplayedPlan) {
  Decoder d = create();
  ASSERT_TRUE(d.append(std::span(ids_).first(1)));
  double worst = 0.0;
  for (std::size_t p = 0; p + 1 < ids_.size(); ++p) {
    const Result<std::uint32_t> token = d.greedy();
    ASSERT_TRUE(token) << token.error().to_string();
    ASSERT_EQ(*token, ids_[p + 1]) << "at " << p;
    ASSERT_EQ(d.length(), p + 1);
    if (p >= 64) continue;
    const double error = reference::nmse(d.logits().value(), golden(p));
    ASSERT_LE(error, 1e-9) << "at " << p;
    worst = std::max(worst, error);
  }
  EXPECT_EQ(d.recorded_plans(), 1u);
  std::ostringstream text;
  text << worst;
  RecordProperty("worst_nmse", text.str());
}

TEST_F(Stories260K, ChunksGiveTheSameBits) {
  Decoder one = create();
  for (const std::uint32_t id : ids_) ASSERT_TRUE(one.append({&id, 1}));
  const std::vector<float> expected = one.logits().value();
  EXPECT_EQ(one.recorded_plans(), 1u);
  for (const std::uint32_t chunk : {2u, 8u, 64u, 512u}) {
    Decoder d = decoder(model_, {.context = static_cast<std::uint32_t>(ids_.size()),
                                 .kv = DType::f32,
                                 .chunk_rows = chunk});
    ASSERT_TRUE(d.append(ids_));
    EXPECT_GT(d.recorded_plans(), 1u);
    EXPECT_TRUE(same_bits(d.logits().value(), expected)) << chunk;
  }
}

TEST_F(Stories260K, HalfPrecisionCacheStaysClose) {
  Decoder d = decoder(model_, {.context = 64});
  for (std::size_t p = 0; p < 64; ++p) {
    ASSERT_TRUE(d.append({&ids_[p], 1}));
    ASSERT_LE(reference::nmse(d.logits().value(), golden(p)), 1e-4) << "at " << p;
  }
}

// Quantized models of real size against float64 arithmetic on the same weights.
class ModelFile : public testing::TestWithParam<const char*> {};

TEST_P(ModelFile, MatchesFloat64) {
  const std::filesystem::path path = GetParam();
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no " << path;
  const Result<io::GgufFile> file = io::GgufFile::open(path.string());
  ASSERT_TRUE(file) << file.error().to_string();
  const reference::Model expected = reference::from_file(*file);
  ASSERT_FALSE(expected.layers.empty());
  const auto model = load(path.string());
  ASSERT_NE(model, nullptr);
  Decoder d = decoder(model, {.context = 64, .kv = DType::f32});
  reference::Forward<reference::Float64> forward(expected);
  reference::Forward<reference::Rounded> rounded(expected);
  std::uint32_t token = 1;
  double worst = 0.0, noise = 0.0;
  for (std::uint32_t p = 0; p < 12; ++p) {
    ASSERT_TRUE(d.append({&token, 1}));
    const std::vector<double> logits = forward.next(token);
    worst = std::max(worst, reference::nmse(d.logits().value(), logits));
    noise = std::max(noise, reference::nmse(rounded.next(token), logits));
    token = reference::largest(logits);
  }
  EXPECT_LE(worst, 4.0 * noise);
  std::cout << "[ NMSE     ] " << path.filename().string() << " " << worst << " noise " << noise
            << "\n";
}
INSTANTIATE_TEST_SUITE_P(Llm, ModelFile,
                         testing::Values(ONEPASS_SOURCE_DIR "/models/stories-12m-q8_0.gguf",
                                         ONEPASS_TEST_DATA "/gguf/stories15M-q4_0.gguf",
                                         ONEPASS_TEST_DATA "/gguf/minimind2-small-q4_k_m.gguf"));

struct Variant {
  const char* name;
  RandomModelOptions model;
  double max_nmse = 1e-9;  // 0: of the order of what rounding activations to 8 bits changes
  DType kv = DType::f32;
};
void PrintTo(const Variant& v, std::ostream* out) { *out << v.name; }

class RandomModels : public testing::TestWithParam<Variant> {};

TEST_P(RandomModels, MatchFloat64) {
  const Variant& v = GetParam();
  const RandomModel random(v.model, 7);
  const TempFile file(random.writer.finish());
  const auto model = load(file.path());
  ASSERT_NE(model, nullptr);
  Decoder d = decoder(model, {.kv = v.kv});
  reference::Forward<reference::Float64> forward(random.model());
  reference::Forward<reference::Rounded> rounded(random.model());
  std::uint32_t token = 5;
  double worst = 0.0, noise = 0.0, nearest = 1.0;
  for (std::uint32_t p = 0; p < v.model.context; ++p) {
    ASSERT_TRUE(d.append({&token, 1}));
    const std::vector<double> expected = forward.next(token);
    worst = std::max(worst, reference::nmse(d.logits().value(), expected));
    if (v.max_nmse == 0.0) {
      const std::vector<double> other = rounded.next(token);
      noise = std::max(noise, reference::nmse(other, expected));
      nearest = std::min(nearest, reference::nmse(d.logits().value(), other));
    }
    token = (token * 31 + p) % v.model.vocab;
  }
  EXPECT_LE(worst, v.max_nmse > 0.0 ? v.max_nmse : 4.0 * noise);
  // Where no value lies on the edge between two numbers of 8 bits, both round alike. The router of
  // experts is not rounded.
  if (v.max_nmse == 0.0 && v.model.experts == 0) {
    EXPECT_LE(nearest, 1e-9);
  }
  EXPECT_EQ(d.recorded_plans(), 1u);
  std::ostringstream text;
  text << worst << " of " << (v.max_nmse > 0.0 ? v.max_nmse : 4.0 * noise);
  RecordProperty("worst_nmse", text.str());
  std::cout << "[ NMSE     ] " << v.name << " " << text.str() << "\n";
}

TEST_P(RandomModels, ChunksGiveTheSameBits) {
  const Variant& v = GetParam();
  const RandomModel random(v.model, 8);
  const TempFile file(random.writer.finish());
  const auto model = load(file.path());
  ASSERT_NE(model, nullptr);
  std::vector<std::uint32_t> tokens;
  for (std::uint32_t p = 0; p < v.model.context; ++p) tokens.push_back(p * 29 % v.model.vocab);
  Decoder one = decoder(model, {.kv = v.kv});
  std::vector<std::vector<float>> expected;
  for (const std::uint32_t token : tokens) {
    ASSERT_TRUE(one.append({&token, 1}));
    expected.push_back(one.logits().value());
  }
  // Every length: whole buckets, padded ones, and what is left over.
  for (std::size_t n = 1; n <= tokens.size(); ++n) {
    Decoder d = decoder(model, {.kv = v.kv, .chunk_rows = n % 3 == 0 ? 8u : 512u});
    ASSERT_TRUE(d.append(std::span(tokens).first(n / 3)));
    ASSERT_TRUE(d.append(std::span(tokens).subspan(n / 3, n - n / 3)));
    ASSERT_TRUE(same_bits(d.logits().value(), expected[n - 1])) << n << " tokens";
  }
}

// Of 256 columns, with few tokens: for formats whose plain kernels take long when sanitized.
RandomModelOptions short_wide(std::uint32_t ffn, std::uint32_t matrix_type) {
  RandomModelOptions o{.dim = 256, .heads = 8, .kv_heads = 4, .head_dim = 32, .ffn = ffn};
  o.context = 24;
  o.matrix_type = matrix_type;
  return o;
}

const Variant variants[] = {
    {"f32", {}},
    {"f16", {.matrix_type = 1, .norm_type = 1}},
    {"bf16", {.matrix_type = 30, .norm_type = 30}},
    {"q4_0", {.matrix_type = 2}, 0.0},
    {"q8_0", {.matrix_type = 8}, 0.0},
    {"q5_0", {.matrix_type = 6}, 0.0},
    {"q3_k", short_wide(512, 11), 0.0},
    {"iq4_nl", {.matrix_type = 20}, 0.0},
    {"iq4_xs", short_wide(256, 23), 0.0},
    {"mxfp4", {.matrix_type = 39}, 0.0},
    {"nvfp4", {.matrix_type = 40}, 0.0},
    {"nvfp4_scaled", {.matrix_type = 40, .all_biases = true, .tensor_scales = true}, 0.0},
    {"nvfp4_scaled_qkv", {.matrix_type = 40, .fused_qkv = true, .tensor_scales = true}, 0.0},
    {"nvfp4_scaled_experts",
     {.ffn = 128,
      .matrix_type = 40,
      .architecture = "qwen3moe",
      .experts = 3,
      .experts_used = 3,
      .tensor_scales = true},
     0.0},
    {"tq1_0", short_wide(256, 34), 0.0},
    {"tq2_0", short_wide(256, 35), 0.0},
    {"q1_0", short_wide(256, 41), 0.0},
    {"q2_0", {.matrix_type = 42}, 0.0},
    {"iq3_s", short_wide(256, 21), 0.0},
    {"iq3_xxs", short_wide(256, 18), 0.0},
    {"iq2_xs", short_wide(256, 17), 0.0},
    {"iq2_s", short_wide(256, 22), 0.0},
    {"iq2_xxs", short_wide(256, 16), 0.0},
    {"iq1_s", short_wide(256, 19), 0.0},
    {"iq1_m", short_wide(256, 29), 0.0},
    {"q4_k",
     {.dim = 256, .heads = 8, .kv_heads = 4, .head_dim = 32, .ffn = 512, .matrix_type = 12},
     0.0},
    {"q6_k",
     {.dim = 256, .heads = 8, .kv_heads = 4, .head_dim = 32, .ffn = 288, .matrix_type = 14},
     0.0},
    {"tied", {.tied = true}},
    {"fused_qkv", {.matrix_type = 8, .fused_qkv = true}, 0.0},
    {"rope_base", {.rope_base = 500000.0f}},
    {"rope_linear", {.rope_scale = 4.0f}},
    {"rope_factors", {.rope_scale = 2.0f, .rope_factors = true}},
    {"rope_yarn", {.rope_scale = 4.0f, .yarn = true, .original_context = 16}},
    {"one_head", {.heads = 1, .kv_heads = 1, .head_dim = 32}},
    {"wide_heads", {.heads = 6, .kv_heads = 3, .head_dim = 32}},
    {"kv_f16", {}, 1e-5, DType::f16},
    {"biases", {.all_biases = true}},
    {"odd_rows", {.heads = 2, .kv_heads = 1, .head_dim = 24, .ffn = 80, .fused_qkv = true}},
    {"mixtral", {.experts = 5, .experts_used = 2}},
    // All experts are used: rounding must not change which ones are.
    {"mixtral_q8_0", {.matrix_type = 8, .experts = 4, .experts_used = 4}, 0.0},
    {"qwen2", {.architecture = "qwen2", .qkv_bias = true}},
    {"qwen2_q4_0", {.matrix_type = 2, .architecture = "qwen2", .qkv_bias = true}, 0.0},
    {"qwen3", {.architecture = "qwen3"}},
    {"qwen3_q4_0", {.matrix_type = 2, .tied = true, .architecture = "qwen3"}, 0.0},
    {"qwen3moe", {.architecture = "qwen3moe", .experts = 8, .experts_used = 3}},
    {"qwen3moe_one", {.architecture = "qwen3moe", .experts = 4, .experts_used = 1}},
    {"qwen3moe_q8_0",
     {.ffn = 128, .matrix_type = 8, .architecture = "qwen3moe", .experts = 3, .experts_used = 3},
     0.0},
    {"gemma2", {.layers = 4, .tied = true, .architecture = "gemma2", .window = 7}},
    {"gemma2_q8_0",
     {.layers = 4, .matrix_type = 8, .tied = true, .architecture = "gemma2", .window = 7},
     0.0},
    {"gemma2_default", {.layers = 2, .tied = true, .architecture = "gemma2"}},
    {"gemma3",
     {.layers = 7, .rope_base = 1e6f, .tied = true, .architecture = "gemma3", .window = 9}},
    {"gemma3_scaled",
     {.rope_base = 1e6f, .rope_scale = 8.0f, .architecture = "gemma3", .window = 5, .period = 2}},
    {"gemma3_q4_0",
     {.matrix_type = 2, .rope_base = 1e6f, .architecture = "gemma3", .window = 5, .period = 3},
     0.0},
    {"phi3", {.architecture = "phi3"}},
    {"internlm2", {.architecture = "internlm2"}},
    {"exaone", {.rope_factors = true, .architecture = "exaone"}},
    {"seed_oss", {.architecture = "seed_oss", .qkv_bias = true}},
    {"phi3_partial", {.architecture = "phi3", .rope_dims = 12}},
    {"phi3_long",
     {.architecture = "phi3", .rope_dims = 12, .original_context = 32, .long_short = true}},
    {"phi3_short", {.architecture = "phi3", .original_context = 64, .long_short = true}},
    {"phi3_q4_0", {.matrix_type = 2, .architecture = "phi3", .rope_dims = 8}, 0.0},
};
TEST(TensorScales, OfTypesThatHaveNoPlaceForThemAreRefused) {
  const RandomModel random({.matrix_type = 8, .tensor_scales = true});
  const TempFile file(random.writer.finish());
  const Result<Device> device = Device::open("cpu");
  const auto model = Model::open(*device, file.path());
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, ErrorCode::unsupported);
  EXPECT_EQ(model.error().field, "output.scale");
  EXPECT_NE(model.error().message.find("scale"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Llm, RandomModels, testing::ValuesIn(variants),
                         [](const auto& i) { return std::string(i.param.name); });

}  // namespace
}  // namespace onepass::test::golden_test
