// Files in other formats: which tensor gets which, what the values become, and what is refused.
#include "model/quantize_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>

#include "model/file_rows.h"
#include "run/decoder.h"
#include "support/random_model.h"
#include "support/temp_folder.h"

namespace onepass::test::quantize_file_test {
namespace {

using llm::find_mix;
using llm::QuantizeOptions;

// The tensors of an 8B Llama; 32 heads, 8 for keys.
std::map<std::string, int> types_of_8b(const char* mix, std::uint64_t cols = 4096) {
  llm::MixModel model;
  model.architecture = "llama";
  model.n_layers = 32;
  model.queries_per_key = 4;
  std::vector<std::string> names{"token_embd.weight", "output.weight"};
  for (int i = 0; i < 32; ++i) {
    for (const char* part :
         {"attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"}) {
      names.push_back("blk." + std::to_string(i) + "." + part + ".weight");
    }
  }
  for (const std::string& name : names) model.add_tensor(name);
  std::map<std::string, int> counts;
  for (const std::string& n : names) ++counts[name(mix_type(*find_mix(mix), model, n, cols))];
  return counts;
}

// As llama-quantize reports them.
TEST(QuantMix, CountsOfAnEightBillionModel) {
  using Counts = std::map<std::string, int>;
  EXPECT_EQ(types_of_8b("q4_k_m"), (Counts{{"q4_k", 193}, {"q6_k", 33}}));
  EXPECT_EQ(types_of_8b("Q4_K"), types_of_8b("q4_k_m"));
  EXPECT_EQ(types_of_8b("q4_k_s"), (Counts{{"q4_k", 217}, {"q5_k", 8}, {"q6_k", 1}}));
  EXPECT_EQ(types_of_8b("q5_k_m"), (Counts{{"q5_k", 193}, {"q6_k", 33}}));
  EXPECT_EQ(types_of_8b("q6_k"), (Counts{{"q6_k", 226}}));
  EXPECT_EQ(types_of_8b("q2_k"), (Counts{{"q2_k", 129}, {"q3_k", 64}, {"q4_k", 32}, {"q6_k", 1}}));
  EXPECT_EQ(types_of_8b("q3_k_m"), (Counts{{"q3_k", 129}, {"q4_k", 92}, {"q5_k", 4}, {"q6_k", 1}}));
  EXPECT_EQ(types_of_8b("q8_0"), (Counts{{"q8_0", 226}}));
  EXPECT_EQ(types_of_8b("q4_0"), (Counts{{"q4_0", 225}, {"q6_k", 1}}));
  EXPECT_EQ(types_of_8b("bf16"), (Counts{{"bf16", 226}}));
  EXPECT_EQ(types_of_8b("tq2_0"), (Counts{{"tq2_0", 224}, {"q4_k", 1}, {"q6_k", 1}}));
  EXPECT_EQ(types_of_8b("q2_0"), (Counts{{"q2_0", 224}, {"q4_k", 1}, {"q6_k", 1}}));
  EXPECT_EQ(types_of_8b("q1_0"), (Counts{{"q1_0", 225}, {"q6_k", 1}}));
  EXPECT_EQ(types_of_8b("mxfp4_moe"), (Counts{{"q8_0", 226}}));
  EXPECT_EQ(types_of_8b("iq1_s"),
            (Counts{{"iq1_s", 156}, {"iq2_xxs", 32}, {"q2_k", 5}, {"q4_k", 32}, {"q5_k", 1}}));
  EXPECT_EQ(types_of_8b("iq2_xxs"),
            (Counts{{"iq2_xxs", 188}, {"q2_k", 5}, {"q4_k", 32}, {"q5_k", 1}}));
  EXPECT_EQ(types_of_8b("iq2_m"),
            (Counts{{"iq2_s", 156}, {"iq3_s", 37}, {"q4_k", 32}, {"q5_k", 1}}));
  EXPECT_EQ(types_of_8b("iq3_xs"),
            (Counts{{"iq3_s", 81}, {"iq3_xxs", 112}, {"q4_k", 32}, {"q6_k", 1}}));
  EXPECT_EQ(types_of_8b("q2_k_s"), (Counts{{"q2_k", 189}, {"q4_k", 36}, {"q6_k", 1}}));
  // Rows that are no whole blocks.
  EXPECT_EQ(types_of_8b("q4_k_m", 288), (Counts{{"q5_0", 193}, {"q8_0", 33}}));
  EXPECT_EQ(types_of_8b("q3_k_s", 288), (Counts{{"q4_0", 225}, {"q8_0", 1}}));
  EXPECT_EQ(types_of_8b("q4_0", 40), (Counts{{"f16", 226}}));
  EXPECT_EQ(find_mix("q9_k"), nullptr);
  EXPECT_EQ(find_mix(""), nullptr);
}

TEST(QuantMix, NormsBiasesAndRoutersKeepTheirType) {
  EXPECT_TRUE(llm::is_quantized_part("blk.0.ffn_down.weight", 2));
  EXPECT_TRUE(llm::is_quantized_part("blk.0.ffn_down_exps.weight", 3));
  EXPECT_FALSE(llm::is_quantized_part("blk.0.ffn_gate_inp.weight", 2));
  EXPECT_FALSE(llm::is_quantized_part("blk.0.attn_norm.weight", 1));
  EXPECT_FALSE(llm::is_quantized_part("blk.0.attn_q.bias", 1));
}

const RandomModelOptions wide{.layers = 2, .dim = 256, .heads = 4, .head_dim = 64, .ffn = 512};

std::vector<float> logits_of(const std::string& path) {
  const auto device = Device::open("cpu");
  const auto model = llm::Model::open(*device, path);
  EXPECT_TRUE(model) << model.error().to_string();
  if (!model) return {};
  auto d = llm::Decoder::create(*model, {.context = 32, .kv = DType::f32});
  EXPECT_TRUE(d) << d.error().to_string();
  const std::uint32_t tokens[] = {5, 17, 3, 88, 41};
  EXPECT_TRUE(d->append(tokens));
  return d->logits().value();
}

std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

Result<llm::QuantizePlan> quantize(const std::string& in, const std::string& out,
                                   const QuantizeOptions& options) {
  ONEPASS_ASSIGN(const io::GgufFile file, io::GgufFile::open(in));
  ONEPASS_ASSIGN(llm::QuantizePlan plan, llm::plan_quantize(file, options));
  ONEPASS_TRY(llm::quantize_file(file, plan, out, options));
  return plan;
}

// Every sixteenth column of the model's matrices counts a hundred times as much as the others.
llm::Imatrix uneven_importance(const std::string& model) {
  llm::Imatrix matrix;
  const auto file = io::GgufFile::open(model);
  for (const io::GgufTensor& t : file->metadata().tensors()) {
    if (!llm::is_quantized_part(t.name, t.n_dims)) continue;
    llm::ImatrixEntry& e = matrix.entries[std::string(t.name)];
    e.counts.assign(static_cast<std::size_t>(t.dims[2]), 4);
    for (std::uint64_t i = 0; i < t.dims[0] * t.dims[2]; ++i) {
      e.sums.push_back(i % 16 == 3 ? 400.0 : 4.0);
    }
  }
  return matrix;
}

TEST(QuantizeFile, EveryTypeLoadsAndStaysClose) {
  const RandomModel random(wide);
  const TempFolder folder;
  const std::string in = folder.write("in.gguf", random.writer.finish());
  const std::string out = (folder.path() / "out.gguf").string();
  const std::vector<float> expected = logits_of(in);
  // Normalized squared errors of random weights: of the order of the formats' own.
  const std::map<std::string, double> bounds{{"f32", 0.0},     {"f16", 1e-5},  {"bf16", 1e-3},
                                             {"q8_0", 2e-3},   {"q6_k", 0.03}, {"q5_k_m", 0.06},
                                             {"q4_k_m", 0.25}, {"q2_k", 3.0}};
  const llm::Imatrix importance = uneven_importance(in);
  for (const llm::QuantMix& mix : llm::quant_mixes()) {
    const bool needed = mix.name.starts_with("iq") || mix.name == "q2_k_s";
    const auto plan = quantize(in, out, {.mix = &mix, .imatrix = needed ? &importance : nullptr});
    ASSERT_TRUE(plan) << mix.name << ": " << plan.error().to_string();
    const std::vector<float> got = logits_of(out);
    ASSERT_EQ(got.size(), expected.size());
    const double error =
        reference::nmse(got, std::vector<double>(expected.begin(), expected.end()));
    const auto bound = bounds.find(std::string(mix.name));
    // One or two bits leave little of random weights.
    const double most =
        info(mix.base).block_bytes * 8 < 3 * info(mix.base).block_elements ? 3.0 : 1.0;
    EXPECT_LE(error, bound != bounds.end() ? bound->second : most) << mix.name;
    const auto file = io::GgufFile::open(out);
    ASSERT_TRUE(file);
    EXPECT_EQ(file->metadata().integer("general.file_type").value(), mix.file_type);
    EXPECT_EQ(file->metadata().text("general.name").value(), "random");
    EXPECT_EQ(file->metadata().tensors().size(), plan->tensors.size());
    EXPECT_STREQ(file->find("output_norm.weight")->info->type->name, "f32");
    std::uint64_t bytes = 0;
    for (const io::GgufTensor& t : file->metadata().tensors()) bytes += t.bytes;
    EXPECT_EQ(bytes, plan->to_bytes);
  }
}

// Values of a tensor as a file has them.
std::vector<float> values_of(const std::string& path, const std::string& name) {
  const auto file = io::GgufFile::open(path);
  const auto t = file->find(name);
  std::vector<std::byte> bytes(static_cast<std::size_t>(t->info->bytes));
  EXPECT_TRUE(file->read(*t, bytes));
  const DType type = *dtype_from_ggml_id(t->info->type->id);
  std::vector<float> values(bytes.size() / info(type).block_bytes * info(type).block_elements);
  EXPECT_TRUE(llm::rows_to_f32(type, bytes, values));
  return values;
}

TEST(QuantizeFile, ImportanceMovesErrorsToWhereTheyMatterLess) {
  RandomModelOptions o = wide;
  o.architecture = "qwen3moe", o.experts = 2, o.layers = 1;
  const TempFolder folder;
  const std::string in = folder.write("in.gguf", RandomModel(o).writer.finish());
  const std::string plain = (folder.path() / "plain").string();
  const std::string weighed = (folder.path() / "weighed").string();
  const llm::Imatrix importance = uneven_importance(in);
  for (const char* mix : {"q4_0", "q4_1", "q5_0", "q5_1", "q2_k", "q3_k_s", "q4_k_s", "q5_k_s",
                          "q6_k", "iq4_nl", "iq4_xs", "iq3_s"}) {
    ASSERT_TRUE(quantize(in, plain, {.mix = find_mix(mix), .pure = true}));
    const auto plan =
        quantize(in, weighed, {.mix = find_mix(mix), .pure = true, .imatrix = &importance});
    ASSERT_TRUE(plan) << plan.error().to_string();
    for (const std::string name : {"blk.0.attn_q.weight", "blk.0.ffn_down_exps.weight"}) {
      const std::vector<float> exact = values_of(in, name), a = values_of(plain, name),
                               b = values_of(weighed, name);
      double before = 0.0, after = 0.0;
      for (std::size_t i = 0; i < exact.size(); ++i) {
        const double w = i % 16 == 3 ? 100.0 : 1.0, x = static_cast<double>(exact[i]);
        before += w * std::pow(static_cast<double>(a[i]) - x, 2.0);
        after += w * std::pow(static_cast<double>(b[i]) - x, 2.0);
      }
      EXPECT_LT(after, 0.95 * before) << mix << " " << name;
    }
  }
}

TEST(QuantizeFile, EachExpertHasItsOwnImportance) {
  RandomModelOptions o = wide;
  o.architecture = "qwen3moe", o.experts = 4;
  const TempFolder folder;
  const std::string in = folder.write("in.gguf", RandomModel(o).writer.finish());
  const std::string out = (folder.path() / "out").string();
  const std::string other = (folder.path() / "other").string();
  llm::Imatrix importance = uneven_importance(in);
  const std::string name = "blk.0.ffn_up_exps.weight";
  ASSERT_TRUE(quantize(in, out, {.mix = find_mix("iq3_s"), .imatrix = &importance}));
  std::vector<double>& sums = importance.entries[name].sums;
  const std::size_t each = sums.size() / 4;
  for (std::size_t i = 2 * each; i < 3 * each; ++i) sums[i] = i % 16 == 9 ? 400.0 : 4.0;
  ASSERT_TRUE(quantize(in, other, {.mix = find_mix("iq3_s"), .imatrix = &importance}));
  const std::vector<float> a = values_of(out, name), b = values_of(other, name);
  for (std::size_t expert = 0; expert < 4; ++expert) {
    const std::size_t n = a.size() / 4, at = expert * n;
    const bool same = std::equal(a.begin() + static_cast<std::ptrdiff_t>(at),
                                 a.begin() + static_cast<std::ptrdiff_t>(at + n),
                                 b.begin() + static_cast<std::ptrdiff_t>(at));
    EXPECT_EQ(same, expert != 2) << expert;
  }
}

TEST(QuantizeFile, WhatNeedsImportanceIsRefusedWithout) {
  const TempFolder folder;
  const std::string in = folder.write("in.gguf", RandomModel(wide).writer.finish());
  const std::string out = (folder.path() / "out.gguf").string();
  llm::Imatrix importance = uneven_importance(in);
  for (const char* mix :
       {"iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "iq2_m", "iq3_xxs", "iq3_xs", "q2_k_s"}) {
    const auto refused = quantize(in, out, {.mix = find_mix(mix)});
    ASSERT_FALSE(refused) << mix;
    EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument);
    EXPECT_NE(refused.error().message.find("onepass imatrix"), std::string::npos);
    EXPECT_NE(refused.error().field.find("blk."), std::string::npos);
    EXPECT_FALSE(std::filesystem::exists(out));
    EXPECT_TRUE(quantize(in, out, {.mix = find_mix(mix), .imatrix = &importance})) << mix;
    std::filesystem::remove(out);
  }
  for (const char* mix : {"iq3_s", "iq3_m", "q2_k", "iq4_xs"}) {
    EXPECT_TRUE(quantize(in, out, {.mix = find_mix(mix)})) << mix;
  }
  // An entry of another width, and one that is missing.
  importance.entries["blk.1.ffn_up.weight"].sums.resize(128);
  const auto other = quantize(in, out, {.mix = find_mix("q4_0"), .imatrix = &importance});
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().field, "blk.1.ffn_up.weight");
  importance.entries.erase("blk.1.ffn_up.weight");
  EXPECT_TRUE(quantize(in, out, {.mix = find_mix("q4_0"), .imatrix = &importance}));
  const auto missing = quantize(in, out, {.mix = find_mix("iq2_xxs"), .imatrix = &importance});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().field, "blk.1.ffn_up.weight");
}

TEST(QuantizeFile, ImportanceIsInTheMetadata) {
  const TempFolder folder;
  const std::string in = folder.write("in.gguf", RandomModel(wide).writer.finish());
  const std::string out = (folder.path() / "out.gguf").string();
  llm::Imatrix importance = uneven_importance(in);
  importance.datasets = {"text.txt"};
  importance.chunks = 7;
  ASSERT_TRUE(quantize(
      in, out, {.mix = find_mix("q4_0"), .imatrix = &importance, .imatrix_path = "im.gguf"}));
  const auto file = io::GgufFile::open(out);
  EXPECT_EQ(file->metadata().text("quantize.imatrix.file").value(), "im.gguf");
  EXPECT_EQ(file->metadata().text("quantize.imatrix.dataset").value(), "text.txt");
  EXPECT_EQ(file->metadata().integer("quantize.imatrix.chunks_count").value(), 7u);
  EXPECT_EQ(file->metadata().integer("quantize.imatrix.entries_count").value(),
            importance.entries.size());
}

TEST(QuantizeFile, ThreadsDoNotMatterAndTheSourceMayBeReplaced) {
  const RandomModel random(wide);
  const TempFolder folder;
  const std::string in = folder.write("in.gguf", random.writer.finish());
  const std::string one = (folder.path() / "1").string(), three = (folder.path() / "3").string();
  ASSERT_TRUE(quantize(in, one, {.mix = find_mix("q4_k_m"), .threads = 1}));
  ASSERT_TRUE(quantize(in, three, {.mix = find_mix("q4_k_m"), .threads = 3}));
  const llm::Imatrix importance = uneven_importance(in);
  const std::string a = (folder.path() / "a").string(), b = (folder.path() / "b").string();
  ASSERT_TRUE(quantize(in, a, {.mix = find_mix("iq2_xs"), .imatrix = &importance, .threads = 1}));
  ASSERT_TRUE(quantize(in, b, {.mix = find_mix("iq2_xs"), .imatrix = &importance, .threads = 3}));
  EXPECT_EQ(bytes_of(a), bytes_of(b));
  ASSERT_TRUE(quantize(in, in, {.mix = find_mix("q4_k_m")}));
  EXPECT_EQ(bytes_of(one), bytes_of(three));
  EXPECT_EQ(bytes_of(one), bytes_of(in));
}

TEST(QuantizeFile, MixturesOfExperts) {
  RandomModelOptions o = wide;
  o.architecture = "qwen3moe", o.experts = 4;
  const RandomModel random(o);
  const TempFolder folder;
  const std::string in = folder.write("in.gguf", random.writer.finish());
  const std::string out = (folder.path() / "out.gguf").string();
  ASSERT_TRUE(quantize(in, out, {.mix = find_mix("q8_0")}));
  const auto file = io::GgufFile::open(out);
  EXPECT_STREQ(file->find("blk.0.ffn_gate_inp.weight")->info->type->name, "f32");
  EXPECT_STREQ(file->find("blk.0.ffn_down_exps.weight")->info->type->name, "q8_0");
  const std::vector<float> expected = logits_of(in);
  EXPECT_LE(reference::nmse(logits_of(out), std::vector<double>(expected.begin(), expected.end())),
            2e-2);
}

TEST(QuantizeFile, Mxfp4IsForExperts) {
  RandomModelOptions o = wide;
  o.architecture = "qwen3moe", o.experts = 4;
  const TempFolder folder;
  const std::string in = folder.write("in.gguf", RandomModel(o).writer.finish());
  const std::string out = (folder.path() / "out.gguf").string();
  ASSERT_TRUE(quantize(in, out, {.mix = find_mix("MXFP4_MOE")}));
  const auto file = io::GgufFile::open(out);
  EXPECT_STREQ(file->find("blk.0.ffn_down_exps.weight")->info->type->name, "mxfp4");
  EXPECT_STREQ(file->find("blk.0.attn_v.weight")->info->type->name, "q8_0");
  EXPECT_STREQ(file->find("token_embd.weight")->info->type->name, "q8_0");
  EXPECT_STREQ(file->find("output.weight")->info->type->name, "q8_0");
}

TEST(QuantizeFile, RefusalsAndErrorsLeaveTheOldFile) {
  const TempFolder folder;
  const std::string out = folder.write_text("out.gguf", "old");
  RandomModelOptions o = wide;
  o.matrix_type = 2;  // q4_0
  const std::string coarse = folder.write("coarse.gguf", RandomModel(o).writer.finish());
  const auto twice = quantize(coarse, out, {.mix = find_mix("q4_k_m")});
  ASSERT_FALSE(twice);
  EXPECT_EQ(twice.error().code, ErrorCode::invalid_argument);
  EXPECT_NE(twice.error().message.find("--requantize"), std::string::npos);
  EXPECT_FALSE(quantize(coarse, out, {}));

  // A value that is no number, and a stop in the middle.
  RandomModel random(wide);
  std::vector<float> bad(256 * 97, 0.5f);
  bad[5000] = std::nanf("");
  random.writer.erase_tensor("token_embd.weight").tensor("token_embd.weight", {256, 97}, bad);
  const std::string strange = folder.write("strange.gguf", random.writer.finish());
  const auto nan = quantize(strange, out, {.mix = find_mix("q8_0")});
  ASSERT_FALSE(nan);
  EXPECT_EQ(nan.error().code, ErrorCode::parse);
  EXPECT_EQ(nan.error().field, "token_embd.weight");
  const std::string good = folder.write("good.gguf", RandomModel(wide).writer.finish());
  QuantizeOptions stop{.mix = find_mix("q8_0")};
  stop.progress = [](std::uint64_t done, std::uint64_t total) -> Status {
    if (done > total / 2) return fail(ErrorCode::cancelled, "stop");
    return {};
  };
  const auto stopped = quantize(good, out, stop);
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, ErrorCode::cancelled);
  EXPECT_EQ(bytes_of(out), "old");
  std::size_t files = 0;
  for ([[maybe_unused]] const auto& e : std::filesystem::directory_iterator(folder.path())) ++files;
  EXPECT_EQ(files, 4u);
  ASSERT_TRUE(quantize(coarse, out, {.mix = find_mix("q8_0"), .requantize = true}));
  EXPECT_FALSE(logits_of(out).empty());
}

TEST(FileRows, SizesAndRangesAreChecked) {
  std::vector<float> values(64, 1.0f);
  std::vector<std::byte> bytes(36);
  EXPECT_TRUE(llm::rows_from_f32(DType::q4_0, values, 1, bytes));
  EXPECT_FALSE(llm::rows_from_f32(DType::q8_0, values, 1, bytes));
  EXPECT_FALSE(llm::rows_from_f32(DType::q4_k, values, 1, bytes));
  EXPECT_FALSE(llm::rows_from_f32(DType::u32, values, 1, bytes));
  EXPECT_FALSE(llm::rows_to_f32(DType::q8_0, bytes, values));
  std::vector<std::byte> halves(128);
  values[3] = 70000.0f;
  EXPECT_FALSE(llm::rows_from_f32(DType::f16, values, 1, halves));
  EXPECT_TRUE(llm::rows_from_f32(DType::bf16, values, 1, halves));
}

}  // namespace
}  // namespace onepass::test::quantize_file_test
