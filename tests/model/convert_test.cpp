// Folders to GGUF files and back: the same logits, the same values, the same ids.
#include "model/convert.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "folder_writer.h"
#include "model/model_files.h"
#include "run/decoder.h"
#include "support/random_model.h"
#include "support/temp_folder.h"
#include "support/tokenizer_vocabularies.h"

namespace onepass::test::convert_test {
namespace {

using llm::ConvertOptions;
using llm::find_mix;

std::vector<double> logits_of(const std::string& path) {
  const auto device = Device::open("cpu");
  const auto model = llm::Model::open(*device, path);
  EXPECT_TRUE(model) << model.error().to_string();
  if (!model) return {};
  auto d = llm::Decoder::create(*model, {.context = 64, .kv = DType::f32});
  EXPECT_TRUE(d) << d.error().to_string();
  std::vector<double> all;
  std::uint32_t token = 5;
  for (std::uint32_t p = 0; p < 24; ++p) {
    EXPECT_TRUE(d->append({&token, 1}));
    const std::vector<float> logits = d->logits().value();
    for (const float x : logits) all.push_back(static_cast<double>(x));
    token = (token * 31 + p) % 97;
  }
  return all;
}
double distance(const std::vector<double>& got, const std::vector<double>& expected) {
  double error = 0.0, size = 0.0;
  EXPECT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < std::min(got.size(), expected.size()); ++i) {
    error += (got[i] - expected[i]) * (got[i] - expected[i]);
    size += expected[i] * expected[i];
  }
  return error / size;
}

Result<llm::Tokenizer> tokenizer_of(const std::string& path) {
  ONEPASS_ASSIGN(const std::unique_ptr<llm::ModelFiles> files, llm::ModelFiles::open(path));
  return files->tokenizer();
}

// Every tensor of both folders, name by name.
void expect_same_tensors(const std::string& a, const std::string& b) {
  const auto x = io::SafetensorsFile::open(a), y = io::SafetensorsFile::open(b);
  ASSERT_TRUE(x) << x.error().to_string();
  ASSERT_TRUE(y) << y.error().to_string();
  std::size_t tensors = 0;
  for (std::size_t s = 0; s < x->n_shards(); ++s) {
    for (const io::Safetensor& t : x->shard(s).tensors()) {
      const auto from = x->find(t.name), to = y->find(t.name);
      ASSERT_TRUE(to) << t.name;
      ASSERT_EQ(to->info->type->name, t.type->name) << t.name;
      ASSERT_EQ(to->info->dims, t.dims) << t.name;
      std::vector<std::byte> p(static_cast<std::size_t>(t.bytes)), q(p.size());
      ASSERT_TRUE(x->read(*from, 0, p));
      ASSERT_TRUE(y->read(*to, 0, q));
      EXPECT_EQ(p, q) << t.name;
      ++tensors;
    }
  }
  EXPECT_EQ(y->shard(0).tensors().size(), tensors);
}

struct Variant {
  const char* name;
  RandomModelOptions model;
  FolderOptions folder;
  double max_error = 1e-9;
  bool same_tensors = true;  // after the way there and back
};
void PrintTo(const Variant& v, std::ostream* out) { *out << v.name; }
class Conversions : public testing::TestWithParam<Variant> {};

TEST_P(Conversions, ThereAndBack) {
  const Variant& v = GetParam();
  reference::Model model = RandomModel(v.model, 11).model();
  model.neox = true;
  const TempFolder folder, target;
  FolderWriter(model, v.folder).write(folder);
  const std::string in = folder.path().string();
  const std::string gguf = (target.path() / "model.gguf").string();
  const std::string back = (target.path() / "back").string();
  const auto there = llm::folder_to_gguf(in, gguf, {});
  ASSERT_TRUE(there) << there.error().to_string();
  EXPECT_FALSE(there->tokenizer);
  const std::vector<double> expected = logits_of(in);
  EXPECT_LE(distance(logits_of(gguf), expected), v.max_error);
  const auto again = llm::gguf_to_folder(gguf, back, {});
  ASSERT_TRUE(again) << again.error().to_string();
  EXPECT_LE(distance(logits_of(back), expected), v.max_error);
  if (v.same_tensors) {
    // Factors of the angles are tensors in one and computed from a few numbers in the other.
    const std::uint64_t factors = std::string(v.name) == "rope_llama3" ? model.head_dim / 2 : 0;
    EXPECT_EQ(there->values, again->values + factors);
    expect_same_tensors(in, back);
  }
  EXPECT_FALSE(llm::gguf_to_folder(gguf, back, {}));  // it is there already
}

const RandomModelOptions wide{.dim = 128, .ffn = 192};
const Variant variants[] = {
    {"llama", {}, {}},
    {"llama_bf16_sharded", {}, {.dtype = "BF16", .shards = 3}, 1e-4, false},
    {"llama_affine", wide, {.bits = 4, .group_size = 64}, 3e-3, false},
    {"llama_affine_overrides",
     {.dim = 128, .ffn = 192, .tied = true},
     {.dtype = "F16",
      .bits = 4,
      .group_size = 64,
      .plain_module = "model.layers.1.mlp.up_proj",
      .other_module = "model.layers.0.self_attn.q_proj"},
     3e-3,
     false},
    {"qwen2", {.architecture = "qwen2", .qkv_bias = true}, {.model_type = "qwen2"}},
    {"qwen3_tied", {.tied = true, .architecture = "qwen3"}, {.model_type = "qwen3"}},
    {"gemma2",
     {.layers = 4, .tied = true, .architecture = "gemma2", .window = 7},
     {.model_type = "gemma2"},
     1e-9,
     false},
    {"gemma3",
     {.rope_base = 1e6f, .tied = true, .architecture = "gemma3", .window = 5, .period = 2},
     {.model_type = "gemma3_text", .extra = "\"sliding_window_pattern\": 2,"},
     1e-9,
     false},
    {"gemma3_other_scale",
     {.rope_base = 1e6f, .tied = true, .architecture = "gemma3", .window = 5, .period = 2},
     {.model_type = "gemma3_text",
      .extra = "\"sliding_window_pattern\": 2, \"query_pre_attn_scalar\": 64,"},
     1e-9,
     false},
    {"rope_llama3",
     {},
     {.extra =
          "\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8.0, \"low_freq_factor\": "
          "1.0, \"high_freq_factor\": 4.0, \"original_max_position_embeddings\": 8192},"}},
    {"rope_linear", {}, {.extra = "\"rope_scaling\": {\"type\": \"linear\", \"factor\": 4.0},"}},
    {"rope_yarn",
     {},
     {.extra = "\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4.0, "
               "\"original_max_position_embeddings\": 16},"}},
};
INSTANTIATE_TEST_SUITE_P(Llm, Conversions, testing::ValuesIn(variants),
                         [](const auto& i) { return std::string(i.param.name); });

TEST(Convert, PublishedFolders) {
  const std::filesystem::path data = ONEPASS_TEST_DATA;
  if (data.empty() || !std::filesystem::exists(data / "safetensors")) GTEST_SKIP() << "no folders";
  int folders = 0;
  for (const auto& entry : std::filesystem::directory_iterator(data / "safetensors")) {
    const std::string in = entry.path().string();
    SCOPED_TRACE(in);
    const TempFolder target;
    const std::string gguf = (target.path() / "model.gguf").string();
    const std::string back = (target.path() / "back").string();
    const auto there = llm::folder_to_gguf(in, gguf, {.mix = find_mix("f32")});
    ASSERT_TRUE(there) << there.error().to_string();
    const std::vector<double> expected = logits_of(in), floats = logits_of(gguf);
    // Quantized weights are multiplied with rounded activations, f32 ones are not.
    std::ifstream config(entry.path() / "config.json");
    const std::string text{std::istreambuf_iterator<char>(config), {}};
    EXPECT_LE(distance(floats, expected), text.find("\"quantization\"") != text.npos ? 1e-3 : 1e-9);
    const auto again = llm::gguf_to_folder(gguf, back, {});
    ASSERT_TRUE(again) << again.error().to_string();
    EXPECT_LE(distance(logits_of(back), floats), 1e-9);
    ++folders;
  }
  EXPECT_GE(folders, 6);
}

TEST(Convert, QuantizedOnTheWay) {
  const RandomModelOptions o{.layers = 2, .dim = 256, .head_dim = 64, .ffn = 512};
  reference::Model model = RandomModel(o, 3).model();
  model.neox = true;
  const TempFolder folder, target;
  FolderWriter(model, {}).write(folder);
  const std::string in = folder.path().string(), gguf = (target.path() / "q.gguf").string();
  const std::vector<double> expected = logits_of(in);
  ASSERT_TRUE(llm::folder_to_gguf(in, gguf, {.mix = find_mix("q8_0")}));
  EXPECT_LE(distance(logits_of(gguf), expected), 3e-3);
  const std::vector<double> coarse = logits_of(gguf);
  for (const std::uint32_t bits : {8u, 4u}) {
    const std::string back = (target.path() / std::to_string(bits)).string();
    const auto r = llm::gguf_to_folder(gguf, back, {.bits = bits, .group_size = 32});
    ASSERT_TRUE(r) << r.error().to_string();
    EXPECT_LE(distance(logits_of(back), coarse), bits == 8 ? 3e-3 : 0.2);
    EXPECT_LT(static_cast<double>(r->bytes) * 8 / static_cast<double>(r->values), bits + 2.0);
  }
}

TEST(Convert, RefusesWhatTheOtherSideCannotSay) {
  const TempFolder target;
  const std::string out = (target.path() / "out").string();
  const auto refuse = [&](const RandomModelOptions& o, const char* what) {
    const TempFile file(RandomModel(o).writer.finish());
    const auto r = llm::gguf_to_folder(file.path(), out, {});
    ASSERT_FALSE(r) << what;
    EXPECT_EQ(r.error().code, ErrorCode::unsupported) << what;
  };
  refuse({.rope_factors = true}, "factors of nobody");
  refuse({.fused_qkv = true}, "fused rows in pairs");
  const TempFile file(RandomModel({}).writer.finish());
  EXPECT_FALSE(llm::gguf_to_folder(file.path(), out, {.type = DType::q8_0}));
  EXPECT_FALSE(llm::gguf_to_folder(file.path(), out, {.bits = 7}));
  EXPECT_FALSE(llm::gguf_to_folder(file.path(), out, {.bits = 4, .group_size = 48}));

  // A tensor that nobody asked for.
  reference::Model model = RandomModel({.architecture = "qwen3"}).model();
  const TempFolder folder;
  FolderWriter(model, {.model_type = "qwen2"}).write(folder);
  const auto extra = llm::folder_to_gguf(folder.path().string(), out, {});
  ASSERT_FALSE(extra);
  EXPECT_EQ(extra.error().code, ErrorCode::unsupported);
  EXPECT_TRUE(std::filesystem::is_empty(target.path()));
}

TEST(Convert, HeadRowsThereAndBack) {
  std::vector<float> rows(2 * 4 * 3);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<float>(i);
  std::vector<float> changed = rows;
  llm::pair_head_rows(changed, 4, 3);
  // Rows 0, 2, 1, 3 of each head.
  EXPECT_EQ(changed[3], 6.0f);
  EXPECT_EQ(changed[6], 3.0f);
  EXPECT_EQ(changed[9], 9.0f);
  EXPECT_EQ(changed[15], 18.0f);
  llm::unpair_head_rows(changed, 4, 3);
  EXPECT_EQ(changed, rows);
}

// A model with that vocabulary, there and back twice.
void expect_same_ids(const llm::VocabularyData& data) {
  RandomModelOptions o;
  o.vocab = static_cast<std::uint32_t>(data.tokens.size());
  RandomModel random(o);
  GgufWriter& w = random.writer;
  w.set("tokenizer.ggml.model", data.model).set_array("tokenizer.ggml.tokens", data.tokens);
  if (!data.pre.empty()) w.set("tokenizer.ggml.pre", data.pre);
  if (!data.scores.empty()) w.set_array("tokenizer.ggml.scores", data.scores);
  if (!data.types.empty()) w.set_array("tokenizer.ggml.token_type", data.types);
  if (!data.merges.empty()) w.set_array("tokenizer.ggml.merges", data.merges);
  w.set("tokenizer.chat_template", "{{ messages }}\n\"quoted\"");
  w.set("tokenizer.ggml.eot_token_id", 3u).set("tokenizer.ggml.eom_token_id", 5u);
  const TempFile first(w.finish());
  const TempFolder target;
  const std::string folder = (target.path() / "folder").string();
  const std::string gguf = (target.path() / "model.gguf").string();
  const auto there = llm::gguf_to_folder(first.path(), folder, {});
  ASSERT_TRUE(there) << there.error().to_string();
  EXPECT_TRUE(there->tokenizer);
  const auto back = llm::folder_to_gguf(folder, gguf, {});
  ASSERT_TRUE(back) << back.error().to_string();
  EXPECT_TRUE(back->tokenizer);
  const auto a = tokenizer_of(first.path()), b = tokenizer_of(folder), c = tokenizer_of(gguf);
  ASSERT_TRUE(a && b && c);
  EXPECT_EQ(a->special_ids().bos, c->special_ids().bos);
  EXPECT_EQ(a->special_ids().eos, c->special_ids().eos);
  for (const std::uint32_t id : {3u, 5u}) {
    EXPECT_TRUE(a->ends_reply(id) && b->ends_reply(id) && c->ends_reply(id)) << id;
  }
  EXPECT_FALSE(b->ends_reply(4));
  std::mt19937_64 generator(7);
  for (int i = 0; i < 200; ++i) {
    const std::string text = random_text(generator, 40);
    // tokenizer.json takes the long s for an s after an apostrophe, GGUF readers do not.
    if (text.find("\u017f") != text.npos) continue;
    const auto ids = a->encode(text);
    ASSERT_TRUE(ids);
    EXPECT_EQ(b->encode(text).value(), *ids) << shown(text);
    EXPECT_EQ(c->encode(text).value(), *ids) << shown(text);
  }
  EXPECT_EQ(io::GgufFile::open(gguf)->metadata().text("tokenizer.chat_template").value(),
            "{{ messages }}\n\"quoted\"");
}

TEST(Convert, VocabulariesOfMerges) {
  const std::string corpus =
      "the cat and the hat sat on the mat; the man ran, 1234 and 1234567 times the the the";
  for (const char* pre : {"gpt-2", "qwen2", "smollm"}) {
    SCOPED_TRACE(pre);
    llm::VocabularyData data = byte_vocabulary(trained_merges(corpus, 40), pre);
    data.types.assign(data.tokens.size(), 1);
    data.tokens.push_back("<|end|>");
    data.types.push_back(3);
    expect_same_ids(data);
  }
}

TEST(Convert, VocabulariesOfScores) {
  const std::string mark = "\u2581";
  std::vector<std::pair<std::string, float>> tokens;
  float score = 0.0f;
  for (const char* text : {"t", "h", "e", "a", "n", "d", "c", "s", "i"})
    tokens.push_back({text, -1e3f});
  tokens.push_back({mark, -1e3f});
  for (const std::string& text :
       {mark + "t", std::string("he"), mark + "the", std::string("an"), std::string("and"),
        mark + "and", std::string("is"), mark + "c"}) {
    tokens.push_back({text, score -= 1.0f});
  }
  expect_same_ids(score_vocabulary(tokens));
}

TEST(Convert, PublishedVocabularies) {
  const std::filesystem::path data = ONEPASS_TEST_DATA;
  if (data.empty() || !std::filesystem::exists(data / "gguf")) GTEST_SKIP() << "no GGUF files";
  for (const char* name : {"stories260K-f32.gguf", "minimind2-small-q4_k_m.gguf"}) {
    SCOPED_TRACE(name);
    const std::string in = (data / "gguf" / name).string();
    const TempFolder target;
    const std::string folder = (target.path() / "folder").string();
    const auto there = llm::gguf_to_folder(in, folder, {});
    ASSERT_TRUE(there) << there.error().to_string();
    const auto a = tokenizer_of(in), b = tokenizer_of(folder);
    ASSERT_TRUE(a && b);
    for (const char* text : {"Once upon a time, there was a little girl named Lily.", "  two  "}) {
      EXPECT_EQ(a->encode(text).value(), b->encode(text).value());
    }
  }
}

}  // namespace
}  // namespace onepass::test::convert_test
