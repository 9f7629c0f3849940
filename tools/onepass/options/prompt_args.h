// Where a prompt comes from: -p, -f, words without an option, or a pipe.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "onepass/result.h"

namespace onepass::tool {

struct PromptArgs {
  std::string text;                // once take() was called, the prompt
  std::string file;                // -f
  std::vector<std::string> words;  // a model and a prompt, or one of them

  // Adds -p, -f and the words.
  void add_to(CLI::App& app);
  // Reads the prompt; without any, what a pipe on stdin has, unless `other` is one. Sets the model
  // where the words name it. The last line end of a file or a pipe is no part of the prompt.
  Status take(std::string& model, bool other);

 private:
  Status take_words(std::string& model);

  const CLI::App* app_ = nullptr;
};

// A model without an option before it: "onepass chat model.gguf". Refuses more than one word.
void take_model_word(const CLI::App& app, const std::vector<std::string>& words,
                     std::string& model);

}  // namespace onepass::tool
