#include "habits.h"

#include <unistd.h>

#include <functional>

namespace onepass::tool {
namespace {

struct AliasRow {
  const char* spelling;
  const char* option;
};
struct AdviceRow {
  const char* spelling;
  const char* advice;
};

constexpr AliasRow alias_rows[] = {
#define ALIAS(spelling, option) {spelling, option},
#define HABIT(spelling, advice)
#define OTHER_COMMAND(word, advice)
#include "habits.def"
#undef ALIAS
#undef HABIT
#undef OTHER_COMMAND
};
constexpr AdviceRow option_rows[] = {
#define ALIAS(spelling, option)
#define HABIT(spelling, advice) {spelling, advice},
#define OTHER_COMMAND(word, advice)
#include "habits.def"
#undef ALIAS
#undef HABIT
#undef OTHER_COMMAND
};
constexpr AdviceRow command_rows[] = {
#define ALIAS(spelling, option)
#define HABIT(spelling, advice)
#define OTHER_COMMAND(word, advice) {word, advice},
#include "habits.def"
#undef ALIAS
#undef HABIT
#undef OTHER_COMMAND
};

std::string name_of(std::string_view word) { return std::string(word.substr(0, word.find('='))); }

// With one dash or two.
bool is_option(std::string_view word) {
  return word.size() > 1 && word[0] == '-' && word != "--" && (word[1] < '0' || word[1] > '9') &&
         word[1] != '.';
}

CLI::Option* find_option(const CLI::App& command, const std::string& name) {
  for (const CLI::Option* option : command.get_options()) {
    if (option->check_name(name)) return const_cast<CLI::Option*>(option);
  }
  return nullptr;
}

// Calls `each` with every word that is no value of an option before it, until there is "--".
void for_each_name(CLI::App& app, const std::vector<std::string>& words,
                   const std::function<void(std::size_t)>& each) {
  const CLI::App& command = asked_command(app, words);
  for (std::size_t i = 0; i < words.size() && words[i] != "--"; ++i) {
    each(i);
    const CLI::Option* option = is_option(words[i]) ? find_option(command, words[i]) : nullptr;
    if (option != nullptr && option->get_items_expected_min() > 0) {
      i += static_cast<std::size_t>(option->get_items_expected_min());
    }
  }
}

}  // namespace

CLI::App& asked_command(CLI::App& app, const std::vector<std::string>& words) {
  CLI::App* command = &app;
  for (const std::string& word : words) {
    for (CLI::App* next : command->get_subcommands(nullptr)) {
      if (next->get_name() != word) continue;
      command = next;
      break;
    }
  }
  return *command;
}

std::vector<std::string> with_own_names(CLI::App& app, std::vector<std::string> words) {
  const CLI::App& command = asked_command(app, words);
  const auto own_name = [&](std::string& word) {
    const std::string name = name_of(word);
    if (find_option(command, name) != nullptr) return;
    for (const AliasRow& row : alias_rows) {
      if (name != row.spelling || find_option(command, row.option) == nullptr) continue;
      word = row.option + word.substr(name.size());
      return;
    }
  };
  // An alias says that a value follows only once it has its own name.
  for (std::size_t i = 0; i < words.size() && words[i] != "--"; ++i) {
    if (!is_option(words[i])) continue;
    own_name(words[i]);
    const CLI::Option* option = find_option(command, words[i]);
    if (option != nullptr && option->get_items_expected_min() > 0) {
      i += static_cast<std::size_t>(option->get_items_expected_min());
    }
  }
  return words;
}

std::optional<std::string> misread(CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App& command = asked_command(app, words);
  std::optional<std::string> wrong;
  for_each_name(app, words, [&](std::size_t i) {
    const std::string& word = words[i];
    const std::string name = name_of(word);
    const CLI::Option* option = find_option(command, name);
    if (wrong) return;
    const bool is_model = option != nullptr && option->get_type_name() == "MODEL";
    if (is_model &&
        (word == name + "=" || (i + 1 < words.size() && word == name && words[i + 1].empty()))) {
      wrong = "the model given with " + name + " has an empty name; without " + name +
              " it is the one in the box";
    }
    if (option != nullptr || !is_option(word)) return;
    // Letters with one dash are short options in a row, and "-hf" would be help.
    const bool as_help = word.size() > 2 && word.starts_with("-h");
    if (const std::string advice = advice_for_option(name); !advice.empty()) {
      wrong = "unknown option '" + name + "'" + advice;
    } else if (as_help) {
      wrong = "unknown option '" + name + "'; did you mean '--help'?";
    }
  });
  return wrong;
}

std::string advice_for_option(std::string_view name) {
  for (const AdviceRow& row : option_rows) {
    if (name == row.spelling) return std::string("; ") + row.advice;
  }
  return {};
}

std::string advice_for_command(std::string_view word) {
  for (const AdviceRow& row : command_rows) {
    if (word == row.spelling) return std::string("; ") + row.advice;
  }
  return {};
}

std::vector<std::string> aliases_of(const CLI::App& command, const CLI::Option& option) {
  std::vector<std::string> found;
  for (const AliasRow& row : alias_rows) {
    if (option.check_name(row.option) && find_option(command, row.spelling) == nullptr) {
      found.emplace_back(row.spelling);
    }
  }
  return found;
}

bool is_option_below(const CLI::App& app, const std::string& name) {
  for (const CLI::App* command : app.get_subcommands(nullptr)) {
    if (find_option(*command, name) != nullptr) return true;
    for (const AliasRow& row : alias_rows) {
      if (name == row.spelling && find_option(*command, row.option) != nullptr) return true;
    }
  }
  return false;
}

bool looks_like_model(const std::string& word) {
  return word.ends_with(".gguf") || word.ends_with(".safetensors") ||
         word.starts_with("synthetic:") || (!word.empty() && ::access(word.c_str(), F_OK) == 0);
}

}  // namespace onepass::tool
