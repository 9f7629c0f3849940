// Files that the writers make, read back; what they refuse, and what is left behind then.
#include <gtest/gtest.h>

#include <filesystem>

#include "io/gguf_file.h"
#include "io/gguf_output.h"
#include "io/safetensors_file.h"
#include "io/safetensors_output.h"
#include "support/gguf_writer.h"
#include "support/temp_folder.h"

namespace onepass::test::output_test {
namespace {

using io::GgufFile;
using io::GgufOutput;

std::vector<std::byte> pattern(std::size_t n, unsigned seed) {
  std::vector<std::byte> bytes(n);
  for (std::size_t i = 0; i < n; ++i) bytes[i] = static_cast<std::byte>(i * 37 + seed);
  return bytes;
}

GgufWriter sample() {
  GgufWriter w(3, 64);
  w.set("general.architecture", "llama")
      .set("a.u8", std::uint8_t{200})
      .set("a.i64", std::int64_t{-5});
  w.set("a.f64", 0.1).set("a.yes", true).set("a.empty", "");
  w.set_array("b.f32", std::vector<float>{1, 2, 3.5f});
  w.set_array("b.text", std::vector<std::string>{"x", "", "\xff raw bytes"});
  w.set_array("b.none", std::vector<std::int32_t>{});
  return w;
}

TEST(GgufOutput, MetadataAndTensorsComeBack) {
  const TempFolder folder;
  const std::string from_path = folder.write("from.gguf", sample().finish());
  const auto from = GgufFile::open(from_path);
  ASSERT_TRUE(from) << from.error().to_string();
  auto made = GgufOutput::make(from->metadata().alignment());
  ASSERT_TRUE(made);
  GgufOutput& out = *made;
  for (const io::GgufEntry& e : from->metadata().entries()) ASSERT_TRUE(out.copy(e));
  ASSERT_TRUE(out.set("a.yes", false));  // replaced
  ASSERT_TRUE(out.set("c.u32", 7u));
  const std::vector<std::string> words{"one", ""};
  ASSERT_TRUE(out.set("c.words", std::span<const std::string>(words)));
  const std::vector<std::uint8_t> flags{1, 0, 1};
  ASSERT_TRUE(out.set_flags("c.flags", flags));
  const std::uint64_t matrix[] = {64, 3}, vector[] = {5}, cube[] = {32, 2, 2};
  ASSERT_TRUE(out.add_tensor("m", *io::ggml_type(2), matrix));  // q4_0
  ASSERT_TRUE(out.add_tensor("v", *io::ggml_type(0), vector));  // f32
  ASSERT_TRUE(out.add_tensor("c", *io::ggml_type(30), cube));   // bf16
  const auto size = out.file_bytes();
  ASSERT_TRUE(size);
  const std::string path = (folder.path() / "out.gguf").string();
  ASSERT_TRUE(out.create(path));
  const std::vector<std::byte> data[] = {pattern(108, 1), pattern(20, 2), pattern(256, 3)};
  for (const auto& bytes : data) {
    for (std::size_t at = 0; at < bytes.size(); at += 7) {
      const std::size_t n = std::min<std::size_t>(7, bytes.size() - at);
      ASSERT_TRUE(out.write(std::span(bytes).subspan(at, n)));
    }
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  ASSERT_TRUE(out.commit());
  EXPECT_EQ(std::filesystem::file_size(path), *size);

  const auto file = GgufFile::open(path);
  ASSERT_TRUE(file) << file.error().to_string();
  const io::Gguf& g = file->metadata();
  EXPECT_EQ(g.alignment(), 64u);
  for (const io::GgufEntry& e : from->metadata().entries()) {
    if (e.key == "a.yes") continue;
    const io::GgufValue* v = g.find(e.key);
    ASSERT_NE(v, nullptr) << e.key;
    EXPECT_EQ(v->type, e.value.type) << e.key;
    EXPECT_EQ(v->element, e.value.element) << e.key;
    EXPECT_EQ(v->count, e.value.count) << e.key;
    EXPECT_TRUE(
        std::equal(v->bytes.begin(), v->bytes.end(), e.value.bytes.begin(), e.value.bytes.end()))
        << e.key;
  }
  EXPECT_FALSE(g.boolean("a.yes").value());
  EXPECT_EQ(g.integer("c.u32").value(), 7u);
  EXPECT_EQ(g.strings("c.words").value().size(), 2u);
  EXPECT_EQ(g.array("c.flags", io::GgufType::boolean).value().count, 3u);
  const char* names[] = {"m", "v", "c"};
  for (std::size_t i = 0; i < 3; ++i) {
    const auto t = file->find(names[i]);
    ASSERT_TRUE(t);
    EXPECT_EQ(t->info->offset % 64, 0u);
    std::vector<std::byte> got(static_cast<std::size_t>(t->info->bytes));
    ASSERT_TRUE(file->read(*t, got));
    EXPECT_EQ(got, data[i]) << names[i];
  }
}

TEST(GgufOutput, RefusesWhatNoReaderAccepts) {
  GgufOutput out;
  const std::uint64_t dims[] = {64, 3}, odd[] = {33}, zero[] = {0}, many[] = {1, 1, 1, 1, 1};
  const io::GgmlType &f32 = *io::ggml_type(0), &q4_0 = *io::ggml_type(2);
  EXPECT_FALSE(GgufOutput::make(48));
  EXPECT_FALSE(GgufOutput::make(4));
  EXPECT_FALSE(out.set("", 1u));
  EXPECT_FALSE(out.set("bad\xff", 1u));
  EXPECT_FALSE(out.add_tensor("", f32, dims));
  EXPECT_FALSE(out.add_tensor(std::string(300, 'x'), f32, dims));
  EXPECT_FALSE(out.add_tensor("t", q4_0, odd));
  EXPECT_FALSE(out.add_tensor("t", f32, zero));
  EXPECT_FALSE(out.add_tensor("t", f32, many));
  EXPECT_FALSE(out.write(pattern(4, 0)));
  EXPECT_FALSE(out.commit());
  ASSERT_TRUE(out.add_tensor("t", f32, dims));
  ASSERT_TRUE(out.add_tensor("t", f32, dims));
  const TempFolder folder;
  const Status twice = out.create((folder.path() / "x").string());
  ASSERT_FALSE(twice);
  EXPECT_EQ(twice.error().field, "t");
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(GgufOutput, AnIncompleteFileLeavesTheOldOne) {
  const TempFolder folder;
  const std::string path = folder.write_text("model.gguf", "old");
  {
    GgufOutput out;
    const std::uint64_t dims[] = {8};
    ASSERT_TRUE(out.add_tensor("t", *io::ggml_type(0), dims));
    ASSERT_TRUE(out.create(path));
    EXPECT_FALSE(out.set("late", 1u));
    ASSERT_TRUE(out.write(pattern(30, 0)));
    EXPECT_FALSE(out.write(pattern(3, 0)));
    const Status early = out.commit();
    ASSERT_FALSE(early);
    EXPECT_EQ(early.error().code, ErrorCode::invalid_state);
  }
  EXPECT_EQ(std::filesystem::file_size(path), 3u);
  EXPECT_EQ(folder.size_bytes(), 3u);
}

TEST(SafetensorsOutput, TensorsComeBack) {
  const TempFolder folder;
  const std::string path = (folder.path() / "model.safetensors").string();
  io::SafetensorsOutput out;
  const std::uint64_t matrix[] = {3, 4}, vector[] = {5};
  ASSERT_TRUE(out.add_tensor("a.\"quoted\"\n", *io::safetensors_type("F16"), matrix));
  ASSERT_TRUE(out.add_tensor("b", *io::safetensors_type("U32"), vector));
  EXPECT_FALSE(out.write(pattern(1, 0)));
  ASSERT_TRUE(out.create(path));
  const auto bytes = pattern(44, 9);
  ASSERT_TRUE(out.write(std::span(bytes).first(30)));
  EXPECT_FALSE(out.commit());
  EXPECT_FALSE(out.write(bytes));  // more than is missing
  ASSERT_TRUE(out.write(std::span(bytes).subspan(30)));
  ASSERT_TRUE(out.commit());
  const auto file = io::SafetensorsFile::open(path);
  ASSERT_TRUE(file) << file.error().to_string();
  EXPECT_EQ(file->shard(0).data_offset() % 8, 0u);
  const auto a = file->find("a.\"quoted\"\n"), b = file->find("b");
  ASSERT_TRUE(a && b);
  EXPECT_EQ(a->info->dims[1], 4u);
  std::vector<std::byte> got(24), rest(20);
  ASSERT_TRUE(file->read(*a, 0, got));
  ASSERT_TRUE(file->read(*b, 0, rest));
  got.insert(got.end(), rest.begin(), rest.end());
  EXPECT_EQ(got, bytes);
}

TEST(AtomicFolder, IsThereOnceItIsComplete) {
  const TempFolder folder;
  const std::string path = (folder.path() / "model").string();
  {
    auto dropped = os::AtomicFolder::create(path + "/");
    ASSERT_TRUE(dropped);
    EXPECT_TRUE(std::filesystem::is_directory(dropped->path()));
    std::filesystem::create_directory(dropped->path() + "/inner");
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  auto kept = os::AtomicFolder::create(path);
  ASSERT_TRUE(kept);
  EXPECT_FALSE(std::filesystem::exists(path));
  ASSERT_TRUE(kept->commit());
  EXPECT_FALSE(kept->commit());
  EXPECT_TRUE(std::filesystem::is_directory(path));
  const auto again = os::AtomicFolder::create(path);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, ErrorCode::io);
}

}  // namespace
}  // namespace onepass::test::output_test
