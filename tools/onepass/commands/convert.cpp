#include "model/convert.h"

#include <cstdio>
#include <iostream>
#include <memory>

#include "common.h"
#include "common/json_writer.h"
#include "common/terminal.h"
#include "model/model_files.h"

namespace onepass::tool {
namespace {

struct ConvertArgs {
  std::string in, out, type;
  bool no_tokenizer = false;
  bool json = false;
  llm::ConvertOptions options;
};

// What --type means depends on the direction.
void read_type(ConvertArgs& args, bool to_gguf) {
  if (to_gguf && args.options.bits != 0) refuse("--bits", "is for folders; a GGUF file has --type");
  if (args.type.empty()) return;
  if (to_gguf) {
    args.options.mix = llm::find_mix(args.type);
    if (args.options.mix != nullptr) return;
    std::string known;
    for (const llm::QuantMix& mix : llm::quant_mixes()) {
      known += (known.empty() ? "" : ", ") + std::string(mix.name);
    }
    refuse("--type", "'" + args.type + "', expected one of " + known);
  }
  args.options.type = dtype_from_name(args.type);
  if (args.type != "f32" && args.type != "f16" && args.type != "bf16") {
    refuse("--type", "'" + args.type + "', a folder has f32, f16 or bf16 (and --bits)");
  }
}

Status run_convert(ConvertArgs& args) {
  const bool to_gguf = llm::model_store(args.in) == llm::ModelStore::folder;
  read_type(args, to_gguf);
  args.options.tokenizer = !args.no_tokenizer;
  Result<llm::ConvertReport> result = fail(ErrorCode::internal, "not run");
  {
    ProgressBar bar("converting");
    args.options.progress = [&bar](std::uint64_t done, std::uint64_t total) -> Status {
      if (interrupted()) return fail(ErrorCode::cancelled, "interrupted while converting");
      bar.show(done, total);
      return {};
    };
    result = to_gguf ? llm::folder_to_gguf(args.in, args.out, args.options)
                     : llm::gguf_to_folder(args.in, args.out, args.options);
  }
  ONEPASS_ASSIGN(const llm::ConvertReport r, std::move(result));
  const double bits =
      r.values == 0 ? 0.0 : 8.0 * static_cast<double>(r.bytes) / static_cast<double>(r.values);
  if (args.json) {
    JsonWriter json;
    json.begin_object().key("to").value(to_gguf ? "gguf" : "folder");
    json.key("architecture").value(r.architecture).key("tensors").value(r.tensors);
    json.key("weights").value(r.values).key("bytes").value(r.bytes);
    json.key("bits_per_weight").value(bits).key("tokenizer").value(r.tokenizer).end_object();
    return put(json.text() + "\n");
  }
  char line[160];
  std::snprintf(line, sizeof line, "%s: %llu tensors, %llu weights, %s, %.3f bits per weight\n",
                r.architecture.c_str(), static_cast<unsigned long long>(r.tensors),
                static_cast<unsigned long long>(r.values), show_bytes(r.bytes).c_str(), bits);
  ONEPASS_TRY(put(line));
  for (const llm::LeftOut& l : r.left_out) {
    std::cerr << l.tensors << " tensors are left out, such as " << l.name << ": " << l.reason
              << "\n";
  }
  if (!r.tokenizer) std::cerr << "the new model has no tokenizer\n";
  return {};
}

}  // namespace

void add_convert(CLI::App& app, Run& run) {
  const auto args = std::make_shared<ConvertArgs>();
  CLI::App* command = app.add_subcommand(
      "convert", "an MLX or Hugging Face folder to a GGUF file, or a GGUF file to a folder");
  command->add_option("IN", args->in, "the folder or the GGUF file")
      ->type_name(file_value)
      ->required();
  command->add_option("OUT", args->out, "the new GGUF file, or the folder, which must not exist")
      ->type_name(file_value)
      ->required();
  command->add_option(
      "--type", args->type,
      "GGUF: a type of onepass quantize; folder: f32, f16, bf16 (default: as stored, "
      "f16 for quantized weights)");
  CLI::Option* bits =
      command
          ->add_option("--bits", args->options.bits, "folder: MLX weights of 2, 3, 4, 6 or 8 bits")
          ->check(CLI::IsMember({2, 3, 4, 6, 8}));
  command
      ->add_option("--group", args->options.group_size, "with --bits: weights that share a scale")
      ->check(CLI::IsMember({32, 64, 128}))
      ->capture_default_str()
      ->needs(bits);
  command->add_flag("--no-tokenizer", args->no_tokenizer, "leave the tokenizer out");
  command->add_option("-t,--threads", args->options.threads, "0: all cores")
      ->check(CLI::Range(0u, max_threads))
      ->capture_default_str();
  command->add_flag("--json", args->json, "what was written as JSON");
  add_quiet_to(*command);
  command->footer(
      "Example:\n  onepass convert mlx-folder model.gguf --type q8_0\n"
      "  onepass convert model.gguf mlx-folder --bits 4");
  command->callback([&run, args] { run = [args] { return exit_code(run_convert(*args)); }; });
}

}  // namespace onepass::tool
