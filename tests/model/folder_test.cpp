// Folders of Hugging Face and MLX against golden logits and a float64 forward pass; configurations
// that must be refused; synthetic models.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "folder_writer.h"
#include "model/synthetic.h"
#include "run/decoder.h"
#include "support/bad_file_heap.h"
#include "support/heap.h"
#include "support/random_model.h"

namespace onepass::test::folder_test {
namespace {

using llm::Decoder;
using llm::Model;

std::shared_ptr<const Model> open(const std::string& path) {
  const Result<Device> device = Device::open("cpu");
  if (!device) return nullptr;
  auto model = Model::open(*device, path);
  EXPECT_TRUE(model) << model.error().to_string();
  return model ? *model : nullptr;
}
Decoder decoder(std::shared_ptr<const Model> model, const llm::DecoderOptions& options) {
  auto d = Decoder::create(std::move(model), options);
  EXPECT_TRUE(d) << d.error().to_string();
  return std::move(d).value();
}

TEST(GoldenFolders, LogitsAndGreedyTokens) {
  const std::filesystem::path data = ONEPASS_TEST_DATA;
  std::ifstream lines(data / "golden" / "mlx-tiny.jsonl");
  if (data.empty() || !lines) GTEST_SKIP() << "no golden/mlx-tiny.jsonl in ONEPASS_TEST_DATA";
  int folders = 0;
  for (std::string line; std::getline(lines, line);) {
    const Result<io::JsonDocument> document = io::JsonDocument::parse(line);
    ASSERT_TRUE(document) << document.error().to_string();
    const io::Json json = document->root();
    const std::string name(json["model"].text().value());
    SCOPED_TRACE(name);
    const auto model = open((data / "safetensors" / name).string());
    ASSERT_NE(model, nullptr);
    Decoder d = decoder(model, {.context = 64, .kv = DType::f32});
    std::vector<std::uint32_t> tokens;
    for (const io::Json t : json["tokens"].items()) {
      tokens.push_back(static_cast<std::uint32_t>(t.integer().value()));
    }
    ASSERT_TRUE(d.append(tokens));
    const std::vector<float> logits = d.logits().value();
    double mean = 0.0, squares = 0.0, worst = 0.0;
    for (const float x : logits) {
      mean += static_cast<double>(x) / static_cast<double>(logits.size());
      squares += static_cast<double>(x) * static_cast<double>(x);
    }
    // Products with quantized weights round activations to 8 bits.
    const bool rounded = is_block_format(model->weights().layers[0].q.weight.dtype);
    EXPECT_NEAR(mean, json["mean"].number().value(), rounded ? 1e-3 : 1e-6);
    EXPECT_NEAR(std::sqrt(squares / static_cast<double>(logits.size())),
                json["rms"].number().value(), rounded ? 1e-3 : 1e-6);
    for (const io::Json entry : json["top"].items()) {
      auto part = entry.items().begin();
      const double got = static_cast<double>(logits[(*part).integer().value()]);
      worst = std::max(worst, std::abs(got - (*++part).number().value()));
    }
    EXPECT_LE(worst, rounded ? 5e-3 : 5e-6);
    std::cout << "[ GOLDEN   ] " << name << " top 10 within " << worst << "\n";
    for (const io::Json id : json["greedy"].items()) {
      ASSERT_EQ(d.greedy().value(), id.integer().value());
    }
    ++folders;
  }
  EXPECT_EQ(folders, 5);
}

TEST(GoldenFolders, SameModelAsTheGguf) {
  const std::filesystem::path data = ONEPASS_TEST_DATA;
  const auto folder = data / "safetensors" / "stories260K-hf-f16";
  if (data.empty() || !std::filesystem::exists(folder)) GTEST_SKIP() << "no stories260K-hf-f16";
  const auto hf = open(folder.string());
  const auto gguf = open((data / "gguf" / "stories260K-f32.gguf").string());
  ASSERT_NE(hf, nullptr);
  ASSERT_NE(gguf, nullptr);
  Decoder a = decoder(hf, {.context = 64, .kv = DType::f32});
  Decoder b = decoder(gguf, {.context = 64, .kv = DType::f32});
  std::uint32_t token = 1;
  for (int p = 0; p < 40; ++p) {
    ASSERT_TRUE(a.append({&token, 1}));
    ASSERT_TRUE(b.append({&token, 1}));
    ASSERT_LE(reference::nmse(a.logits().value(), b.logits().value()), 1e-5) << p;
    token = b.greedy().value();
  }
}

struct FolderVariant {
  const char* name;
  RandomModelOptions model;
  FolderOptions folder;
  double max_nmse = 1e-9;  // 0: of the order of what rounding activations to 8 bits changes
};
void PrintTo(const FolderVariant& v, std::ostream* out) { *out << v.name; }
class Folders : public testing::TestWithParam<FolderVariant> {};

TEST_P(Folders, MatchFloat64) {
  const FolderVariant& v = GetParam();
  reference::Model expected = RandomModel(v.model, 11).model();
  expected.neox = true;
  const FolderWriter writer(expected, v.folder);
  const TempFolder folder;
  writer.write(folder);
  const auto model = open(folder.path().string());
  ASSERT_NE(model, nullptr);
  Decoder d = decoder(model, {.kv = DType::f32});
  reference::Forward<reference::Float64> forward(expected);
  reference::Forward<reference::Rounded> rounded(expected);
  std::uint32_t token = 5;
  double worst = 0.0, noise = 0.0;
  for (std::uint32_t p = 0; p < 40; ++p) {
    ASSERT_TRUE(d.append({&token, 1}));
    const std::vector<double> logits = forward.next(token);
    worst = std::max(worst, reference::nmse(d.logits().value(), logits));
    if (v.max_nmse == 0.0) noise = std::max(noise, reference::nmse(rounded.next(token), logits));
    token = (token * 31 + p) % v.model.vocab;
  }
  EXPECT_LE(worst, v.max_nmse > 0.0 ? v.max_nmse : 4.0 * noise);
  std::cout << "[ NMSE     ] " << v.name << " " << worst << "\n";
}

const RandomModelOptions wide{.dim = 128, .ffn = 192};
const FolderVariant folder_variants[] = {
    {"llama", {}, {}},
    {"llama_f16_sharded", {}, {.dtype = "F16", .shards = 3}},
    {"mistral_bf16", {}, {.model_type = "mistral", .dtype = "BF16"}},
    {"qwen2", {.architecture = "qwen2", .qkv_bias = true}, {.model_type = "qwen2"}},
    {"qwen3_tied", {.tied = true, .architecture = "qwen3"}, {.model_type = "qwen3"}},
    {"gemma2",
     {.layers = 4, .tied = true, .architecture = "gemma2", .window = 7},
     {.model_type = "gemma2"}},
    {"gemma3",
     {.rope_base = 1e6f, .tied = true, .architecture = "gemma3", .window = 5, .period = 2},
     {.model_type = "gemma3_text", .extra = "\"sliding_window_pattern\": 2,"}},
    {"gemma3_layer_types",
     {.rope_base = 1e6f, .tied = true, .architecture = "gemma3", .window = 5, .period = 2},
     {.model_type = "gemma3_text",
      .extra = "\"layer_types\": [\"sliding_attention\", \"full_attention\", "
               "\"sliding_attention\"],"}},
    {"rope_linear",
     {.rope_scale = 4.0f},
     {.extra = "\"rope_scaling\": {\"type\": \"linear\", \"factor\": 4.0},"}},
    {"rope_yarn",
     {.rope_scale = 4.0f, .yarn = true, .original_context = 16},
     {.extra = "\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4.0, "
               "\"original_max_position_embeddings\": 16},"}},
    {"affine_2_bits", wide, {.bits = 2, .group_size = 32}, 0.0},
    {"affine_3_bits", wide, {.bits = 3, .group_size = 32}, 0.0},
    {"affine_4_bits_f32", wide, {.bits = 4, .group_size = 64}, 0.0},
    {"affine_5_bits", wide, {.dtype = "BF16", .bits = 5, .group_size = 64}, 0.0},
    {"affine_4_bits_f16", wide, {.dtype = "F16", .bits = 4, .group_size = 64}, 0.0},
    {"affine_4_bits_bf16", wide, {.dtype = "BF16", .bits = 4, .group_size = 64}, 0.0},
    {"affine_6_bits", wide, {.dtype = "F16", .bits = 6, .group_size = 32}, 0.0},
    {"affine_8_bits_f16", wide, {.dtype = "F16", .bits = 8, .group_size = 64}, 0.0},
    {"affine_8_bits_128",
     {.dim = 128, .heads = 8, .ffn = 256},
     {.dtype = "BF16", .bits = 8, .group_size = 128},
     0.0},
    {"affine_overrides",
     {.dim = 128, .ffn = 192, .tied = true},
     {.bits = 4,
      .group_size = 64,
      .plain_module = "model.layers.1.mlp.up_proj",
      .other_module = "model.layers.0.self_attn.q_proj"},
     0.0},
};
INSTANTIATE_TEST_SUITE_P(Llm, Folders, testing::ValuesIn(folder_variants),
                         [](const auto& i) { return std::string(i.param.name); });

struct BadConfig {
  const char* name;
  ErrorCode code;
  const char* field;
  std::string from, to;  // in config.json
};
void PrintTo(const BadConfig& c, std::ostream* out) { *out << c.name; }
class BadConfigs : public testing::TestWithParam<BadConfig> {};

TEST_P(BadConfigs, AreRefused) {
  const BadConfig& bad = GetParam();
  reference::Model m = RandomModel({.layers = 1, .dim = 128, .ffn = 192}, 3).model();
  const FolderWriter writer(m, {.bits = 4, .extra = "\"rope_scaling\": null, \"id2label\": [],"});
  const TempFolder folder;
  writer.write(folder);
  std::string text = writer.config_text();
  const std::size_t at = text.find(bad.from);
  ASSERT_NE(at, std::string::npos);
  folder.write_text("config.json", text.replace(at, bad.from.size(), bad.to));
  const Result<Device> device = Device::open("cpu");
  ASSERT_TRUE(device);
  const std::uint64_t before = device->live_bytes();
  const BadFileHeap heap(folder.size_bytes());
  const auto model = Model::open(*device, folder.path().string());
  heap.check();
  ASSERT_FALSE(model);
  EXPECT_EQ(name(model.error().code), std::string(name(bad.code))) << model.error().to_string();
  EXPECT_EQ(model.error().field, bad.field) << model.error().to_string();
  ASSERT_TRUE(device->fence());
  EXPECT_EQ(device->live_bytes(), before);
}

constexpr ErrorCode parse = ErrorCode::parse, limit = ErrorCode::limit;
constexpr ErrorCode unsupported = ErrorCode::unsupported, not_found = ErrorCode::not_found;
const BadConfig bad_configs[] = {
    {"no_model_type", not_found, "model_type", "\"model_type\"", "\"x\""},
    {"other_model_type", unsupported, "model_type", "\"llama\"", "\"mamba\""},
    {"qwen3_5", unsupported, "model_type", "\"llama\"", "\"qwen3_5_text\""},
    {"model_type_number", parse, "model_type", "\"llama\"", "3"},
    {"key_twice", parse, "hidden_size", "\"intermediate_size\"", "\"hidden_size\""},
    {"cut", parse, "", "}", ""},
    {"no_layers", not_found, "num_hidden_layers", "\"num_hidden_layers\"", "\"x\""},
    {"layers_0", parse, "num_hidden_layers", "\"num_hidden_layers\": 1",
     "\"num_hidden_layers\": 0"},
    {"layers_many", limit, "num_hidden_layers", "\"num_hidden_layers\": 1",
     "\"num_hidden_layers\": 100000"},
    {"layers_fraction", parse, "num_hidden_layers", "\"num_hidden_layers\": 1",
     "\"num_hidden_layers\": 1.0"},
    {"layers_negative", parse, "num_hidden_layers", "\"num_hidden_layers\": 1",
     "\"num_hidden_layers\": -1"},
    {"layers_text", parse, "num_hidden_layers", "\"num_hidden_layers\": 1",
     "\"num_hidden_layers\": \"1\""},
    {"layers_2_of_1", not_found, "model.layers.1.input_layernorm.weight",
     "\"num_hidden_layers\": 1", "\"num_hidden_layers\": 2"},
    {"dim_other", parse, "model.embed_tokens.weight", "\"hidden_size\": 128",
     "\"hidden_size\": 64"},
    {"heads_0", parse, "num_attention_heads", "\"num_attention_heads\": 4",
     "\"num_attention_heads\": 0"},
    {"kv_heads_3", parse, "num_key_value_heads", "\"num_key_value_heads\": 2",
     "\"num_key_value_heads\": 3"},
    {"head_odd", parse, "num_attention_heads", "\"head_dim\": 16", "\"head_dim\": 15"},
    {"eps_missing", not_found, "rms_norm_eps", "\"rms_norm_eps\"", "\"x\""},
    {"eps_negative", parse, "rms_norm_eps", "\"rms_norm_eps\": ", "\"rms_norm_eps\": -"},
    {"theta_0", parse, "rope_theta", "\"rope_theta\": 1", "\"rope_theta\": 0.1"},
    {"scaling_number", parse, "rope_scaling", "\"rope_scaling\": null", "\"rope_scaling\": 4"},
    {"scaling_type", unsupported, "rope_scaling.rope_type", "\"rope_scaling\": null",
     "\"rope_scaling\": {\"rope_type\": \"abc\"}"},
    {"scaling_factor", not_found, "rope_scaling.factor", "\"rope_scaling\": null",
     "\"rope_scaling\": {\"rope_type\": \"linear\"}"},
    {"scaling_llama3", parse, "rope_scaling.high_freq_factor", "\"rope_scaling\": null",
     "\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 4, "
     "\"high_freq_factor\": 4, \"original_max_position_embeddings\": 64}"},
    {"partial", unsupported, "partial_rotary_factor", "\"id2label\": []",
     "\"partial_rotary_factor\": 0.5"},
    {"activation", unsupported, "hidden_act", "\"id2label\": []", "\"hidden_act\": \"relu\""},
    {"experts", not_found, "num_experts_per_tok", "\"id2label\": []", "\"num_local_experts\": 8"},
    {"bits_7", unsupported, "quantization.bits", "\"bits\": 4", "\"bits\": 7"},
    {"bits_missing", not_found, "quantization.bits", "\"bits\": 4,", ""},
    {"group_16", unsupported, "quantization.group_size", "\"group_size\": 64",
     "\"group_size\": 16"},
    {"group_32", parse, "model.embed_tokens.scales", "\"group_size\": 64", "\"group_size\": 32"},
    {"bits_8", parse, "model.embed_tokens.weight", "\"bits\": 4", "\"bits\": 8"},
    {"mode", unsupported, "quantization.mode", "\"affine\"", "\"mxfp4\""},
    {"not_quantized", parse, "model.embed_tokens", "\"quantization\"", "\"label2id\""},
    {"unknown_member", unsupported, "swiglu_limit", "\"id2label\": []", "\"swiglu_limit\": 7.0"},
    {"unknown_member_of_scaling", unsupported, "rope_scaling.mscale", "\"rope_scaling\": null",
     "\"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 2.0, \"mscale\": 1.0}"},
    {"windows_in_use", unsupported, "use_sliding_window", "\"id2label\": []",
     "\"use_sliding_window\": true"},
    {"module_number", parse, "quantization.model.norm", "\"mode\"", "\"model.norm\": 3, \"mode\""},
    {"module_false", parse, "model.embed_tokens", "\"mode\"",
     "\"model.embed_tokens\": false, \"mode\""},
    {"gptq", unsupported, "quantization.quant_method", "\"mode\"",
     "\"quant_method\": \"gptq\", \"mode\""},
    {"tied_text", parse, "tie_word_embeddings", "false", "\"no\""},
};
INSTANTIATE_TEST_SUITE_P(Llm, BadConfigs, testing::ValuesIn(bad_configs),
                         [](const auto& i) { return std::string(i.param.name); });

TEST(LongRope, FactorsAndMagnitudeComeFromTheConfig) {
  const auto json = io::JsonDocument::parse(R"({"model_type": "phi3", "hidden_size": 64,
    "num_attention_heads": 4, "num_hidden_layers": 1, "intermediate_size": 64, "vocab_size": 32,
    "max_position_embeddings": 131072, "original_max_position_embeddings": 4096,
    "rms_norm_eps": 1e-5, "partial_rotary_factor": 0.5, "rope_scaling": {"type": "longrope",
    "short_factor": [1, 1, 1.5, 2], "long_factor": [1, 2, 3, 4]}})");
  ASSERT_TRUE(json) << json.error().to_string();
  const auto c = llm::read_config(json->root());
  ASSERT_TRUE(c) << c.error().to_string();
  EXPECT_EQ(c->rope.dims, 8u);
  EXPECT_EQ(c->rope.long_factors, (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(c->rope.short_factors[2], 1.5f);
  EXPECT_EQ(c->rope.scaling.n_ctx_orig, 4096u);
  EXPECT_NEAR(static_cast<double>(c->rope.scaling.attn_factor),
              std::sqrt(1.0 + std::log(32.0) / std::log(4096.0)), 1e-6);
}

constexpr const char* synthetic_types[] = {
    "f32",  "f16",   "bf16",    "q8_0",   "q4_0",   "q4_1",    "q5_0",  "q5_1",  "q2_k",  "q3_k",
    "q4_k", "q5_k",  "q6_k",    "iq4_nl", "iq4_xs", "mxfp4",   "nvfp4", "tq1_0", "tq2_0", "q1_0",
    "q2_0", "iq3_s", "iq3_xxs", "iq2_xs", "iq2_s",  "iq2_xxs", "iq1_s", "iq1_m"};

TEST(Synthetic, IsDeterministicInParts) {
  for (const char* quant : synthetic_types) {
    const auto source = llm::SyntheticSource::create(std::string("synthetic:tiny:") + quant);
    ASSERT_TRUE(source) << source.error().to_string();
    const auto t = source->find("blk.2.ffn_gate.weight");
    ASSERT_TRUE(t);
    std::vector<std::byte> all(t->bytes), parts(t->bytes);
    ASSERT_TRUE(source->read(*t, 0, all));
    for (std::size_t at = 0, step = 1; at < parts.size(); at += step, step = step % 997 + 13) {
      step = std::min(step, parts.size() - at);
      ASSERT_TRUE(source->read(*t, at, std::span(parts).subspan(at, step)));
    }
    EXPECT_EQ(all, parts) << quant;
    const auto other = llm::SyntheticSource::create(std::string("synthetic:tiny:") + quant, 2);
    ASSERT_TRUE(other->read(*t, 0, parts));
    EXPECT_NE(all, parts) << quant;
    EXPECT_FALSE(source->read(*t, 1, all));
  }
}

TEST(Synthetic, RunsWithFiniteLogits) {
  for (const char* quant : synthetic_types) {
    const auto model = open(std::string("synthetic:tiny:") + quant);
    ASSERT_NE(model, nullptr);
    EXPECT_EQ(model->config().name, std::string("synthetic-tiny-") + quant);
    Decoder d = decoder(model, {.context = 32});
    ASSERT_TRUE(d.append(std::vector<std::uint32_t>{1, 2, 3, 4, 5, 6, 7}));
    const std::vector<float> logits = d.logits().value();
    double squares = 0.0;
    for (const float x : logits) squares += static_cast<double>(x) * static_cast<double>(x);
    const double rms = std::sqrt(squares / static_cast<double>(logits.size()));
    EXPECT_GT(rms, 0.3) << quant;
    EXPECT_LT(rms, 3.0) << quant;
  }
}

// Weights go to the device a few rows at a time: besides them only staging is needed.
TEST(Synthetic, LoadingTakesLittleHeap) {
  const Result<Device> device = Device::open("cpu");
  ASSERT_TRUE(device);
  const std::int64_t before = heap_live_bytes();
  reset_heap_peak();
  const auto model = Model::open(*device, "synthetic:stories15m:q8_0");
  ASSERT_TRUE(model) << model.error().to_string();
  EXPECT_GT((*model)->weight_bytes(), 20u << 20);
  EXPECT_LT(heap_peak_bytes() - before, 4 << 20);
}

TEST(Synthetic, PresetsHaveTheirShapes) {
  const auto source = llm::SyntheticSource::create("synthetic:qwen3-0.6b:q4_k");
  ASSERT_TRUE(source) << source.error().to_string();
  EXPECT_EQ(source->config().n_layers, 28u);
  EXPECT_EQ(source->config().rope.base, 1e6f);
  EXPECT_EQ(source->find("blk.0.attn_q_norm.weight")->dims[0], 128u);
  EXPECT_EQ(source->find("blk.0.attn_q.weight")->dtype, DType::q4_k);
  EXPECT_EQ(source->find("output.weight")->bytes, 151936ull * 1024 / 256 * 144);
  EXPECT_EQ(llm::SyntheticSource::create("synthetic:llama-1b:q4_0")->config().dim, 2048u);
  const auto experts = llm::SyntheticSource::create("synthetic:tiny-qwen3moe:q4_k");
  EXPECT_EQ(experts->find("blk.0.ffn_up_exps.weight")->rank, 3u);
  EXPECT_EQ(experts->find("blk.0.ffn_gate_inp.weight")->dtype, DType::f32);
  const auto fused = llm::SyntheticSource::create("synthetic:tiny-phi3:q4_k");
  EXPECT_EQ(fused->find("blk.0.ffn_up.weight")->dims[0], 2u * fused->config().ffn_dim);
  EXPECT_FALSE(fused->find("blk.0.ffn_gate.weight"));
  const auto narrow = llm::SyntheticSource::create("synthetic:stories15m:q4_k");
  EXPECT_EQ(narrow->find("blk.0.attn_q.weight")->dtype, DType::q8_0);
  EXPECT_FALSE(narrow->find("blk.0.attn_q_norm.weight"));
  EXPECT_FALSE(narrow->find("rope_freqs.weight"));
  for (const char* bad :
       {"synthetic:", "synthetic:nobody:f32", "synthetic:tiny:q9", "synthetic:tiny:u8"}) {
    const auto s = llm::SyntheticSource::create(bad);
    ASSERT_FALSE(s) << bad;
    EXPECT_EQ(s.error().code, ErrorCode::not_found);
  }
}

}  // namespace
}  // namespace onepass::test::folder_test
