// Safetensors: good files, files that must be refused, cut and changed files, folders and shards.
#include "io/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <random>

#include "bad_file.h"
#include "io/safetensors_file.h"
#include "support/gguf_writer.h"
#include "support/heap.h"
#include "support/temp_folder.h"

namespace onepass::test::safetensors_test {
namespace {

using io::Safetensors;
using io::SafetensorsFile;

std::vector<std::byte> file_of(std::string_view header, std::size_t data_bytes) {
  return Bytes().u64(header.size()).raw(header).zeros(data_bytes);
}
std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  std::uint64_t begin, std::uint64_t end) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":[" + shape +
         "],\"data_offsets\":[" + std::to_string(begin) + "," + std::to_string(end) + "]}";
}
// One tensor "t".
std::vector<std::byte> with_tensor(const std::string& dtype, const std::string& shape,
                                   std::uint64_t begin, std::uint64_t end, std::size_t data_bytes) {
  return file_of("{" + entry("t", dtype, shape, begin, end) + "}", data_bytes);
}
std::vector<std::byte> with_value(const std::string& value, std::size_t data_bytes = 4) {
  return file_of("{\"t\":" + value + "}", data_bytes);
}
std::string sample_header() {
  return "{\"__metadata__\":{\"format\":\"mlx\",\"n\\u00e9\":\"x\\ny\"}," +
         entry("b", "F16", "2, 3", 16, 28) + ",\n " + entry("a", "F32", "4", 0, 16) + "," +
         entry("none", "I64", "0", 28, 28) + "," + entry("one", "BF16", "", 28, 30) + "," +
         entry("caf\\u00e9 \\ud83d\\ude00", "U32", "1,1,1,1,2", 30, 38) + "}   ";
}

template <class T>
std::string problem(const Result<T>& r) {
  return r ? "ok" : r.error().to_string();
}

TEST(Safetensors, ReadsTheTable) {
  std::vector<std::byte> bytes = file_of(sample_header(), 38);
  const Result<Safetensors> file = Safetensors::parse(bytes);
  ASSERT_TRUE(file) << problem(file);
  EXPECT_EQ(file->data_offset(), bytes.size() - 38);
  EXPECT_EQ(file->tensors().size(), 5u);
  const io::Safetensor* b = file->find("b");
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(b->type->name, "F16");
  EXPECT_EQ(b->n_dims, 2u);
  EXPECT_EQ(b->dims[0], 2u);
  EXPECT_EQ(b->dims[1], 3u);
  EXPECT_EQ(b->offset, 16u);
  EXPECT_EQ(b->bytes, 12u);
  EXPECT_EQ(file->find("none")->bytes, 0u);
  EXPECT_EQ(file->find("one")->n_dims, 0u);
  EXPECT_EQ(file->find("caf\xc3\xa9 \xf0\x9f\x98\x80")->bytes, 8u);
  EXPECT_EQ(file->find("c"), nullptr);
  EXPECT_THAT(file->metadata(), testing::ElementsAre(testing::Pair("format", "mlx"),
                                                     testing::Pair("n\xc3\xa9", "x\ny")));
  const std::vector<std::byte> empty = file_of("{}", 0);
  EXPECT_TRUE(Safetensors::parse(empty));
  const std::vector<std::byte> null_metadata = file_of("{\"__metadata__\": null}", 0);
  EXPECT_TRUE(Safetensors::parse(null_metadata));
}

class BadSafetensors : public testing::TestWithParam<BadFile> {};

TEST_P(BadSafetensors, IsRefusedWithCodeAndField) { expect_refused<Safetensors>(GetParam()); }

constexpr ErrorCode parse = ErrorCode::parse, limit = ErrorCode::limit;
constexpr ErrorCode unsupported = ErrorCode::unsupported;
constexpr std::uint64_t huge = ~std::uint64_t{0};

const BadFile length_files[] = {
    {"empty", parse, "header.bytes", [] { return Bytes(); }},
    {"one_byte", parse, "header.bytes", [] { return Bytes().u8(2); }},
    {"seven_bytes", parse, "header.bytes", [] { return Bytes().zeros(7); }},
    {"header_0", parse, "header.bytes", [] { return Bytes().u64(0).raw("{}"); }},
    {"header_max", limit, "header.bytes", [] { return Bytes().u64(huge).raw("{}"); }},
    {"header_max_minus_5", limit, "header.bytes", [] { return Bytes().u64(huge - 5).raw("{}"); }},
    {"header_2_40", limit, "header.bytes",
     [] { return Bytes().u64(std::uint64_t{1} << 40).raw("{}"); }},
    {"header_over_limit", limit, "header.bytes", [] { return Bytes().u64(100000001).raw("{}"); }},
    {"header_over_file", parse, "header", [] { return Bytes().u64(100000000).raw("{}"); }},
    {"header_one_over_file", parse, "header", [] { return Bytes().u64(3).raw("{}"); }},
    {"trailing_byte", parse, "data", [] { return file_of("{}", 1); }},
};

const BadFile json_files[] = {
    {"array", parse, "header", [] { return file_of("[]", 0); }},
    {"open_array", parse, "header", [] { return file_of("[", 0); }},
    {"open_object", parse, "header", [] { return file_of("{", 0); }},
    {"leading_space", parse, "header", [] { return file_of(" {}", 0); }},
    {"text_after", parse, "header", [] { return file_of("{} x", 0); }},
    {"nul_after", parse, "header", [] { return file_of(std::string_view("{}\0", 3), 0); }},
    {"no_colon", parse, "header", [] { return file_of("{\"a\" 1}", 0); }},
    {"no_value", parse, "a", [] { return file_of("{\"a\":}", 0); }},
    {"trailing_comma", parse, "header",
     [] { return file_of("{" + entry("t", "U8", "4", 0, 4) + ",}", 4); }},
    {"no_comma", parse, "header",
     [] {
       return file_of("{" + entry("a", "U8", "4", 0, 4) + entry("b", "U8", "4", 4, 8) + "}", 8);
     }},
    {"key_not_string", parse, "header", [] { return file_of("{1:2}", 0); }},
    {"deep_arrays", parse, "a",
     [] { return file_of("{\"a\":" + std::string(100000, '[') + "}", 0); }},
    {"deep_shape", parse, "t.shape",
     [] { return with_value("{\"shape\":" + std::string(100000, '[') + "}"); }},
    {"key_not_utf8", parse, "header", [] { return file_of("{\"\xff\":{}}", 0); }},
    {"key_control", parse, "header", [] { return file_of("{\"a\nb\":{}}", 0); }},
    {"key_without_end", parse, "header", [] { return file_of("{\"abc", 0); }},
    {"key_half_surrogate", parse, "header", [] { return file_of("{\"\\ud800\":{}}", 0); }},
    {"key_low_surrogate", parse, "header", [] { return file_of("{\"\\udc00\":{}}", 0); }},
    {"key_bad_pair", parse, "header", [] { return file_of("{\"\\ud800\\u0041\":{}}", 0); }},
    {"key_short_escape", parse, "header", [] { return file_of("{\"\\u12\":{}}", 0); }},
    {"key_unknown_escape", parse, "header", [] { return file_of("{\"\\x41\":{}}", 0); }},
    {"key_ends_in_escape", parse, "header", [] { return file_of("{\"\\", 0); }},
    {"key_empty", parse, "header",
     [] { return file_of("{" + entry("", "U8", "4", 0, 4) + "}", 4); }},
    {"key_nul", parse, "header",
     [] { return file_of("{" + entry("a\\u0000b", "U8", "4", 0, 4) + "}", 4); }},
    {"key_256", limit, "header",
     [] { return file_of("{" + entry(std::string(256, 'n'), "U8", "4", 0, 4) + "}", 4); }},
    {"metadata_number", parse, "__metadata__.a",
     [] { return file_of("{\"__metadata__\":{\"a\":1}}", 0); }},
    {"metadata_array", parse, "__metadata__", [] { return file_of("{\"__metadata__\":[]}", 0); }},
    {"metadata_key_twice", parse, "__metadata__.a",
     [] { return file_of("{\"__metadata__\":{\"a\":\"1\",\"b\":\"1\",\"a\":\"2\"}}", 0); }},
    {"metadata_twice", parse, "__metadata__",
     [] { return file_of("{\"__metadata__\":{},\"__metadata__\":{}}", 0); }},
    {"tensor_twice", parse, "t",
     [] {
       return file_of("{" + entry("t", "U8", "4", 0, 4) + "," + entry("a", "U8", "4", 4, 8) + "," +
                          entry("t", "U8", "4", 8, 12) + "}",
                      12);
     }},
    {"tensor_twice_escaped", parse, "t",
     [] {
       return file_of(
           "{" + entry("t", "U8", "4", 0, 4) + "," + entry("\\u0074", "U8", "4", 4, 8) + "}", 8);
     }},
};

const BadFile tensor_files[] = {
    {"no_object", parse, "t", [] { return with_value("4"); }},
    {"null", parse, "t", [] { return with_value("null"); }},
    {"no_dtype", parse, "t.dtype",
     [] { return with_value("{\"shape\":[1],\"data_offsets\":[0,4]}"); }},
    {"no_shape", parse, "t.shape",
     [] { return with_value("{\"dtype\":\"F32\",\"data_offsets\":[0,4]}"); }},
    {"no_offsets", parse, "t.data_offsets",
     [] { return with_value("{\"dtype\":\"F32\",\"shape\":[1]}"); }},
    {"unknown_key", parse, "t.extra",
     [] {
       return with_value("{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"extra\":1}");
     }},
    {"dtype_twice", parse, "t.dtype",
     [] {
       return with_value(
           "{\"dtype\":\"F16\",\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}");
     }},
    {"dtype_unknown", unsupported, "t.dtype",
     [] { return with_tensor("NOTADTYPE", "4", 0, 4, 4); }},
    {"dtype_lower", unsupported, "t.dtype", [] { return with_tensor("f32", "1", 0, 4, 4); }},
    {"dtype_number", parse, "t.dtype",
     [] { return with_value("{\"dtype\":1,\"shape\":[1],\"data_offsets\":[0,4]}"); }},
    {"shape_number", parse, "t.shape",
     [] { return with_value("{\"dtype\":\"F32\",\"shape\":1,\"data_offsets\":[0,4]}"); }},
    {"shape_negative", parse, "t.shape", [] { return with_tensor("F32", "-1", 0, 4, 4); }},
    {"shape_fraction", parse, "t.shape", [] { return with_tensor("F32", "1.5", 0, 4, 4); }},
    {"shape_exponent", parse, "t.shape", [] { return with_tensor("F32", "1e3", 0, 4, 4); }},
    {"shape_leading_zero", parse, "t.shape", [] { return with_tensor("F32", "01", 0, 4, 4); }},
    {"shape_2_64", parse, "t.shape",
     [] { return with_tensor("F32", "18446744073709551616", 0, 4, 4); }},
    {"shape_over_limit", limit, "t.shape",
     [] { return with_tensor("F32", "1099511627777", 0, 4, 4); }},
    {"shape_string", parse, "t.shape", [] { return with_tensor("F32", "\"1\"", 0, 4, 4); }},
    {"shape_9_dims", limit, "t.shape",
     [] { return with_tensor("F32", "1,1,1,1,1,1,1,1,1", 0, 4, 4); }},
    {"shape_too_small", parse, "t.data_offsets", [] { return with_tensor("F32", "1", 0, 8, 8); }},
    {"shape_too_large", parse, "t.data_offsets",
     [] { return with_tensor("F32", "1000,1000", 0, 4, 4); }},
    {"product_wraps_to_0", limit, "t.shape",
     [] { return with_tensor("F32", "65536,65536,65536,65536", 0, 0, 0); }},
    {"product_wraps_to_16", limit, "t.shape",
     [] { return with_tensor("F32", "4194305,4194305,211106198978564", 0, 16, 16); }},
    {"wrap_behind_zero", limit, "t.shape",
     [] { return with_tensor("F32", "1099511627776,1099511627776,0", 0, 0, 0); }},
    {"offsets_wrap", parse, "t.data_offsets",
     [] { return with_tensor("F32", "1", huge - 7, huge - 3, 4); }},
    {"offsets_turned", parse, "t.data_offsets", [] { return with_tensor("F32", "1", 8, 4, 8); }},
    {"offsets_past_end", parse, "t.data_offsets", [] { return with_tensor("U8", "5", 0, 5, 4); }},
    {"offsets_negative", parse, "t.data_offsets",
     [] { return with_value("{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[-4,0]}"); }},
    {"offsets_one", parse, "t.data_offsets",
     [] { return with_value("{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4]}"); }},
    {"offsets_three", parse, "t.data_offsets",
     [] { return with_value("{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,4]}"); }},
    {"offsets_fraction", parse, "t.data_offsets",
     [] { return with_value("{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4.0]}"); }},
    {"hole_at_start", parse, "t.data_offsets", [] { return with_tensor("F32", "1", 4, 8, 8); }},
    {"hole", parse, "b.data_offsets",
     [] {
       return file_of("{" + entry("a", "U8", "4", 0, 4) + "," + entry("b", "U8", "4", 12, 16) + "}",
                      16);
     }},
    {"overlap", parse, "b.data_offsets",
     [] {
       return file_of(
           "{" + entry("a", "U8", "100", 0, 100) + "," + entry("b", "U8", "100", 50, 150) + "}",
           150);
     }},
    {"same_bytes", parse, "b.data_offsets",
     [] {
       return file_of("{" + entry("a", "U8", "4", 0, 4) + "," + entry("b", "U8", "4", 0, 4) + "}",
                      4);
     }},
    {"bytes_after_last", parse, "data", [] { return with_tensor("F32", "1", 0, 4, 20); }},
};

std::string case_name(const testing::TestParamInfo<BadFile>& i) { return i.param.name; }
INSTANTIATE_TEST_SUITE_P(Length, BadSafetensors, testing::ValuesIn(length_files), case_name);
INSTANTIATE_TEST_SUITE_P(Json, BadSafetensors, testing::ValuesIn(json_files), case_name);
INSTANTIATE_TEST_SUITE_P(Tensor, BadSafetensors, testing::ValuesIn(tensor_files), case_name);

TEST(Safetensors, CutAtEveryByte) {
  const std::vector<std::byte> bytes = file_of(sample_header(), 38);
  const TempFolder folder;
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    const std::vector<std::byte> cut(bytes.begin(), bytes.begin() + static_cast<long>(n));
    const Result<Safetensors> file = Safetensors::parse(cut);
    ASSERT_FALSE(file) << n;
    EXPECT_EQ(file.error().code, ErrorCode::parse) << n << problem(file);
    EXPECT_LE(file.error().byte_offset, n);
    EXPECT_FALSE(file.error().field.empty());
    const Result<SafetensorsFile> disk = SafetensorsFile::open(folder.write("cut", cut));
    ASSERT_FALSE(disk) << n;
    EXPECT_EQ(disk.error().field, file.error().field);
  }
}

// Whatever is changed, the reader returns; with sanitizers, without touching foreign memory.
TEST(Safetensors, ChangedBytes) {
  const std::vector<std::byte> bytes = file_of(sample_header(), 38);
  constexpr std::string_view pieces[] = {"{", "}",   "[",  "]",   ",",
                                         ":", "\"",  "\\", "\\u", "0",
                                         "-", "9",   "e",  ".",   "18446744073709551615",
                                         " ", "null"};
  std::mt19937 random(1);
  std::size_t refused = 0;
  for (int i = 0; i < 20000; ++i) {
    std::vector<std::byte> file = bytes;
    for (unsigned k = 0; k <= random() % 3; ++k) {
      const std::size_t at = random() % file.size();
      const unsigned how = random() % 4;
      if (how == 0) {
        file[at] = static_cast<std::byte>(random());
      } else if (how == 1) {
        const std::string_view piece = pieces[random() % std::size(pieces)];
        const auto text = std::as_bytes(std::span<const char>(piece));
        std::copy_n(text.begin(), std::min(text.size(), file.size() - at),
                    file.begin() + static_cast<long>(at));
      } else if (how == 2) {
        file.erase(file.begin() + static_cast<long>(at));
      } else {
        const std::uint64_t value = file.size() - random() % 16;
        std::memcpy(file.data(), &value, std::min<std::size_t>(8, file.size()));
      }
    }
    const Result<Safetensors> result = Safetensors::parse(file);
    if (!result) {
      ++refused;
      EXPECT_FALSE(result.error().field.empty()) << result.error().to_string();
      continue;
    }
    for (const io::Safetensor& t : result->tensors()) {
      ASSERT_LE(result->data_offset() + t.offset + t.bytes, file.size());
    }
  }
  EXPECT_GT(refused, 1000u);
  EXPECT_LT(refused, 20000u);
}

TEST(Safetensors, ManyTensorsInLinearTimeAndMemory) {
  std::string header = "{";
  for (int i = 0; i < 200000; ++i) {
    header += (i == 0 ? "" : ",") + entry("t" + std::to_string(i), "U8", "0", 0, 0);
  }
  header += "}";
  const std::vector<std::byte> bytes = file_of(header, 0);
  const std::int64_t before = heap_live_bytes();
  reset_heap_peak();
  const auto begin = std::chrono::steady_clock::now();
  const Result<Safetensors> file = Safetensors::parse(bytes);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  ASSERT_TRUE(file) << problem(file);
  EXPECT_NE(file->find("t123456"), nullptr);
  EXPECT_LT(seconds.count(), 5.0);
  EXPECT_LE(heap_peak_bytes() - before, static_cast<std::int64_t>(8 * bytes.size()));
}

TEST(Safetensors, OutOfMemoryIsAnError) {
  expect_out_of_memory_is_an_error<Safetensors>(file_of(sample_header(), 38));
}

class Folder : public testing::Test {
 protected:
  void write_set() {
    folder_.write("s1.safetensors", with_name("a", 1));
    folder_.write("s2.safetensors", with_name("b", 2));
    write_index("{\"a\":\"s1.safetensors\",\"b\":\"s2.safetensors\"}");
  }
  static std::vector<std::byte> with_name(const std::string& name, std::uint32_t value) {
    const std::string header = "{" + entry(name, "U32", "1", 0, 4) + "}";
    return Bytes().u64(header.size()).raw(header).u32(value);
  }
  void write_index(const std::string& map) {
    folder_.write_text(
        "model.safetensors.index.json",
        std::string_view("{\"metadata\":{\"total_size\":[8,{}]},\"weight_map\":" + map + "}"));
  }
  Result<SafetensorsFile> open() const { return SafetensorsFile::open(folder_.path().string()); }
  void expect_refused(ErrorCode code, const std::string& field) const {
    const auto file = open();
    ASSERT_FALSE(file);
    EXPECT_EQ(name(file.error().code), std::string(name(code))) << problem(file);
    EXPECT_EQ(file.error().field, field) << problem(file);
  }
  TempFolder folder_;
};

TEST_F(Folder, OneFile) {
  folder_.write("model.safetensors", with_name("a", 7));
  const auto file = open();
  ASSERT_TRUE(file) << problem(file);
  std::uint32_t value = 0;
  ASSERT_TRUE(file->read(*file->find("a"), 0, std::as_writable_bytes(std::span(&value, 1))));
  EXPECT_EQ(value, 7u);
  std::byte two[2];
  EXPECT_TRUE(file->read(*file->find("a"), 2, two));
  EXPECT_EQ(file->read(*file->find("a"), 3, two).error().code, ErrorCode::invalid_argument);
  EXPECT_FALSE(file->find("b"));
}
TEST_F(Folder, Shards) {
  write_set();
  const auto file = open();
  ASSERT_TRUE(file) << problem(file);
  EXPECT_EQ(file->n_shards(), 2u);
  for (const auto& [name, expected] : {std::pair{"a", 1u}, std::pair{"b", 2u}}) {
    std::uint32_t value = 0;
    ASSERT_TRUE(file->read(*file->find(name), 0, std::as_writable_bytes(std::span(&value, 1))));
    EXPECT_EQ(value, expected);
  }
}
TEST_F(Folder, Empty) { expect_refused(ErrorCode::not_found, ""); }
TEST_F(Folder, ShardMissing) {
  write_set();
  std::filesystem::remove(folder_.path() / "s2.safetensors");
  expect_refused(ErrorCode::not_found, "");
}
TEST_F(Folder, PathsOutside) {
  write_set();
  for (const char* path : {"../s1.safetensors", "/tmp/s1.safetensors", "x/s1.safetensors",
                           "..\\\\s1.safetensors", "s1\\u0000.safetensors", "s1.bin", ""}) {
    write_index("{\"a\":\"" + std::string(path) + "\"}");
    expect_refused(ErrorCode::parse, "weight_map.a");
  }
}
TEST_F(Folder, TensorInOtherShard) {
  write_set();
  write_index("{\"a\":\"s2.safetensors\",\"b\":\"s1.safetensors\"}");
  expect_refused(ErrorCode::parse, "a");
}
TEST_F(Folder, TensorNotInIndex) {
  write_set();
  folder_.write("s2.safetensors", with_name("c", 2));
  expect_refused(ErrorCode::parse, "c");
}
TEST_F(Folder, TensorInNoShard) {
  write_set();
  write_index("{\"a\":\"s1.safetensors\",\"b\":\"s2.safetensors\",\"c\":\"s2.safetensors\"}");
  expect_refused(ErrorCode::not_found, "weight_map.c");
}
TEST_F(Folder, TensorTwiceInIndex) {
  write_set();
  write_index("{\"a\":\"s1.safetensors\",\"b\":\"s2.safetensors\",\"a\":\"s1.safetensors\"}");
  expect_refused(ErrorCode::parse, "weight_map.a");
}
TEST_F(Folder, BadIndex) {
  write_set();
  folder_.write_text("model.safetensors.index.json", std::string_view("{\"metadata\":{}}"));
  expect_refused(ErrorCode::not_found, "weight_map");
  folder_.write_text("model.safetensors.index.json", std::string_view("{\"weight_map\":{}"));
  expect_refused(ErrorCode::parse, "index");
  folder_.write_text("model.safetensors.index.json", std::string_view("{\"weight_map\":[]}"));
  expect_refused(ErrorCode::parse, "weight_map");
  write_index("{\"a\":3}");
  expect_refused(ErrorCode::parse, "weight_map.a");
}
TEST_F(Folder, TooManyShards) {
  std::string map = "{";
  for (int i = 0; i < 1025; ++i) {
    map += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":\"" + std::to_string(i) +
           ".safetensors\"";
  }
  write_index(map + "}");
  expect_refused(ErrorCode::limit, "weight_map");
}
TEST_F(Folder, BrokenShardIsNamed) {
  write_set();
  folder_.write("s2.safetensors", Bytes().u64(3).raw("{}").data());
  const auto file = open();
  ASSERT_FALSE(file);
  EXPECT_NE(file.error().message.find("s2.safetensors"), std::string::npos) << problem(file);
}

TEST(SafetensorsFile, PublishedFolders) {
  const std::filesystem::path folder = ONEPASS_TEST_DATA;
  if (folder.empty() || !std::filesystem::exists(folder / "safetensors")) {
    GTEST_SKIP() << "ONEPASS_TEST_DATA is not set";
  }
  int folders = 0;
  for (const auto& e : std::filesystem::directory_iterator(folder / "safetensors")) {
    const auto file = SafetensorsFile::open(e.path().string());
    ASSERT_TRUE(file) << e.path() << problem(file);
    EXPECT_TRUE(file->find("model.embed_tokens.weight")) << e.path();
    ++folders;
  }
  EXPECT_GT(folders, 4);
}

}  // namespace
}  // namespace onepass::test::safetensors_test
