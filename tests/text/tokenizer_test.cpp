// Encoding and decoding with small vocabularies made here.
#include "text/tokenizer/tokenizer.h"

#include <algorithm>

#include "tokenizer_support.h"

namespace onepass::test::tokenizer_test {
namespace {

using namespace llm::text;
using llm::Detokenizer;
using llm::Tokenizer;
using llm::VocabularyData;

constexpr std::string_view corpus =
    "once upon a time there was a little girl who liked to play in the park with the other "
    "children and the big dog. one day the dog ran to the lake and the girl ran after the dog. "
    "\"stop, little dog!\" she said. the children laughed and laughed until it was time for tea.";

using Pairs = std::vector<std::pair<std::string, std::string>>;

std::vector<std::string> bytes_of(std::string_view text) {
  std::vector<std::string> out;
  for (const char c : text) out.emplace_back(1, c);
  return out;
}

std::vector<std::string> chars_of(std::string_view text) {
  std::vector<std::string> out;
  for (const char* p = text.data(); p < text.data() + text.size();) {
    const auto n = decode(p, text.data() + text.size()).bytes;
    out.emplace_back(p, n);
    p += n;
  }
  return out;
}

std::vector<std::string> pieces(const Tokenizer& tokenizer, const Ids& ids) {
  std::vector<std::string> out;
  for (const std::uint32_t id : ids) out.emplace_back(*tokenizer.piece(id));
  return out;
}

// Merges of byte-level vocabularies whose pre-tokenizer keeps the text whole (one line).
Tokenizer one_word_tokenizer(const Pairs& merges) {
  Spec spec;
  const VocabularyData data = byte_vocabulary(merges);
  spec.kind = ModelKind::byte_pairs;
  spec.tokens = data.tokens;
  spec.types.assign(spec.tokens.size(), TokenType::normal);
  for (const auto& [a, b] : merges) spec.merges.emplace_back(to_alphabet(a), to_alphabet(b));
  auto tokenizer = Tokenizer::create(std::move(spec));
  if (!tokenizer) throw std::runtime_error(tokenizer.error().to_string());
  return *tokenizer;
}

std::vector<std::string> expected_pieces(const Pairs& merges, std::vector<std::string> symbols) {
  std::map<std::pair<std::string, std::string>, double> ranks;
  for (std::size_t i = 0; i < merges.size(); ++i) {
    ranks.emplace(merges[i], static_cast<double>(i));
  }
  return merged_by_definition(std::move(symbols), [&](const auto& a, const auto& b) {
    const auto found = ranks.find({a, b});
    return found == ranks.end() ? -1.0 : found->second;
  });
}

TEST(tokenizer, merges_follow_the_definition) {
  const Pairs merges = trained_merges(corpus, 150);
  const Tokenizer tokenizer = one_word_tokenizer(merges);
  std::mt19937_64 random(1);
  for (int i = 0; i < 400; ++i) {
    std::string text;
    const std::size_t n = random() % 200;
    while (text.size() < n) text += corpus.substr(random() % corpus.size(), random() % 12);
    EXPECT_EQ(pieces(tokenizer, encoded(tokenizer, text)), expected_pieces(merges, bytes_of(text)));
  }
}

// Random merges in random order: nothing of what training guarantees holds.
TEST(tokenizer, merges_follow_the_definition_in_any_order) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 60; ++round) {
    Pairs merges;
    std::vector<std::string> symbols{"a", "b", "c"};
    const std::size_t n_merges = 4 + random() % 30;
    for (std::size_t i = 0; i < n_merges; ++i) {
      const auto& a = symbols[random() % symbols.size()];
      const auto& b = symbols[random() % symbols.size()];
      if (a.size() + b.size() > 60) continue;
      merges.emplace_back(a, b);
      symbols.push_back(a + b);
    }
    std::shuffle(merges.begin(), merges.end(), random);
    const Tokenizer tokenizer = one_word_tokenizer(merges);
    for (const std::size_t n : {3u, 30u, 300u, 5000u, 20000u}) {
      std::string text;
      while (text.size() < n) text += "abc"[random() % (1 + random() % 3)];
      ASSERT_EQ(pieces(tokenizer, encoded(tokenizer, text)),
                expected_pieces(merges, bytes_of(text)));
    }
  }
}

// Every merge waits for the one to its right: far more context than a window has.
TEST(tokenizer, long_chains_of_dependent_merges) {
  Spec spec;
  spec.kind = ModelKind::char_pairs;
  std::vector<std::string> chain;
  for (std::uint32_t c = 0x4E00; c < 0x4E00 + 3001; ++c) append_utf8(chain.emplace_back(), c);
  for (std::size_t i = chain.size() - 1; i > 0; --i) {
    spec.merges.emplace_back(chain[i - 1], chain[i]);
  }
  spec.tokens = chain;
  for (const auto& [a, b] : spec.merges) spec.tokens.push_back(a + b);
  spec.types.assign(spec.tokens.size(), TokenType::normal);
  const Pairs merges = spec.merges;
  auto tokenizer = Tokenizer::create(std::move(spec));
  ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().to_string();
  std::string text;
  for (int i = 0; i < 5; ++i) {
    for (const auto& c : chain) text += c;
  }
  const auto got = pieces(*tokenizer, encoded(*tokenizer, text));
  EXPECT_EQ(got, expected_pieces(merges, chars_of(text)));
  EXPECT_EQ(got.front(), chain[0]);  // 3,001 symbols: the pairs end at the last one
}

TEST(tokenizer, score_merges_follow_the_definition) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 40; ++round) {
    std::vector<std::pair<std::string, float>> tokens;
    std::vector<std::string> symbols{"a", "b", "\u00E9", std::string(space_mark)};
    for (std::size_t i = 0, n = 4 + random() % 40; i < n; ++i) {
      const auto& a = symbols[random() % symbols.size()];
      const auto& b = symbols[random() % symbols.size()];
      if (a.size() + b.size() > 60) continue;
      if (std::find(symbols.begin(), symbols.end(), a + b) == symbols.end()) {
        symbols.push_back(a + b);
      }
    }
    std::map<std::string, float> scores;
    for (const auto& s : symbols) {
      scores[s] = -static_cast<float>(random() % 12);  // many ties
      if (s != "b") tokens.emplace_back(s, scores[s]);
    }
    VocabularyData data = score_vocabulary(tokens);
    data.add_space_prefix = false;
    const Tokenizer tokenizer = made(std::move(data));
    const auto rank = [&](const std::string& a, const std::string& b) {
      const auto found = scores.find(a + b);
      return found == scores.end() || a + b == "b" ? -1.0 : -static_cast<double>(found->second);
    };
    for (const std::size_t n : {5u, 50u, 500u, 9000u}) {
      std::string text;
      while (text.size() < n) text += std::array{"a", "b", "\u00E9", " "}[random() % 4];
      const auto expected =
          merged_by_definition(chars_of(replace_all(text, " ", space_mark)), rank);
      std::vector<std::string> spaced;
      for (const auto& piece : expected) spaced.push_back(replace_all(piece, space_mark, " "));
      ASSERT_EQ(pieces(tokenizer, encoded(tokenizer, text)), spaced);
    }
  }
}

VocabularyData small_scores() {
  return score_vocabulary(
      {{"\u2581", -1}, {"H", -1}, {"i", -1}, {"Hi", -2}, {"\u2581Hi", -3}, {"\u2581\u2581", -4}});
}

TEST(tokenizer, scores_with_prefix_spaces_and_bytes) {
  const Tokenizer tokenizer = made(small_scores());
  const auto id = [&](std::string_view text) { return *tokenizer.find(text); };
  EXPECT_EQ(encoded(tokenizer, "Hi"), Ids{id("\u2581Hi")});
  EXPECT_EQ(encoded(tokenizer, " Hi"), (Ids{id("\u2581"), id("\u2581Hi")}));
  EXPECT_EQ(encoded(tokenizer, ""), Ids{});
  EXPECT_EQ(encoded(tokenizer, "Hi", {.add_special = true}), (Ids{1, id("\u2581Hi")}));
  EXPECT_EQ(encoded(tokenizer, "\u00E9"), (Ids{id("\u2581"), id("<0xC3>"), id("<0xA9>")}));
  EXPECT_EQ(encoded(tokenizer, "\xFF"), (Ids{id("\u2581"), id("<0xFF>")}));
  // A fragment after a special token gets its own space.
  EXPECT_EQ(encoded(tokenizer, "Hi</s>Hi", {.add_special = false, .parse_special = true}),
            (Ids{id("\u2581Hi"), 2, id("\u2581Hi")}));
  EXPECT_EQ(decoded(tokenizer, encoded(tokenizer, "</s>")), "</s>");
  EXPECT_EQ(decoded(tokenizer, {1, id("\u2581Hi"), id("\u2581Hi"), 2}), "Hi Hi");
  EXPECT_EQ(decoded(tokenizer, {1, id("\u2581Hi")}, {.special = true}), "<s> Hi");
  EXPECT_EQ(decoded(tokenizer, {id("\u2581Hi")}, {.at_start = false}), " Hi");

  VocabularyData bare = small_scores();
  bare.add_space_prefix = false;
  bare.add_eos = true;
  const Tokenizer without = made(bare);
  EXPECT_EQ(encoded(without, "Hi", {.add_special = true}), (Ids{1, id("Hi"), 2}));
}

TEST(tokenizer, byte_level_round_trips_any_bytes) {
  for (const char* pre :
       {"gpt-2", "llama-bpe", "qwen35", "tekken", "deepseek-llm", "falcon", "default", "smollm"}) {
    const Tokenizer tokenizer = made(byte_vocabulary(trained_merges(corpus, 100), pre));
    std::mt19937_64 random(4);
    for (int i = 0; i < 10'000; ++i) {
      std::string text;
      if (i % 3 == 0) {
        for (std::size_t n = random() % 40; n > 0; --n) text += static_cast<char>(random());
      } else {
        text = i % 3 == 1 ? random_text(random, 20) : any_code_points(random, 20);
      }
      ASSERT_EQ(decoded(tokenizer, encoded(tokenizer, text)), text) << pre << shown(text);
    }
  }
}

TEST(tokenizer, long_texts_use_the_word_cache_without_a_difference) {
  const Tokenizer tokenizer = made(byte_vocabulary(trained_merges(corpus, 100)));
  std::mt19937_64 random(5);
  std::string text;
  Ids parts;
  while (text.size() < 300'000) {
    // A letter before the space: the pieces of the whole text are those of its parts.
    const std::string part = " " + any_code_points(random, 3) + std::to_string(random() % 9000) +
                             std::string(corpus.substr(0, random() % corpus.size())) + "x";
    const Ids ids = encoded(tokenizer, part);
    parts.insert(parts.end(), ids.begin(), ids.end());
    text += part;
  }
  EXPECT_EQ(encoded(tokenizer, text), parts);
}

TEST(tokenizer, whole_words_skip_merges_only_where_asked) {
  // "abc" is a token that the merges cannot reach.
  VocabularyData data = byte_vocabulary({{"a", "b"}}, "llama-bpe");
  data.tokens.push_back("abc");
  data.add_bos = false;
  const auto abc = static_cast<std::uint32_t>(data.tokens.size() - 1);
  EXPECT_EQ(encoded(made(data), "abc"), Ids{abc});
  data.pre = "qwen2";
  EXPECT_EQ(encoded(made(data), "abc").size(), 2u);
}

TEST(tokenizer, merge_results_outside_the_vocabulary_fall_apart) {
  VocabularyData data = byte_vocabulary({{"a", "b"}, {"ab", "c"}});
  std::erase(data.tokens, "ab");
  const Tokenizer tokenizer = made(data);
  EXPECT_EQ(pieces(tokenizer, encoded(tokenizer, "abc")), (std::vector<std::string>{"abc"}));
  EXPECT_EQ(pieces(tokenizer, encoded(tokenizer, "abd")),
            (std::vector<std::string>{"a", "b", "d"}));
}

VocabularyData with_specials(std::vector<std::pair<std::string, int>> specials) {
  VocabularyData data = byte_vocabulary({});
  data.types.assign(data.tokens.size(), 1);
  for (auto& [text, type] : specials) {
    data.tokens.push_back(text);
    data.types.push_back(type);
  }
  return data;
}

TEST(tokenizer, special_tokens_by_type_and_length) {
  const Tokenizer tokenizer = made(with_specials(
      {{"<a>", 3}, {"<a><b>", 3}, {"<u>", 4}, {"xyz", 4}, {"yzwv", 4}, {"<unk>", 2}}));
  const auto id = [&](std::string_view text) { return *tokenizer.find(text); };
  const llm::EncodeOptions parse{.add_special = false, .parse_special = true};
  EXPECT_EQ(encoded(tokenizer, "<a><b><a>", parse), (Ids{id("<a><b>"), id("<a>")}));
  EXPECT_EQ(encoded(tokenizer, "<a>").size(), 3u);
  EXPECT_EQ(encoded(tokenizer, "<unk>", parse), Ids{id("<unk>")});
  EXPECT_EQ(encoded(tokenizer, "<unk>").size(), 5u);
  EXPECT_EQ(encoded(tokenizer, "<u>"), Ids{id("<u>")});
  // The longest wins although it starts later.
  EXPECT_EQ(encoded(tokenizer, "xyzwv"), (Ids{id("x"), id("yzwv")}));
  EXPECT_EQ(encoded(tokenizer, "xyzw"), (Ids{id("xyz"), id("w")}));
  EXPECT_EQ(decoded(tokenizer, {id("<a>"), id("<u>")}), "<u>");
  EXPECT_EQ(decoded(tokenizer, {id("<a>"), id("<u>")}, {.special = true}), "<a><u>");
}

// Longest first, leftmost first, again and again: the slow way.
TEST(tokenizer, overlapping_special_tokens_follow_the_definition) {
  std::mt19937_64 random(6);
  for (int round = 0; round < 200; ++round) {
    std::set<std::string> names;
    for (std::size_t n = 1 + random() % 8; n > 0; --n) {
      std::string name;
      for (std::size_t k = 1 + random() % 6; k > 0; --k) name += "ab"[random() % 2];
      names.insert(name);
    }
    std::vector<std::pair<std::string, int>> list;
    for (const auto& name : names) {
      if (name.size() > 1) list.emplace_back(name, 4);
    }
    const Tokenizer tokenizer = made(with_specials(list));
    std::string text;
    for (std::size_t n = random() % 60; n > 0; --n) text += "aab"[random() % 3];

    std::vector<std::string> expected(text.size());
    std::vector<bool> taken(text.size());
    for (std::size_t length = 6; length > 1; --length) {
      for (std::size_t i = 0; i + length <= text.size(); ++i) {
        const bool is_free = std::none_of(taken.begin() + static_cast<std::ptrdiff_t>(i),
                                          taken.begin() + static_cast<std::ptrdiff_t>(i + length),
                                          [](bool t) { return t; });
        if (!is_free || !names.contains(text.substr(i, length))) continue;
        expected[i] = text.substr(i, length);
        std::fill_n(taken.begin() + static_cast<std::ptrdiff_t>(i), length, true);
      }
    }
    std::vector<std::string> want;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (!expected[i].empty())
        want.push_back(expected[i]);
      else if (!taken[i])
        want.push_back(text.substr(i, 1));
    }
    ASSERT_EQ(pieces(tokenizer, encoded(tokenizer, text)), want) << text;
  }
}

TEST(tokenizer, phi_3_specials_take_white_space_along) {
  VocabularyData data = with_specials({{"<|end|>", 3}, {"<s>", 3}});
  data.model_name = "Phi-3-mini";
  const Tokenizer tokenizer = made(data);
  const llm::EncodeOptions parse{.add_special = false, .parse_special = true};
  EXPECT_EQ(encoded(tokenizer, "<|end|> \n a", parse),
            (Ids{*tokenizer.find("<|end|>"), *tokenizer.find("a")}));
  EXPECT_EQ(encoded(tokenizer, "<s> ", parse).size(), 2u);
}

TEST(tokenizer, gemma4_keeps_lines_and_characters) {
  VocabularyData data;
  data.model = "gemma4";
  data.tokens = {"<pad>", "<eos>", "<bos>", "\n", "\n\n\n", "\u2581", "a", "\u2581a", "\u00E9"};
  data.types = {3, 3, 3, 1, 1, 1, 1, 1, 1};
  for (unsigned b = 0; b < 256; ++b) {
    data.tokens.push_back(hex_name(b));
    data.types.push_back(6);
  }
  data.merges = {"\u2581 a"};
  data.ids.bos = 2;
  const Tokenizer tokenizer = made(data);
  EXPECT_EQ(encoded(tokenizer, "a a\n\n\n\u00E9", {.add_special = true}), (Ids{2, 6, 7, 4, 8}));
  EXPECT_EQ(encoded(tokenizer, "\n\n"), (Ids{3, 3}));
  EXPECT_EQ(encoded(tokenizer, "b"), Ids{9 + 'b'});
  const std::string text = "a  a\n b\xF0\x9F\x98\x80\xFF a";
  EXPECT_EQ(decoded(tokenizer, encoded(tokenizer, text)), text);
}

TEST(tokenizer, defaults_of_missing_keys) {
  const Tokenizer scores = made(small_scores());
  EXPECT_EQ(scores.special_ids().bos, 1u);
  EXPECT_EQ(scores.special_ids().eos, 2u);
  EXPECT_EQ(scores.special_ids().unknown, 0u);
  EXPECT_FALSE(scores.cleans_up_spaces());
  VocabularyData data = byte_vocabulary({}, "llama-bpe");
  const Tokenizer llama3 = made(data);
  EXPECT_EQ(llama3.special_ids().bos, 11u);
  EXPECT_EQ(encoded(llama3, "a", {.add_special = true}).front(), 11u);
  data.pre = "gpt-2";
  data.ids.padding = ~std::uint32_t{0};
  const Tokenizer gpt2 = made(data);
  EXPECT_EQ(encoded(gpt2, "a", {.add_special = true}).size(), 1u);
  EXPECT_TRUE(gpt2.cleans_up_spaces());
  EXPECT_EQ(gpt2.special_ids().padding, std::nullopt);
  EXPECT_TRUE(gpt2.ends_reply(11));
  EXPECT_FALSE(gpt2.ends_reply(12));
}

TEST(tokenizer, clean_up_takes_spaces_before_punctuation) {
  const Tokenizer tokenizer = made(byte_vocabulary({}));
  const Ids ids = encoded(tokenizer, "Hello , world ! I 'm it 's . do n't");
  EXPECT_EQ(decoded(tokenizer, ids, {.clean_up_spaces = true}), "Hello, world! I'm it's. don't");
}

TEST(tokenizer, ids_outside_the_vocabulary_are_errors) {
  const Tokenizer tokenizer = made(byte_vocabulary({}));
  const Ids ids{65, 256};
  EXPECT_EQ(tokenizer.decode(ids).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(tokenizer.piece(256).error().code, ErrorCode::invalid_argument);
  Detokenizer stream(tokenizer);
  EXPECT_EQ(stream.next(~std::uint32_t{0}).error().code, ErrorCode::invalid_argument);
}

TEST(detokenizer, streams_what_decode_gives) {
  const Tokenizer tokenizer = made(byte_vocabulary({}));
  std::mt19937_64 random(10);
  for (int i = 0; i < 3000; ++i) {
    const std::string text = any_code_points(random, 12);
    Detokenizer stream(tokenizer);
    std::string all;
    for (const std::uint32_t id : encoded(tokenizer, text)) {
      const auto part = stream.next(id);
      ASSERT_TRUE(part.has_value());
      ASSERT_TRUE(is_valid_utf8(*part));
      all += *part;
    }
    EXPECT_EQ(all + stream.finish(), text);
  }
}

TEST(detokenizer, replaces_each_broken_part_once) {
  const Tokenizer tokenizer = made(byte_vocabulary({}));
  const auto streamed = [&](std::string_view bytes) {
    Detokenizer stream(tokenizer);
    std::string all;
    for (const char c : bytes) {
      // Token ids of the vocabulary are the bytes.
      const auto part = stream.next(static_cast<unsigned char>(c));
      EXPECT_TRUE(part.has_value() && is_valid_utf8(*part));
      all += *part;
    }
    return all + stream.finish();
  };
  const std::string r = "\uFFFD";
  EXPECT_EQ(streamed("a\xFF"
                     "b"),
            "a" + r + "b");
  EXPECT_EQ(streamed("\xF0\x9F\x98"), r);
  EXPECT_EQ(streamed("\xF0\x9F\x98x"), r + "x");
  EXPECT_EQ(streamed("\xE2\x82\xE2\x82\xAC"), r + "\u20AC");
  EXPECT_EQ(streamed("\xED\xA0\x80"), r + r + r);
  EXPECT_EQ(streamed("\xC0\x80"), r + r);
  EXPECT_EQ(streamed("\x80"), r);
}

TEST(detokenizer, drops_one_space_at_the_start_only) {
  const Tokenizer tokenizer = made(small_scores());
  const std::uint32_t hi = *tokenizer.find("\u2581Hi");
  Detokenizer stream(tokenizer);
  EXPECT_EQ(*stream.next(1), "");
  EXPECT_EQ(*stream.next(hi), "Hi");
  EXPECT_EQ(*stream.next(hi), " Hi");
  stream.finish();
  EXPECT_EQ(*stream.next(hi), "Hi");
  Detokenizer rest(tokenizer, {.at_start = false});
  EXPECT_EQ(*rest.next(hi), " Hi");
}

}  // namespace
}  // namespace onepass::test::tokenizer_test
