#include "run/chat_session.h"

#include <algorithm>

#include "core/guarded.h"
#include "text/template/text.h"

namespace onepass::llm {

void set_special_tokens(ChatInput& input, const Tokenizer& tokenizer) {
  const auto text = [&](const std::optional<std::uint32_t>& id) {
    if (!id) return std::string();
    const auto piece = tokenizer.piece(*id);
    return piece ? std::string(*piece) : std::string();
  };
  input.bos_token = text(tokenizer.special_ids().bos);
  input.eos_token = text(tokenizer.special_ids().eos);
}

Result<std::vector<std::uint32_t>> encode_chat(const Tokenizer& tokenizer,
                                               std::string_view rendered) {
  return encode_prompt(tokenizer, rendered, {.at_start = true, .parse_special = true});
}

Result<ChatSession> ChatSession::create(TextModel model, ChatTemplate chat_template,
                                        const DecoderOptions& options) {
  return guarded([&]() -> Result<ChatSession> {
    ONEPASS_TRY(model.tokenizer);
    ChatInput input;
    set_special_tokens(input, *model.tokenizer);
    ONEPASS_ASSIGN(Generator generator, Generator::create(std::move(model), options));
    ChatSession session(std::move(generator), std::move(chat_template));
    session.input_ = std::move(input);
    return session;
  });
}

Result<ChatReply> ChatSession::ask(std::string user, const GenerateOptions& options,
                                   const Each& each) {
  return guarded([&]() -> Result<ChatReply> {
    input_.messages.push_back({"user", chat::Value(std::move(user))});
    Result<ChatReply> reply = answer(options, each);
    const bool never_began =
        reply && reply->text.empty() && reply->report.stop == StopReason::cancelled;
    if (reply && !never_began) {
      input_.messages.push_back({"assistant", chat::Value(reply->text)});
    } else {
      input_.messages.pop_back();
    }
    return reply;
  });
}

Result<std::size_t> ChatSession::make_room(const std::string& user, std::uint32_t free) {
  return guarded([&]() -> Result<std::size_t> {
    const std::vector<ChatMessage> before = input_.messages;
    const std::size_t context = generator_.decoder().context();
    const auto is_system = [](const ChatMessage& m) { return m.role == "system"; };
    const auto is_user = [](const ChatMessage& m) { return m.role == "user"; };
    input_.messages.push_back({"user", chat::Value(user)});
    while (true) {
      const Result<std::vector<std::uint32_t>> ids = prompt_ids();
      if (!ids) {
        input_.messages = before;
        return ids.error();
      }
      auto& messages = input_.messages;
      const auto oldest = std::find_if_not(messages.begin(), messages.end(), is_system);
      if (ids->size() + free <= context || oldest + 1 == messages.end()) break;
      messages.erase(oldest, std::find_if(oldest + 1, messages.end(), is_user));
    }
    input_.messages.pop_back();
    return before.size() - input_.messages.size();
  });
}

Result<std::vector<std::uint32_t>> ChatSession::prompt_ids() const {
  ONEPASS_ASSIGN(const std::string rendered, prompt());
  return encode_chat(*generator_.model().tokenizer, rendered);
}

Result<ChatReply> ChatSession::answer(const GenerateOptions& options, const Each& each) {
  ONEPASS_ASSIGN(const std::vector<std::uint32_t> ids, prompt_ids());
  if (ids.empty()) return fail(ErrorCode::invalid_argument, "chat: the template gives no text");
  const std::uint32_t context = generator_.decoder().context();
  if (ids.size() >= context) {
    return fail(ErrorCode::limit, "chat: the conversation has " + std::to_string(ids.size()) +
                                      " tokens, the context holds " + std::to_string(context));
  }
  // At least one token must be computed again to choose the next.
  const auto [end, unused] = std::mismatch(
      ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(std::min(ids.size(), cached_.size())),
      cached_.begin());
  const auto kept = std::min(static_cast<std::size_t>(end - ids.begin()), ids.size() - 1);

  ChatReply reply;
  reply.prompt_tokens = static_cast<std::uint32_t>(ids.size());
  reply.reused_tokens = static_cast<std::uint32_t>(kept);
  ONEPASS_TRY(generator_.truncate(reply.reused_tokens));
  cached_.resize(kept);
  const auto take = [&](const Piece& piece) -> Status {
    std::string_view text = piece.text;
    if (reply.text.empty()) text = chat::strip_left(text);
    if (text.empty()) return {};
    reply.text += text;
    return each ? each(text) : Status{};
  };
  const std::span<const std::uint32_t> fresh = std::span(ids).subspan(kept);
  Result<GenerateReport> report = generator_.run(fresh, options, take);
  if (report) {
    cached_ = ids;
    cached_.insert(cached_.end(), report->tokens.begin(), report->tokens.end());
    // The last token is not in the cache yet, and none is after a prompt that was not finished.
    const std::size_t length = generator_.decoder().length();
    cached_.resize(std::min(cached_.size(), length));
    reply.report = *std::move(report);
    return reply;
  }
  ONEPASS_TRY(generator_.truncate(reply.reused_tokens));
  return std::move(report).error();
}

}  // namespace onepass::llm
