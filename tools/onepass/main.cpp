#include <algorithm>
#include <iostream>
#include <sstream>

#include "commands/common.h"
#include "common/terminal.h"
#include "options/environment.h"
#include "options/habits.h"
#include "options/option_table.h"
#include "options/suggest.h"

namespace {

using namespace onepass;

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands(nullptr)) names.push_back(command->get_name());
  return names;
}

// The innermost command that was given.
const CLI::App& parsed_command(const CLI::App& app) {
  const CLI::App* command = &app;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().back();
  return *command;
}

// A model or a text where a command belongs.
std::string without_command(const std::string& word) {
  if (tool::looks_like_model(word)) {
    return "; did you mean 'onepass generate " + word + "' or 'onepass chat " + word + "'?";
  }
  return word.find(' ') == word.npos ? "" : "; did you mean 'onepass generate \"" + word + "\"'?";
}

std::string unknown_command(const CLI::App& app, const std::string& word) {
  std::string advice = tool::advice_for_command(word);
  if (advice.empty()) advice = without_command(word);
  if (!advice.empty()) return "unknown command '" + word + "'" + advice;
  const std::vector<std::string> names = command_names(app);
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  return "unknown command '" + word + "', expected one of " + list +
         tool::did_you_mean(word, names);
}

std::string unknown_option(const CLI::App& command, const std::string& word) {
  const std::string name = word.substr(0, word.find('='));
  if (const std::string advice = tool::advice_for_option(name); !advice.empty()) {
    return "unknown option '" + name + "'" + advice;
  }
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& n : option->get_lnames()) names.push_back("--" + n);
    for (const std::string& n : tool::aliases_of(command, *option)) names.push_back(n);
  }
  if (command.get_parent() == nullptr && tool::is_option_below(command, name)) {
    return "unknown option '" + name + "' without a command; did you mean 'onepass generate " +
           name + " ...' or 'onepass chat " + name + " ...'?";
  }
  const std::string where =
      command.get_parent() == nullptr ? "" : " of '" + command.get_name() + "'";
  // With one dash where two belong, too.
  const std::string asked = name.starts_with("--") ? name : "-" + name;
  return "unknown option '" + name + "'" + where + tool::did_you_mean(asked, names);
}

// What the parser's messages leave out: what was meant, and the value that was expected.
std::string explain(const CLI::App& app, const CLI::ParseError& error) {
  const std::string text = error.what();
  const CLI::App& command = parsed_command(app);
  const bool about_words = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr ||
                           dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
  // What is missing may be there, with a name that is not known.
  for (const std::string& word : about_words ? app.remaining(true) : std::vector<std::string>{}) {
    if (word.size() > 1 && word[0] == '-') return unknown_option(command, word);
    if (!command.get_subcommands(nullptr).empty()) return unknown_command(command, word);
    return "unexpected argument '" + word + "' of '" + command.get_name() + "'";
  }
  if (about_words && &command == &app) return "no command is given";
  if (dynamic_cast<const CLI::ConversionError*>(&error)) {
    for (const CLI::Option* option : command.get_options()) {
      if (text.find(" " + option->get_name() + " = ") == text.npos) continue;
      const std::string value = text.substr(text.rfind(" = ") + 3);
      const std::string from = tool::told_by_variable(*option);
      if (option->get_items_expected_max() == 0) {
        return text + from + ", expected 1, true, 0 or false";
      }
      const bool whole = option->get_type_name().starts_with("UINT");
      const bool digits = value.find_first_not_of("0123456789") == value.npos;
      if (whole && digits) return text + from + ", which is too large";
      return text + from + ", expected " +
             (whole ? "a whole number of 0 or more, as 4096 or 32k" : "a number");
    }
  }
  if (dynamic_cast<const CLI::ValidationError*>(&error)) {
    for (const CLI::Option* option : command.get_options()) {
      if (text.starts_with(option->get_name() + ": "))
        return text + tool::told_by_variable(*option);
    }
  }
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"onepass: transformer inference as one recorded pass"};
  app.set_version_flag("--version", version());
  app.require_subcommand(1);
  tool::Run run;
#define COMMAND(name, title)  \
  tool::add_##name(app, run); \
  app.get_subcommand(#name)->group(title);
#include "commands/commands.def"
#undef COMMAND
  // Behind the commands, which would inherit it.
  app.footer(
      "Data goes to stdout, everything else to stderr. Whole numbers may be written as 32k or "
      "1.5M.\n"
      "Examples:\n  onepass generate -p \"Once upon a time\"\n  onepass help generate\n"
      "  onepass help --search context");
  tool::complete_app(app);
  tool::keep_standard_streams();
  tool::catch_signals();
  std::vector<std::string> words(argv + 1, argv + std::max(argc, 1));
  try {
    words = tool::with_own_names(app, std::move(words));
    if (const auto wrong = tool::misread(app, words)) {
      std::cerr << "onepass: " << *wrong << "\nRun with --help for more information.\n";
      return tool::exit_usage;
    }
    tool::bind_environment(app, words);
    tool::warn_of_unknown_variables(app);
    std::reverse(words.begin(), words.end());  // as the parser wants them
    app.parse(std::move(words));
    return run();
  } catch (const CLI::Success& e) {
    std::ostringstream text;
    app.exit(e, text, std::cerr);
    return tool::exit_code(tool::put(text.str()));
  } catch (const CLI::ParseError& e) {
    std::cerr << "onepass: " << explain(app, e) << "\nRun with --help for more information.\n";
    return tool::exit_usage;
  } catch (const std::bad_alloc&) {
    return tool::report(make_error(ErrorCode::out_of_memory, "out of memory"));
  }
}
