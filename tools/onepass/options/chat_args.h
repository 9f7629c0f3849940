// The options of conversations.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "text/template/chat_template.h"

namespace onepass::tool {

struct ChatArgs {
  std::string template_file;
  std::string system;
  std::vector<std::string> variables;  // NAME=VALUE
  bool show_prompt = false;

  // All of them; they need the other option where there is one.
  void add_to(CLI::App& app, const std::string& show_prompt_help, CLI::Option* needed = nullptr);
  // The template of the file, or of the model.
  Result<llm::ChatTemplate> open_template(const std::string& model) const;
  // The system message and the variables; refuses a variable without a name.
  void apply_to(llm::ChatInput& input) const;
};

}  // namespace onepass::tool
