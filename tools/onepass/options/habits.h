// What users of other programs type: spellings that work, and advice for those that do not.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace onepass::tool {

// The command that the words ask for; the app itself where they name none.
CLI::App& asked_command(CLI::App& app, const std::vector<std::string>& words);

// The words with the option's own name for each alias. Values of options stay as they are.
std::vector<std::string> with_own_names(CLI::App& app, std::vector<std::string> words);

// What is wrong with the words that the parser would not see or would misread: an option of another
// program, "-hf" that is not help, an empty name of a model.
std::optional<std::string> misread(CLI::App& app, const std::vector<std::string>& words);

// "; nothing is downloaded: ..." for an option or a command that other programs have; else empty.
std::string advice_for_option(std::string_view name);
std::string advice_for_command(std::string_view word);

// Other spellings that work in a command which has the option and not the spelling.
std::vector<std::string> aliases_of(const CLI::App& command, const CLI::Option& option);

// Whether a command below the app has an option of this name or alias.
bool is_option_below(const CLI::App& app, const std::string& name);

// A word that stands for a model where there may be a prompt as well: a file or folder that is
// there, or a name that ends like a model's.
bool looks_like_model(const std::string& word);

}  // namespace onepass::tool
