// Published vocabularies against ids made by other programs; skipped where the files are absent.

#include <algorithm>
#include <sstream>

#include "io/json.h"
#include "tokenizer_support.h"

namespace onepass::test::tokenizer_data_test {
namespace {

using llm::Tokenizer;

std::vector<std::string> separated(const std::string& text, const std::string& separator) {
  std::vector<std::string> parts;
  std::size_t at = 0;
  for (std::size_t hit; (hit = text.find(separator, at)) != std::string::npos;
       at = hit + separator.size()) {
    parts.push_back(text.substr(at, hit - at));
  }
  parts.push_back(text.substr(at));
  return parts;
}

class VocabularyFile : public testing::TestWithParam<const char*> {};

TEST_P(VocabularyFile, gives_the_published_ids) {
  const std::string name = std::string("vocab/ggml-vocab-") + GetParam() + ".gguf";
  const auto path = test_data(name);
  if (!path) GTEST_SKIP() << name << " is not in ONEPASS_TEST_DATA";
  const Tokenizer tokenizer = from_gguf(*path);
  auto cases = separated(read_file(path->string() + ".inp"), "\n__ggml_vocab_test__\n");
  std::istringstream expected(read_file(path->string() + ".out"));
  std::size_t n = 0;
  std::string line;
  for (; std::getline(expected, line); ++n) {
    ASSERT_LT(n, cases.size());
    std::istringstream numbers(line);
    const Ids ids{std::istream_iterator<std::uint32_t>(numbers), {}};
    EXPECT_EQ(encoded(tokenizer, cases[n]), ids)
        << GetParam() << " case " << n << ": " << shown(cases[n]);
    EXPECT_EQ(decoded(tokenizer, ids), cases[n]);
  }
  EXPECT_GE(n, 40u);
  RecordProperty("cases", static_cast<int>(n));
}

INSTANTIATE_TEST_SUITE_P(All, VocabularyFile,
                         testing::Values("gpt-2", "llama-bpe", "llama-spm", "deepseek-coder"),
                         [](const auto& vocabulary) {
                           std::string name = vocabulary.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

class JsonFile : public testing::TestWithParam<const char*> {};

TEST_P(JsonFile, gives_the_ids_of_the_reference_library) {
  const auto folder = test_data(std::string("tokenizers/") + GetParam());
  if (!folder) GTEST_SKIP() << "tokenizers/" << GetParam() << " is not in ONEPASS_TEST_DATA";
  auto tokenizer = Tokenizer::from_json(read_file(*folder / "tokenizer.json"),
                                        read_file(*folder / "tokenizer_config.json"));
  ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().to_string();
  EXPECT_TRUE(tokenizer->special_ids().eos.has_value());

  const std::string vectors = read_file(*folder / "vectors.json");
  const auto document = io::JsonDocument::parse(vectors);
  ASSERT_TRUE(document.has_value()) << document.error().to_string();
  std::size_t n = 0;
  for (const io::Json item : document->root()["cases"].items()) {
    const std::string_view text = item["text"].text().value();
    const std::string_view expected_text = item["decoded"].text().value();
    const auto ids_of = [&](const char* key) {
      Ids ids;
      EXPECT_TRUE(item[key].is(io::JsonKind::array));
      for (const io::Json id : item[key].items()) {
        ids.push_back(static_cast<std::uint32_t>(id.integer().value()));
      }
      return ids;
    };
    const Ids ids = ids_of("ids");
    EXPECT_EQ(encoded(*tokenizer, text, {.add_special = false, .parse_special = true}), ids)
        << shown(text);
    EXPECT_EQ(encoded(*tokenizer, text, {.add_special = true, .parse_special = true}),
              ids_of("ids_special"))
        << shown(text);
    EXPECT_EQ(decoded(*tokenizer, ids, {.special = true}), expected_text);
    ++n;
  }
  EXPECT_GE(n, 40u);
  RecordProperty("cases", static_cast<int>(n));
}

INSTANTIATE_TEST_SUITE_P(All, JsonFile, testing::Values("gpt2", "qwen3"),
                         [](const auto& vocabulary) { return std::string(vocabulary.param); });

class ModelFile : public testing::TestWithParam<const char*> {};

TEST_P(ModelFile, round_trips_random_text) {
  const auto path = test_data(GetParam());
  if (!path) GTEST_SKIP() << GetParam() << " is not in ONEPASS_TEST_DATA";
  const Tokenizer tokenizer = from_gguf(*path);
  std::mt19937_64 random(20);
  for (int i = 0; i < 10'000; ++i) {
    std::string text = i % 2 == 0 ? random_text(random, 30) : any_code_points(random, 30);
    text = llm::text::replace_all(text, llm::text::space_mark,
                                  "?");  // stands for a space in some of them
    for (const bool add_special : {false, true}) {
      const Ids ids = encoded(tokenizer, text, {.add_special = add_special});
      ASSERT_EQ(decoded(tokenizer, ids), text) << i << ": " << shown(text);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, ModelFile,
    testing::Values("gguf/minimind2-small-q4_k_m.gguf", "gguf/stories260K-f32.gguf",
                    "vocab/ggml-vocab-llama-spm.gguf", "vocab/ggml-vocab-llama-bpe.gguf",
                    "vocab/ggml-vocab-gpt-2.gguf", "vocab/ggml-vocab-deepseek-coder.gguf"),
    [](const auto& vocabulary) {
      std::string name = std::filesystem::path(vocabulary.param).stem().string();
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

}  // namespace
}  // namespace onepass::test::tokenizer_data_test
