// Tiny files of every architecture with every key, experts and optional tensors, made from its
// tables: as folders and back they have the same logits.
#include <gtest/gtest.h>

#include <algorithm>

#include "model/convert.h"
#include "run/decoder.h"
#include "support/family_file.h"
#include "support/temp_folder.h"

namespace onepass::test::family_test {
namespace {

Result<std::vector<float>> logits_of(const Device& device, const std::string& path) {
  ONEPASS_ASSIGN(const auto model, llm::Model::open(device, path));
  ONEPASS_ASSIGN(llm::Decoder d, llm::Decoder::create(model, {.context = 32, .kv = DType::f32}));
  const std::uint32_t tokens[] = {5, 17, 3, 88, 41, 9, 9, 60, 2, 77, 31};
  ONEPASS_TRY(d.append(tokens));
  return d.logits();
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double error = 0.0, size = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
    error += (x - y) * (x - y);
    size += x * x;
  }
  return error / size;
}

class Families : public testing::TestWithParam<std::string> {
 protected:
  const llm::Architecture& architecture() const { return *llm::find_architecture(GetParam()); }
  bool has_folders() const { return !architecture().model_types.empty(); }
  // Granite's have them in files of GGUF only.
  bool has_mixtures() const { return !GetParam().starts_with("granite"); }
  // There and back: the folder's logits are those of the file but for the order of sums, the new
  // file's are the same.
  void round_trip(const FamilyFile& file, const std::string& what) {
    const TempFolder temp;
    const std::string first = temp.write("first.gguf", file.bytes({}));
    const std::string folder = (temp.path() / "folder").string();
    const std::string second = (temp.path() / "second.gguf").string();
    const auto a = logits_of(device_, first);
    ASSERT_TRUE(a) << what << a.error().to_string();
    const auto there = llm::gguf_to_folder(first, folder, {.type = DType::f32, .tokenizer = false});
    ASSERT_TRUE(there) << what << there.error().to_string();
    const auto b = logits_of(device_, folder);
    ASSERT_TRUE(b) << what << b.error().to_string();
    EXPECT_LE(distance(*a, *b), 1e-11) << what;
    const auto back = llm::folder_to_gguf(folder, second, {.tokenizer = false});
    ASSERT_TRUE(back) << what << back.error().to_string();
    const auto c = logits_of(device_, second);
    ASSERT_TRUE(c) << what << c.error().to_string();
    EXPECT_EQ(*a, *c) << what;
  }
  Device device_ = Device::open("cpu").value();
};

TEST_P(Families, AreTheSameAsFoldersAndBack) {
  if (!has_folders()) {
    const TempFolder temp;
    const auto there =
        llm::gguf_to_folder(temp.write("first.gguf", FamilyFile(architecture(), {}).bytes({})),
                            (temp.path() / "folder").string(), {.tokenizer = false});
    ASSERT_FALSE(there);
    EXPECT_EQ(there.error().code, ErrorCode::unsupported);
    return;
  }
  round_trip(FamilyFile(architecture(), {}), "plain ");
  round_trip(FamilyFile(architecture(), {.keys = true}), "keys ");
  if (has_mixtures()) {
    round_trip(FamilyFile(architecture(), {.keys = true, .experts = true}), "experts ");
  }
}

// Matrices of 8 bits, those of all experts in one tensor.
TEST_P(Families, RunAsQuantizedFoldersOfMlx) {
  if (!has_folders()) GTEST_SKIP() << "has no folders";
  const TempFolder temp;
  const FamilyFile file(architecture(), {.experts = has_mixtures()});
  const std::string first = temp.write("first.gguf", file.bytes({}));
  const std::string folder = (temp.path() / "folder").string();
  const std::string second = (temp.path() / "second.gguf").string();
  const auto there = llm::gguf_to_folder(
      first, folder, {.type = DType::f32, .bits = 8, .group_size = 32, .tokenizer = false});
  ASSERT_TRUE(there) << there.error().to_string();
  const auto a = logits_of(device_, first), b = logits_of(device_, folder);
  ASSERT_TRUE(a && b) << (a ? b.error() : a.error()).to_string();
  EXPECT_LE(distance(*a, *b), 2e-2);
  const auto back = llm::folder_to_gguf(folder, second, {.tokenizer = false});
  ASSERT_TRUE(back) << back.error().to_string();
  const auto c = logits_of(device_, second);
  ASSERT_TRUE(c) << c.error().to_string();
  EXPECT_LE(distance(*b, *c), 5e-2);
}

std::vector<std::string> names() {
  std::vector<std::string> list;
  for (const llm::Architecture* a : llm::architectures()) list.emplace_back(a->name);
  return list;
}
std::string test_name(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(All, Families, testing::ValuesIn(names()), test_name);

}  // namespace
}  // namespace onepass::test::family_test
