#include <algorithm>
#include <cstdio>
#include <memory>

#include "common.h"
#include "common/json_writer.h"
#include "common/sha256.h"
#include "common/terminal.h"
#include "core/os.h"
#include "info/info_diff.h"
#include "info/model_info.h"
#include "info/model_kernels.h"
#include "model/architecture.h"

namespace onepass::tool {
namespace {

constexpr std::uint64_t chunk_bytes = std::uint64_t{1} << 20;

struct InfoArgs {
  ModelArgs model;
  std::string diff;
  bool tensors = false, hash = false, exit_code = false;
  bool json = false;
};

// SHA-256 of each file and, where tensors are listed, of each of them; empty unless asked for.
struct Hashes {
  std::vector<std::string> files, tensors;
};

// What its tensors get on a device.
struct Kernels {
  std::string device;
  std::optional<Device> opened = std::nullopt;
  ModelKernels of{};

  const llm::WeightKernel* find(const std::string& tensor) const {
    const auto at = of.by_tensor.find(tensor);
    return at == of.by_tensor.end() ? nullptr : &at->second;
  }
};

// Reads `size` bytes piece by piece.
template <class Read>
Result<std::string> hash_of(std::uint64_t size, ProgressBar& bar, Read&& read) {
  Sha256 hash;
  std::vector<std::byte> buffer(static_cast<std::size_t>(std::min(size, chunk_bytes)));
  for (std::uint64_t at = 0; at < size;) {
    if (interrupted()) return fail(ErrorCode::cancelled, "interrupted while reading");
    const auto n = static_cast<std::size_t>(std::min(size - at, chunk_bytes));
    ONEPASS_TRY(read(at, std::span(buffer).first(n)));
    hash.add(std::span(buffer).first(n));
    at += n;
    bar.show(at, size);
  }
  return hash.hex();
}

Result<Hashes> hash_model(const ModelInfo& info, bool tensors) {
  Hashes hashes;
  if (!info.read) {
    return fail(ErrorCode::unsupported, info.path + " is made as it is loaded: no file to hash");
  }
  ProgressBar bar("reading");
  for (const std::string& path : info.files) {
    ONEPASS_ASSIGN(const os::File file, os::File::open(path));
    ONEPASS_ASSIGN(std::string text,
                   hash_of(file.bytes(), bar, [&](std::uint64_t at, std::span<std::byte> out) {
                     return file.read(at, out);
                   }));
    hashes.files.push_back(std::move(text));
  }
  for (std::size_t i = 0; tensors && i < info.list.size(); ++i) {
    const TensorInfo& t = info.list[i];
    ONEPASS_ASSIGN(std::string text,
                   hash_of(t.bytes, bar, [&](std::uint64_t at, std::span<std::byte> out) {
                     return info.read(t.name, at, out);
                   }));
    hashes.tensors.push_back(std::move(text));
  }
  return hashes;
}

void put_kernels(JsonWriter& json, const Kernels& kernels) {
  const llm::GenericWeights& g = kernels.of.generic;
  json.key("kernels").begin_object().key("device").value(kernels.device);
  json.key("generic_weights").value(g.weights).key("generic_share").value(g.share());
  json.key("generic").begin_array();
  for (const std::string& name : g.kernels) json.value(name);
  json.end_array().end_object();
}

std::string to_json(const ModelInfo& info, const Hashes& hashes, const Kernels& kernels,
                    bool tensors) {
  JsonWriter json;
  json.begin_object();
  json.key("path").value(info.path).key("format").value(info.format);
  json.key("architecture").value(info.architecture).key("name").value(info.name);
  json.key("runs").value(!info.refused);
  json.key("reason");
  info.refused ? json.value(*info.refused) : json.null();
  json.key("shards").value(info.shards).key("tensors").value(info.tensors);
  json.key("parameters").value(info.parameters).key("bytes").value(info.bytes);
  json.key("types").begin_object();
  for (const auto& [type, t] : info.types) {
    json.key(type).begin_object().key("tensors").value(t.tensors);
    json.key("elements").value(t.elements).key("bytes").value(t.bytes).end_object();
  }
  json.end_object();
  json.key("context").value(info.context).key("vocabulary").value(info.vocabulary);
  json.key("tokenizer");
  info.tokenizer.empty() ? json.null() : json.value(info.tokenizer);
  json.key("tokenizer_works").value(!info.tokenizer.empty() && !info.tokenizer_refused);
  if (info.config) {
    const llm::ModelConfig& c = *info.config;
    json.key("layers").value(c.n_layers).key("dim").value(c.dim);
    json.key("heads").value(c.n_heads).key("kv_heads").value(c.n_kv_heads);
    json.key("head_dim").value(c.head_dim).key("ffn_dim").value(c.ffn_dim);
    json.key("experts").value(c.n_experts).key("experts_used").value(c.n_experts_used);
  }
  if (kernels.opened) put_kernels(json, kernels);
  json.key("left_out").begin_array();
  for (const llm::LeftOut& l : info.left_out) {
    json.begin_object().key("first").value(l.name).key("tensors").value(l.tensors);
    json.key("reason").value(l.reason).end_object();
  }
  json.end_array();
  json.key("metadata").begin_array();
  for (const MetadataEntry& e : info.metadata) {
    json.begin_object().key("key").value(e.key).key("type").value(e.type);
    json.key("value").value(e.shown).end_object();
  }
  json.end_array();
  if (!hashes.files.empty()) {
    json.key("files").begin_array();
    for (std::size_t i = 0; i < info.files.size(); ++i) {
      json.begin_object().key("path").value(info.files[i]);
      json.key("sha256").value(hashes.files[i]).end_object();
    }
    json.end_array();
  }
  if (tensors) {
    json.key("tensor_list").begin_array();
    for (std::size_t i = 0; i < info.list.size(); ++i) {
      const TensorInfo& t = info.list[i];
      json.begin_object().key("name").value(t.name).key("type").value(t.type);
      json.key("dims").begin_array();
      for (const std::uint64_t d : t.dims) json.value(d);
      json.end_array().key("bytes").value(t.bytes);
      if (const llm::WeightKernel* kernel = kernels.find(t.name)) {
        json.key("kernel").value(kernel->name).key("generic").value(kernel->generic);
      }
      if (!hashes.tensors.empty()) json.key("sha256").value(hashes.tensors[i]);
      json.end_object();
    }
    json.end_array();
  }
  json.end_object();
  return json.text() + "\n";
}

std::string to_text(const ModelInfo& info, const Hashes& hashes, const Kernels& kernels,
                    bool tensors) {
  std::string out;
  const auto line = [&out](const std::string& label, const std::string& value) {
    out += label + std::string(label.size() < 14 ? 14 - label.size() : 1, ' ') + value + "\n";
  };
  const auto n = [](std::uint64_t value) { return std::to_string(value); };
  line("file", info.path + " (" + info.format +
                   (info.shards > 1 ? ", " + n(info.shards) + " shards)" : ")"));
  line("architecture", (info.architecture.empty() ? "unknown" : info.architecture) +
                           (info.refused ? ", cannot be run: " + *info.refused : ", can be run"));
  if (!info.name.empty()) line("name", info.name);
  if (info.tensors > 0) {
    line("parameters",
         n(info.parameters) + " in " + n(info.tensors) + " tensors, " + show_bytes(info.bytes));
    char bits[64];
    std::snprintf(bits, sizeof bits, "%.2f bits per parameter",
                  8.0 * static_cast<double>(info.bytes) / static_cast<double>(info.parameters));
    for (const auto& [type, t] : info.types) {
      line("  " + type,
           n(t.tensors) + " tensors, " + n(t.elements) + " values, " + show_bytes(t.bytes));
    }
    line("", bits);
  }
  for (const llm::LeftOut& l : info.left_out) {
    line("left out", l.name + (l.tensors > 1 ? " and " + n(l.tensors - 1) + " more: " : ": ") +
                         std::string(l.reason));
  }
  if (info.config) {
    const llm::ModelConfig& c = *info.config;
    line("shape", n(c.n_layers) + " layers, width " + n(c.dim) + ", " + n(c.n_heads) +
                      " heads of " + n(c.head_dim) + " on " + n(c.n_kv_heads) +
                      " key/value heads, feed-forward " + n(c.ffn_dim) +
                      (c.n_experts > 0 ? ", " + n(c.n_experts_used) + " of " + n(c.n_experts) +
                                             " experts of " + n(c.expert_ffn_dim)
                                       : ""));
  }
  if (info.context > 0) line("context", n(info.context) + " tokens");
  if (info.vocabulary > 0) line("vocabulary", n(info.vocabulary) + " tokens");
  line("tokenizer",
       info.tokenizer.empty()
           ? "none"
           : info.tokenizer +
                 (info.tokenizer_refused ? ", cannot be used: " + *info.tokenizer_refused : ""));
  if (kernels.opened) {
    const std::string generic = kernels.of.generic.text(*kernels.opened);
    line("kernels", generic.empty()
                        ? "all matrices have one of their type's own on " + kernels.device
                        : "slow: " + generic);
  }
  if (!info.metadata.empty()) out += "metadata\n";
  for (const MetadataEntry& e : info.metadata) {
    out += "  " + e.key + " (" + e.type + ") = " + e.shown + "\n";
  }
  if (tensors) out += "tensors\n";
  for (std::size_t i = 0; tensors && i < info.list.size(); ++i) {
    const TensorInfo& t = info.list[i];
    const llm::WeightKernel* kernel = kernels.find(t.name);
    out += "  " + t.name + "  " + shape_text(t) + "  " + show_bytes(t.bytes) +
           (kernel == nullptr ? "" : std::string("  ") + kernel->name) +
           (kernel != nullptr && kernel->generic ? " (generic)" : "") +
           (hashes.tensors.empty() ? "" : "  " + hashes.tensors[i]) + "\n";
  }
  if (!hashes.files.empty()) out += "sha256\n";
  for (std::size_t i = 0; i < hashes.files.size(); ++i) {
    out += "  " + hashes.files[i] + "  " + info.files[i] + "\n";
  }
  return out;
}

// Of a model that runs.
Result<Kernels> kernels_of(const ModelInfo& info, DeviceArgs& device) {
  Kernels kernels;
  if (info.refused) return kernels;
  ONEPASS_ASSIGN(kernels.opened, device.open());
  kernels.device = kernels.opened->info().name;
  ONEPASS_ASSIGN(kernels.of, model_kernels(info.path, *kernels.opened));
  return kernels;
}

Result<int> run_info(InfoArgs& args) {
  ONEPASS_ASSIGN(const std::string path, args.model.path());
  ONEPASS_ASSIGN(const ModelInfo info, read_model_info(path));
  if (!args.diff.empty()) {
    if (args.hash || args.tensors) refuse("--diff", "compares all tensors: no --hash, --tensors");
    ONEPASS_ASSIGN(const ModelInfo other, read_model_info(args.diff));
    ONEPASS_ASSIGN(const InfoDiff diff, diff_models(info, other));
    ONEPASS_TRY(put(args.json ? diff_json(info, other, diff) : diff_text(info, other, diff)));
    return args.exit_code && !diff.same() ? 1 : 0;
  }
  Hashes hashes;
  if (args.hash) {
    ONEPASS_ASSIGN(hashes, hash_model(info, args.tensors));
  }
  ONEPASS_ASSIGN(const Kernels kernels, kernels_of(info, args.model.device));
  ONEPASS_TRY(put(args.json ? to_json(info, hashes, kernels, args.tensors)
                            : to_text(info, hashes, kernels, args.tensors)));
  return 0;
}

}  // namespace

void add_info(CLI::App& app, Run& run) {
  const auto args = std::make_shared<InfoArgs>();
  CLI::App* command = app.add_subcommand("info", "what is in a model file, and how two differ");
  command
      ->add_option("model,-m,--model", args->model.model,
                   "GGUF file, folder or synthetic:PRESET:QUANT (default: the model in the box)")
      ->type_name(model_value);
  args->model.device.add_to(*command);
  command->add_flag("--tensors", args->tensors,
                    "list every tensor: name, type, shape, size, and the kernel it gets");
  command->add_flag("--hash", args->hash,
                    "SHA-256 of every file, with --tensors of every tensor; reads all of them");
  CLI::Option* diff =
      command
          ->add_option(
              "--diff", args->diff,
              "what differs in this other model file or folder: metadata, tensors, their values")
          ->type_name(file_value);
  command->add_flag("--exit-code", args->exit_code, "with --diff: exit 1 where they differ")
      ->needs(diff);
  command->add_flag("--json", args->json, "as one JSON object");
  add_quiet_to(*command);
  command->footer(
      "Reads no tensor, unless --hash or --diff is given.\nExamples:\n  onepass info model.gguf\n"
      "  onepass info model.gguf --tensors\n  onepass info model.gguf --diff model-f16.gguf");
  command->callback([&run, args] {
    run = [args] {
      const Result<int> code = run_info(*args);
      return code ? *code : report(code.error());
    };
  });
}

}  // namespace onepass::tool
