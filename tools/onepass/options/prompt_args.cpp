#include "prompt_args.h"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "commands/common.h"
#include "common/terminal.h"
#include "io/safetensors_file.h"
#include "options/environment.h"
#include "options/habits.h"

namespace onepass::tool {
namespace {

// Given with the option, and not by its variable.
bool is_given(const CLI::App& app, const std::string& name) {
  const CLI::Option* option = app.get_option(name);
  return option->count() > 0 && told_by_variable(*option).empty();
}

// Somebody may have put a text there: no terminal, and not /dev/null.
bool stdin_has_source() {
  struct stat info = {};
  if (::fstat(STDIN_FILENO, &info) != 0) return false;
  return S_ISFIFO(info.st_mode) || S_ISREG(info.st_mode) || S_ISSOCK(info.st_mode);
}

bool pipe_has_data() {
  struct stat info = {};
  if (::fstat(STDIN_FILENO, &info) != 0 || !S_ISFIFO(info.st_mode)) return false;
  pollfd in = {STDIN_FILENO, POLLIN, 0};
  return ::poll(&in, 1, 0) == 1 && (in.revents & POLLIN) != 0;
}

void drop_line_end(std::string& text) {
  if (text.ends_with('\n')) text.pop_back();
  if (text.ends_with('\r')) text.pop_back();
}

}  // namespace

void PromptArgs::add_to(CLI::App& app) {
  app_ = &app;
  app.add_option("words", words, "a model, a prompt, or both in this order; the prompt in quotes");
  CLI::Option* prompt =
      app.add_option("-p,--prompt", text, "text to continue, - for stdin; a pipe needs no -p");
  app.add_option("-f,--file", file, "file with the text to continue")
      ->type_name(file_value)
      ->excludes(prompt);
}

Status PromptArgs::take_words(std::string& model) {
  if (words.empty()) return {};
  if (words.size() > 2) {
    refuse("words", "'" + words[2] + "' is one too many; a prompt of several words needs quotes");
  }
  const bool has_model = is_given(*app_, "--model");
  const bool has_prompt = is_given(*app_, "--prompt") || is_given(*app_, "--file");
  const std::string& word = words.front();
  const bool first_is_model =
      words.size() == 2 || (!has_model && (has_prompt || looks_like_model(word)));
  if (first_is_model) {
    if (has_model) refuse("words", "'" + word + "' is a second model, beside that of -m");
    if (word.empty()) refuse("words", "the model has an empty name");
    model = word;
  }
  if (words.size() == 2 || !first_is_model) {
    if (has_prompt) refuse("words", "'" + words.back() + "' is a second prompt");
    text = words.back();
    file.clear();
  }
  return {};
}

Status PromptArgs::take(std::string& model, bool other) {
  ONEPASS_TRY(take_words(model));
  if (!file.empty()) {
    ONEPASS_ASSIGN(text, io::read_text(file, max_input_bytes));
    drop_line_end(text);
  } else if (text == "-" || (text.empty() && !other && stdin_has_source())) {
    ONEPASS_ASSIGN(text, read_stdin());
    drop_line_end(text);
    return {};
  }
  if (pipe_has_data()) {
    notes() << "note: there is a prompt, so what is on stdin is not read (-p - reads it)\n";
  }
  return {};
}

void take_model_word(const CLI::App& app, const std::vector<std::string>& words,
                     std::string& model) {
  if (words.empty()) return;
  if (words.size() > 1) {
    refuse("words", "'" + words[1] + "' is one too many; messages are typed in the chat");
  }
  if (is_given(app, "--model")) {
    refuse("words", "'" + words[0] + "' is a second model, beside that of -m");
  }
  if (words[0].empty()) refuse("words", "the model has an empty name");
  model = words[0];
}

}  // namespace onepass::tool
