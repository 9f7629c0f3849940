// A line of the terminal with editing, history and paste, by libedit.
//
//   LineEditor editor;
//   editor.remember(history.entries());
//   ONEPASS_ASSIGN(std::optional<std::string> line, editor.line("> "));  // nothing: Ctrl-D
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "onepass/result.h"

namespace onepass::tool {

// One per process: it takes stdin, writes to stderr and sets the locale and SIGWINCH.
class LineEditor {
 public:
  // Whether stdin and stderr are a terminal that lines can be edited on.
  static bool is_possible();

  explicit LineEditor(bool colour);
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  // What the arrow keys offer, the last one first.
  void remember(std::span<const std::string> entries);
  // UTF-8, without the end of the line; what was pasted or typed with Alt-Enter may have several
  // lines. Nothing after Ctrl-D; an error of code cancelled after Ctrl-C.
  Result<std::optional<std::string>> line(const std::string& prompt);

  struct State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace onepass::tool
