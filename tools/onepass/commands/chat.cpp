#include <algorithm>
#include <iterator>
#include <memory>

#include "chat/conversation.h"
#include "common.h"
#include "common/terminal.h"
#include "options/chat_args.h"
#include "options/prompt_args.h"
#include "options/sampling_args.h"

namespace onepass::tool {
namespace {

constexpr std::uint32_t default_context = 4096;

struct ChatCommandArgs {
  ModelArgs model;
  ChatArgs chat;
  SamplingArgs sampling{.seed = "random"};
  ChatSettings settings;
  std::vector<std::string> words;  // the model
  std::string when_full = "refuse";
  std::string history = HistoryFile::default_path();
  bool no_history = false;
  bool no_wrap = false;
  std::uint32_t context = 0;
};

ChatSettings settings_of(const ChatCommandArgs& args) {
  ChatSettings settings = args.settings;
  settings.sampling = args.sampling.options;
  settings.when_full = static_cast<WhenFull>(
      std::find(std::begin(when_full_names), std::end(when_full_names), args.when_full) -
      std::begin(when_full_names));
  settings.stats = settings.stats || verbose();
  settings.wrap = !args.no_wrap;
  settings.show_prompt = args.chat.show_prompt;
  return settings;
}

Result<int> run_chat(ChatCommandArgs& args) {
  args.sampling.check();
  check_stop_texts(args.settings.stop);
  args.model.banner_end = args.sampling.short_text();
  llm::ChatInput ignored;
  args.chat.apply_to(ignored);
  ONEPASS_ASSIGN(const std::string path, args.model.path());
  // Before the weights are read: what is wrong with it shows at once.
  ONEPASS_ASSIGN(llm::ChatTemplate chat, args.chat.open_template(path));
  CacheArgs cache{.context = args.context, .option = "-c"};
  if (args.context == 0) cache.context = default_context, cache.up_to_trained = true;
  ONEPASS_ASSIGN(llm::TextModel model, args.model.open(true, cache));
  llm::DecoderOptions decoder;
  const std::uint32_t trained = model.model->config().context;
  decoder.context = args.context != 0 ? args.context : std::min(trained, default_context);
  warn_of_context(trained, args.context);
  decoder.sampling = args.sampling.options;
  ONEPASS_ASSIGN(llm::ChatSession session,
                 llm::ChatSession::create(std::move(model), std::move(chat), decoder));
  args.sampling.tell();
  args.chat.apply_to(session.input());
  return converse(settings_of(args), std::move(session),
                  open_messages(HistoryFile(args.no_history ? "" : args.history)));
}

void add_chat_options(CLI::App& command, ChatCommandArgs& args) {
  command.add_option("words", args.words, "the model, as with -m");
  command.add_option("-n,--predict", args.settings.n, "most tokens of one answer")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  add_stop_to(command, args.settings.stop);
  add_context_to(command, args.context,
                 "tokens of the whole conversation; auto or 0: as trained, at most 4096");
  command
      .add_option("--when-full", args.when_full,
                  "where the context has no room for a message: refuse it, drop the oldest turns, "
                  "or restart; system messages stay")
      ->check(CLI::IsMember(
          std::vector<std::string>(std::begin(when_full_names), std::end(when_full_names))))
      ->capture_default_str();
  command.add_flag("--stats", args.settings.stats,
                   "a line with times and tokens after each answer");
  command.add_flag("--no-wrap", args.no_wrap, "let the terminal break lines, also within words");
  CLI::Option* history =
      command
          .add_option("--history", args.history,
                      "file for what was typed on a terminal, which the arrow keys bring back")
          ->type_name(file_value);
  command.add_flag("--no-history", args.no_history, "keep nothing of what is typed")
      ->excludes(history);
}

}  // namespace

void add_chat(CLI::App& app, Run& run) {
  const auto args = std::make_shared<ChatCommandArgs>();
  CLI::App* command = app.add_subcommand("chat", "talk with a model that has a chat template");
  args->model.add_to(*command);
  add_chat_options(*command, *args);
  args->chat.add_to(*command, "print every prompt with its template to stderr");
  args->sampling.add_to(*command);
  command->footer(
      "On a terminal, /help tells the commands and Ctrl-C stops an answer. From a pipe, every line "
      "is a\nmessage. Answers go to stdout, everything else to stderr.\nExamples:\n"
      "  onepass chat model.gguf --system \"Answer briefly.\"\n"
      "  printf 'Hello\\nAnd you?\\n' | onepass chat -m model.gguf --temp 0");
  command->callback([&run, args, command] {
    run = [args, command] {
      take_model_word(*command, args->words, args->model.model);
      const Result<int> code = run_chat(*args);
      return code ? *code : report(code.error());
    };
  });
}

}  // namespace onepass::tool
