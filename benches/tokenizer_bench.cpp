// tokenizer_bench [MIB]: encode speed on natural and on hostile text, and how it grows from half
// of MIB (default 64) to all of it. Exit status 1 where a row is slower than 5 MB/s or takes more
// than 2.3 times as long for twice the text. Vocabularies come from ONEPASS_TEST_DATA; without it
// one is trained from a few sentences.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>

#include "support/tokenizer_vocabularies.h"

namespace onepass::test {
namespace {

using llm::Tokenizer;

constexpr double min_mb_per_s = 5.0;
constexpr double max_growth = 2.3;

constexpr std::string_view sentences =
    "Once upon a time there was a little girl who liked to play in the park with the other "
    "children, and she had a big dog. One day the dog ran to the lake! \"Stop,\" said the girl. ";

std::string repeated(std::string_view text, std::size_t bytes) {
  std::string out;
  out.reserve(bytes + text.size());
  while (out.size() < bytes) out += text;
  out.resize(bytes);
  return out;
}

struct Text {
  std::string name;
  std::function<std::string(std::size_t)> make;
};

std::vector<Text> texts() {
  std::string natural(sentences);
  if (const auto path = test_data("text/wikitext-2-raw.test.txt")) natural = read_file(*path);
  const auto random_of = [](std::function<std::string(std::mt19937_64&)> part) {
    return [part](std::size_t bytes) {
      std::mt19937_64 random(1);
      std::string out;
      while (out.size() < bytes) out += part(random);
      out.resize(bytes);
      return out;
    };
  };
  return {
      {"natural", [natural](std::size_t n) { return repeated(natural, n); }},
      {"one letter", [](std::size_t n) { return std::string(n, 'Z'); }},
      {"blank lines", [](std::size_t n) { return std::string(n, '\n'); }},
      {"spaces, letter", [](std::size_t n) { return std::string(n - 1, ' ') + "x"; }},
      {"apostrophes", [](std::size_t n) { return std::string(n, '\''); }},
      {"letters",
       random_of([](auto& r) { return std::string(1, static_cast<char>('a' + r() % 26)); })},
      {"bytes", random_of([](auto& r) { return std::string(1, static_cast<char>(r())); })},
      {"scripts", random_of([](auto& r) { return random_text(r, 200); })},
      {"marks", [](std::size_t n) { return repeated("\u0301\u0323", n); }},
      {"ideographs", random_of([](auto& r) {
         std::string c;
         llm::text::append_utf8(c, 0x4E00 + static_cast<std::uint32_t>(r() % 0x5000));
         return c;
       })},
  };
}

std::vector<std::pair<std::string, Tokenizer>> tokenizers() {
  std::vector<std::pair<std::string, Tokenizer>> list;
  for (const char* name : {"gpt-2", "llama-bpe", "deepseek-coder", "llama-spm"}) {
    if (const auto path = test_data(std::string("vocab/ggml-vocab-") + name + ".gguf")) {
      list.emplace_back(name, from_gguf(*path));
    }
  }
  if (const auto path = test_data("tokenizers/qwen3/tokenizer.json")) {
    if (auto tokenizer = Tokenizer::from_json(read_file(*path))) {
      list.emplace_back("qwen3 (NFC)", std::move(*tokenizer));
    }
  }
  if (list.empty()) {
    list.emplace_back("trained here", made(byte_vocabulary(trained_merges(sentences, 120))));
  }
  return list;
}

double seconds_for(const Tokenizer& tokenizer, std::string_view text, std::size_t& n_tokens) {
  const auto start = std::chrono::steady_clock::now();
  const auto ids = tokenizer.encode(text, {.add_special = false});
  const auto stop = std::chrono::steady_clock::now();
  if (!ids) {
    std::printf("%s\n", ids.error().to_string().c_str());
    std::exit(1);
  }
  n_tokens = ids->size();
  return std::chrono::duration<double>(stop - start).count();
}

int run(std::size_t bytes) {
  int slow = 0;
  std::printf("%-15s %-15s %10s %8s %8s %12s\n", "vocabulary", "text", "s", "MB/s", "growth",
              "tokens");
  const auto kinds = texts();
  for (const auto& [name, tokenizer] : tokenizers()) {
    for (const Text& kind : kinds) {
      const std::string text = kind.make(bytes);
      std::size_t n_tokens = 0;
      const double half =
          seconds_for(tokenizer, std::string_view(text).substr(0, bytes / 2), n_tokens);
      const double all = seconds_for(tokenizer, text, n_tokens);
      const double speed = static_cast<double>(bytes) / 1e6 / all;
      const bool is_slow = speed < min_mb_per_s || all / half > max_growth;
      slow += is_slow;
      std::printf("%-15s %-15s %10.3f %8.1f %8.2f %12zu%s\n", name.c_str(), kind.name.c_str(), all,
                  speed, all / half, n_tokens, is_slow ? "  SLOW" : "");
      std::fflush(stdout);
    }
  }
  return slow == 0 ? 0 : 1;
}

}  // namespace
}  // namespace onepass::test

int main(int argc, char** argv) {
  const unsigned long mib = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 64;
  return onepass::test::run((mib < 1 ? 1 : mib) << 20);
}
