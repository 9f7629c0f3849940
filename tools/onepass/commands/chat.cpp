#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <memory>
#include <optional>

#include "common.h"
#include "common/terminal.h"
#include "options/chat_args.h"
#include "options/prompt_args.h"
#include "options/sampling_args.h"
#include "run/chat_session.h"

namespace onepass::tool {
namespace {

constexpr std::uint32_t default_context = 4096;
constexpr std::size_t max_line_bytes = std::size_t{64} << 20;
constexpr const char* quotes = "\"\"\"";

struct ChatCommandArgs {
  ModelArgs model;
  ChatArgs chat;
  SamplingArgs sampling{.seed = "random"};
  std::vector<std::string> words;  // the model
  std::vector<std::string> stop;
  std::uint32_t n = 1024;
  std::uint32_t context = 0;
};

// Lines of stdin, without their ends.
class Lines {
 public:
  // Nothing at the end of the input; an error of code cancelled after Ctrl-C.
  Result<std::optional<std::string>> next() {
    while (true) {
      if (const std::size_t end = buffer_.find('\n', looked_at_); end != buffer_.npos) {
        std::string line = buffer_.substr(0, end);
        buffer_.erase(0, end + 1);
        looked_at_ = 0;
        if (line.ends_with('\r')) line.pop_back();
        return std::optional(std::move(line));
      }
      looked_at_ = buffer_.size();
      if (buffer_.size() > max_line_bytes) {
        return fail(ErrorCode::limit, "a line of stdin has more than 64 MiB");
      }
      if (!wait_for_stdin()) {
        return fail(ErrorCode::cancelled, "interrupted while reading stdin");
      }
      char part[4096];
      const ssize_t n = ::read(STDIN_FILENO, part, sizeof part);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return fail(ErrorCode::io, std::string("read stdin: ") + std::strerror(errno));
      if (n == 0) {
        if (buffer_.empty()) return std::optional<std::string>();
        buffer_ += '\n';
        continue;
      }
      buffer_.append(part, static_cast<std::size_t>(n));
    }
  }

 private:
  std::string buffer_;
  std::size_t looked_at_ = 0;
};

class Chat {
 public:
  Chat(const ChatCommandArgs& args, llm::ChatSession session, bool interactive)
      : args_(args), session_(std::move(session)), interactive_(interactive) {
    args_.chat.apply_to(session_.input());
  }

  Result<int> run() {
    if (interactive_) notes() << "/help lists the commands, /quit or Ctrl-D ends\n";
    while (true) {
      if (interactive_) std::cerr << "> " << std::flush;
      ONEPASS_ASSIGN(const std::optional<std::string> message, next_message());
      if (!message) break;
      if (interactive_ && message->starts_with('/')) {
        ONEPASS_ASSIGN(const bool go_on, command(*message));
        if (!go_on) return 0;
        continue;
      }
      if (message->find_first_not_of(" \t") == message->npos) continue;
      ONEPASS_ASSIGN(const bool go_on, answer(*message));
      if (!go_on) return exit_interrupted;
    }
    if (interactive_) std::cerr << '\n';
    return 0;
  }

 private:
  // A line, or on a terminal several of them between three quotes.
  Result<std::optional<std::string>> next_message() {
    ONEPASS_ASSIGN(std::optional<std::string> line, lines_.next());
    if (!line || !interactive_ || !line->starts_with(quotes)) return line;
    std::string message = line->substr(3);
    while (!message.ends_with(quotes)) {
      std::cerr << "... " << std::flush;
      ONEPASS_ASSIGN(line, lines_.next());
      if (!line) return line;
      message += (message.empty() ? "" : "\n") + *line;
    }
    message.resize(message.size() - 3);
    return std::optional(std::move(message));
  }

  // False: the chat is over.
  Result<bool> command(const std::string& line) {
    const std::string word = line.substr(0, line.find_last_not_of(" \t") + 1);
    if (word == "/quit" || word == "/exit") return false;
    if (word == "/reset") {
      std::erase_if(session_.input().messages,
                    [](const llm::ChatMessage& m) { return m.role != "system"; });
      std::cerr << "the conversation starts over\n";
    } else if (word == "/show") {
      const auto prompt = session_.prompt();
      std::cerr << (prompt ? *prompt : prompt.error().message) << '\n';
    } else {
      if (word != "/help") std::cerr << "unknown command '" << word << "'\n";
      std::cerr << "/show   the conversation as the model gets it\n"
                   "/reset  start over, with the same system message\n"
                   "/quit   end, as Ctrl-D does\n"
                   "Ctrl-C stops an answer and keeps what there is of it. Three quotes start and "
                   "end a message\nof several lines; a space in front of / makes it one too.\n";
    }
    return true;
  }

  // False: interrupted, and not on a terminal.
  Result<bool> answer(const std::string& message) {
    if (args_.chat.show_prompt) ONEPASS_TRY(show_prompt(message));
    ProgressBar bar("prompt");
    llm::GenerateOptions options;
    options.max_tokens = args_.n;
    options.sampling = args_.sampling.options;
    options.stop_texts = args_.stop;
    options.cancel = &interrupt_flag();
    options.prefill_progress = [&](std::size_t done, std::size_t total) { bar.show(done, total); };
    auto reply = session_.ask(message, options, [&](std::string_view text) -> Status {
      bar.erase();
      return put(text);
    });
    bar.erase();
    if (!reply) {
      if (!interactive_ || reply.error().code == ErrorCode::io) return std::move(reply).error();
      std::cerr << "onepass: " << reply.error().message << '\n';
      if (reply.error().code == ErrorCode::limit) {
        std::cerr << "/reset starts over, -c N makes room for more\n";
      }
      return true;
    }
    ONEPASS_TRY(put("\n"));
    tell(*reply);
    if (reply->report.stop != llm::StopReason::cancelled) return true;
    if (interactive_) forget_interrupt();
    return interactive_;
  }

  Status show_prompt(const std::string& message) {
    llm::ChatInput& input = session_.input();
    input.messages.push_back({"user", message});
    const auto prompt = session_.prompt();
    input.messages.pop_back();
    ONEPASS_TRY(prompt);
    std::cerr << *prompt << '\n';
    return {};
  }

  void tell(const llm::ChatReply& reply) const {
    const llm::GenerateReport& r = reply.report;
    const std::uint32_t used = reply.prompt_tokens + static_cast<std::uint32_t>(r.tokens.size());
    const double rate =
        r.decode_ns == 0 ? 0.0
                         : static_cast<double>(r.decoded) * 1e9 / static_cast<double>(r.decode_ns);
    char line[256];
    std::snprintf(
        line, sizeof line,
        "[%zu tokens at %.1f tok/s, first after %.3f s; prompt %u tokens, %u of them from "
        "the cache; context %u of %u]\n",
        r.tokens.size(), rate, static_cast<double>(r.first_token_ns) / 1e9, reply.prompt_tokens,
        reply.reused_tokens, used, session_.generator().decoder().context());
    notes() << line;
    switch (r.stop) {
      case llm::StopReason::max_tokens:
        std::cerr << "stopped after " << args_.n << " tokens (-n for more)\n";
        break;
      case llm::StopReason::context_full:
        std::cerr << "stopped: the context is full (-c for more)\n";
        break;
      case llm::StopReason::cancelled:
        std::cerr << "stopped by Ctrl-C\n";
        break;
      case llm::StopReason::end_of_text:
      case llm::StopReason::stop_text:
        break;
    }
  }

  const ChatCommandArgs& args_;
  llm::ChatSession session_;
  const bool interactive_;
  Lines lines_;
};

Result<int> run_chat(ChatCommandArgs& args) {
  args.sampling.check();
  check_stop_texts(args.stop);
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
  return Chat(args, std::move(session), stdin_is_terminal()).run();
}

}  // namespace

void add_chat(CLI::App& app, Run& run) {
  const auto args = std::make_shared<ChatCommandArgs>();
  CLI::App* command = app.add_subcommand("chat", "talk with a model that has a chat template");
  args->model.add_to(*command);
  command->add_option("words", args->words, "the model, as with -m");
  args->chat.add_to(*command, "print every prompt with its template to stderr");
  command->add_option("-n,--predict", args->n, "most tokens of one answer")->capture_default_str();
  add_stop_to(*command, args->stop);
  args->sampling.add_to(*command);
  add_context_to(*command, args->context,
                 "tokens of the whole conversation; auto or 0: as trained, at most 4096");
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
