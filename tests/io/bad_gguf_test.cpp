// Files that must be refused, each with the exact code and field.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "bad_file.h"
#include "io/gguf.h"
#include "io/gguf_file.h"
#include "support/gguf_writer.h"
#include "support/temp_folder.h"

namespace onepass::test::bad_gguf_test {
namespace {

using io::Gguf;
constexpr std::uint64_t huge = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t two32 = std::uint64_t{1} << 32;

Bytes header(std::uint64_t n_tensors, std::uint64_t n_keys, std::uint32_t version = 3) {
  return Bytes().header(n_tensors, n_keys, version);
}
// One tensor "t" and 128 bytes of data.
std::vector<std::byte> with_tensor(const std::vector<std::uint64_t>& dims, std::uint32_t type = 0,
                                   std::uint64_t offset = 0) {
  return header(1, 0).tensor("t", dims, type, offset).pad().zeros(128);
}
std::vector<std::byte> with_tensor_name(std::string_view name) {
  return header(1, 0).tensor(name, {32}, 0, 0).pad().zeros(128);
}
std::vector<std::byte> with_alignment(std::uint32_t value) {
  return header(1, 1).key("general.alignment", 4).u32(value).tensor("t", {8}, 0, 0).zeros(70000);
}

class BadGguf : public testing::TestWithParam<BadFile> {};

TEST_P(BadGguf, IsRefusedWithCodeAndField) { expect_refused<Gguf>(GetParam()); }

TEST_P(BadGguf, IsRefusedOnDisk) {
  const std::vector<std::byte> bytes = GetParam().make();
  const TempFolder folder;
  const std::string path = folder.write("bad.gguf", bytes);
  const BadFileHeap heap(bytes.size());
  const Result<io::GgufFile> result = io::GgufFile::open(path);
  heap.check();
  ASSERT_FALSE(result);
  EXPECT_EQ(name(result.error().code), std::string(name(GetParam().code)))
      << result.error().to_string();
}

constexpr ErrorCode parse = ErrorCode::parse, limit = ErrorCode::limit;
constexpr ErrorCode unsupported = ErrorCode::unsupported;

const BadFile header_files[] = {
    {"empty", parse, "header.magic", [] { return Bytes(); }},
    {"one_byte", parse, "header.magic", [] { return Bytes().raw("G"); }},
    {"three_bytes", parse, "header.magic", [] { return Bytes().raw("GGU"); }},
    {"magic_only", parse, "header.version", [] { return Bytes().raw("GGUF"); }},
    {"other_magic", parse, "header.magic", [] { return Bytes().raw("GGJT").u32(3).zeros(16); }},
    {"half_version", parse, "header.version", [] { return Bytes().raw("GGUF").u8(3); }},
    {"version_0", unsupported, "header.version", [] { return header(0, 0, 0); }},
    {"version_1", unsupported, "header.version", [] { return header(0, 0, 1); }},
    {"version_4", unsupported, "header.version", [] { return header(0, 0, 4); }},
    {"big_endian", unsupported, "header.version", [] { return header(0, 0, 0x03000000u); }},
    {"no_counts", parse, "header.tensor_count", [] { return Bytes().raw("GGUF").u32(3); }},
    {"no_key_count", parse, "header.key_count",
     [] { return Bytes().raw("GGUF").u32(3).u64(0).u32(0); }},
    {"tensors_2_63", limit, "header.tensor_count",
     [] { return header(std::uint64_t{1} << 63, 0).zeros(64); }},
    {"tensors_wrap_struct", limit, "header.tensor_count",
     [] { return header((std::uint64_t{1} << 63) / 400, 0).zeros(64); }},
    {"tensors_one_too_many", limit, "header.tensor_count", [] { return header(262145, 0); }},
    {"tensors_more_than_file", parse, "header.tensor_count",
     [] { return header(1000, 0).zeros(64); }},
    {"tensors_after_keys", parse, "header.tensor_count",
     [] { return header(2, 1).key("k", 8).string("0123456789012345678901234567890123456789"); }},
    {"keys_wrap", limit, "header.key_count",
     [] { return header(0, 0x4000000000000001u).zeros(64); }},
    {"keys_one_too_many", limit, "header.key_count", [] { return header(0, 65537); }},
    {"keys_more_than_file", parse, "header.key_count", [] { return header(0, 9).zeros(64); }},
};

const BadFile key_files[] = {
    {"key_length_max", limit, "kv[0].key", [] { return header(0, 1).u64(huge).zeros(32); }},
    {"key_length_over_limit", limit, "kv[0].key",
     [] { return header(0, 1).string(std::string(65536, 'k')).u32(0).u8(0); }},
    {"key_longer_than_file", parse, "kv[0].key", [] { return header(0, 1).u64(100).zeros(32); }},
    {"key_empty", parse, "kv[0].key", [] { return header(0, 1).key("", 4).u32(1).u32(0); }},
    {"key_nul", parse, "kv[0].key",
     [] { return header(0, 1).key(std::string_view("a\0b", 3), 0).u8(1); }},
    {"key_not_utf8", parse, "kv[0].key", [] { return header(0, 1).key("a\xff", 0).u8(1); }},
    {"key_surrogate", parse, "kv[0].key", [] { return header(0, 1).key("\xed\xa0\x80", 0).u8(1); }},
    {"key_overlong", parse, "kv[0].key", [] { return header(0, 1).key("\xc0\xaf", 0).u8(1); }},
    {"key_cut_utf8", parse, "kv[0].key", [] { return header(0, 1).key("ab\xe2\x82", 0).u8(1); }},
    {"second_key_bad", parse, "kv[1].key",
     [] { return header(0, 2).key("a", 0).u8(1).key("", 0).u32(0); }},
    {"key_twice", parse, "a", [] { return header(0, 2).key("a", 0).u8(1).key("a", 0).u8(2); }},
    {"key_twice_apart", parse, "a",
     [] { return header(0, 3).key("a", 0).u8(1).key("b", 0).u8(2).key("a", 4).u32(2); }},
    {"type_missing", parse, "kkkkkkk.type", [] { return header(0, 1).string("kkkkkkk"); }},
    {"type_13", parse, "k.type", [] { return header(0, 1).key("k", 13).u64(0); }},
    {"type_max", parse, "k.type", [] { return header(0, 1).key("k", 0xffffffffu).u64(0); }},
    {"u32_cut", parse, "k", [] { return header(0, 1).key("k", 4).u8(0).u8(0); }},
    {"u64_cut", parse, "k", [] { return header(0, 1).key("k", 10).u32(0); }},
    {"bool_2", parse, "k", [] { return header(0, 1).key("k", 7).u8(2); }},
    {"bool_255", parse, "k", [] { return header(0, 1).key("k", 7).u8(255); }},
    {"string_length_max", limit, "k", [] { return header(0, 1).key("k", 8).u64(huge).zeros(32); }},
    {"string_4_mib_in_16_bytes", parse, "k",
     [] { return header(0, 1).key("k", 8).u64(4194304).zeros(16); }},
    {"string_1_gib", limit, "k", [] { return header(0, 1).key("k", 8).u64(1u << 30).zeros(16); }},
    {"string_one_too_long", parse, "k", [] { return header(0, 1).key("k", 8).u64(17).zeros(16); }},
};

const BadFile array_files[] = {
    {"array_n_wraps", limit, "k.count",
     [] { return header(0, 1).array("k", 10, std::uint64_t{1} << 61).zeros(64); }},
    {"array_2_26", limit, "k.count", [] { return header(0, 1).array("k", 0, 1u << 26).zeros(64); }},
    {"array_more_than_file", parse, "k.count",
     [] { return header(0, 1).array("k", 4, 17).zeros(64); }},
    {"array_of_strings_more_than_file", parse, "k.count",
     [] { return header(0, 1).array("k", 8, 9).zeros(64); }},
    {"array_no_count", parse, "k.count", [] { return header(0, 1).key("k", 9).u32(4).u32(0); }},
    {"array_no_element_type", parse, "k.element_type",
     [] { return header(0, 1).key("k", 9).u8(0); }},
    {"array_element_type_14", parse, "k.element_type",
     [] { return header(0, 1).array("k", 14, 0); }},
    {"array_nested", unsupported, "k.element_type",
     [] { return header(0, 1).array("k", 9, 1).u32(0).u64(0); }},
    {"array_nested_deep", unsupported, "k.element_type",
     [] {
       Bytes b = header(0, 1).key("k", 9);
       for (int i = 0; i < 100000; ++i) b.u32(9).u64(1);
       return b.u32(0).u64(0);
     }},
    {"array_string_length_max", limit, "k[1]",
     [] { return header(0, 1).array("k", 8, 3).string("a").u64(huge).zeros(32); }},
    {"array_string_past_end", parse, "k[2]",
     [] { return header(0, 1).array("k", 8, 3).string("a").string("b").u64(9).zeros(8); }},
    {"array_strings_run_out", parse, "k[2]",
     [] { return header(0, 1).array("k", 8, 3).string("abcdefgh").string("b").u8(0); }},
    {"array_bool_3", parse, "k[2]",
     [] { return header(0, 1).array("k", 7, 4).u8(0).u8(1).u8(3).u8(0); }},
    {"long_key_in_field", parse, std::string(80, 'k') + "...",
     [] { return header(0, 1).key(std::string(300, 'k'), 7).u8(9); }},
};

const BadFile alignment_files[] = {
    {"alignment_0", limit, "general.alignment", [] { return with_alignment(0); }},
    {"alignment_1", limit, "general.alignment", [] { return with_alignment(1); }},
    {"alignment_4", limit, "general.alignment", [] { return with_alignment(4); }},
    {"alignment_24", parse, "general.alignment", [] { return with_alignment(24); }},
    {"alignment_131072", limit, "general.alignment", [] { return with_alignment(131072); }},
    {"alignment_2_30", limit, "general.alignment", [] { return with_alignment(1u << 30); }},
    {"alignment_2_31", limit, "general.alignment", [] { return with_alignment(1u << 31); }},
    {"alignment_i32", parse, "general.alignment",
     [] { return header(0, 1).key("general.alignment", 5).u32(32); }},
    {"alignment_string", parse, "general.alignment",
     [] { return header(0, 1).key("general.alignment", 8).string("32"); }},
    {"alignment_empty_array", parse, "general.alignment",
     [] { return header(0, 1).array("general.alignment", 4, 0); }},
    {"alignment_array", parse, "general.alignment",
     [] { return header(0, 1).array("general.alignment", 4, 2).u32(32).u32(32); }},
};

const BadFile tensor_files[] = {
    {"name_empty", parse, "tensor[0].name", [] { return with_tensor_name(""); }},
    {"name_256", limit, "tensor[0].name", [] { return with_tensor_name(std::string(256, 'n')); }},
    {"name_nul", parse, "tensor[0].name",
     [] { return with_tensor_name(std::string_view("a\0c", 3)); }},
    {"name_not_utf8", parse, "tensor[0].name", [] { return with_tensor_name("\x80"); }},
    {"name_length_max", limit, "tensor[0].name", [] { return header(1, 0).u64(huge).zeros(64); }},
    {"name_twice", parse, "t",
     [] { return header(2, 0).tensor("t", {8}, 0, 0).tensor("t", {8}, 0, 32).pad().zeros(128); }},
    {"dims_0", parse, "t.n_dims", [] { return with_tensor({}); }},
    {"dims_5", limit, "t.n_dims",
     [] {
       return with_tensor({1, 1, 1, 1, 1});
     }},
    {"dims_9", limit, "t.n_dims",
     [] {
       return with_tensor({1, 1, 1, 1, 1, 1, 1, 1, 1});
     }},
    {"dims_max", limit, "t.n_dims",
     [] { return header(1, 0).string("t").u32(0xffffffffu).zeros(64); }},
    {"dim_zero_first", parse, "t.dims[0]", [] { return with_tensor({0}); }},
    {"dim_zero_second", parse, "t.dims[1]",
     [] {
       return with_tensor({32, 0});
     }},
    {"dim_zero_hides_overflow", parse, "t.dims[2]",
     [] {
       return with_tensor({two32, 1u << 31, 0});
     }},
    {"dim_minus_one", limit, "t.dims[0]", [] { return with_tensor({huge}); }},
    {"dim_over_limit", limit, "t.dims[1]",
     [] {
       return with_tensor({8, (std::uint64_t{1} << 40) + 1});
     }},
    {"product_wraps_to_0", limit, "t.dims[1]",
     [] {
       return with_tensor({two32, two32});
     }},
    {"product_wraps_to_0_i8", limit, "t.dims[1]",
     [] {
       return with_tensor({two32, two32}, 24);
     }},
    {"product_wraps_to_0_4d", limit, "t.dims[3]",
     [] {
       return with_tensor({65536, 65536, 65536, 65536});
     }},
    {"product_negative", parse, "t.offset",
     [] {
       return with_tensor({two32, 1u << 31}, 24);
     }},
    {"bytes_wrap", limit, "t.dims",
     [] {
       return with_tensor({two32, 1u << 31}, 28);
     }},
    {"bytes_wrap_to_little", limit, "t.dims[1]",
     [] {
       return with_tensor({1024, (std::uint64_t{1} << 42) + 1});
     }},
    {"padding_wraps", parse, "b.offset",
     [] {
       return header(2, 0)
           .tensor("a", {64}, 0, 0)
           .tensor("b", {4, (1u << 30) - 1, (1u << 30) + 1}, 0, 256)
           .pad()
           .zeros(256);
     }},
    {"two_huge", limit, "a.dims[0]",
     [] {
       return header(2, 0)
           .tensor("a", {0x7fffffffffffffc0u}, 24, 0)
           .tensor("b", {0x7fffffffffffffc0u}, 24, 0x7fffffffffffffc0u)
           .pad()
           .zeros(64);
     }},
    {"row_33_of_q4_0", parse, "t.dims[0]", [] { return with_tensor({33}, 2); }},
    {"row_1_of_q4_0", parse, "t.dims[0]",
     [] {
       return with_tensor({1, 32}, 2);
     }},
    {"row_128_of_q4_K", parse, "t.dims[0]", [] { return with_tensor({128}, 12); }},
    {"type_4_removed", unsupported, "t.type", [] { return with_tensor({32}, 4); }},
    {"type_5_removed", unsupported, "t.type", [] { return with_tensor({32}, 5); }},
    {"type_36_removed", unsupported, "t.type", [] { return with_tensor({32}, 36); }},
    {"type_1000", unsupported, "t.type", [] { return with_tensor({32}, 1000); }},
    {"type_max_u32", unsupported, "t.type", [] { return with_tensor({32}, 0xffffffffu); }},
    {"offset_unaligned", parse, "t.offset", [] { return with_tensor({8}, 0, 1); }},
    {"offset_other_alignment", parse, "t.offset", [] { return with_tensor({8}, 0, 16); }},
    {"offset_2_40", parse, "t.offset", [] { return with_tensor({8}, 0, std::uint64_t{1} << 40); }},
    {"offset_wraps", parse, "t.offset", [] { return with_tensor({8}, 0, huge - 31); }},
    {"offset_at_end", parse, "t.offset", [] { return with_tensor({8}, 0, 128); }},
    {"larger_than_file", parse, "t.offset",
     [] {
       return with_tensor({4096, 4096}, 1);
     }},
    {"one_element_too_many", parse, "t.offset", [] { return with_tensor({33}); }},
    {"same_bytes", parse, "b.offset",
     [] { return header(2, 0).tensor("a", {32}, 0, 0).tensor("b", {32}, 0, 0).pad().zeros(256); }},
    {"overlap_by_32", parse, "a.offset",
     [] { return header(2, 0).tensor("a", {32}, 0, 96).tensor("b", {32}, 0, 0).pad().zeros(256); }},
    {"no_data_section", parse, "data", [] { return header(1, 0).tensor("t", {8}, 0, 0); }},
    {"description_cut", parse, "tttttttt.offset",
     [] { return header(1, 0).string("tttttttt").u32(1).u64(8).u32(0).u32(0); }},
    {"dims_cut", parse, "tttttttttttttttt.dims[1]",
     [] { return header(1, 0).string("tttttttttttttttt").u32(2).u64(8).u32(0); }},
    {"type_cut", parse, "tttttttttttttttt.type",
     [] { return header(1, 0).string("tttttttttttttttt").u32(1).u64(8).u8(0); }},
};

std::string case_name(const testing::TestParamInfo<BadFile>& i) { return i.param.name; }
INSTANTIATE_TEST_SUITE_P(Header, BadGguf, testing::ValuesIn(header_files), case_name);
INSTANTIATE_TEST_SUITE_P(Keys, BadGguf, testing::ValuesIn(key_files), case_name);
INSTANTIATE_TEST_SUITE_P(Arrays, BadGguf, testing::ValuesIn(array_files), case_name);
INSTANTIATE_TEST_SUITE_P(Alignment, BadGguf, testing::ValuesIn(alignment_files), case_name);
INSTANTIATE_TEST_SUITE_P(Tensors, BadGguf, testing::ValuesIn(tensor_files), case_name);

}  // namespace
}  // namespace onepass::test::bad_gguf_test
