// Small vocabularies, a slow merger that follows the definition, random texts, readers for test
// files. Nothing here needs a test framework.
#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/gguf.h"
#include "text/tokenizer/spec.h"
#include "text/tokenizer/tokenizer.h"
#include "text/tokenizer/unicode.h"
#include "text/tokenizer/vocabulary.h"

namespace onepass::test {

using Ids = std::vector<std::uint32_t>;

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in.good()) throw std::runtime_error("cannot read " + path.string());
  return {std::istreambuf_iterator<char>(in), {}};
}

// The part of a file, or none where the test data is not there.
inline std::optional<std::filesystem::path> test_data(const std::string& name) {
  const std::string folder = ONEPASS_TEST_DATA;
  if (folder.empty()) return std::nullopt;
  const auto path = std::filesystem::path(folder) / name;
  if (!std::filesystem::exists(path)) return std::nullopt;
  return path;
}

inline std::string shown(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, 200)) {
    if (c >= ' ' && c < 127) {
      out += c;
    } else {
      char hex[8];
      std::snprintf(hex, sizeof hex, "\\x%02X", static_cast<unsigned char>(c));
      out += hex;
    }
  }
  return out;
}

inline std::string hex_name(unsigned byte) {
  char name[8];
  std::snprintf(name, sizeof name, "<0x%02X>", byte);
  return name;
}

// All 256 bytes and the results of `merges` (raw bytes), in this order.
inline llm::VocabularyData byte_vocabulary(
    const std::vector<std::pair<std::string, std::string>>& merges, std::string pre = "gpt-2") {
  llm::VocabularyData data;
  data.model = "gpt2";
  data.pre = std::move(pre);
  std::set<std::string> known;
  const auto add = [&](const std::string& bytes) {
    if (known.insert(bytes).second) data.tokens.push_back(llm::text::to_alphabet(bytes));
  };
  for (unsigned b = 0; b < 256; ++b) add(std::string(1, static_cast<char>(b)));
  for (const auto& [left, right] : merges) {
    add(left + right);
    data.merges.push_back(llm::text::to_alphabet(left) + " " + llm::text::to_alphabet(right));
  }
  return data;
}

// <unk>, <s>, </s>, the 256 byte tokens, then the given tokens with scores.
inline llm::VocabularyData score_vocabulary(
    const std::vector<std::pair<std::string, float>>& tokens) {
  llm::VocabularyData data;
  data.model = "llama";
  const auto add = [&data](std::string text, float score, int type) {
    data.tokens.push_back(std::move(text));
    data.scores.push_back(score);
    data.types.push_back(type);
  };
  add("<unk>", 0, 2);
  add("<s>", 0, 3);
  add("</s>", 0, 3);
  for (unsigned b = 0; b < 256; ++b) add(hex_name(b), 0, 6);
  for (const auto& [text, score] : tokens) add(text, score, 1);
  return data;
}

// The most frequent pair of adjacent symbols becomes a merge, n times.
inline std::vector<std::pair<std::string, std::string>> trained_merges(std::string_view corpus,
                                                                       std::size_t n) {
  std::vector<std::string> symbols;
  for (const char c : corpus) symbols.emplace_back(1, c);
  std::vector<std::pair<std::string, std::string>> merges;
  while (merges.size() < n) {
    std::map<std::pair<std::string, std::string>, std::size_t> counts;
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) ++counts[{symbols[i], symbols[i + 1]}];
    auto best = counts.begin();
    for (auto it = counts.begin(); it != counts.end(); ++it) {
      if (it->second > best->second) best = it;
    }
    if (best == counts.end() || best->second < 2) break;
    merges.push_back(best->first);
    std::vector<std::string> next;
    for (std::size_t i = 0; i < symbols.size(); ++i) {
      if (i + 1 < symbols.size() && symbols[i] == best->first.first &&
          symbols[i + 1] == best->first.second) {
        next.push_back(symbols[i] + symbols[i + 1]);
        ++i;
      } else {
        next.push_back(symbols[i]);
      }
    }
    symbols = std::move(next);
  }
  return merges;
}

// Merges by the definition: lowest rank first, then leftmost. rank(left, right) is negative where
// the two do not merge.
template <class Rank>
std::vector<std::string> merged_by_definition(std::vector<std::string> symbols, Rank&& rank) {
  const std::size_t n = symbols.size();
  std::vector<std::size_t> next(n), previous(n);
  std::set<std::pair<double, std::size_t>> queue;
  std::vector<double> ranks(n, -1);
  const auto rate = [&](std::size_t i) {
    if (ranks[i] >= 0) queue.erase({ranks[i], i});
    ranks[i] = next[i] < n ? rank(symbols[i], symbols[next[i]]) : -1;
    if (ranks[i] >= 0) queue.insert({ranks[i], i});
  };
  for (std::size_t i = 0; i < n; ++i) {
    next[i] = i + 1;
    previous[i] = i - 1;
  }
  for (std::size_t i = 0; i < n; ++i) rate(i);
  while (!queue.empty()) {
    const std::size_t i = queue.begin()->second;
    const std::size_t gone = next[i];
    if (ranks[gone] >= 0) queue.erase({ranks[gone], gone});
    ranks[gone] = -1;
    symbols[i] += symbols[gone];
    next[i] = next[gone];
    if (next[i] < n) previous[next[i]] = i;
    rate(i);
    if (i > 0) rate(previous[i]);
  }
  std::vector<std::string> out;
  for (std::size_t i = 0; i < n; i = next[i]) out.push_back(symbols[i]);
  return out;
}

// Code points of many scripts and kinds, those with special rules more often.
inline std::string random_text(std::mt19937_64& random, std::size_t max_chars) {
  static constexpr std::array<std::array<std::uint32_t, 2>, 34> ranges = {{
      {' ', ' '},       {'a', 'z'},       {'a', 'f'},         {'A', 'Z'},         {'0', '9'},
      {'!', '/'},       {'\t', '\r'},     {'\n', '\n'},       {'\r', '\r'},       {'\'', '\''},
      {0x20, 0x7E},     {0xA0, 0xFF},     {0x17F, 0x17F},     {0x1C4, 0x1CC},     {0x2B0, 0x2B8},
      {0x300, 0x330},   {0x391, 0x3C9},   {0x410, 0x44F},     {0x5D0, 0x5EA},     {0x660, 0x669},
      {0x900, 0x94F},   {0xE01, 0xE4E},   {0x1680, 0x1680},   {0x180E, 0x180E},   {0x2000, 0x200F},
      {0x2010, 0x205F}, {0x2160, 0x2188}, {0x3000, 0x3002},   {0x3041, 0x3096},   {0x4E00, 0x4E40},
      {0xAC00, 0xAC20}, {0xFF01, 0xFF5E}, {0x10400, 0x1044F}, {0x1F600, 0x1F64F},
  }};
  std::string out;
  const std::size_t n = random() % (max_chars + 1);
  while (out.size() < n * 4) {
    const auto& [first, last] = ranges[random() % ranges.size()];
    std::size_t repeat = random() % 4 == 0 ? 1 + random() % 5 : 1;
    const auto c = static_cast<std::uint32_t>(first + random() % (last - first + 1));
    while (repeat-- > 0) llm::text::append_utf8(out, c);
    if (random() % (n + 1) == 0) break;
  }
  return out;
}

inline std::string any_code_points(std::mt19937_64& random, std::size_t max_chars) {
  std::string out;
  for (std::size_t n = random() % (max_chars + 1); n > 0; --n) {
    static constexpr std::uint32_t limits[] = {0x80, 0x800, 0x10000, 0x110000};
    std::uint32_t c = static_cast<std::uint32_t>(random() % limits[random() % 4]);
    if (c >= 0xD800 && c <= 0xDFFF) c = 0x20;
    llm::text::append_utf8(out, c);
  }
  return out;
}

// Throws where the vocabulary is not accepted.
inline llm::Tokenizer made(llm::VocabularyData data) {
  auto tokenizer = llm::Tokenizer::from_vocabulary(std::move(data));
  if (!tokenizer) throw std::runtime_error(tokenizer.error().to_string());
  return std::move(*tokenizer);
}

inline llm::Tokenizer from_gguf(const std::filesystem::path& path) {
  const std::string file = read_file(path);
  const auto gguf = io::Gguf::parse(std::as_bytes(std::span<const char>(file)));
  if (!gguf) throw std::runtime_error(gguf.error().to_string());
  auto data = llm::vocabulary_from_gguf(*gguf);
  if (!data) throw std::runtime_error(data.error().to_string());
  return made(std::move(*data));
}

}  // namespace onepass::test
