// Breaks a text between words while it comes.
//
//   WordWrap wrap(80);
//   put(wrap.next("Once upon"));  // "Once ": the word may not be complete
//   put(wrap.finish());           // "upon"
#pragma once

#include <string>
#include <string_view>

namespace onepass::tool {

class WordWrap {
 public:
  // 0 columns: the text stays as it is.
  explicit WordWrap(std::size_t columns) : columns_(columns) {}
  std::string next(std::string_view piece);
  std::string finish();

 private:
  void put_word(std::string& out);

  const std::size_t columns_;
  std::size_t column_ = 0;  // of the line on the terminal
  std::string space_;       // in front of the word
  std::string word_;
  std::size_t word_columns_ = 0;
};

}  // namespace onepass::tool
