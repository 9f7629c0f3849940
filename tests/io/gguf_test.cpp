// Good GGUF files, cut files, files on disk and shards, and how much memory a file can take.
#include "io/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <random>

#include "bad_file.h"
#include "io/gguf_file.h"
#include "onepass/dtype.h"
#include "support/gguf_writer.h"
#include "support/heap.h"
#include "support/temp_folder.h"

namespace onepass::test::gguf_test {
namespace {

using io::Gguf;
using io::GgufFile;
using io::GgufType;

std::vector<float> ramp(std::size_t n, float start) {
  std::vector<float> values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = start + static_cast<float>(i);
  return values;
}

GgufWriter sample(std::uint32_t version = 3, std::uint32_t alignment = 32) {
  GgufWriter w(version, alignment);
  w.set("a.u8", std::uint8_t{200}).set("a.i8", std::int8_t{-3}).set("a.u16", std::uint16_t{60000});
  w.set("a.i16", std::int16_t{-300}).set("a.u32", 4000000000u).set("a.i32", -70000);
  w.set("a.f32", 1.5f).set("a.yes", true).set("a.no", false).set("a.text", "h\xc3\xa9llo");
  w.set("a.u64", std::uint64_t{1} << 60).set("a.i64", std::int64_t{-5}).set("a.f64", 0.1);
  w.set("a.empty", "").set_array("b.f32", std::vector<float>{1, 2, 3.5f});
  w.set_array("b.text", std::vector<std::string>{"x", "", "\xff raw bytes"});
  w.set_array("b.none", std::vector<std::int32_t>{});
  w.set_array("b.flags", std::vector<bool>{true, false});
  w.tensor("one", {7}, ramp(7, 0.0f));
  w.tensor("two", {4, 3, 2}, ramp(24, 100.0f));
  w.tensor("blocks", 8, {64, 2}, std::vector<std::byte>(4 * 34, std::byte{7}));
  return w;
}

template <class T>
std::string problem(const Result<T>& r) {
  return r ? "ok" : r.error().to_string();
}

TEST(Gguf, AllValueTypes) {
  for (std::uint32_t version : {2u, 3u}) {
    const std::vector<std::byte> bytes = sample(version).finish();
    const Result<Gguf> file = Gguf::parse(bytes);
    ASSERT_TRUE(file) << problem(file);
    EXPECT_EQ(file->version(), version);
    EXPECT_EQ(file->entries().size(), 18u);
    EXPECT_EQ(file->integer("a.u8").value(), 200u);
    EXPECT_EQ(file->integer("a.u16").value(), 60000u);
    EXPECT_EQ(file->integer("a.u32").value(), 4000000000u);
    EXPECT_EQ(file->integer("a.u64").value(), std::uint64_t{1} << 60);
    for (const char* negative : {"a.i8", "a.i16", "a.i32", "a.i64"}) {
      const auto r = file->integer(negative);
      ASSERT_FALSE(r);
      EXPECT_EQ(r.error().code, ErrorCode::parse);
      EXPECT_EQ(r.error().field, negative);
    }
    EXPECT_EQ(file->number("a.f32").value(), 1.5);
    EXPECT_EQ(file->number("a.f64").value(), 0.1);
    EXPECT_TRUE(file->boolean("a.yes").value());
    EXPECT_FALSE(file->boolean("a.no").value());
    EXPECT_EQ(file->text("a.text").value(), "h\xc3\xa9llo");
    EXPECT_EQ(file->text("a.empty").value(), "");
    const auto floats = file->numbers<float>("b.f32");
    ASSERT_TRUE(floats);
    EXPECT_EQ(floats->size(), 3u);
    EXPECT_EQ((*floats)[2], 3.5f);
    const auto strings = file->strings("b.text");
    ASSERT_TRUE(strings);
    EXPECT_EQ(strings->size(), 3u);
    EXPECT_THAT(std::vector<std::string_view>(strings->begin(), strings->end()),
                testing::ElementsAre("x", "", "\xff raw bytes"));
    EXPECT_EQ(file->numbers<std::int32_t>("b.none")->size(), 0u);
    EXPECT_EQ(file->array("b.flags", GgufType::boolean)->count, 2u);
  }
}

TEST(Gguf, GettersNameKeyAndType) {
  const std::vector<std::byte> bytes = sample().finish();
  const Result<Gguf> file = Gguf::parse(bytes);
  ASSERT_TRUE(file);
  const auto missing = file->integer("nobody");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::not_found);
  EXPECT_EQ(missing.error().field, "nobody");
  const auto expect_type = [](const auto& r, const char* field, const char* got) {
    ASSERT_FALSE(r);
    EXPECT_EQ(r.error().code, ErrorCode::parse);
    EXPECT_EQ(r.error().field, field);
    EXPECT_NE(r.error().message.find(got), std::string::npos) << r.error().message;
  };
  expect_type(file->integer("a.text"), "a.text", "string");
  expect_type(file->integer("a.f32"), "a.f32", "f32");
  expect_type(file->integer("b.f32"), "b.f32", "array of f32");
  expect_type(file->number("a.u32"), "a.u32", "u32");
  expect_type(file->boolean("a.u8"), "a.u8", "u8");
  expect_type(file->text("b.text"), "b.text", "array of string");
  expect_type(file->strings("b.f32"), "b.f32", "array of f32");
  expect_type(file->numbers<std::uint8_t>("b.f32"), "b.f32", "array of f32");
  expect_type(file->numbers<float>("a.f32"), "a.f32", "f32");
}

TEST(Gguf, Tensors) {
  for (std::uint32_t alignment : {8u, 32u, 4096u, 65536u}) {
    const std::vector<std::byte> bytes = sample(3, alignment).finish();
    const Result<Gguf> file = Gguf::parse(bytes);
    ASSERT_TRUE(file) << problem(file);
    EXPECT_EQ(file->alignment(), alignment);
    EXPECT_EQ(file->data_offset() % alignment, 0u);
    EXPECT_EQ(file->tensors().size(), 3u);
    EXPECT_EQ(file->find_tensor("three"), nullptr);
    const io::GgufTensor* two = file->find_tensor("two");
    ASSERT_NE(two, nullptr);
    EXPECT_EQ(two->n_dims, 3u);
    EXPECT_THAT(two->dims, testing::ElementsAre(4, 3, 2, 1));
    EXPECT_EQ(two->bytes, 96u);
    float value;
    std::memcpy(&value, bytes.data() + file->data_offset() + two->offset + 5 * 4, 4);
    EXPECT_EQ(value, 105.0f);
    EXPECT_EQ(file->find_tensor("blocks")->bytes, 4u * 34);
    EXPECT_STREQ(file->find_tensor("blocks")->type->name, "q8_0");
  }
}

TEST(Gguf, EveryKnownTensorType) {
  std::size_t known = 0;
  for (std::uint32_t id = 0; id < 64; ++id) {
    const io::GgmlType* type = io::ggml_type(id);
    const std::uint64_t elements = 512;
    const std::uint64_t bytes =
        type == nullptr ? 4096 : elements / type->block_elements * type->block_bytes;
    const std::vector<std::byte> file = Bytes()
                                            .header(1, 0)
                                            .tensor("t", {elements}, id, 0)
                                            .pad()
                                            .zeros(static_cast<std::size_t>(bytes));
    const Result<Gguf> result = Gguf::parse(file);
    EXPECT_EQ(bool(result), type != nullptr) << id << ": " << problem(result);
    if (type == nullptr) continue;
    ++known;
    EXPECT_EQ(result->tensors()[0].bytes, bytes);
    if (const auto dtype = dtype_from_ggml_id(id)) {
      EXPECT_STREQ(type->name, onepass::name(*dtype));
    }
  }
  EXPECT_GE(known, 34u);
}

// Cut anywhere, a file is refused with a typed error inside it, or was not needed that far.
TEST(Gguf, CutAtEveryByte) {
  const std::vector<std::byte> bytes = sample().finish();
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    const std::vector<std::byte> cut(bytes.begin(), bytes.begin() + static_cast<long>(n));
    const Result<Gguf> file = Gguf::parse(cut);
    ASSERT_FALSE(file) << n;
    EXPECT_EQ(file.error().code, ErrorCode::parse) << n << problem(file);
    EXPECT_LE(file.error().byte_offset, n);
    EXPECT_FALSE(file.error().field.empty());
  }
}

// Whatever byte is changed, the reader returns; with sanitizers, without touching foreign memory.
TEST(Gguf, ChangedBytes) {
  const std::vector<std::byte> bytes = sample().finish();
  std::mt19937 random(1);
  std::size_t refused = 0;
  for (int i = 0; i < 20000; ++i) {
    std::vector<std::byte> file = bytes;
    for (unsigned k = 0; k <= random() % 3; ++k) {
      const std::size_t at = random() % file.size();
      const unsigned how = random() % 4;
      const std::uint64_t value = how == 0   ? random()
                                  : how == 1 ? ~std::uint64_t{0}
                                  : how == 2 ? std::uint64_t{1} << (random() % 64)
                                             : 0;
      std::memcpy(file.data() + at, &value,
                  std::min<std::size_t>(how == 0 ? 1 : 8, file.size() - at));
    }
    const Result<Gguf> result = Gguf::parse(file);
    if (!result) {
      ++refused;
      EXPECT_FALSE(result.error().field.empty());
      continue;
    }
    for (const io::GgufTensor& t : result->tensors()) {
      ASSERT_LE(result->data_offset() + t.offset + t.bytes, file.size());
    }
  }
  EXPECT_GT(refused, 1000u);
  EXPECT_LT(refused, 20000u);
}

TEST(Gguf, ManyKeysAndTensorsInLinearTime) {
  const auto file_of = [](std::uint32_t n) {
    Bytes b;
    b.header(n, n);
    for (std::uint32_t i = 0; i < n; ++i) b.key("k" + std::to_string(i), 0).u8(1);
    for (std::uint32_t i = 0; i < n; ++i) b.tensor("t" + std::to_string(i), {8}, 0, 32u * i);
    return b.pad().zeros(32u * n).data();
  };
  const std::vector<std::byte> bytes = file_of(40000);
  const auto begin = std::chrono::steady_clock::now();
  const Result<Gguf> file = Gguf::parse(bytes);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  ASSERT_TRUE(file) << problem(file);
  EXPECT_NE(file->find_tensor("t39999"), nullptr);
  EXPECT_EQ(file->integer("k12345").value(), 1u);
  EXPECT_LT(seconds.count(), 5.0);
}

// The largest tables the limits allow, and counts that claim more than there is.
TEST(Gguf, HeapStaysWithinTwiceTheFile) {
  std::vector<std::vector<std::byte>> files;
  Bytes tensors;
  tensors.header(262144, 0);
  for (std::uint32_t i = 0; i < 262144; ++i) tensors.tensor(std::to_string(i), {1}, 24, 0);
  files.push_back(tensors.pad().zeros(64).data());
  Bytes keys;
  keys.header(0, 65536);
  for (std::uint32_t i = 0; i < 65536; ++i) keys.key(std::to_string(i), 0).u8(1);
  files.push_back(keys.data());
  Bytes strings;
  strings.header(0, 1).array("k", 8, 1u << 20).zeros(std::size_t{8} << 20);
  files.push_back(strings.data());
  files.push_back(Bytes().header(0, 1).array("k", 10, 1u << 24).zeros(4096).data());
  files.push_back(Bytes().header(0, 1).key("k", 8).u64(16u << 20).zeros(4096).data());
  files.push_back(Bytes().header(262144, 65536).zeros(4096).data());
  const TempFolder folder;
  for (const std::vector<std::byte>& bytes : files) {
    const std::int64_t most = static_cast<std::int64_t>(2 * bytes.size()) + (64 << 20);
    const std::int64_t before = heap_live_bytes();
    reset_heap_peak();
    { const auto result = Gguf::parse(bytes); }
    EXPECT_LE(heap_peak_bytes() - before, most);
    const std::string path = folder.write("file.gguf", bytes);
    const std::int64_t before_file = heap_live_bytes();
    reset_heap_peak();
    { const auto result = GgufFile::open(path); }
    EXPECT_LE(heap_peak_bytes() - before_file, most);
  }
}

TEST(Gguf, OutOfMemoryIsAnError) { expect_out_of_memory_is_an_error<Gguf>(sample().finish()); }

TEST(GgufFile, ReadsAndMaps) {
  const TempFolder folder;
  GgufWriter writer = sample();
  // More metadata than is read at first.
  writer.set_array("big", std::vector<std::uint64_t>(400000, 7));
  const std::string path = folder.write("m.gguf", writer.finish());
  for (const bool map : {false, true}) {
    const Result<GgufFile> file = GgufFile::open(path, {.map = map});
    ASSERT_TRUE(file) << problem(file);
    EXPECT_EQ(file->n_shards(), 1u);
    EXPECT_EQ((*file->metadata().numbers<std::uint64_t>("big"))[399999], 7u);
    const auto two = file->find("two");
    ASSERT_TRUE(two);
    std::vector<float> values(24);
    ASSERT_TRUE(file->read(*two, std::as_writable_bytes(std::span(values))));
    EXPECT_EQ(values, ramp(24, 100.0f));
    EXPECT_EQ(file->mapped(*two).size(), map ? 96u : 0u);
    EXPECT_FALSE(file->find("three"));
    const Status wrong = file->read(*two, std::as_writable_bytes(std::span(values)).first(8));
    ASSERT_FALSE(wrong);
    EXPECT_EQ(wrong.error().code, ErrorCode::invalid_argument);
  }
}

TEST(GgufFile, WhatIsNoFile) {
  const TempFolder folder;
  const auto code = [&](const std::string& path, bool map = false) {
    const Result<GgufFile> file = GgufFile::open(path, {.map = map});
    return file ? "ok" : std::string(name(file.error().code));
  };
  EXPECT_EQ(code((folder.path() / "absent.gguf").string()), "not_found");
  EXPECT_EQ(code(folder.path().string()), "io");
  const std::string pipe = (folder.path() / "pipe").string();
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(code(pipe), "io");
  const std::string empty = folder.write("empty.gguf", {});
  EXPECT_EQ(code(empty), "parse");
  EXPECT_EQ(code(empty, true), "parse");
}

// Shorter than its own tensor table says, and cut after it was opened.
TEST(GgufFile, ShortFiles) {
  const TempFolder folder;
  const std::vector<std::byte> bytes = sample().finish();
  const std::string cut = folder.write("cut.gguf", std::span(bytes).first(bytes.size() - 1));
  const Result<GgufFile> refused = GgufFile::open(cut);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::parse);
  EXPECT_EQ(refused.error().field, "blocks.offset");

  const std::string path = folder.write("later.gguf", bytes);
  const Result<GgufFile> file = GgufFile::open(path);
  ASSERT_TRUE(file);
  std::filesystem::resize_file(path, bytes.size() - 200);
  std::vector<std::byte> out(4 * 34);
  const Status read = file->read(*file->find("blocks"), out);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, ErrorCode::io);
  EXPECT_NE(read.error().byte_offset, Error::no_offset);
}

class Shards : public testing::Test {
 protected:
  static GgufWriter shard(std::uint16_t no, std::uint16_t count, const std::string& tensor) {
    GgufWriter w;
    w.set("split.no", no).set("split.count", count).set("split.tensors.count", std::int32_t{3});
    w.tensor(tensor, {8}, ramp(8, static_cast<float>(no) * 10.0f));
    return w;
  }
  void write_set() {
    for (std::uint16_t i = 0; i < 3; ++i) write(i, shard(i, 3, "t" + std::to_string(i)));
  }
  std::string write(int i, const GgufWriter& w) {
    return folder_.write("m-0000" + std::to_string(i + 1) + "-of-00003.gguf", w.finish());
  }
  std::string first() const { return (folder_.path() / "m-00001-of-00003.gguf").string(); }
  void expect_refused(ErrorCode code, const std::string& field) {
    const Result<GgufFile> file = GgufFile::open(first());
    ASSERT_FALSE(file);
    EXPECT_EQ(name(file.error().code), std::string(name(code))) << problem(file);
    EXPECT_EQ(file.error().field, field) << problem(file);
  }
  TempFolder folder_;
};

TEST_F(Shards, AreReadAsOne) {
  write_set();
  for (const bool map : {false, true}) {
    const Result<GgufFile> file = GgufFile::open(first(), {.map = map});
    ASSERT_TRUE(file) << problem(file);
    EXPECT_EQ(file->n_shards(), 3u);
    for (std::uint32_t i = 0; i < 3; ++i) {
      const auto t = file->find("t" + std::to_string(i));
      ASSERT_TRUE(t);
      EXPECT_EQ(t->shard, i);
      std::vector<float> values(8);
      ASSERT_TRUE(file->read(*t, std::as_writable_bytes(std::span(values))));
      EXPECT_EQ(values, ramp(8, static_cast<float>(i) * 10.0f));
    }
  }
}
TEST_F(Shards, Missing) {
  write_set();
  std::filesystem::remove(folder_.path() / "m-00002-of-00003.gguf");
  expect_refused(ErrorCode::not_found, "");
}
TEST_F(Shards, OtherCount) {
  write_set();
  write(1, shard(1, 4, "t1"));
  expect_refused(ErrorCode::parse, "split.count");
}
TEST_F(Shards, WrongNumber) {
  write_set();
  write(2, shard(1, 3, "t2"));
  expect_refused(ErrorCode::parse, "split.no");
}
TEST_F(Shards, NumberMissing) {
  write_set();
  write(2, shard(2, 3, "t2").erase("split.no"));
  expect_refused(ErrorCode::not_found, "split.no");
}
TEST_F(Shards, NumberBeyondCount) {
  write_set();
  write(0, shard(7, 3, "t0"));
  expect_refused(ErrorCode::parse, "split.no");
}
TEST_F(Shards, CountTooLarge) {
  write_set();
  write(0, shard(0, 65535, "t0"));
  expect_refused(ErrorCode::limit, "split.count");
}
TEST_F(Shards, CountZero) {
  write_set();
  write(0, shard(0, 0, "t0"));
  expect_refused(ErrorCode::parse, "split.count");
}
TEST_F(Shards, CountOfOtherType) {
  write_set();
  write(0, shard(0, 3, "t0").erase("split.count").set("split.count", "3"));
  expect_refused(ErrorCode::parse, "split.count");
}
TEST_F(Shards, SameTensorTwice) {
  write_set();
  write(2, shard(2, 3, "t0"));
  expect_refused(ErrorCode::parse, "t0");
}
TEST_F(Shards, OtherTensorCount) {
  write_set();
  GgufWriter w = shard(0, 3, "t0");
  w.tensor("extra", {8}, ramp(8, 0.0f));
  write(0, w);
  expect_refused(ErrorCode::parse, "split.tensors.count");
}
TEST_F(Shards, BrokenSecond) {
  write_set();
  folder_.write("m-00002-of-00003.gguf", Bytes().raw("GGUF").data());
  expect_refused(ErrorCode::parse, "header.version");
}
TEST_F(Shards, NotOpenedByItsFirst) {
  write_set();
  const std::string second = (folder_.path() / "m-00002-of-00003.gguf").string();
  const Result<GgufFile> file = GgufFile::open(second);
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().field, "split.no");
  const Result<GgufFile> renamed =
      GgufFile::open(folder_.write("other.gguf", shard(0, 3, "t0").finish()));
  ASSERT_FALSE(renamed);
  EXPECT_EQ(renamed.error().code, ErrorCode::invalid_argument);
}

TEST(GgufFile, PublishedFiles) {
  const std::filesystem::path folder = ONEPASS_TEST_DATA;
  if (folder.empty() || !std::filesystem::exists(folder / "gguf")) {
    GTEST_SKIP() << "ONEPASS_TEST_DATA is not set";
  }
  int files = 0;
  for (const char* sub : {"gguf", "vocab"}) {
    for (const auto& entry : std::filesystem::directory_iterator(folder / sub)) {
      if (entry.path().extension() != ".gguf") continue;
      ++files;
      const Result<GgufFile> file = GgufFile::open(entry.path().string());
      ASSERT_TRUE(file) << entry.path() << problem(file);
      const auto tokens = file->metadata().strings("tokenizer.ggml.tokens");
      ASSERT_TRUE(tokens) << entry.path();
      EXPECT_EQ(static_cast<std::uint64_t>(std::distance(tokens->begin(), tokens->end())),
                tokens->size());
      EXPECT_GT(tokens->size(), 100u);
    }
  }
  EXPECT_GT(files, 3);
}

}  // namespace
}  // namespace onepass::test::gguf_test
