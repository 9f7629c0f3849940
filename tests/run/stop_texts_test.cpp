// Where texts end, in pieces of any size.
#include "run/stop_texts.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>

#include "run/generate.h"

namespace onepass::test::stop_texts_test {
namespace {

using llm::StopTexts;

// The text up to the stop text that ends first, found in another way.
std::string expected(const std::string& text, const std::vector<std::string>& stops) {
  for (std::size_t end = 1; end <= text.size(); ++end) {
    std::size_t begin = text.npos;
    for (const std::string& stop : stops) {
      if (end >= stop.size() && text.compare(end - stop.size(), stop.size(), stop) == 0) {
        begin = std::min(begin, end - stop.size());
      }
    }
    if (begin != text.npos) return text.substr(0, begin);
  }
  return text;
}

TEST(StopTexts, AreFoundInPiecesOfAnySize) {
  std::mt19937 random(1);
  const auto word = [&](std::size_t most) {
    std::string text;
    for (std::size_t n = 1 + random() % most; n > 0; --n) {
      text += static_cast<char>('a' + random() % 2);
    }
    return text;
  };
  int found = 0;
  for (int i = 0; i < 20000; ++i) {
    std::vector<std::string> stops;
    for (std::size_t n = 1 + random() % 3; n > 0; --n) stops.push_back(word(6));
    const std::string text = word(30), wanted = expected(text, stops);
    StopTexts stop(stops);
    std::string out;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t n = 1 + random() % 4;
      out += stop.next(std::string_view(text).substr(at, n));
      at += n;
      ASSERT_TRUE(wanted.starts_with(out)) << text << " gave " << out;  // nothing leaks
      // Nothing is held back that cannot be the beginning of a stop text.
      const std::size_t seen = std::min(at, text.size()) - out.size();
      std::size_t longest = 0;
      for (const std::string& s : stops) longest = std::max(longest, s.size() - 1);
      if (!stop.found()) {
        ASSERT_LE(seen, longest);
      }
    }
    found += stop.found();
    ASSERT_EQ(stop.found(), wanted != text);
    out += stop.finish();
    ASSERT_EQ(out, wanted) << text;
  }
  EXPECT_GT(found, 5000);
}

TEST(StopTexts, NoneHoldNothingBack) {
  StopTexts stop({});
  EXPECT_EQ(stop.next("text"), "text");
  EXPECT_FALSE(stop.found());
  EXPECT_EQ(stop.finish(), "");
}

class GeneratorStopTest : public testing::Test {
 protected:
  struct Run {
    std::string text;
    llm::GenerateReport report;
  };
  static Result<Run> run(std::vector<std::string> stops, std::uint32_t ahead = 1) {
    ONEPASS_ASSIGN(const Device device, Device::open("cpu"));
    ONEPASS_ASSIGN(llm::TextModel model, llm::open_text_model(device, ONEPASS_SOURCE_DIR
                                                              "/models/stories-12m-q8_0.gguf"));
    ONEPASS_ASSIGN(llm::Generator g, llm::Generator::create(std::move(model)));
    Run result;
    ONEPASS_ASSIGN(result.report, g.run("Once upon a time",
                                        {.max_tokens = 60, .ahead = ahead, .stop_texts = stops},
                                        [&](const llm::Piece& piece) -> Status {
                                          result.text += piece.text;
                                          return {};
                                        }));
    // The cache holds what the report tells, whatever was queued behind it.
    EXPECT_LE(g.decoder().length(), result.report.prompt_tokens + result.report.tokens.size());
    return result;
  }
};

TEST_F(GeneratorStopTest, EndsBeforeTheText) {
  const Run whole = run({}).value();
  ASSERT_GT(whole.text.size(), 60u);
  // Every part of the text, over the ends of tokens.
  for (std::size_t at = 1; at + 7 < 60; at += 5) {
    const std::string stop = whole.text.substr(at, 7);
    for (const std::uint32_t ahead : {1u, 8u}) {
      const Run cut = run({"never said", stop}, ahead).value();
      EXPECT_EQ(cut.text, whole.text.substr(0, whole.text.find(stop)));
      EXPECT_EQ(cut.report.stop, llm::StopReason::stop_text);
      EXPECT_STREQ(llm::name(cut.report.stop), "stop_text");
    }
  }
  const Run never = run({"never said", "ZZZ"}).value();
  EXPECT_EQ(never.text, whole.text);
  EXPECT_EQ(never.report.stop, whole.report.stop);
}

TEST_F(GeneratorStopTest, RefusesAnEmptyText) {
  const auto refused = run({"x", ""});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace onepass::test::stop_texts_test
