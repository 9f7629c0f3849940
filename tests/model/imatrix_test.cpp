// Files of importance matrices: both forms, and what is no such file.
#include "model/imatrix.h"

#include <gtest/gtest.h>

#include <cstring>

#include "io/gguf_output.h"
#include "support/temp_folder.h"

namespace onepass::test::imatrix_test {
namespace {

using llm::Imatrix;

TEST(Imatrix, IsReadAsItWasWritten) {
  const TempFolder folder;
  const std::string path = (folder.path() / "im.gguf").string();
  Imatrix m;
  m.entries["blk.0.attn_q.weight"] = {{2.0, 4.0, 0.5, 8.0}, {2}};
  m.entries["blk.0.ffn_up_exps.weight"] = {{3.0, 6.0, 0.0, 0.0}, {3, 0}};
  m.datasets = {"a.txt", "b.txt"};
  m.chunks = 5, m.chunk_tokens = 512;
  ASSERT_TRUE(m.write(path));
  const auto read = Imatrix::read(path);
  ASSERT_TRUE(read) << read.error().to_string();
  ASSERT_EQ(read->entries.size(), 2u);
  EXPECT_EQ(read->entries.at("blk.0.attn_q.weight").sums, m.entries["blk.0.attn_q.weight"].sums);
  EXPECT_EQ(read->entries.at("blk.0.ffn_up_exps.weight").counts,
            (std::vector<std::uint64_t>{3, 0}));
  EXPECT_EQ(read->datasets, m.datasets);
  EXPECT_EQ(read->chunks, 5u);
  EXPECT_EQ(read->chunk_tokens, 512u);
  EXPECT_EQ(read->means("blk.0.attn_q.weight"), (std::vector<float>{1.0f, 2.0f, 0.25f, 4.0f}));
  // An expert that was never chosen.
  EXPECT_EQ(read->means("blk.0.ffn_up_exps.weight"), (std::vector<float>{1.0f, 2.0f, 1.0f, 1.0f}));
  EXPECT_TRUE(read->means("blk.1.attn_q.weight").empty());
  // As llama-imatrix writes it.
  const auto file = io::GgufFile::open(path);
  EXPECT_EQ(file->metadata().text("general.type").value(), "imatrix");
  EXPECT_EQ(file->find("blk.0.ffn_up_exps.weight.in_sum2")->info->dims[0], 2u);
  EXPECT_EQ(file->find("blk.0.ffn_up_exps.weight.in_sum2")->info->dims[1], 2u);
  EXPECT_EQ(file->find("blk.0.ffn_up_exps.weight.counts")->info->dims[0], 1u);
  EXPECT_EQ(file->find("blk.0.ffn_up_exps.weight.counts")->info->dims[1], 2u);
}

// The older form, by hand.
class OldFile {
 public:
  OldFile& number(std::int32_t n) { return put(&n, sizeof n); }
  OldFile& value(float v) { return put(&v, sizeof v); }
  OldFile& text(const std::string& t) {
    number(static_cast<std::int32_t>(t.size()));
    return put(t.data(), t.size());
  }
  std::string bytes;

 private:
  OldFile& put(const void* from, std::size_t n) {
    bytes.append(static_cast<const char*>(from), n);
    return *this;
  }
};

TEST(Imatrix, TheOlderFormIsRead) {
  const TempFolder folder;
  OldFile old;
  old.number(2);
  old.text("blk.0.attn_q.weight").number(4).number(2).value(8.0f).value(2.0f);
  old.text("blk.0.ffn_up.weight").number(1).number(1).value(3.0f);
  const auto bare = Imatrix::read(folder.write_text("bare.dat", old.bytes));
  ASSERT_TRUE(bare) << bare.error().to_string();
  old.number(9).text("text.txt");
  const auto m = Imatrix::read(folder.write_text("im.dat", old.bytes));
  ASSERT_TRUE(m) << m.error().to_string();
  EXPECT_EQ(m->means("blk.0.attn_q.weight"), (std::vector<float>{2.0f, 0.5f}));
  EXPECT_EQ(m->means("blk.0.ffn_up.weight"), (std::vector<float>{3.0f}));
  EXPECT_EQ(m->chunks, 9u);
  EXPECT_EQ(m->datasets, (std::vector<std::string>{"text.txt"}));
  // Every file that is cut short is refused, but where what is missing is the optional end.
  const std::size_t end = old.bytes.size() - 16;
  for (std::size_t n = 0; n < old.bytes.size(); ++n) {
    const auto cut = Imatrix::read(folder.write_text("cut.dat", old.bytes.substr(0, n)));
    EXPECT_EQ(static_cast<bool>(cut), n == end || n == end + 4) << n;
  }
}

TEST(Imatrix, WhatIsNoneIsRefused) {
  const TempFolder folder;
  EXPECT_EQ(Imatrix::read((folder.path() / "none").string()).error().code, ErrorCode::not_found);
  EXPECT_FALSE(Imatrix::read(folder.write_text("text", "a text that is no matrix at all")));
  OldFile negative;
  negative.number(1).text("blk.0.attn_q.weight").number(1).number(1).value(-1.0f);
  EXPECT_EQ(Imatrix::read(folder.write_text("old", negative.bytes)).error().code, ErrorCode::parse);

  const auto refused = [&](const char* name, std::uint64_t count, float value) {
    io::GgufOutput out;
    const std::uint64_t dims[] = {2}, counts[] = {count};
    EXPECT_TRUE(out.add_tensor(name, *io::ggml_type(0), dims));
    EXPECT_TRUE(out.add_tensor("blk.0.attn_q.weight.counts", *io::ggml_type(0), counts));
    const std::string path = (folder.path() / "bad.gguf").string();
    EXPECT_TRUE(out.create(path));
    const float values[] = {value, 1.0f};
    const std::vector<float> ones(static_cast<std::size_t>(count), 1.0f);
    EXPECT_TRUE(out.write(std::as_bytes(std::span(values))));
    EXPECT_TRUE(out.write(std::as_bytes(std::span(ones))));
    EXPECT_TRUE(out.commit());
    const auto m = Imatrix::read(path);
    if (!m) {
      EXPECT_EQ(m.error().code, ErrorCode::parse);
    }
    return !m;
  };
  EXPECT_FALSE(refused("blk.0.attn_q.weight.in_sum2", 1, 1.0f));
  EXPECT_TRUE(refused("blk.0.attn_q.weight.in_sum2", 1, -1.0f));
  EXPECT_TRUE(refused("blk.0.attn_q.weight.in_sum2", 3, 1.0f));
  EXPECT_TRUE(refused("blk.0.attn_k.weight.in_sum2", 1, 1.0f));
  EXPECT_TRUE(refused("blk.0.attn_q.weight", 1, 1.0f));
}

}  // namespace
}  // namespace onepass::test::imatrix_test
