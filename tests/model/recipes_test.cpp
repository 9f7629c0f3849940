// Tiny models of many architectures, each with logits of an independent implementation: those of a
// supported architecture give the same logits and tokens, all others are refused by name. Which are
// supported, the table of architectures says.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>

#include "io/gguf_file.h"
#include "model/architecture.h"
#include "model/recipe_file.h"
#include "run/decoder.h"
#include "support/temp_folder.h"

namespace onepass::test::recipes_test {
namespace {

std::vector<std::string> recipes() {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(
           std::filesystem::path(ONEPASS_TEST_DATA) / "archs", error)) {
    const std::filesystem::path& path = entry.path();
    if (path.extension() == ".json" && path.stem() != "index") names.push_back(path.stem());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// Distance of some logits to the reference, relative to the size of the reference.
class Distance {
 public:
  void add(const io::Json& pairs, std::span<const float> logits) {
    for (const io::Json pair : pairs.items()) {
      std::vector<double> numbers;
      for (const io::Json n : pair.items()) numbers.push_back(n.number().value());
      const auto got = static_cast<double>(logits[static_cast<std::size_t>(numbers[0])]);
      error_ += (got - numbers[1]) * (got - numbers[1]);
      size_ += numbers[1] * numbers[1];
    }
  }
  double value() const { return size_ > 0.0 ? error_ / size_ : 1.0; }

 private:
  double error_ = 0.0, size_ = 0.0;
};

std::vector<std::uint32_t> integers(const io::Json& list) {
  std::vector<std::uint32_t> values;
  for (const io::Json n : list.items()) {
    values.push_back(static_cast<std::uint32_t>(n.integer().value()));
  }
  return values;
}

class Recipes : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    std::ifstream in(std::filesystem::path(ONEPASS_TEST_DATA) / "archs" / (GetParam() + ".json"));
    text_.assign(std::istreambuf_iterator<char>(in), {});
    auto document = io::JsonDocument::parse(text_);
    ASSERT_TRUE(document) << document.error().to_string();
    document_ = std::move(*document);
    const std::vector<std::byte> bytes = recipe_file(document_.root());
    ASSERT_EQ(sha256_of(bytes), document_.root()["sha256"].text().value());
    path_ = folder_.write("model.gguf", bytes);
  }
  const llm::Architecture* architecture() const {
    return llm::find_architecture(document_.root()["architecture"].text().value());
  }

  std::string text_, path_;
  io::JsonDocument document_;
  TempFolder folder_;
  Device device_ = Device::open("cpu").value();
};

// The worst of the last logits and of those at all positions, with chunks of so many tokens.
double worst_distance(llm::Decoder& d, const io::Json& reference, std::size_t chunk) {
  const std::vector<std::uint32_t> tokens = integers(reference["tokens"]);
  std::vector<io::Json> expected;
  for (const io::Json pairs : reference["all"].items()) expected.push_back(pairs);
  Distance last, all;
  for (std::size_t at = 0; at < tokens.size(); at += chunk) {
    const auto part = std::span(tokens).subspan(at, std::min(chunk, tokens.size() - at));
    const auto each = [&](std::size_t i, std::span<const float> logits) -> Status {
      all.add(expected[at + i], logits);
      if (at + i + 1 == tokens.size()) last.add(reference["top"], logits);
      return {};
    };
    const Status scored = d.score(part, each);
    EXPECT_TRUE(scored) << scored.error().to_string();
  }
  return std::max(last.value(), all.value());
}

TEST_P(Recipes, HaveTheirLogitsOrAreRefused) {
  const llm::Architecture* a = architecture();
  const auto model = llm::Model::open(device_, path_);
  if (a == nullptr) {
    ASSERT_FALSE(model);
    EXPECT_EQ(model.error().code, ErrorCode::unsupported);
    EXPECT_EQ(model.error().field, "general.architecture");
    return;
  }
  ASSERT_TRUE(model) << model.error().to_string();
  const io::Json reference = document_.root()["reference"];
  // The reference looks GELU up in a table of f16.
  const double most = a->activation == llm::Activation::gelu
                          ? 1e-6
                          : std::max(10.0 * reference["noise"].number().value(), 1e-9);
  double worst = 0.0;
  for (const std::size_t chunk : {40u, 1u, 7u}) {
    auto d = llm::Decoder::create(*model, {.context = 64, .kv = DType::f32});
    ASSERT_TRUE(d) << d.error().to_string();
    const double distance = worst_distance(*d, reference, chunk);
    EXPECT_LE(distance, most) << "in chunks of " << chunk;
    worst = std::max(worst, distance);
    const std::vector<std::uint32_t> greedy = integers(reference["greedy"]);
    std::vector<std::uint32_t> got(greedy.size());
    const Status chosen = d->next(got, {});
    ASSERT_TRUE(chosen) << chosen.error().to_string();
    EXPECT_EQ(got, greedy) << "in chunks of " << chunk;
  }
  std::cout << "[ NMSE     ] " << GetParam() << " " << worst << "\n";
}

std::string test_name(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(All, Recipes, testing::ValuesIn(recipes()), test_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Recipes);

TEST(RecipeList, SaysHowManyAreSupported) {
  const std::vector<std::string> names = recipes();
  if (names.empty()) GTEST_SKIP() << "no folder archs in ONEPASS_TEST_DATA";
  std::size_t supported = 0;
  for (const std::string& name : names) {
    std::ifstream in(std::filesystem::path(ONEPASS_TEST_DATA) / "archs" / (name + ".json"));
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    const auto document = io::JsonDocument::parse(text);
    ASSERT_TRUE(document) << name;
    const auto architecture = document->root()["architecture"].text();
    ASSERT_TRUE(architecture) << name;
    supported += llm::find_architecture(*architecture) != nullptr ? 1 : 0;
  }
  std::cout << "[ RECIPES  ] " << supported << " of " << names.size() << " are supported\n";
  EXPECT_GE(supported, 39u);
}

}  // namespace
}  // namespace onepass::test::recipes_test
