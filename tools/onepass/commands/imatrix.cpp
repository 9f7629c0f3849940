#include <algorithm>
#include <iostream>
#include <memory>

#include "common.h"
#include "common/json_writer.h"
#include "common/terminal.h"
#include "common/text_windows.h"
#include "run/imatrix_collector.h"

namespace onepass::tool {
namespace {

struct ImatrixArgs {
  ModelArgs model;
  std::string file, out;
  std::uint32_t context = 512;
  std::uint32_t chunks = 0;
  bool bos = false;
  bool head = false;
  bool json = false;
};

// Experts of which nothing was seen.
std::uint64_t unseen(const llm::Imatrix& matrix) {
  std::uint64_t n = 0;
  for (const auto& [name, entry] : matrix.entries) {
    n += static_cast<std::uint64_t>(std::count(entry.counts.begin(), entry.counts.end(), 0u));
  }
  return n;
}

Status run_imatrix(ImatrixArgs& args) {
  ONEPASS_ASSIGN(const std::string text, read_input(args.file));
  ONEPASS_ASSIGN(const llm::TextModel opened,
                 args.model.open(true, {.context = args.context, .option = "-c"}));
  ONEPASS_TRY(opened.tokenizer);
  ONEPASS_ASSIGN(const std::optional<std::uint32_t> begin,
                 begin_token(*opened.tokenizer, args.bos, "imatrix"));
  ONEPASS_ASSIGN(std::vector<std::uint32_t> tokens,
                 read_windows(text, args.context, *opened.tokenizer, "imatrix"));
  const std::size_t window = args.context;
  std::size_t windows = tokens.size() / window;
  if (args.chunks != 0) windows = std::min(windows, std::size_t{args.chunks});
  ONEPASS_ASSIGN(llm::ImatrixCollector collector,
                 llm::ImatrixCollector::create(opened.model, args.context, args.head));
  ProgressBar bar("imatrix");
  for (std::size_t i = 0; i < windows; ++i) {
    bar.show(i, windows);
    const std::span<std::uint32_t> part = std::span(tokens).subspan(i * window, window);
    if (begin) part[0] = *begin;
    ONEPASS_TRY(collector.add(part, &interrupt_flag()));
  }
  bar.erase();
  ONEPASS_ASSIGN(llm::Imatrix matrix, collector.finish());
  matrix.datasets = {args.file};
  ONEPASS_TRY(matrix.write(args.out));
  if (const std::uint64_t n = unseen(matrix); n > 0) {
    std::cerr << "onepass: " << n
              << " matrices of experts got no token: more text would reach them\n";
  }
  if (args.json) {
    JsonWriter json;
    json.begin_object().key("file").value(args.out).key("tensors").value(matrix.entries.size());
    json.key("chunks").value(matrix.chunks).key("chunk_tokens").value(matrix.chunk_tokens);
    json.key("unseen_experts").value(unseen(matrix));
    return put(json.end_object().text() + "\n");
  }
  return put(args.out + ": " + std::to_string(matrix.entries.size()) + " tensors from " +
             std::to_string(matrix.chunks) + " windows of " + std::to_string(matrix.chunk_tokens) +
             " tokens\n");
}

}  // namespace

void add_imatrix(CLI::App& app, Run& run) {
  const auto args = std::make_shared<ImatrixArgs>();
  CLI::App* command = app.add_subcommand(
      "imatrix", "which columns of a model's matrices matter for a text, for quantize");
  args->model.add_to(*command);
  command->add_option("-f,--file", args->file, "the text; - for stdin")
      ->type_name(file_value)
      ->required();
  command->add_option("-o,--output", args->out, "the new file, of GGUF")
      ->type_name(file_value)
      ->required();
  command->add_option("-c,--context", args->context, "tokens of a window")
      ->check(CLI::Range(4u, llm::max_context))
      ->capture_default_str();
  command->add_option("--chunks", args->chunks, "at most so many windows, 0: all")
      ->capture_default_str();
  command->add_flag("--bos", args->bos,
                    "start every window with the token that begins a text, also where the model "
                    "does not ask for it");
  command->add_flag("--output-head", args->head, "of output.weight, too");
  command->add_flag("--json", args->json, "what was written, as JSON");
  command->footer(
      "The file is that of llama-imatrix. A few hundred windows of text like that the model will\n"
      "meet are enough; best taken with the model as it is before it is quantized.\n"
      "Examples:\n  onepass imatrix -m model-f16.gguf -f text.txt -o imatrix.gguf -c 64 --chunks "
      "4\n"
      "  onepass quantize model-f16.gguf model-iq4_xs.gguf iq4_xs --imatrix imatrix.gguf");
  command->callback([&run, args] { run = [args] { return exit_code(run_imatrix(*args)); }; });
}

}  // namespace onepass::tool
