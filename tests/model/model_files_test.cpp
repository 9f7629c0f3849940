// A GGUF file, the folder made of it and a synthetic model behind one interface.
#include "model/model_files.h"

#include <gtest/gtest.h>

#include "model/convert.h"
#include "support/random_model.h"
#include "support/temp_folder.h"

namespace onepass::test::model_files_test {
namespace {

using llm::ModelFiles;
using llm::ModelStore;

std::unique_ptr<ModelFiles> open(const std::string& path) {
  auto files = ModelFiles::open(path);
  EXPECT_TRUE(files) << files.error().to_string();
  return files ? std::move(*files) : nullptr;
}

// Every tensor listed is there, whole, and reads as the weights do.
void expect_consistent(ModelFiles& files, const std::string& gguf_name, const std::string& own) {
  const auto tensors = files.tensors();
  ASSERT_TRUE(tensors) << tensors.error().to_string();
  std::uint64_t total = 0;
  for (const llm::FileTensor& t : *tensors) {
    total += t.bytes;
    std::vector<std::byte> last(1);
    EXPECT_TRUE(files.read(t.name, t.bytes - 1, last)) << t.name;
  }
  EXPECT_GT(total, 0u);
  EXPECT_EQ(files.weight_bytes(), total);
  const auto weights = files.weights();
  ASSERT_TRUE(weights) << weights.error().to_string();
  const auto stored = (*weights)->find(gguf_name);
  ASSERT_TRUE(stored);
  std::vector<std::byte> a(stored->bytes), b(stored->bytes);
  ASSERT_TRUE((*weights)->read(*stored, 0, a));
  ASSERT_TRUE(files.read(own, 0, b));
  EXPECT_EQ(a, b);
  EXPECT_EQ(files.read("nothing", 0, b).error().code, ErrorCode::not_found);
}

TEST(ModelFiles, OneInterfaceForAllStores) {
  const TempFile gguf(RandomModel({}).writer.finish());
  const TempFolder target;
  const std::string folder = (target.path() / "folder").string();
  const auto made = llm::gguf_to_folder(gguf.path(), folder, {});
  ASSERT_TRUE(made) << made.error().to_string();

  EXPECT_EQ(llm::model_store(gguf.path()), ModelStore::gguf);
  EXPECT_EQ(llm::model_store("/no/such"), ModelStore::gguf);
  EXPECT_EQ(llm::model_store(folder), ModelStore::folder);
  EXPECT_EQ(llm::model_store("synthetic:tiny:q8_0"), ModelStore::synthetic);

  const auto a = open(gguf.path()), b = open(folder), c = open("synthetic:tiny:q8_0");
  ASSERT_TRUE(a && b && c);
  EXPECT_EQ(a->config()->dim, b->config()->dim);
  EXPECT_EQ(a->tensors()->size(), b->tensors()->size());
  EXPECT_NE(a->gguf_metadata(), nullptr);
  EXPECT_EQ(b->gguf_metadata(), nullptr);
  EXPECT_EQ(b->folder_config().value()["hidden_size"].integer(), b->config()->dim);
  EXPECT_EQ(a->folder_config().error().code, ErrorCode::not_found);
  EXPECT_EQ(c->folder_config().error().code, ErrorCode::not_found);
  expect_consistent(*a, "output_norm.weight", "output_norm.weight");
  expect_consistent(*b, "output_norm.weight", "model.norm.weight");
  expect_consistent(*c, "output_norm.weight", "output_norm.weight");
  EXPECT_EQ(c->tokenizer().error().code, ErrorCode::not_found);
  EXPECT_EQ(c->chat_template().error().code, ErrorCode::not_found);
}

TEST(ModelFiles, FoldersOpenWithPartsMissing) {
  const TempFolder folder;
  folder.write_text("chat_template.jinja", "{{ messages }}");
  const auto files = open(folder.path().string());
  ASSERT_NE(files, nullptr);
  EXPECT_EQ(files->chat_template(), "{{ messages }}");
  EXPECT_EQ(files->config().error().code, ErrorCode::not_found);
  EXPECT_EQ(files->weights().error().code, ErrorCode::not_found);
  EXPECT_EQ(files->tensors().error().code, ErrorCode::not_found);
  EXPECT_EQ(files->weight_bytes().error().code, ErrorCode::not_found);
  EXPECT_EQ(files->tokenizer().error().code, ErrorCode::not_found);
  EXPECT_EQ(ModelFiles::open("/no/such").error().code, ErrorCode::not_found);
  EXPECT_FALSE(ModelFiles::open("synthetic:nothing:f32"));
}

}  // namespace
}  // namespace onepass::test::model_files_test
