// tokenizer.json files of each supported kind, made here, and what is refused.
#include "support/bad_file_heap.h"
#include "tokenizer_support.h"

namespace onepass::test::tokenizer_json_test {
namespace {

using namespace llm::text;
using llm::Tokenizer;

std::string json_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out + "\"";
}

struct JsonParts {
  std::string model;  // members of "model" without vocab and merges
  std::vector<std::string> vocabulary;
  std::string merges = "[]";
  std::string added = "[]";
  std::string normalizer = "null";
  std::string pre_tokenizer = "null";
  std::string post_processor = "null";
  std::string decoder = "null";

  std::string text() const {
    std::string vocab;
    for (std::size_t i = 0; i < vocabulary.size(); ++i) {
      vocab += (i == 0 ? "" : ",") + json_text(vocabulary[i]) + ":" + std::to_string(i);
    }
    return R"({"version":"1.0","truncation":null,"padding":null,"added_tokens":)" + added +
           R"(,"normalizer":)" + normalizer + R"(,"pre_tokenizer":)" + pre_tokenizer +
           R"(,"post_processor":)" + post_processor + R"(,"decoder":)" + decoder + R"(,"model":{)" +
           model + R"("vocab":{)" + vocab + R"(},"merges":)" + merges + "}}";
  }
};

JsonParts byte_level() {
  JsonParts parts;
  for (unsigned b = 0; b < 256; ++b) {
    parts.vocabulary.push_back(to_alphabet(std::string(1, static_cast<char>(b))));
  }
  parts.vocabulary.insert(parts.vocabulary.end(), {"he", "ll", "hell", "hello", "\u0120hello"});
  parts.model = R"("type":"BPE",)";
  parts.merges = R"(["h e","l l",["he","ll"],["hell","o"],["\u0120","hello"]])";
  parts.pre_tokenizer = R"({"type":"ByteLevel","add_prefix_space":false,"use_regex":true})";
  parts.decoder = R"({"type":"ByteLevel"})";
  return parts;
}

// In the style of Llama 2: characters, U+2581 and byte tokens.
JsonParts byte_fallback() {
  JsonParts parts;
  parts.vocabulary = {"<unk>", "<s>", "</s>"};
  for (unsigned b = 0; b < 256; ++b) parts.vocabulary.push_back(hex_name(b));
  parts.vocabulary.insert(parts.vocabulary.end(), {"\u2581", "a", "b", "ab", "\u2581ab"});
  parts.model = R"("type":"BPE","unk_token":"<unk>","fuse_unk":true,"byte_fallback":true,)";
  parts.merges = R"(["a b","\u2581 ab"])";
  parts.added = R"([{"id":0,"content":"<unk>","special":true,"normalized":false},
    {"id":1,"content":"<s>","special":true,"normalized":false},
    {"id":2,"content":"</s>","special":true,"normalized":false}])";
  parts.normalizer = R"({"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"\u2581"},
    {"type":"Replace","pattern":{"String":" "},"content":"\u2581"}]})";
  parts.post_processor = R"({"type":"TemplateProcessing",
    "single":[{"SpecialToken":{"id":"<s>","type_id":0}},{"Sequence":{"id":"A","type_id":0}},
              {"SpecialToken":{"id":"</s>","type_id":0}}],"pair":[],
    "special_tokens":{"<s>":{"id":"<s>","ids":[1],"tokens":["<s>"]},
                      "</s>":{"id":"</s>","ids":[2],"tokens":["</s>"]}}})";
  parts.decoder = R"({"type":"Sequence","decoders":[
    {"type":"Replace","pattern":{"String":"\u2581"},"content":" "},{"type":"ByteFallback"},
    {"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]})";
  return parts;
}

Tokenizer loaded(const JsonParts& parts, std::string_view config = {}) {
  auto tokenizer = Tokenizer::from_json(parts.text(), config);
  if (!tokenizer) throw std::runtime_error(tokenizer.error().to_string());
  return *tokenizer;
}

std::string listed(const Tokenizer& tokenizer, const Ids& ids) {
  std::string all;
  for (const std::uint32_t id : ids) all += "[" + std::string(*tokenizer.piece(id)) + "]";
  return all;
}

TEST(tokenizer_json, byte_level) {
  const Tokenizer tokenizer = loaded(byte_level());
  EXPECT_EQ(listed(tokenizer, encoded(tokenizer, "hello hello, hell")),
            "[hello][ hello][,][ ][hell]");
  std::mt19937_64 random(12);
  for (int i = 0; i < 10'000; ++i) {
    const std::string text = random_text(random, 20);
    ASSERT_EQ(decoded(tokenizer, encoded(tokenizer, text)), text);
  }
}

TEST(tokenizer_json, byte_level_prefix_space_and_own_expression) {
  JsonParts parts = byte_level();
  parts.pre_tokenizer = R"({"type":"ByteLevel"})";
  const Tokenizer prefixed = loaded(parts);
  EXPECT_EQ(listed(prefixed, encoded(prefixed, "hello")), "[ hello]");
  EXPECT_EQ(listed(prefixed, encoded(prefixed, " hello")), "[ hello]");

  parts.pre_tokenizer = R"json({"type":"Sequence","pretokenizers":[
    {"type":"Split","pattern":{"Regex":"l(?=l)"},"behavior":"Isolated","invert":false},
    {"type":"ByteLevel","add_prefix_space":false,"use_regex":false}]})json";
  const Tokenizer split = loaded(parts);
  EXPECT_EQ(listed(split, encoded(split, "hello")), "[he][l][l][o]");
}

TEST(tokenizer_json, stages_after_byte_level_see_its_alphabet) {
  JsonParts parts = byte_level();
  parts.vocabulary.push_back("12");
  parts.merges = R"(["1 2"])";
  parts.pre_tokenizer = R"({"type":"Sequence","pretokenizers":[
    {"type":"Punctuation","behavior":"Contiguous"},
    {"type":"ByteLevel","add_prefix_space":false,"use_regex":true},
    {"type":"Digits","individual_digits":false},
    {"type":"Split","pattern":{"Regex":"[0-9][0-9][0-9]"},"behavior":"Isolated"}]})";
  const Tokenizer tokenizer = loaded(parts);
  EXPECT_EQ(listed(tokenizer, encoded(tokenizer, "12 112.12")), "[12][ ][1][12][.][12]");
  const std::string text = "\u00E9\u00B2 \u4E00 x12";
  EXPECT_EQ(decoded(tokenizer, encoded(tokenizer, text)), text);
}

TEST(tokenizer_json, added_tokens) {
  JsonParts parts = byte_level();
  parts.added = R"([{"id":300,"content":"<|end|>","special":true},
    {"id":301,"content":"<think>","special":false,"normalized":false},
    {"id":302,"content":"<l>","special":true,"lstrip":true},
    {"id":303,"content":"<r>","special":true,"rstrip":true},
    {"id":304,"content":"word","special":false,"single_word":true,"normalized":false},
    {"id":305,"content":"<|end|><|end|>","special":true}])";
  const Tokenizer tokenizer = loaded(parts, R"({"eos_token":{"content":"<|end|>"}})");
  const llm::EncodeOptions parse{.add_special = false, .parse_special = true};
  EXPECT_EQ(tokenizer.size(), 306u);
  EXPECT_EQ(encoded(tokenizer, "<think><|end|>", parse), (Ids{301, 300}));
  EXPECT_EQ(encoded(tokenizer, "<think>"), Ids{301});
  EXPECT_EQ(encoded(tokenizer, "<|end|>").size(), 7u);
  EXPECT_EQ(encoded(tokenizer, "<|end|><|end|><|end|>", parse), (Ids{305, 300}));
  EXPECT_EQ(listed(tokenizer, encoded(tokenizer, "a  <l> b", parse)), "[a][<l>][ ][b]");
  EXPECT_EQ(listed(tokenizer, encoded(tokenizer, "a <r>\n b", parse)), "[a][ ][<r>][b]");
  EXPECT_EQ(encoded(tokenizer, "word", parse), Ids{304});
  EXPECT_EQ(encoded(tokenizer, "words", parse).size(), 5u);
  EXPECT_EQ(tokenizer.special_ids().eos, 300u);
  EXPECT_TRUE(tokenizer.is_control(300));
  EXPECT_FALSE(tokenizer.is_control(301));
  EXPECT_TRUE(tokenizer.ends_reply(300));
}

TEST(tokenizer_json, composes_before_it_splits) {
  JsonParts parts = byte_level();
  parts.normalizer = R"({"type":"NFC"})";
  const Tokenizer tokenizer = loaded(parts);
  EXPECT_EQ(decoded(tokenizer, encoded(tokenizer, "e\u0301")), "\u00E9");
}

TEST(tokenizer_json, byte_fallback) {
  const Tokenizer tokenizer = loaded(byte_fallback());
  EXPECT_EQ(listed(tokenizer, encoded(tokenizer, "ab ab")), "[ ab][ ab]");
  EXPECT_EQ(encoded(tokenizer, "ab", {.add_special = true}), (Ids{1, 263, 2}));
  EXPECT_EQ(encoded(tokenizer, "<s>ab", {.add_special = false, .parse_special = true}),
            (Ids{1, 263}));
  EXPECT_EQ(encoded(tokenizer, "\u00E9"), (Ids{259, 3 + 0xC3, 3 + 0xA9}));
  EXPECT_EQ(tokenizer.special_ids().bos, 1u);
  EXPECT_EQ(tokenizer.special_ids().eos, 2u);
  EXPECT_EQ(tokenizer.special_ids().unknown, 0u);
  std::mt19937_64 random(13);
  for (int i = 0; i < 10'000; ++i) {
    const std::string text = replace_all(any_code_points(random, 20), space_mark, "?");
    ASSERT_EQ(decoded(tokenizer, encoded(tokenizer, text)), text);
  }
}

TEST(tokenizer_json, unknown_characters_fuse) {
  JsonParts parts = byte_fallback();
  parts.model = R"("type":"BPE","unk_token":"<unk>","fuse_unk":true,)";
  const Tokenizer fused = loaded(parts);
  EXPECT_EQ(encoded(fused, "xya\u00E9"), (Ids{259, 0, 260, 0}));
  parts.model = R"("type":"BPE","unk_token":"<unk>",)";
  EXPECT_EQ(encoded(loaded(parts), "xya\u00E9"), (Ids{259, 0, 0, 260, 0}));
}

TEST(tokenizer_json, metaspace_schemes) {
  JsonParts parts = byte_fallback();
  parts.normalizer = "null";
  const auto pre = [&](const char* scheme) {
    parts.pre_tokenizer = std::string(R"({"type":"Metaspace","replacement":"\u2581",)") +
                          R"("prepend_scheme":")" + scheme + R"(","split":false})";
    const Tokenizer tokenizer = loaded(parts);
    return listed(tokenizer,
                  encoded(tokenizer, "ab<s>ab ab", {.add_special = false, .parse_special = true}));
  };
  EXPECT_EQ(pre("always"), "[ ab][<s>][ ab][ ab]");
  EXPECT_EQ(pre("first"), "[ ab][<s>][ab][ ab]");
  EXPECT_EQ(pre("never"), "[ab][<s>][ab][ ab]");
}

TEST(tokenizer_json, begin_token_of_the_config) {
  JsonParts parts = byte_level();
  parts.added = R"([{"id":261,"content":"<s>","special":true}])";
  const std::string config = R"({"bos_token":"<s>","add_bos_token":true,
    "clean_up_tokenization_spaces":true})";
  const Tokenizer tokenizer = loaded(parts, config);
  EXPECT_EQ(encoded(tokenizer, "o", {.add_special = true}), (Ids{261, 'o'}));
  EXPECT_TRUE(tokenizer.cleans_up_spaces());
}

void expect_error(const std::string& json, ErrorCode code, const std::string& field) {
  const BadFileHeap heap(json.size());
  const auto tokenizer = Tokenizer::from_json(json);
  heap.check();
  ASSERT_FALSE(tokenizer.has_value()) << field;
  EXPECT_EQ(tokenizer.error().code, code) << tokenizer.error().to_string();
  EXPECT_EQ(tokenizer.error().field, field) << tokenizer.error().to_string();
}

TEST(tokenizer_json, refuses_with_the_field) {
  const auto with = [](auto&& change) {
    JsonParts parts = byte_level();
    change(parts);
    return parts.text();
  };
  using P = JsonParts;
  constexpr auto unsupported = ErrorCode::unsupported;
  constexpr auto parse = ErrorCode::parse;
  expect_error(with([](P& p) { p.model = R"("type":"Unigram",)"; }), unsupported, "model.type");
  expect_error(with([](P& p) { p.model = R"("type":7,)"; }), parse, "model.type");
  expect_error(with([](P& p) { p.model = R"("dropout":0.1,)"; }), unsupported, "model.dropout");
  expect_error(with([](P& p) { p.model = R"("end_of_word_suffix":"</w>",)"; }), unsupported,
               "model.end_of_word_suffix");
  expect_error(with([](P& p) { p.model = R"("unk_token":"<unk>",)"; }), parse, "model.unk_token");
  expect_error(with([](P& p) { p.model = R"("ignore_merges":"yes",)"; }), parse,
               "model.ignore_merges");
  expect_error(with([](P& p) { p.model = R"("byte_fallback":true,)"; }), unsupported,
               "model.byte_fallback");
  expect_error(with([](P& p) { p.normalizer = R"({"type":"Precompiled"})"; }), unsupported,
               "normalizer.type");
  expect_error(with([](P& p) {
                 p.normalizer =
                     R"({"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"X"}]})";
               }),
               unsupported, "normalizer.normalizers[1].type");
  expect_error(with([](P& p) { p.pre_tokenizer = R"({"type":"BertPreTokenizer"})"; }), unsupported,
               "pre_tokenizer.type");
  expect_error(
      with([](P& p) { p.pre_tokenizer = R"json({"type":"Split","pattern":{"Regex":"("}})json"; }),
      parse, "pre_tokenizer.pattern.Regex");
  expect_error(with([](P& p) {
                 p.pre_tokenizer = R"({"type":"Split","pattern":{"String":"a"},"behavior":"Odd"})";
               }),
               unsupported, "pre_tokenizer.behavior");
  expect_error(with([](P& p) { p.decoder = R"({"type":"WordPiece"})"; }), unsupported,
               "decoder.type");
  expect_error(with([](P& p) { p.post_processor = R"({"type":"BertProcessing"})"; }), unsupported,
               "post_processor.type");
  expect_error(with([](P& p) { p.added = R"([{"id":-1,"content":"x"}])"; }), parse,
               "added_tokens[0].id");
  expect_error(with([](P& p) { p.added = R"([{"id":97,"content":"x"}])"; }), parse,
               "added_tokens[0].content");
  expect_error(with([](P& p) { p.added = R"([{"id":4000000000,"content":"x"}])"; }),
               ErrorCode::limit, "added_tokens[0].id");
  for (const char* merges : {R"(["ab"])", R"(["a b c"])", R"([""])", R"([" "])", R"([["a"]])",
                             R"([["a","b","c"]])", R"([["a",1]])", R"([7])"}) {
    expect_error(with([&](P& p) { p.merges = merges; }), parse, "model.merges");
  }
  expect_error(with([](P& p) { p.merges = R"(["q qq"])"; }), parse, "merges[0]");
  expect_error(R"({"model":{"type":"BPE","vocab":{"a":0,"b":0},"merges":[]}})", parse,
               "model.vocab");
  expect_error(R"({"model":{"type":"BPE","vocab":{"a":-1},"merges":[]}})", parse, "model.vocab");
  expect_error(R"({"model":{"type":"BPE","vocab":[],"merges":[]}})", parse, "model.vocab");
  expect_error(R"({"model":{"type":"BPE","vocab":{"a":0}}})", parse, "model.merges");
  expect_error("{}", parse, "model.vocab");
}

TEST(tokenizer_json, refuses_repeated_keys_and_broken_text) {
  expect_error(R"({"model":{"type":"BPE","vocab":{"a":0,"a":1},"merges":[]}})", ErrorCode::parse,
               "model.vocab.a");
  expect_error(R"({"model":{"type":"BPE","type":"BPE","vocab":{"a":0},"merges":[]}})",
               ErrorCode::parse, "model.type");
  for (const std::string json : {"", "{", "[1,2", "nul"}) {
    expect_error(json, ErrorCode::parse, "");
  }
  expect_error("{\"a\":\"\xFF\"}", ErrorCode::parse, "a");
  const std::string deep(100'000, '[');
  EXPECT_EQ(Tokenizer::from_json(deep).error().byte_offset, io::max_json_depth);
  expect_error(deep, ErrorCode::limit, Tokenizer::from_json(deep).error().field);
  const std::string good = byte_level().text();
  std::mt19937_64 random(14);
  for (int i = 0; i < 2000; ++i) {
    std::string bad = good;
    for (std::size_t n = 1 + random() % 3; n > 0; --n) {
      bad[random() % bad.size()] = "{}[]\",:x0\\"[random() % 10];
    }
    if (i % 4 == 0) bad.resize(random() % bad.size());
    const auto tokenizer = Tokenizer::from_json(bad);
    if (!tokenizer) {
      EXPECT_NE(tokenizer.error().message, "");
      continue;
    }
    const auto ids = tokenizer->encode("hello 12");
    EXPECT_TRUE(!ids || tokenizer->decode(*ids).has_value());
  }
}

}  // namespace
}  // namespace onepass::test::tokenizer_json_test
