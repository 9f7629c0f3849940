// Vocabularies and texts made to break tokenizers: a typed error or ids, within a second.
#include <ctime>
#include <limits>

#include "tokenizer_support.h"

namespace onepass::test::tokenizer_robust_test {
namespace {

using namespace llm::text;
using llm::Tokenizer;
using llm::VocabularyData;

// Of processor time, whatever else the machine does. Sanitizers and unoptimized code are given
// more.
constexpr double seconds = 4.0;

template <class F>
double timed(F&& f) {
  const std::clock_t start = std::clock();
  f();
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

VocabularyData tiny_scores() { return score_vocabulary({{"\u2581", 0}, {"a", 0}, {"aa", -1}}); }

void expect_error(VocabularyData data, ErrorCode code, const std::string& field) {
  const auto tokenizer = Tokenizer::from_vocabulary(std::move(data));
  ASSERT_FALSE(tokenizer.has_value()) << field;
  EXPECT_EQ(tokenizer.error().code, code) << tokenizer.error().to_string();
  EXPECT_NE(tokenizer.error().field.find(field), std::string::npos)
      << tokenizer.error().to_string();
}

TEST(tokenizer_robust, byte_tokens_are_two_hex_digits) {
  for (const char* text :
       {"<0x-1>", "<0xZZ>", "<0x0>", "<0x000>", "<0x+1>", "<0x 1>", "0x41", "", "<0xab>"}) {
    VocabularyData data = tiny_scores();
    data.tokens[3 + 65] = text;
    expect_error(data, ErrorCode::parse, "tokens[68]");
  }
}

TEST(tokenizer_robust, other_vocabularies_are_unsupported) {
  for (const char* model : {"rwkv", "t5", "bert", "plamo2", "none", ""}) {
    VocabularyData data = tiny_scores();
    data.model = model;
    // One long token: nothing may recurse over it.
    data.tokens.push_back(std::string(70'000, 'x'));
    data.scores.push_back(0);
    data.types.push_back(1);
    expect_error(data, ErrorCode::unsupported, "tokenizer.ggml.model");
  }
}

TEST(tokenizer_robust, long_tokens_are_a_limit) {
  for (const bool scores : {true, false}) {
    VocabularyData data = scores ? tiny_scores() : byte_vocabulary({});
    data.tokens.back() = std::string(max_token_bytes, 'x');
    ASSERT_TRUE(Tokenizer::from_vocabulary(data).has_value());
    data.tokens.back() += 'x';
    expect_error(data, ErrorCode::limit, "tokens[");
  }
}

TEST(tokenizer_robust, texts_and_results_have_limits) {
  const Tokenizer tokenizer = made(byte_vocabulary({}));
  const std::string text(1000, '\n');
  EXPECT_TRUE(tokenizer.encode(text, {.max_bytes = 1000, .max_tokens = 1000}).has_value());
  EXPECT_EQ(tokenizer.encode(text, {.max_bytes = 999}).error().code, ErrorCode::limit);
  EXPECT_EQ(tokenizer.encode(text, {.max_tokens = 999}).error().code, ErrorCode::limit);
  EXPECT_EQ(tokenizer.encode(std::string((64u << 20) + 1, 'a')).error().code, ErrorCode::limit);
}

TEST(tokenizer_robust, long_runs_take_linear_time) {
  std::vector<std::string> texts = {
      std::string(43'000, 'A'),     std::string(131'072, 'Z'),    std::string(50'000, '\n'),
      std::string(200'000, ' '),    std::string(200'000, '7'),    std::string(200'000, '\''),
      std::string(200'000, '\x80'), std::string(200'000, '\xF0'),
  };
  std::string marks = "a", mixed, lines, words;
  for (int i = 0; i < 60'000; ++i) {
    marks += i % 2 == 0 ? "\u0301" : "\u0323";
    mixed += i % 2 == 0 ? "\u00C9" : "A";
    lines += " \n";
    words += "a ";
  }
  texts.insert(texts.end(),
               {marks, mixed, lines, words, lines + "x", std::string(99'999, ' ') + "x"});
  for (const char* pre : {"gpt-2", "llama-bpe", "qwen2", "qwen35", "deepseek-llm", "deepseek-coder",
                          "falcon", "default", "starcoder", "tekken", "gpt-4o"}) {
    const Tokenizer tokenizer = made(byte_vocabulary(
        {{"A", "A"}, {"AA", "AA"}, {"\n", "\n"}, {" ", " "}, {"  ", "  "}, {"Z", "Z"}}, pre));
    for (const std::string& text : texts) {
      EXPECT_LT(timed([&] { EXPECT_EQ(decoded(tokenizer, encoded(tokenizer, text)), text); }),
                seconds)
          << pre << " " << shown(text.substr(0, 20));
    }
  }
  const Tokenizer scores = made(tiny_scores());
  texts.push_back(std::string(1u << 20, 'a'));
  for (const std::string& text : texts) {
    EXPECT_LT(timed([&] { EXPECT_EQ(decoded(scores, encoded(scores, text)), text); }), seconds)
        << shown(text.substr(0, 20));
  }
  EXPECT_LT(timed([&] { unicode_form(UnicodeForm::nfc, marks); }), seconds);
}

TEST(tokenizer_robust, a_byte_without_token_makes_progress) {
  // Byte 0x57 ('W') has no token: the unknown token stands for it, or encode() fails.
  VocabularyData data = tiny_scores();
  data.tokens[3 + 0x57] = "<0x56>";
  EXPECT_EQ(encoded(made(data), "W"), (Ids{*made(data).find("\u2581"), 0}));
  data.ids.unknown = ~std::uint32_t{0};
  const auto ids = made(data).encode("aWa");
  ASSERT_FALSE(ids.has_value());
  EXPECT_EQ(ids.error().code, ErrorCode::not_found);

  // Byte-level vocabularies drop it.
  VocabularyData bytes = byte_vocabulary({});
  bytes.tokens['W'] = "[none]";
  EXPECT_EQ(decoded(made(bytes), encoded(made(bytes), "aWa")), "aa");
}

TEST(tokenizer_robust, merges_are_two_known_texts) {
  for (const char* merge :
       {"ab", "a b c", "", " ", "a ", " b", "  ", "a  b", "zq x", "x zq", "\u4E00 a"}) {
    VocabularyData data = byte_vocabulary({});
    data.merges = {"a b", merge};
    data.tokens.push_back("ab");
    expect_error(data, ErrorCode::parse, "merges");
  }
}

TEST(tokenizer_robust, duplicate_tokens_mean_the_first) {
  VocabularyData data = byte_vocabulary({{"a", "b"}});
  data.tokens.push_back("ab");
  data.tokens.push_back("a");
  const Tokenizer tokenizer = made(data);
  EXPECT_EQ(tokenizer.size(), 259u);
  EXPECT_EQ(encoded(tokenizer, "ab"), Ids{256});
  EXPECT_EQ(encoded(tokenizer, "a"), Ids{'a'});
  EXPECT_EQ(decoded(tokenizer, {257, 258}), "aba");
  VocabularyData scores = tiny_scores();
  scores.tokens.push_back("aa");
  scores.scores.push_back(5);
  scores.types.push_back(1);
  EXPECT_EQ(encoded(made(scores), "aa").back(), scores.tokens.size() - 2);
}

TEST(tokenizer_robust, lists_of_the_wrong_length_or_content) {
  VocabularyData data = tiny_scores();
  data.scores.pop_back();
  expect_error(data, ErrorCode::parse, "scores");
  data = tiny_scores();
  data.types.push_back(1);
  expect_error(data, ErrorCode::parse, "token_type");
  data = tiny_scores();
  data.types[5] = 7;
  expect_error(data, ErrorCode::parse, "token_type");
  data = tiny_scores();
  data.scores[5] = std::numeric_limits<float>::quiet_NaN();
  expect_error(data, ErrorCode::parse, "scores[5]");
  data = tiny_scores();
  data.ids.bos = static_cast<std::uint32_t>(data.tokens.size());
  expect_error(data, ErrorCode::parse, "bos_token_id");
  data = {};
  data.model = "gpt2";
  expect_error(data, ErrorCode::parse, "tokens");
  data = byte_vocabulary({}, "invented");
  expect_error(data, ErrorCode::unsupported, "tokenizer.ggml.pre");
}

TEST(tokenizer_robust, empty_tokens_get_a_name) {
  VocabularyData data = byte_vocabulary({});
  data.tokens.push_back("");
  EXPECT_EQ(*made(data).piece(256), "[EMPTY_256]");
}

TEST(tokenizer_robust, many_and_nested_special_tokens) {
  VocabularyData data = byte_vocabulary({});
  data.types.assign(data.tokens.size(), 1);
  for (std::size_t n = 2; n <= 600; ++n) {
    data.tokens.push_back(std::string(n, 'a'));
    data.types.push_back(4);
  }
  for (int i = 0; i < 20'000; ++i) {
    data.tokens.push_back("<special_" + std::to_string(i) + ">");
    data.types.push_back(3);
  }
  const Tokenizer tokenizer = made(data);
  const std::string text = std::string(100'001, 'a') + "<special_19999>" + std::string(599, 'a');
  EXPECT_LT(timed([&] {
              const Ids ids =
                  encoded(tokenizer, text, {.add_special = false, .parse_special = true});
              EXPECT_EQ(decoded(tokenizer, ids, {.special = true}), text);
              EXPECT_EQ(*tokenizer.piece(ids.back()), std::string(599, 'a'));
            }),
            seconds);
}

TEST(tokenizer_robust, mutated_vocabularies_never_crash) {
  std::mt19937_64 random(11);
  const std::vector<std::string> odd = {
      "", " ", "a", "<0x-1>", "\xFF\xFE", "\u2581", "<s>", std::string(300, 'a'), "a b", "\n"};
  for (int i = 0; i < 3000; ++i) {
    VocabularyData data =
        i % 2 == 0 ? tiny_scores() : byte_vocabulary({{"a", "b"}, {"ab", "c"}}, "llama-bpe");
    for (std::size_t n = 1 + random() % 4; n > 0; --n) {
      switch (random() % 7) {
        case 0:
          data.tokens[random() % data.tokens.size()] = odd[random() % odd.size()];
          break;
        case 1:
          if (!data.merges.empty())
            data.merges[random() % data.merges.size()] = odd[random() % odd.size()];
          break;
        case 2:
          data.types.resize(data.tokens.size(), 1);
          data.types[random() % data.types.size()] = static_cast<int>(random() % 9) - 1;
          break;
        case 3:
          if (!data.scores.empty())
            data.scores[random() % data.scores.size()] = static_cast<float>(random() % 5);
          break;
        case 4:
          data.ids.bos = static_cast<std::uint32_t>(random() % 400);
          break;
        case 5:
          data.tokens.pop_back();
          break;
        default:
          data.model = std::array{"gpt2", "llama", "gemma4"}[random() % 3];
      }
    }
    const auto tokenizer = Tokenizer::from_vocabulary(data);
    if (!tokenizer) {
      EXPECT_NE(tokenizer.error().message, "");
      continue;
    }
    const auto ids = tokenizer->encode(random_text(random, 20) + "abc a<s>");
    EXPECT_TRUE(!ids || tokenizer->decode(*ids).has_value());
  }
}

}  // namespace
}  // namespace onepass::test::tokenizer_robust_test
