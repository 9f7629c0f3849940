#include <iostream>
#include <memory>
#include <optional>

#include "common.h"
#include "json_writer.h"

namespace onepass::tool {
namespace {

struct TokenizeArgs {
  ModelArgs model;
  std::string text = "-";
  bool special = false;
  bool json = false;
};

Status run_tokenize(const TokenizeArgs& args) {
  ONEPASS_ASSIGN(const std::string path, args.model.path());
  ONEPASS_ASSIGN(const llm::Tokenizer tokenizer, llm::open_tokenizer(path));
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
  if (!args.json) {
    std::string line;
    for (const std::uint32_t id : ids) {
      if (!line.empty()) line += ' ';
      line += std::to_string(id);
    }
    return put(line + "\n");
  }
  JsonWriter json;
  json.begin_object().key("ids").begin_array();
  for (const std::uint32_t id : ids) json.value(id);
  json.end_array().key("pieces").begin_array();
  for (const std::uint32_t id : ids) {
    ONEPASS_ASSIGN(const std::string_view piece, tokenizer.piece(id));
    json.value(piece);
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
  ONEPASS_ASSIGN(const std::string path, args.model.path());
  ONEPASS_ASSIGN(const llm::Tokenizer tokenizer, llm::open_tokenizer(path));
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
  command->add_flag("--json", args->json, "ids and their pieces as JSON");
  command->footer("Example:\n  onepass tokenize \"Once upon a time\"");
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
