// Ends a text before the first of some texts in it, whatever pieces it comes in.
//
//   StopTexts stop({"\nUser:"});
//   write(stop.next("Hello.\nUs"));  // "Hello.": the rest may be the beginning of a stop text
//   if (stop.found()) return;
//   write(stop.finish());            // what was held back
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace onepass::llm {

class StopTexts {
 public:
  // None of them empty.
  explicit StopTexts(std::vector<std::string> texts) : texts_(std::move(texts)) {}

  // What of the text so far is no stop text and cannot become the beginning of one; after found()
  // nothing more. A text is found where it ends first, among equals where it begins first, so that
  // it does not depend on the pieces.
  std::string next(std::string_view piece);
  bool found() const noexcept { return found_; }
  // What was held back, when the text ended by itself.
  std::string finish();

 private:
  std::vector<std::string> texts_;
  std::string held_;
  bool found_ = false;
};

}  // namespace onepass::llm
