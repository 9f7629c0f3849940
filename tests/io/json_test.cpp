// JSON texts: the tree, what is refused and where, and numbers to the last bit.
#include "io/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>

#include "io/numbers.h"
#include "support/bad_file_heap.h"
#include "support/heap.h"

namespace onepass::test::json_test {
namespace {

using io::Json;
using io::JsonDocument;
using io::JsonKind;

TEST(Json, Values) {
  const std::string text =
      R"( {"a": 1, "b": [true, false, null, -2.5e-3, "x\ty\/"], "c": {"d": 1e-06, "e": 500000.0},
          "f": 0.7071067811865476, "g": 12345678901234567890, "h": 1e400, "i": -0, "j": 1E2 } )";
  const auto document = JsonDocument::parse(text);
  ASSERT_TRUE(document) << document.error().to_string();
  const Json v = document->root();
  EXPECT_EQ(v["a"].integer(), 1u);
  EXPECT_EQ(v["b"].size(), 5u);
  std::vector<Json> items;
  for (const Json item : v["b"].items()) items.push_back(item);
  ASSERT_EQ(items.size(), 5u);
  EXPECT_EQ(items[0].boolean(), true);
  EXPECT_EQ(items[1].boolean(), false);
  EXPECT_EQ(items[2].kind(), JsonKind::null);
  EXPECT_FALSE(items[2].is_missing());
  EXPECT_EQ(items[3].number(), -2.5e-3);
  EXPECT_EQ(items[3].number_text(), "-2.5e-3");
  EXPECT_FALSE(items[3].integer());
  EXPECT_EQ(items[4].text(), "x\ty/");
  EXPECT_EQ(v["c"]["d"].number(), 1e-06);
  EXPECT_EQ(v["c"]["e"].number(), 500000.0);
  EXPECT_EQ(v["f"].number(), 0.7071067811865476);
  EXPECT_EQ(v["g"].integer(), 12345678901234567890u);
  EXPECT_EQ(v["h"].number(), HUGE_VAL);
  EXPECT_TRUE(std::signbit(v["i"].number().value()));
  EXPECT_EQ(v["j"].number(), 100.0);
  EXPECT_TRUE(v["nobody"].is_missing());
  EXPECT_TRUE(v["a"]["x"].is_missing());
  std::string keys;
  for (const auto& [key, value] : v.members()) keys += key;
  EXPECT_EQ(keys, "abcfghij");
}

TEST(Json, SaysWhatIsMissingOrOfAnotherKind) {
  const std::string text = R"({"a": [7, {"b": "x"}, [[], {"c": 300}]], "d": null})";
  const auto document = JsonDocument::parse(text);
  ASSERT_TRUE(document) << document.error().to_string();
  const Json root = document->root();
  std::vector<Json> a;
  for (const Json item : root["a"].items()) a.push_back(item);
  const auto expect = [](const auto& result, const char* field, std::uint64_t at, ErrorCode code) {
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().field, field);
    EXPECT_EQ(result.error().byte_offset, at);
    EXPECT_EQ(result.error().code, code) << result.error().to_string();
  };
  expect(a[1]["b"].number(), "a[1].b", text.find("\"x\""), ErrorCode::parse);
  const auto last = [](const Json& list) {
    Json value;
    for (const Json item : list.items()) value = item;
    return value;
  };
  expect(last(a[2])["c"].integer(299), "a[2][1].c", text.find("300"), ErrorCode::limit);
  expect(a[0].text(), "a[0]", text.find('7'), ErrorCode::parse);
  expect(root["d"].text(), "d", text.find("null"), ErrorCode::parse);
  EXPECT_EQ(root["d"].text_or("none"), "none");
  expect(root["e"]["f"].text(), "e.f", Error::no_offset, ErrorCode::parse);
  expect(a[1]["e"]["f"].object(), "a[1].e.f", Error::no_offset, ErrorCode::parse);
  expect(root["a"].object(), "a", text.find('['), ErrorCode::parse);
  expect(root.array(), "", 0, ErrorCode::parse);
  expect(Json()["x"].boolean(), "x", Error::no_offset, ErrorCode::parse);
  EXPECT_EQ(root["e"].boolean_or(true), true);
}

struct Broken {
  std::string text;
  const char* field;
  std::uint64_t at;
};

TEST(Json, RefusesWithPlaceAndPath) {
  const Broken broken[] = {
      {"", "", 0},
      {"{", "", 1},
      {"[1,]", "[1]", 3},
      {"[,1]", "[0]", 1},
      {"{\"a\":1,}", "", 7},
      {"{\"a\" 1}", "", 5},
      {"{\"a\":}", "a", 5},
      {"nul", "", 0},
      {"truth", "", 0},
      {"01", "", 2},
      {"1.", "", 2},
      {".5", "", 0},
      {"+1", "", 0},
      {"1e", "", 2},
      {"--1", "", 1},
      {"\"a", "", 2},
      {"\"\\ud800\"", "", 7},
      {"[1] 2", "", 4},
      {"{\"a\":{\"b\":1,\"b\":2}}", "a.b", 16},
      {"{\"a\":[{},{\"k\":[0,{\"\\u0062\":1,\"c\":2,\"b\":2}]}]}", "a[1].k[1].b", 39},
      {"{\"a\":[true,{\"b\":\"\xff\"}]}", "a[1].b", 18},
      {"{\"a\":[true,{\"b\":tru}]}", "a[1].b", 16},
      {"'a'", "", 0},
      {"NaN", "", 0},
      {"[Infinity]", "[0]", 1},
  };
  for (const Broken& b : broken) {
    const auto v = JsonDocument::parse(b.text);
    ASSERT_FALSE(v) << b.text;
    EXPECT_EQ(v.error().code, ErrorCode::parse) << b.text;
    EXPECT_EQ(v.error().field, b.field) << b.text;
    EXPECT_EQ(v.error().byte_offset, b.at) << b.text;
  }
  const auto deep = JsonDocument::parse(std::string(100000, '['));
  ASSERT_FALSE(deep);
  EXPECT_EQ(deep.error().code, ErrorCode::limit);
  EXPECT_EQ(deep.error().byte_offset, io::max_json_depth);
}

// Which of many keys is there twice, also where they share their first bytes.
TEST(Json, FindsKeysThatRepeat) {
  for (const std::size_t n : {2u, 3u, 17u, 1000u}) {
    std::string text = "{";
    for (std::size_t i = 0; i < n; ++i)
      text += "\"long prefix " + std::to_string(i * 7919 % n) + "\":0,";
    EXPECT_TRUE(JsonDocument::parse(text + "\"\":0,\"long pre\":0,\"long prefix \":1}")) << n;
    const auto twice = JsonDocument::parse(text + "\"long prefix 1\":123}");
    ASSERT_FALSE(twice) << n;
    EXPECT_EQ(twice.error().byte_offset, text.size() + std::strlen("\"long prefix 1\":"));
  }
}

TEST(Json, TakesFewBytesPerValue) {
  std::string text = "[";
  for (int i = 0; i < 100000; ++i) text += "{\"k\":[\"ab\",1]},";
  text += "0]";
  reset_heap_peak();
  const std::int64_t before = heap_live_bytes();
  const auto document = JsonDocument::parse(text);
  ASSERT_TRUE(document);
  // 5 nodes of 24 bytes for 15 bytes of text; as much again while the list grows, and half.
  EXPECT_LT(heap_live_bytes() - before, 2 * 5 * 24 * 100000);
  EXPECT_LT(heap_peak_bytes() - before, 3 * 5 * 24 * 100000);
}

TEST(Json, OutOfMemoryIsAnError) {
  const std::string text = R"({"a": [1, "\u00e9", {"b": null}], "c": {"d": "e\n", "f": [[]]}})";
  for (std::uint64_t n = 1;; ++n) {
    fail_heap_allocation(n);
    const auto document = JsonDocument::parse(text);
    const bool fired = heap_failure_fired();
    fail_heap_allocation(0);
    if (!fired) {
      EXPECT_TRUE(document);
      EXPECT_GT(n, 5u);
      break;
    }
    ASSERT_FALSE(document);
    EXPECT_EQ(document.error().code, ErrorCode::out_of_memory);
  }
}

TEST(Json, TextsAboveTheLimitAreNotRead) {
  // Nothing of it is touched before its length is.
  const auto document = JsonDocument::parse({"{}", io::max_json_bytes + 1});
  ASSERT_FALSE(document);
  EXPECT_EQ(document.error().code, ErrorCode::limit);
}

TEST(Numbers, AreTheNearest) {
  const std::pair<const char*, double> rows[] = {
      // One unit off where digits and power are multiplied in 64 bits.
      {"1e126", 0x1.7a2ecc414a03fp+418},
      {"51e195", 0x1.5d51d249dca43p+653},
      {"17e-276", 0x1.2d5a4350d30ffp-913},
      {"83e25", 0x1.5747ab143e353p+89},
      {"166e25", 0x1.5747ab143e353p+90},
      {"332e25", 0x1.5747ab143e353p+91},
      {"415e24", 0x1.5747ab143e353p+88},
      {"664e25", 0x1.5747ab143e353p+92},
      {"830e24", 0x1.5747ab143e353p+89},
      // A hair above the middle of two, which only the last digits tell.
      {"1.00000000000000011102230246251565404236316680908203126", 0x1.0000000000001p+0},
      {"1.00000000000000011102230246251565404236316680908203125", 1.0},
      {"9007199254740993.0000000000000001", 9007199254740994.0},
      {"9007199254740993", 9007199254740992.0},
      // The ends of the range.
      {"1.7976931348623157e308", 0x1.fffffffffffffp+1023},
      {"1.7976931348623159e308", HUGE_VAL},
      {"-1e99999999999999999999", -HUGE_VAL},
      {"2.2250738585072011e-308", 0x0.fffffffffffffp-1022},
      {"5e-324", 0x1p-1074},
      {"2.4703282292062327e-324", 0.0},
      {"1e-99999999999999999999", 0.0},
      {"0e99999999999999999999", 0.0},
  };
  for (const auto& [text, value] : rows) {
    EXPECT_EQ(io::decimal_value(text), value) << text;
    io::JsonReader reader(text);
    EXPECT_EQ(reader.number("n"), value) << text;
  }
  for (const char* text : {"", "-", "+1", "nan", "inf", "-infinity", "1e", "1 ", " 1", "0x10",
                           "1.2.3", "--1", "1e5.0", "1,5"}) {
    EXPECT_FALSE(io::decimal_value(text)) << text;
  }
}

TEST(Numbers, ComeBackFromTheirDigits) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 100000; ++i) {
    double value = 0.0;
    const std::uint64_t bits = random();
    std::memcpy(&value, &bits, sizeof value);
    if (!std::isfinite(value)) continue;
    char text[40];
    std::snprintf(text, sizeof text, "%.17g", value);
    ASSERT_EQ(io::decimal_value(text), value) << text;
    std::snprintf(text, sizeof text, "%.*g", 1 + i % 25, value);
    ASSERT_EQ(io::decimal_value(text), std::strtod(text, nullptr)) << text;
  }
}

}  // namespace
}  // namespace onepass::test::json_test
