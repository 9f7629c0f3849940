#include <iostream>
#include <memory>
#include <optional>

#include "common.h"
#include "common/json_writer.h"

namespace onepass::tool {
namespace {

struct TokenizeArgs {
  ModelArgs model;
  std::string text = "-";
  bool special = false;
  bool pieces = false;
  bool json = false;
};

// Bytes [begin, end) of the text that a token stands for.
struct Place {
  std::size_t begin = 0, end = 0;
};

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

using Places = std::vector<std::optional<Place>>;

// The bytes that the tokens stand for, one after the other; nothing from the first one on that fits
// no more. drop_space: there is a space in front of the text that was put there.
Result<Places> align(const llm::Tokenizer& tokenizer, std::string_view text,
                     std::span<const std::uint32_t> ids, bool drop_space) {
  Places places(ids.size());
  std::size_t at = 0;
  bool after_control = true;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    ONEPASS_ASSIGN(std::string_view piece, tokenizer.piece(ids[i]));
    const bool control = tokenizer.is_control(ids[i]);
    const auto fits = [&] { return text.substr(at).starts_with(piece); };
    if (after_control && (drop_space || !fits()) && piece.starts_with(' ')) piece.remove_prefix(1);
    // Control tokens may swallow the space around them.
    while ((control || after_control) && !fits() && at < text.size() && is_space(text[at])) ++at;
    if (!fits()) break;
    places[i] = Place{at, at + piece.size()};
    at += piece.size();
    after_control = control;
  }
  return places;
}

// Where each token came from. Nothing where the vocabulary changes the text before it cuts it, or
// does not know a part of it.
Result<Places> places_of(const llm::Tokenizer& tokenizer, std::string_view text,
                         std::span<const std::uint32_t> ids) {
  ONEPASS_ASSIGN(Places places, align(tokenizer, text, ids, false));
  if (ids.empty() || places.back()) return places;
  ONEPASS_ASSIGN(Places others, align(tokenizer, text, ids, true));
  return others.back() ? others : places;
}

// One token on each line: id, bytes of the text, piece as a JSON string.
Status put_pieces(const llm::Tokenizer& tokenizer, std::span<const std::uint32_t> ids,
                  const Places& places) {
  std::string out;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    ONEPASS_ASSIGN(const std::string_view piece, tokenizer.piece(ids[i]));
    out += std::to_string(ids[i]) + "\t";
    out +=
        places[i] ? std::to_string(places[i]->begin) + "-" + std::to_string(places[i]->end) : "-";
    out += "\t" + JsonWriter().value(piece).text() + "\n";
  }
  return put(out);
}

Status run_tokenize(const TokenizeArgs& args) {
  ONEPASS_ASSIGN(const llm::Tokenizer tokenizer, args.model.open_tokenizer());
  std::string text = args.text;
  if (text == "-") {
    ONEPASS_ASSIGN(text, read_stdin());
  }
  llm::EncodeOptions options;
  options.add_special = false;
  options.parse_special = args.special;
  options.max_bytes = max_input_bytes;
  options.max_tokens = max_input_bytes;
  ONEPASS_ASSIGN(const std::vector<std::uint32_t> ids, tokenizer.encode(text, options));
  if (!args.json && !args.pieces) {
    std::string line;
    for (const std::uint32_t id : ids) {
      if (!line.empty()) line += ' ';
      line += std::to_string(id);
    }
    return put(line + "\n");
  }
  ONEPASS_ASSIGN(const Places places, places_of(tokenizer, text, ids));
  if (!args.json) return put_pieces(tokenizer, ids, places);
  JsonWriter json;
  json.begin_object().key("ids").begin_array();
  for (const std::uint32_t id : ids) json.value(id);
  json.end_array().key("pieces").begin_array();
  for (const std::uint32_t id : ids) {
    ONEPASS_ASSIGN(const std::string_view piece, tokenizer.piece(id));
    json.value(piece);
  }
  json.end_array().key("offsets").begin_array();
  for (const std::optional<Place>& place : places) {
    if (place) {
      json.begin_array().value(place->begin).value(place->end).end_array();
    } else {
      json.null();
    }
  }
  json.end_array().end_object();
  return put(json.text() + "\n");
}

struct DetokenizeArgs {
  ModelArgs model;
  std::vector<std::string> ids;
  bool special = false;
  bool json = false;
};

Status run_detokenize(const DetokenizeArgs& args) {
  ONEPASS_ASSIGN(const llm::Tokenizer tokenizer, args.model.open_tokenizer());
  std::string list;
  for (const std::string& part : args.ids) list += part + " ";
  if (args.ids.empty() || (args.ids.size() == 1 && args.ids[0] == "-")) {
    ONEPASS_ASSIGN(list, read_stdin());
  }
  const auto parsed = parse_ids(list);
  if (!parsed) refuse("ids", parsed.error());
  const std::vector<std::uint32_t>& ids = *parsed;
  llm::DecodeOptions options;
  options.special = args.special;
  options.clean_up_spaces = tokenizer.cleans_up_spaces();
  ONEPASS_ASSIGN(const std::string text, tokenizer.decode(ids, options));
  if (!args.json) return put(text);
  JsonWriter json;
  json.begin_object().key("text").value(text).end_object();
  return put(json.text() + "\n");
}

}  // namespace

void add_tokenize(CLI::App& app, Run& run) {
  const auto args = std::make_shared<TokenizeArgs>();
  CLI::App* command = app.add_subcommand("tokenize", "text to token ids, nothing added");
  args->model.add_model_to(*command);
  command->add_option("text", args->text, "the text; - or none: stdin, every byte of it");
  command->add_flag("--special", args->special, "read special tokens written in the text as such");
  command->add_flag("--pieces", args->pieces, "a line for each token: id, bytes, piece");
  command->add_flag("--json", args->json, "ids, their pieces and the bytes they stand for as JSON");
  command->footer(
      "Bytes are counted from 0, the end is not included. There are none (-, null) from where the "
      "vocabulary\nchanges the text before it cuts it.\nExamples:\n"
      "  onepass tokenize \"Once upon a time\"\n"
      "  onepass tokenize --pieces \"Once upon a time\"");
  command->callback([&run, args] { run = [args] { return exit_code(run_tokenize(*args)); }; });
}

void add_detokenize(CLI::App& app, Run& run) {
  const auto args = std::make_shared<DetokenizeArgs>();
  CLI::App* command = app.add_subcommand("detokenize", "token ids to text, nothing added");
  args->model.add_model_to(*command);
  command->add_option("ids", args->ids, "the ids; - or none: stdin");
  command->add_flag("--special", args->special, "print special tokens too");
  command->add_flag("--json", args->json, "the text as JSON");
  command->footer("Example:\n  onepass tokenize \"Once upon a time\" | onepass detokenize");
  command->callback([&run, args] { run = [args] { return exit_code(run_detokenize(*args)); }; });
}

}  // namespace onepass::tool
