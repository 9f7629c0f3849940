#include "conversation.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <optional>

#include "chat/chat_file.h"
#include "chat/settings.h"
#include "chat/word_wrap.h"
#include "commands/common.h"
#include "common/terminal.h"
#include "options/suggest.h"

namespace onepass::tool {
namespace {

constexpr std::string_view quotes = "\"\"\"";

enum class After : std::uint8_t { go_on, end, interrupted };

class Chat {
 public:
  Chat(const ChatSettings& settings, llm::ChatSession session,
       std::unique_ptr<MessageSource> messages)
      : settings_(settings),
        session_(std::move(session)),
        messages_(std::move(messages)),
        interactive_(stdin_is_terminal()),
        colour_(colour_on(STDERR_FILENO)) {}

  Result<int> run() {
    if (interactive_) notes() << "/help lists the commands, /bye or Ctrl-D ends\n";
    bool asked = false;
    while (true) {
      const Result<std::optional<std::string>> message = next_message();
      if (!message) {
        const bool ends = asked || message.error().code != ErrorCode::cancelled;
        if (!interactive_ || ends) return message.error();
        std::cerr << "Ctrl-C once more ends, as Ctrl-D and /bye do\n";
        asked = true;
        forget_interrupt();
        continue;
      }
      asked = false;
      if (!*message) break;
      ONEPASS_ASSIGN(const After after, take(**message));
      if (after == After::interrupted) return exit_interrupted;
      if (after == After::end) return 0;
    }
    if (interactive_) std::cerr << '\n';
    return 0;
  }

 private:
  using Handler = Result<After> (Chat::*)(const std::string& argument);
  struct Command {
    const char *name, *argument, *help;
    Handler run;
  };
  static const Command commands[];

  // A line, or on a terminal several of them between three quotes.
  Result<std::optional<std::string>> next_message() {
    ONEPASS_ASSIGN(std::optional<std::string> line, messages_->next("> "));
    if (!line || !interactive_ || !line->starts_with(quotes)) return line;
    std::string message = line->substr(quotes.size());
    while (!message.ends_with(quotes)) {
      ONEPASS_ASSIGN(line, messages_->next("... "));
      if (!line) return line;
      message += (message.empty() ? "" : "\n") + *line;
    }
    message.resize(message.size() - quotes.size());
    return std::optional(std::move(message));
  }

  Result<After> take(const std::string& message) {
    if (message.find_first_not_of(" \t\n") == message.npos) return After::go_on;
    if (interactive_) messages_->remember(message);
    if (interactive_ && message.starts_with('/')) return command(message);
    return answer(message);
  }

  Result<After> command(const std::string& line) {
    const std::size_t space = std::min(line.find_first_of(" \t\n"), line.size());
    const std::size_t begin = line.find_first_not_of(" \t\n", space);
    std::string argument = begin == line.npos ? "" : line.substr(begin);
    argument.erase(argument.find_last_not_of(" \t\n") + 1);
    const std::string name = line.substr(0, space);
    std::vector<std::string> names;
    for (const Command* c = commands; c->name != nullptr; ++c) {
      if (name == c->name) return (this->*c->run)(argument);
      names.emplace_back(c->name);
    }
    std::cerr << "unknown command '" << name << "'" << did_you_mean(name, names)
              << " (/help lists them)\n";
    return After::go_on;
  }

  Result<After> help(const std::string&) {
    for (const Command* c = commands; c->name != nullptr; ++c) {
      if (*c->help == '\0') continue;
      char row[160];
      std::snprintf(row, sizeof row, "%-8s %-12s %s\n", c->name, c->argument, c->help);
      std::cerr << row;
    }
    std::cerr << "Ctrl-C stops an answer and keeps what there is of it. A message of several lines "
                 "is pasted,\nor typed with Alt-Enter, or between three quotes; a space in front "
                 "of / makes it a message.\n";
    return After::go_on;
  }

  Result<After> bye(const std::string&) { return After::end; }

  Result<After> show(const std::string&) {
    const auto prompt = session_.prompt();
    std::cerr << (prompt ? *prompt : prompt.error().message) << '\n';
    return After::go_on;
  }

  Result<After> stats(const std::string&) {
    std::cerr << (last_stats_.empty() ? "there was no answer yet" : last_stats_) << '\n';
    return After::go_on;
  }

  Result<After> reset(const std::string&) {
    std::erase_if(messages(), [](const llm::ChatMessage& m) { return m.role != "system"; });
    announced_ = false;
    std::cerr << "the conversation starts over\n";
    return After::go_on;
  }

  Result<After> system(const std::string& text) {
    if (text.empty()) {
      for (const llm::ChatMessage& m : messages()) {
        if (m.role == "system") std::cerr << m.content.bytes() << '\n';
      }
      return After::go_on;
    }
    std::erase_if(messages(), [](const llm::ChatMessage& m) { return m.role == "system"; });
    messages().insert(messages().begin(), {"system", llm::chat::Value(text)});
    std::cerr << "the system message is set\n";
    return After::go_on;
  }

  Result<After> set(const std::string& text) {
    if (text.empty()) {
      std::cerr << list_settings(settings_);
    } else if (const Status status = change_setting(settings_, text); !status) {
      std::cerr << "onepass: " << status.error().message << '\n';
    }
    return After::go_on;
  }

  Result<After> undo(const std::string&) {
    std::vector<llm::ChatMessage>& all = messages();
    const auto last = std::find_if(all.rbegin(), all.rend(),
                                   [](const llm::ChatMessage& m) { return m.role == "user"; });
    if (last == all.rend()) {
      std::cerr << "there is no message to take back\n";
      return After::go_on;
    }
    all.erase(std::prev(last.base()), all.end());
    announced_ = false;
    std::cerr << "the last message and its answer are taken back\n";
    return After::go_on;
  }

  Result<After> regenerate(const std::string&) {
    const std::vector<llm::ChatMessage> before = messages();
    if (before.size() < 2 || before.back().role != "assistant" ||
        before[before.size() - 2].role != "user") {
      std::cerr << "there is no answer to make again\n";
      return After::go_on;
    }
    if (settings_.sampling.is_greedy()) {
      std::cerr << "the most likely text stays the same; /set temp 0.7 allows others\n";
    }
    const std::string user(before[before.size() - 2].content.bytes());
    messages().resize(before.size() - 2);
    ++settings_.sampling.seed;
    Result<After> after = answer(user);
    if (messages().size() + 2 == before.size()) messages() = before;  // it came to nothing
    return after;
  }

  Result<After> save(const std::string& path) {
    if (path.empty()) {
      std::cerr << "/save needs the name of a file\n";
    } else if (const Status saved = save_chat(path, messages()); !saved) {
      std::cerr << "onepass: " << saved.error().message << '\n';
    } else {
      std::cerr << "saved " << messages().size() << " messages to " << path << '\n';
    }
    return After::go_on;
  }

  Result<After> load(const std::string& path) {
    if (path.empty()) {
      std::cerr << "/load needs the name of a file\n";
      return After::go_on;
    }
    Result<std::vector<llm::ChatMessage>> loaded = load_chat(path);
    if (!loaded) {
      Error shown = loaded.error();
      shown.line = 0;
      std::cerr << "onepass: " << shown.to_string() << "; the conversation stays as it was\n";
      return After::go_on;
    }
    messages() = *std::move(loaded);
    announced_ = false;
    std::cerr << "loaded " << messages().size() << " messages from " << path << '\n';
    return After::go_on;
  }

  // Drops what the settings say; false: the message cannot be taken.
  Status make_room(const std::string& message) {
    if (settings_.when_full == WhenFull::refuse) return {};
    const std::uint32_t context = session_.generator().decoder().context();
    const std::uint32_t room = std::min(settings_.n, context / 4);
    const std::vector<llm::ChatMessage> before = messages();
    ONEPASS_ASSIGN(const std::size_t needed, session_.make_room(message, room));
    if (needed == 0) return {};
    if (settings_.when_full == WhenFull::restart) {
      std::erase_if(messages(), [](const llm::ChatMessage& m) { return m.role != "system"; });
    }
    notes() << "the context was full: " << before.size() - messages().size()
            << " of the oldest messages are forgotten\n";
    announced_ = false;
    return {};
  }

  Result<llm::ChatReply> ask(const std::string& message) {
    ONEPASS_TRY(make_room(message));
    if (settings_.show_prompt) ONEPASS_TRY(show_prompt(message));
    const KeptInput kept;
    ProgressBar bar("prompt");
    llm::GenerateOptions options;
    options.max_tokens = settings_.n;
    options.sampling = settings_.sampling;
    options.stop_texts = settings_.stop;
    options.cancel = &interrupt_flag();
    options.prefill_progress = [&](std::size_t done, std::size_t total) { bar.show(done, total); };
    WordWrap wrap(settings_.wrap && stdout_is_terminal() ? columns_of_stdout() : 0);
    Result<llm::ChatReply> reply =
        session_.ask(message, options, [&](std::string_view text) -> Status {
          bar.erase();
          return put(wrap.next(text));
        });
    bar.erase();
    if (reply) ONEPASS_TRY(put(wrap.finish() + "\n"));
    return reply;
  }

  Result<After> answer(const std::string& message) {
    const Result<llm::ChatReply> reply = ask(message);
    if (!reply) {
      if (!interactive_ || reply.error().code == ErrorCode::io) return reply.error();
      std::cerr << "onepass: " << reply.error().message << '\n';
      if (reply.error().code == ErrorCode::limit) {
        std::cerr << "/undo or /reset makes room, '/set full drop' forgets the oldest messages "
                     "instead, -c N has more\n";
      }
      return After::go_on;
    }
    tell(*reply);
    announce(*reply);
    if (reply->report.stop != llm::StopReason::cancelled) return After::go_on;
    if (interactive_) forget_interrupt();
    return interactive_ ? After::go_on : After::interrupted;
  }

  Status show_prompt(const std::string& message) {
    messages().push_back({"user", message});
    const auto prompt = session_.prompt();
    messages().pop_back();
    ONEPASS_TRY(prompt);
    std::cerr << *prompt << '\n';
    return {};
  }

  static std::uint32_t used_by(const llm::ChatReply& reply) {
    return reply.prompt_tokens + static_cast<std::uint32_t>(reply.report.tokens.size());
  }

  void tell(const llm::ChatReply& reply) {
    const llm::GenerateReport& r = reply.report;
    const double rate =
        r.decode_ns == 0 ? 0.0
                         : static_cast<double>(r.decoded) * 1e9 / static_cast<double>(r.decode_ns);
    char line[256];
    std::snprintf(
        line, sizeof line,
        "[%zu tokens at %.1f tok/s, first after %.3f s; prompt %u tokens, %u of them from "
        "the cache; context %u of %u]",
        r.tokens.size(), rate, static_cast<double>(r.first_token_ns) / 1e9, reply.prompt_tokens,
        reply.reused_tokens, used_by(reply), session_.generator().decoder().context());
    last_stats_ = line;
    if (settings_.stats) {
      notes() << (colour_ ? "\033[2m" : "") << line << (colour_ ? "\033[0m" : "") << '\n';
    }
    if (r.stop == llm::StopReason::max_tokens) {
      std::cerr << "stopped after " << settings_.n << " tokens (-n for more)\n";
    } else if (r.stop == llm::StopReason::context_full) {
      std::cerr << "stopped: the context is full (-c for more)\n";
    } else if (r.stop == llm::StopReason::cancelled) {
      std::cerr << "stopped by Ctrl-C\n";
    }
  }

  // Once, before there is too little room for another answer like this one.
  void announce(const llm::ChatReply& reply) {
    const std::uint32_t context = session_.generator().decoder().context();
    const std::uint32_t used = used_by(reply);
    if (!interactive_ || announced_ || used < context - context / 4) return;
    announced_ = true;
    constexpr const char* next[] = {
        ("then messages are refused; /set full drop forgets the oldest ones instead, /undo and "
         "/reset make room, /save keeps all"),
        "then the oldest messages are forgotten, the system message stays; /save keeps all",
        "then the conversation starts over, the system message stays; /save keeps it"};
    notes() << "the context will soon be full (" << used << " of " << context
            << " tokens): " << next[static_cast<std::size_t>(settings_.when_full)] << '\n';
  }

  std::vector<llm::ChatMessage>& messages() { return session_.input().messages; }

  ChatSettings settings_;
  llm::ChatSession session_;
  const std::unique_ptr<MessageSource> messages_;
  const bool interactive_, colour_;
  bool announced_ = false;  // that the context will be full
  std::string last_stats_;
};

// Those without a help are other names.
const Chat::Command Chat::commands[] = {
    {"/system", "[TEXT]", "what the model should be like; alone: tells it", &Chat::system},
    {"/set", "[NAME VALUE]", "temp, top-k, top-p, min-p, seed, n, full, stats, wrap; alone: all",
     &Chat::set},
    {"/undo", "", "take back the last message and its answer", &Chat::undo},
    {"/regen", "", "another answer to the last message", &Chat::regenerate},
    {"/save", "FILE", "the conversation, as JSON", &Chat::save},
    {"/load", "FILE", "go on with a conversation that was saved", &Chat::load},
    {"/show", "", "the conversation as the model gets it", &Chat::show},
    {"/stats", "", "times and tokens of the last answer", &Chat::stats},
    {"/reset", "", "start over, with the same system message", &Chat::reset},
    {"/clear", "", "", &Chat::reset},
    {"/bye", "", "end, as Ctrl-D does", &Chat::bye},
    {"/quit", "", "", &Chat::bye},
    {"/exit", "", "", &Chat::bye},
    {"/help", "", "this list", &Chat::help},
    {"/?", "", "", &Chat::help},
    {nullptr, nullptr, nullptr, nullptr},
};

}  // namespace

Result<int> converse(const ChatSettings& settings, llm::ChatSession session,
                     std::unique_ptr<MessageSource> messages) {
  return Chat(settings, std::move(session), std::move(messages)).run();
}

}  // namespace onepass::tool
