// Metadata and tensors that do not fit together: typed errors that name the key or tensor.
#include "model/config.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "io/gguf_file.h"
#include "io/safetensors.h"
#include "model/weights.h"
#include "onepass/compat.h"
#include "support/bad_file_heap.h"
#include "support/random_model.h"

namespace onepass::test::config_test {
namespace {

struct BadModel {
  const char* name;
  ErrorCode code;
  const char* field;
  std::function<void(GgufWriter&)> change;
};
void PrintTo(const BadModel& m, std::ostream* out) { *out << m.name; }

template <class T>
std::function<void(GgufWriter&)> with(const char* key, T value) {
  return [=](GgufWriter& w) { w.erase(key).set(key, value); };
}
std::function<void(GgufWriter&)> without(const char* key) {
  return [=](GgufWriter& w) { w.erase(key); };
}
std::function<void(GgufWriter&)> with_tensor(const char* name, std::uint32_t type,
                                             std::vector<std::uint64_t> dims) {
  return [=](GgufWriter& w) {
    const io::GgmlType* t = io::ggml_type(type);
    std::uint64_t elements = 1;
    for (const std::uint64_t d : dims) elements *= d;
    const std::vector<std::byte> data(
        static_cast<std::size_t>(elements / t->block_elements * t->block_bytes));
    w.erase_tensor(name).tensor(name, type, dims, data);
  };
}

class BadLlama : public testing::TestWithParam<BadModel> {};

TEST_P(BadLlama, IsRefused) {
  RandomModel random({.layers = 2, .dim = 64, .ffn = 96});
  GetParam().change(random.writer);
  const std::vector<std::byte> bytes = random.writer.finish();
  const TempFile path(bytes);
  const Result<Device> device = Device::open("cpu");
  ASSERT_TRUE(device);
  const std::uint64_t before = device->live_bytes();
  const BadFileHeap heap(bytes.size());
  const Result<io::GgufFile> file = io::GgufFile::open(path.path());
  ASSERT_TRUE(file) << file.error().to_string();
  const auto model = llm::Model::load(*device, *file);
  heap.check();
  ASSERT_FALSE(model);
  EXPECT_EQ(name(model.error().code), std::string(name(GetParam().code)))
      << model.error().to_string();
  EXPECT_EQ(model.error().field, GetParam().field) << model.error().to_string();
  ASSERT_TRUE(device->fence());
  EXPECT_EQ(device->live_bytes(), before);
}

constexpr ErrorCode parse = ErrorCode::parse, limit = ErrorCode::limit;
constexpr ErrorCode unsupported = ErrorCode::unsupported, not_found = ErrorCode::not_found;
constexpr float nan_value = std::numeric_limits<float>::quiet_NaN();
constexpr float infinite = std::numeric_limits<float>::infinity();
constexpr const char* eps_key = "llama.attention.layer_norm_rms_epsilon";

const BadModel models[] = {
    {"no_architecture", not_found, "general.architecture", without("general.architecture")},
    {"other_architecture", unsupported, "general.architecture",
     with("general.architecture", "mamba")},
    {"architecture_number", parse, "general.architecture", with("general.architecture", 3u)},
    {"no_layers_key", not_found, "llama.block_count", without("llama.block_count")},
    {"layers_string", parse, "llama.block_count", with("llama.block_count", "x")},
    {"layers_0", parse, "llama.block_count", with("llama.block_count", 0u)},
    {"layers_negative", parse, "llama.block_count", with("llama.block_count", -1)},
    {"layers_100000", limit, "llama.block_count", with("llama.block_count", 100000u)},
    {"layers_3_of_2", not_found, "blk.2.attn_norm.weight", with("llama.block_count", 3u)},
    {"dim_0", parse, "llama.embedding_length", with("llama.embedding_length", 0u)},
    {"dim_huge", limit, "llama.embedding_length",
     with("llama.embedding_length", std::uint64_t{1} << 40)},
    {"dim_other", parse, "token_embd.weight", with("llama.embedding_length", 96u)},
    {"ffn_0", parse, "llama.feed_forward_length", with("llama.feed_forward_length", 0u)},
    {"ffn_other", parse, "blk.0.ffn_gate.weight", with("llama.feed_forward_length", 128u)},
    {"ffn_short_array", parse, "llama.feed_forward_length",
     [](GgufWriter& w) {
       w.erase("llama.feed_forward_length")
           .set_array("llama.feed_forward_length", std::vector<std::uint32_t>{96});
     }},
    {"ffn_layers_differ", unsupported, "llama.feed_forward_length",
     [](GgufWriter& w) {
       w.erase("llama.feed_forward_length")
           .set_array("llama.feed_forward_length", std::vector<std::uint32_t>{96, 64});
     }},
    {"context_0", parse, "llama.context_length", with("llama.context_length", 0u)},
    {"context_huge", limit, "llama.context_length", with("llama.context_length", 0xffffffffu)},
    {"heads_0", parse, "llama.attention.head_count", with("llama.attention.head_count", 0u)},
    {"heads_many", limit, "llama.attention.head_count", with("llama.attention.head_count", 65537u)},
    {"kv_heads_0", parse, "llama.attention.head_count_kv",
     with("llama.attention.head_count_kv", 0u)},
    {"kv_heads_3_of_4", parse, "llama.attention.head_count_kv",
     with("llama.attention.head_count_kv", 3u)},
    {"dim_no_multiple_of_heads", parse, "llama.attention.head_count",
     [](GgufWriter& w) {
       w.erase("llama.attention.key_length").erase("llama.attention.head_count_kv");
       w.erase("llama.attention.head_count").set("llama.attention.head_count", 5u);
     }},
    {"head_odd", parse, "llama.attention.head_count",
     [](GgufWriter& w) {
       w.erase("llama.attention.key_length").set("llama.attention.key_length", 15u);
       w.erase("llama.attention.value_length");
     }},
    {"value_length_other", unsupported, "llama.attention.value_length",
     with("llama.attention.value_length", 32u)},
    {"no_eps", not_found, eps_key, without(eps_key)},
    {"eps_nan", parse, eps_key, with(eps_key, nan_value)},
    {"eps_negative", parse, eps_key, with(eps_key, -1e-5f)},
    {"eps_infinite", parse, eps_key, with(eps_key, infinite)},
    {"eps_integer", parse, eps_key, with(eps_key, 1u)},
    {"rope_base_nan", parse, "llama.rope.freq_base", with("llama.rope.freq_base", nan_value)},
    {"rope_base_0", parse, "llama.rope.freq_base", with("llama.rope.freq_base", 0.0f)},
    {"rope_partial", unsupported, "llama.rope.dimension_count",
     with("llama.rope.dimension_count", 8u)},
    {"rope_other", unsupported, "llama.rope.scaling.type", with("llama.rope.scaling.type", "abc")},
    {"rope_type_number", parse, "llama.rope.scaling.type", with("llama.rope.scaling.type", 1u)},
    {"rope_attn_factor_nan", parse, "llama.rope.scaling.attn_factor",
     with("llama.rope.scaling.attn_factor", nan_value)},
    {"rope_factor_negative", parse, "llama.rope.scaling.factor",
     with("llama.rope.scaling.factor", -2.0f)},
    {"experts_alone", not_found, "llama.expert_used_count", with("llama.expert_count", 8u)},
    {"experts_many", limit, "llama.expert_count", with("llama.expert_count", 100000u)},
    {"experts_missing", not_found, "blk.0.ffn_gate_inp.weight",
     [](GgufWriter& w) { w.set("llama.expert_count", 8u).set("llama.expert_used_count", 2u); }},
    {"experts_used_too_many", limit, "llama.expert_used_count",
     [](GgufWriter& w) { w.set("llama.expert_count", 8u).set("llama.expert_used_count", 9u); }},
    {"experts_used_0", parse, "llama.expert_used_count",
     [](GgufWriter& w) { w.set("llama.expert_count", 8u).set("llama.expert_used_count", 0u); }},
    {"softcap_negative", parse, "llama.final_logit_softcapping",
     with("llama.final_logit_softcapping", -1.0f)},
    {"vocab_0", parse, "llama.vocab_size", with("llama.vocab_size", 0u)},
    {"vocab_huge", limit, "llama.vocab_size", with("llama.vocab_size", 1u << 23)},
    {"vocab_other", parse, "token_embd.weight", with("llama.vocab_size", 98u)},
    {"no_vocab", not_found, "tokenizer.ggml.tokens", without("llama.vocab_size")},
    {"no_tokens", parse, "tokenizer.ggml.tokens",
     [](GgufWriter& w) {
       w.erase("llama.vocab_size").set_array("tokenizer.ggml.tokens", std::vector<std::string>{});
     }},
    {"embedding_missing", not_found, "token_embd.weight",
     [](GgufWriter& w) { w.erase_tensor("token_embd.weight"); }},
    {"norm_missing", not_found, "output_norm.weight",
     [](GgufWriter& w) { w.erase_tensor("output_norm.weight"); }},
    {"norm_shape", parse, "output_norm.weight", with_tensor("output_norm.weight", 0, {32})},
    {"norm_quantized", unsupported, "output_norm.weight",
     with_tensor("output_norm.weight", 8, {64})},
    {"matrix_turned", parse, "blk.1.ffn_down.weight",
     with_tensor("blk.1.ffn_down.weight", 0, {64, 96})},
    {"matrix_3d", parse, "blk.1.ffn_down.weight",
     with_tensor("blk.1.ffn_down.weight", 0, {96, 64, 2})},
    {"matrix_i32", unsupported, "blk.1.attn_k.weight",
     with_tensor("blk.1.attn_k.weight", 26, {64, 32})},
    {"matrix_f64", unsupported, "blk.0.attn_v.weight",
     with_tensor("blk.0.attn_v.weight", 28, {64, 32})},
    {"bias_shape", parse, "blk.0.attn_q.bias", with_tensor("blk.0.attn_q.bias", 0, {65})},
    {"bias_quantized", unsupported, "blk.0.attn_q.bias", with_tensor("blk.0.attn_q.bias", 8, {64})},
    {"qkv_shape", parse, "blk.0.attn_qkv.weight",
     with_tensor("blk.0.attn_qkv.weight", 0, {64, 64})},
    {"rope_freqs_zero", parse, "rope_freqs.weight", with_tensor("rope_freqs.weight", 0, {8})},
    {"rope_freqs_shape", parse, "rope_freqs.weight", with_tensor("rope_freqs.weight", 0, {16})},
};

// Keys and tensors of other architectures.
struct OtherModel {
  const char* name;
  ErrorCode code;
  const char* field;
  RandomModelOptions model;
  std::function<void(GgufWriter&)> change;
};
void PrintTo(const OtherModel& m, std::ostream* out) { *out << m.name; }
class BadModels : public testing::TestWithParam<OtherModel> {};

TEST_P(BadModels, AreRefused) {
  RandomModel random(GetParam().model);
  GetParam().change(random.writer);
  const std::vector<std::byte> bytes = random.writer.finish();
  const TempFile path(bytes);
  const Result<Device> device = Device::open("cpu");
  ASSERT_TRUE(device);
  const BadFileHeap heap(bytes.size());
  const auto model = llm::Model::open(*device, path.path());
  heap.check();
  ASSERT_FALSE(model);
  EXPECT_EQ(name(model.error().code), std::string(name(GetParam().code)))
      << model.error().to_string();
  EXPECT_EQ(model.error().field, GetParam().field) << model.error().to_string();
}

const RandomModelOptions gemma3_model{.layers = 2, .architecture = "gemma3", .window = 4};
const RandomModelOptions qwen3moe_model{.layers = 1, .architecture = "qwen3moe", .experts = 4};
const OtherModel other_models[] = {
    {"pattern_short", parse, "gemma3.attention.sliding_window_pattern", gemma3_model,
     [](GgufWriter& w) {
       w.set_array("gemma3.attention.sliding_window_pattern", std::vector<bool>{true});
     }},
    {"pattern_0", parse, "gemma3.attention.sliding_window_pattern", gemma3_model,
     with("gemma3.attention.sliding_window_pattern", 0u)},
    {"pattern_text", parse, "gemma3.attention.sliding_window_pattern", gemma3_model,
     with("gemma3.attention.sliding_window_pattern", "x")},
    {"window_huge", limit, "gemma3.attention.sliding_window", gemma3_model,
     with("gemma3.attention.sliding_window", 0xffffffffu)},
    {"no_post_norm", not_found, "blk.0.post_attention_norm.weight", gemma3_model,
     [](GgufWriter& w) { w.erase_tensor("blk.0.post_attention_norm.weight"); }},
    {"no_q_norm", not_found, "blk.1.attn_q_norm.weight", gemma3_model,
     [](GgufWriter& w) { w.erase_tensor("blk.1.attn_q_norm.weight"); }},
    {"no_experts", not_found, "qwen3moe.expert_count", qwen3moe_model,
     without("qwen3moe.expert_count")},
    {"experts_0", parse, "qwen3moe.expert_count", qwen3moe_model,
     with("qwen3moe.expert_count", 0u)},
    {"experts_8_of_4", parse, "blk.0.ffn_gate_inp.weight", qwen3moe_model,
     with("qwen3moe.expert_count", 8u)},
    {"expert_tensor", parse, "blk.0.ffn_up_exps.weight", qwen3moe_model,
     with_tensor("blk.0.ffn_up_exps.weight", 0, {64, 48, 3})},
    {"qwen3_experts",
     unsupported,
     "qwen3.expert_count",
     {.layers = 1, .architecture = "qwen3"},
     with("qwen3.expert_count", 4u)},
    {"phi3_odd_rotation",
     unsupported,
     "phi3.rope.dimension_count",
     {.layers = 1, .architecture = "phi3"},
     with("phi3.rope.dimension_count", 7u)},
    {"phi3_too_much_rotation",
     unsupported,
     "phi3.rope.dimension_count",
     {.layers = 1, .architecture = "phi3"},
     with("phi3.rope.dimension_count", 32u)},
    {"phi3_unfused",
     not_found,
     "blk.0.attn_qkv.weight",
     {.layers = 1, .architecture = "phi3"},
     [](GgufWriter& w) { w.erase_tensor("blk.0.attn_qkv.weight"); }},
};
INSTANTIATE_TEST_SUITE_P(Llm, BadModels, testing::ValuesIn(other_models),
                         [](const auto& i) { return std::string(i.param.name); });

INSTANTIATE_TEST_SUITE_P(Llm, BadLlama, testing::ValuesIn(models),
                         [](const auto& i) { return std::string(i.param.name); });

TEST(Config, ReadsEverything) {
  const RandomModel random({.layers = 2, .heads = 4, .kv_heads = 2, .head_dim = 24});
  const std::vector<std::byte> bytes = random.writer.finish();
  const Result<io::Gguf> file = io::Gguf::parse(bytes);
  ASSERT_TRUE(file);
  const Result<llm::ModelConfig> c = llm::read_config(*file);
  ASSERT_TRUE(c) << c.error().to_string();
  EXPECT_EQ(c->name, "random");
  EXPECT_EQ(c->n_layers, 2u);
  EXPECT_EQ(c->dim, 64u);
  EXPECT_EQ(c->n_heads, 4u);
  EXPECT_EQ(c->n_kv_heads, 2u);
  EXPECT_EQ(c->head_dim, 24u);
  EXPECT_EQ(c->ffn_dim, 96u);
  EXPECT_EQ(c->vocab, 97u);
  EXPECT_EQ(c->context, 64u);
  EXPECT_EQ(c->norm_eps, 1e-5f);
  EXPECT_EQ(c->rope.base, 10000.0f);
}

TEST(Config, WindowsMayBeAListOfIntegers) {
  RandomModel random({.layers = 2, .architecture = "gemma3", .window = 4});
  random.writer.set_array("gemma3.attention.sliding_window_pattern",
                          std::vector<std::int32_t>{0, 1});
  const std::vector<std::byte> bytes = random.writer.finish();
  const Result<io::Gguf> file = io::Gguf::parse(bytes);
  ASSERT_TRUE(file);
  const Result<llm::ModelConfig> c = llm::read_config(*file);
  ASSERT_TRUE(c) << c.error().to_string();
  EXPECT_EQ(c->local, (std::vector<std::uint8_t>{0, 1}));
}

TEST(Config, Defaults) {
  RandomModel random({});
  for (const char* key :
       {"llama.attention.head_count_kv", "llama.attention.key_length", "general.name",
        "llama.attention.value_length", "llama.rope.freq_base", "llama.rope.dimension_count",
        "llama.vocab_size", "llama.feed_forward_length"}) {
    random.writer.erase(key);
  }
  random.writer.set_array("tokenizer.ggml.tokens", std::vector<std::string>(31, "t"));
  random.writer.set_array("llama.feed_forward_length", std::vector<std::uint32_t>{96, 96, 96});
  const std::vector<std::byte> bytes = random.writer.finish();
  const Result<io::Gguf> file = io::Gguf::parse(bytes);
  ASSERT_TRUE(file);
  const Result<llm::ModelConfig> c = llm::read_config(*file);
  ASSERT_TRUE(c) << c.error().to_string();
  EXPECT_EQ(c->n_kv_heads, 4u);
  EXPECT_EQ(c->head_dim, 16u);
  EXPECT_EQ(c->rope.base, 10000.0f);
  EXPECT_EQ(c->vocab, 31u);
  EXPECT_EQ(c->ffn_dim, 96u);
}

// The rest of them is raised in tests/compat.
TEST(AncestorErrors, AreRaisedByReadersAndOps) {
  using E = compat::MlxError;
  EXPECT_EQ(io::GgufFile::open("/").error().code, compat::error_code(E::io_error));
  const std::vector<std::byte> garbage(64, std::byte{0xfe});
  EXPECT_EQ(io::Gguf::parse(garbage).error().code, compat::error_code(E::gguf_parse_error));
  std::vector<std::byte> no_json(16);
  no_json[0] = std::byte{8};  // of header
  EXPECT_EQ(io::Safetensors::parse(no_json).error().code, compat::error_code(E::safetensors_error));
  const io::JsonDocument json = io::JsonDocument::parse(R"({"quantization": 4})").value();
  EXPECT_EQ(llm::read_quantization(json.root()).error().code,
            compat::error_code(E::quant_config_error));
  const Device device = Device::open("null").value();
  const Tensor words = device.allocate(64).value().tensor(DType::u32, {16});
  compat::GraphSession s = compat::GraphExecutor(device).begin();
  s.gelu(words, words);
  EXPECT_EQ(s.finish().error().code, compat::error_code(E::unsupported_dtype));
}

}  // namespace
}  // namespace onepass::test::config_test
