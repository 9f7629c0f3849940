#include "chat_args.h"

#include "commands/common.h"
#include "io/limits.h"
#include "io/safetensors_file.h"
#include "model/model_files.h"

namespace onepass::tool {

void ChatArgs::add_to(CLI::App& app, const std::string& show_prompt_help, CLI::Option* needed) {
  CLI::Option* options[] = {
      app.add_option("--system", system, "system message, what the model should be like"),
      app.add_option("--template", template_file,
                     "file with a chat template (Jinja) instead of the model's")
          ->type_name(file_value),
      app.add_option("--template-var", variables,
                     "NAME=VALUE for the template, e.g. enable_thinking=false; may be repeated")
          ->allow_extra_args(false),
      app.add_flag("--show-prompt", show_prompt, show_prompt_help)};
  for (CLI::Option* option : options) option->group("Chat");
  if (needed == nullptr) return;
  for (CLI::Option* option : options) option->needs(needed);
}

Result<llm::ChatTemplate> ChatArgs::open_template(const std::string& model) const {
  if (!template_file.empty()) {
    ONEPASS_ASSIGN(const std::string text, io::read_text(template_file, io::max_string_bytes));
    return llm::ChatTemplate::parse(text);
  }
  ONEPASS_ASSIGN(const std::unique_ptr<llm::ModelFiles> files, llm::ModelFiles::open(model));
  Result<std::string> text = files->chat_template();
  if (!text) {
    Error error = std::move(text).error();
    if (error.code == ErrorCode::not_found) {
      error.message +=
          "; it may be a model that only continues texts: try 'onepass generate', or give a "
          "template with --template FILE";
    }
    return error;
  }
  Result<llm::ChatTemplate> parsed = llm::ChatTemplate::parse(*text);
  if (parsed) return parsed;
  Error error = std::move(parsed).error();
  error.message += " (of " + model + "; --template FILE uses another)";
  return error;
}

void ChatArgs::apply_to(llm::ChatInput& input) const {
  if (!system.empty()) input.messages.push_back({"system", system});
  for (const std::string& variable : variables) {
    const std::size_t equals = variable.find('=');
    if (equals == variable.npos || equals == 0) {
      refuse("--template-var", "'" + variable + "', expected NAME=VALUE");
    }
    const std::string value = variable.substr(equals + 1);
    const auto json = llm::chat::Value::from_json(value);  // else it is a text
    input.variables.emplace_back(variable.substr(0, equals), json ? *json : value);
  }
}

}  // namespace onepass::tool
