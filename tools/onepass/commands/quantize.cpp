#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>

#include "common.h"
#include "common/json_writer.h"
#include "common/terminal.h"
#include "model/quantize_file.h"

namespace onepass::tool {
namespace {

struct QuantizeArgs {
  std::string in, out, type, imatrix;
  bool dry_run = false;
  bool json = false;
  llm::QuantizeOptions options;
};

// Sums of the tensors of one type.
struct Kind {
  std::uint64_t tensors = 0, values = 0, bytes = 0;

  void add(std::uint64_t n, std::uint64_t size) {
    ++tensors;
    values += n;
    bytes += size;
  }
  double bits() const {
    return values == 0 ? 0.0 : 8.0 * static_cast<double>(bytes) / static_cast<double>(values);
  }
};

std::string table_row(const std::string& type, const Kind& kind) {
  char line[128];
  std::snprintf(line, sizeof line, "%-8s %8llu %14llu %10s %10.3f\n", type.c_str(),
                static_cast<unsigned long long>(kind.tensors),
                static_cast<unsigned long long>(kind.values), show_bytes(kind.bytes).c_str(),
                kind.bits());
  return line;
}

void put_kind(JsonWriter& json, const Kind& kind) {
  json.begin_object().key("tensors").value(kind.tensors).key("weights").value(kind.values);
  json.key("bytes").value(kind.bytes).key("bits_per_weight").value(kind.bits()).end_object();
}

std::string known_types() {
  std::string text;
  for (const llm::QuantMix& mix : llm::quant_mixes()) {
    text += (text.empty() ? "" : ", ") + std::string(mix.name);
  }
  return text;
}

Status run_quantize(QuantizeArgs& args) {
  args.options.mix = llm::find_mix(args.type);
  if (args.options.mix == nullptr) {
    refuse("TYPE", "'" + args.type + "', expected one of " + known_types());
  }
  llm::Imatrix imatrix;
  if (!args.imatrix.empty()) {
    ONEPASS_ASSIGN(imatrix, llm::Imatrix::read(args.imatrix));
    args.options.imatrix = &imatrix;
    args.options.imatrix_path = args.imatrix;
  }
  ONEPASS_ASSIGN(const io::GgufFile file, io::GgufFile::open(args.in));
  ONEPASS_ASSIGN(const llm::QuantizePlan plan, llm::plan_quantize(file, args.options));
  Kind before, after;
  std::map<std::string, Kind> kinds;
  for (const llm::PlannedTensor& t : plan.tensors) {
    before.add(t.values, t.from_bytes);
    after.add(t.values, t.to_bytes);
    kinds[t.to].add(t.values, t.to_bytes);
  }
  if (!args.dry_run) {
    ProgressBar bar("quantizing");
    args.options.progress = [&bar](std::uint64_t done, std::uint64_t total) -> Status {
      if (interrupted()) return fail(ErrorCode::cancelled, "interrupted while quantizing");
      bar.show(done, total);
      return {};
    };
    ONEPASS_TRY(llm::quantize_file(file, plan, args.out, args.options));
  }
  if (args.json) {
    JsonWriter json;
    json.begin_object().key("type").value(plan.mix->name).key("written").value(!args.dry_run);
    json.key("before");
    put_kind(json, before);
    json.key("after");
    put_kind(json, after);
    json.key("kinds").begin_object();
    for (const auto& [type, kind] : kinds) {
      json.key(type);
      put_kind(json, kind);
    }
    json.end_object().key("tensors").begin_array();
    for (const llm::PlannedTensor& t : plan.tensors) {
      json.begin_object().key("name").value(t.name).key("from").value(t.from);
      json.key("to").value(t.to).key("bytes").value(t.to_bytes);
      json.key("importance").value(t.weighed ? "used" : t.needs_importance ? "needed" : "none");
      json.end_object();
    }
    return put(json.end_array().end_object().text() + "\n");
  }
  std::string text = "type      tensors        weights       size   bits per weight\n";
  for (const auto& [type, kind] : kinds) text += table_row(type, kind);
  text += table_row("all", after) + table_row("before", before);
  ONEPASS_TRY(put(text));
  const bool needed = std::any_of(plan.tensors.begin(), plan.tensors.end(),
                                  [](const auto& t) { return t.needs_importance; });
  if (needed) notes() << "an importance matrix is needed: see onepass imatrix --help\n";
  if (args.dry_run) notes() << "dry run: nothing was written\n";
  return {};
}

}  // namespace

void add_quantize(CLI::App& app, Run& run) {
  const auto args = std::make_shared<QuantizeArgs>();
  CLI::App* command = app.add_subcommand("quantize", "a GGUF file with fewer bits for each weight");
  command->add_option("IN", args->in, "GGUF file of f32, f16, bf16 or q8_0")
      ->type_name(file_value)
      ->required();
  command->add_option("OUT", args->out, "the new file; it may be IN")
      ->type_name(file_value)
      ->required();
  command->add_option("TYPE", args->type, known_types() + "; q3_k, q4_k, q5_k mean ..._m")
      ->required();
  command
      ->add_option("--imatrix", args->imatrix,
                   "file of onepass imatrix or llama-imatrix; iq1_s to iq3_xxs, q2_k_s need one")
      ->type_name(file_value);
  command->add_flag("--dry-run", args->dry_run, "print the sizes, write nothing");
  command->add_flag("--pure", args->options.pure, "the same format for every matrix");
  command->add_flag("--requantize", args->options.requantize,
                    "take a source with fewer bits than q8_0 too");
  command->add_option("-t,--threads", args->options.threads, "0: all cores")
      ->check(CLI::Range(0u, max_threads))
      ->capture_default_str();
  command->add_flag("--json", args->json, "sizes of every kind and tensor as JSON");
  add_quiet_to(*command);
  command->footer(
      "Example:\n  onepass quantize model-f16.gguf model-q4_k_m.gguf q4_k_m\n"
      "  onepass quantize model-f16.gguf none q4_k_m --dry-run");
  command->callback([&run, args] { run = [args] { return exit_code(run_quantize(*args)); }; });
}

}  // namespace onepass::tool
