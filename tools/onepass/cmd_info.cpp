#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <optional>

#include "common.h"
#include "io/gguf_file.h"
#include "json_writer.h"
#include "llm/architecture.h"
#include "llm/synthetic.h"

namespace onepass::tool {
namespace {

constexpr std::size_t shown_bytes = 60;   // of a long text
constexpr std::uint64_t shown_items = 6;  // of a long list

struct TypeCount {
  std::uint64_t tensors = 0, elements = 0, bytes = 0;
};

// One metadata value: cut for people, whole for programs unless it is a list.
struct Entry {
  std::string key, type, shown;
};

struct Info {
  std::string path, format, architecture, name;
  std::optional<std::string> refused;  // why it cannot be run
  std::optional<llm::ModelConfig> config;
  std::uint64_t shards = 1, tensors = 0, parameters = 0, bytes = 0;
  std::map<std::string, TypeCount> types;
  std::uint64_t context = 0, vocabulary = 0;
  std::string tokenizer;  // empty: none
  std::optional<std::string> tokenizer_refused;
  std::vector<Entry> metadata;

  void add(std::string_view type, std::uint64_t elements, std::uint64_t size) {
    ++tensors;
    parameters += elements;
    bytes += size;
    TypeCount& t = types[std::string(type)];
    ++t.tensors;
    t.elements += elements;
    t.bytes += size;
  }
};

// Printable on one line: control characters are replaced, too much is cut between code points.
std::string one_line(std::string_view text, std::size_t limit = shown_bytes) {
  std::string out;
  for (const char c : valid_utf8(text.substr(0, limit + 4))) {
    if (out.size() >= limit && (static_cast<unsigned char>(c) & 0xC0) != 0x80) break;
    if (c == '\n') {
      out += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      out += '?';
    } else {
      out += c;
    }
  }
  if (text.size() > limit) out += "... (" + std::to_string(text.size()) + " bytes)";
  return out;
}

template <class T>
std::string number_text(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  if constexpr (std::is_floating_point_v<T>) {
    char text[32];
    std::snprintf(text, sizeof text, "%.9g", static_cast<double>(value));
    return text;
  } else {
    return std::to_string(value);
  }
}

struct NumberRow {
  io::GgufType type;
  std::size_t bytes;
  std::string (*show)(const std::byte*);
};
template <class T>
constexpr NumberRow row(io::GgufType type) {
  return {type, sizeof(T), number_text<T>};
}
constexpr NumberRow number_rows[] = {
    row<std::uint8_t>(io::GgufType::u8),   row<std::int8_t>(io::GgufType::i8),
    row<std::uint16_t>(io::GgufType::u16), row<std::int16_t>(io::GgufType::i16),
    row<std::uint32_t>(io::GgufType::u32), row<std::int32_t>(io::GgufType::i32),
    row<std::uint64_t>(io::GgufType::u64), row<std::int64_t>(io::GgufType::i64),
    row<float>(io::GgufType::f32),         row<double>(io::GgufType::f64),
};

std::string show_value(const io::GgufValue& v) {
  const io::GgufType type = v.type == io::GgufType::array ? v.element : v.type;
  const std::uint64_t n = v.type == io::GgufType::array ? std::min(v.count, shown_items) : 1;
  std::string out;
  const auto add = [&out](const std::string& item) { out += (out.empty() ? "" : ", ") + item; };
  if (type == io::GgufType::string && v.type == io::GgufType::array) {
    std::uint64_t i = 0;
    for (const std::string_view text : io::GgufStrings(v)) {
      if (i++ == n) break;
      add("\"" + one_line(text, 24) + "\"");
    }
  } else if (type == io::GgufType::string) {
    const auto* text = reinterpret_cast<const char*>(v.bytes.data());
    return one_line({text, v.bytes.size()});
  } else if (type == io::GgufType::boolean) {
    for (std::uint64_t i = 0; i < n; ++i) {
      add(v.bytes[static_cast<std::size_t>(i)] != std::byte{0} ? "true" : "false");
    }
  } else if (type == io::GgufType::array) {
    return "(lists)";
  } else {
    const NumberRow* r = std::find_if(std::begin(number_rows), std::end(number_rows),
                                      [type](const NumberRow& x) { return x.type == type; });
    for (std::uint64_t i = 0; i < n && r != std::end(number_rows); ++i) {
      add(r->show(v.bytes.data() + static_cast<std::size_t>(i) * r->bytes));
    }
  }
  if (v.type != io::GgufType::array) return out;
  return "[" + out + (v.count > n ? ", ..." : "") + "]";
}

std::string show_type(const io::GgufValue& v) {
  if (v.type != io::GgufType::array) return io::name(v.type);
  return std::string(io::name(v.element)) + "[" + std::to_string(v.count) + "]";
}

void take_config(Info& info, const Result<llm::ModelConfig>& config) {
  if (!config) {
    info.refused = config.error().message +
                   (config.error().field.empty() ? "" : " (" + config.error().field + ")");
    return;
  }
  info.config = *config;
  info.architecture = config->architecture->name;
  info.context = config->context;
  info.vocabulary = config->vocab;
  if (info.name.empty()) info.name = config->name;
}

void take_tokenizer(Info& info, const std::string& kind) {
  info.tokenizer = kind;
  const auto tokenizer = llm::open_tokenizer(info.path);
  if (tokenizer) {
    info.vocabulary = std::max<std::uint64_t>(info.vocabulary, tokenizer->size());
  } else {
    info.tokenizer_refused = tokenizer.error().message;
  }
}

Status read_gguf(Info& info) {
  ONEPASS_ASSIGN(const io::GgufFile file, io::GgufFile::open(info.path));
  const io::Gguf& meta = file.metadata();
  info.format = "GGUF v" + std::to_string(meta.version());
  info.shards = file.n_shards();
  for (std::size_t i = 0; i < file.n_shards(); ++i) {
    for (const io::GgufTensor& t : file.shard(i).tensors()) {
      std::uint64_t elements = 1;
      for (std::uint32_t d = 0; d < t.n_dims; ++d) elements *= t.dims[d];
      info.add(t.type->name, elements, t.bytes);
    }
  }
  for (const io::GgufEntry& e : meta.entries()) {
    info.metadata.push_back({one_line(e.key), show_type(e.value), show_value(e.value)});
  }
  if (const auto text = meta.text("general.name")) info.name = one_line(*text);
  if (const auto text = meta.text("general.architecture")) {
    info.architecture = one_line(*text);
    const std::string prefix(*text);
    if (const auto n = meta.integer(prefix + ".context_length")) info.context = *n;
    if (const auto n = meta.integer(prefix + ".vocab_size")) info.vocabulary = *n;
  }
  if (info.tensors == 0) {
    info.refused = "the file has a vocabulary only, no tensors";
  } else {
    take_config(info, llm::read_config(meta));
  }
  if (const auto text = meta.text("tokenizer.ggml.model")) {
    std::string kind = one_line(*text);
    if (const auto pre = meta.text("tokenizer.ggml.pre")) kind += ", " + one_line(*pre);
    take_tokenizer(info, kind);
  }
  return {};
}

// MLX keeps a quantized matrix as packed words with scales and biases beside it: one row of the
// table, and as many parameters as the words hold.
void add_folder_tensor(Info& info, const llm::Quantization& q, const io::SafetensorsFile& file,
                       const io::Safetensor& t) {
  std::uint64_t elements = 1;
  for (std::uint32_t d = 0; d < t.n_dims; ++d) elements *= t.dims[d];
  const std::string_view module = t.name.substr(0, t.name.rfind('.'));
  const std::string_view part = t.name.substr(std::min(module.size() + 1, t.name.size()));
  const bool packed = q.any && (part == "weight" || part == "scales" || part == "biases") &&
                      file.find(std::string(module) + ".scales");
  if (!packed) return info.add(t.type->name, elements, t.bytes);
  llm::AffineFormat format = q.all;
  for (const llm::Quantization::Module& m : q.modules) {
    if (m.path == module) format = m.format;
  }
  TypeCount& row = info.types["affine " + std::to_string(format.bits) + "-bit, groups of " +
                              std::to_string(format.group_size)];
  const std::uint64_t values = part == "weight" ? elements * 32 / format.bits : 0;
  ++info.tensors;
  ++row.tensors;
  info.parameters += values;
  row.elements += values;
  info.bytes += t.bytes;
  row.bytes += t.bytes;
}

Status read_folder(Info& info) {
  ONEPASS_ASSIGN(const std::string text,
                 io::read_text(info.path + "/config.json", io::max_json_bytes));
  ONEPASS_ASSIGN(const io::JsonValue json, io::JsonValue::parse(text));
  ONEPASS_ASSIGN(const io::SafetensorsFile file, io::SafetensorsFile::open(info.path));
  const auto quantization = llm::read_quantization(json);
  info.format = "safetensors";
  info.shards = file.n_shards();
  for (std::size_t i = 0; i < file.n_shards(); ++i) {
    for (const io::Safetensor& t : file.shard(i).tensors()) {
      add_folder_tensor(info, quantization ? *quantization : llm::Quantization{}, file, t);
    }
  }
  for (const auto& [key, value] : json.members) {
    std::string shown;
    if (value.kind == io::JsonKind::string) shown = one_line(value.text);
    if (value.kind == io::JsonKind::boolean) shown = value.boolean ? "true" : "false";
    if (value.kind == io::JsonKind::number) {
      char number[32];
      std::snprintf(number, sizeof number, "%.9g", value.number);
      shown = value.is_integer ? std::to_string(value.integer) : number;
    }
    if (value.kind == io::JsonKind::array) {
      shown = "(" + std::to_string(value.items.size()) + " items)";
    }
    if (value.kind == io::JsonKind::object) {
      shown = "(" + std::to_string(value.members.size()) + " keys)";
    }
    info.metadata.push_back({one_line(key), io::name(value.kind), shown});
  }
  if (const io::JsonValue* type = json.find("model_type")) info.architecture = one_line(type->text);
  take_config(info, llm::read_config(json));
  const auto tokenizer = io::read_text(info.path + "/tokenizer.json", ~std::uint64_t{0});
  if (tokenizer || tokenizer.error().code != ErrorCode::not_found) {
    take_tokenizer(info, "tokenizer.json");
  }
  return {};
}

Status read_synthetic(Info& info) {
  ONEPASS_ASSIGN(const llm::SyntheticSource source, llm::SyntheticSource::create(info.path));
  info.format = "random weights";
  take_config(info, source.config());
  for (const llm::StoredTensor& t : source.tensors()) {
    info.add(name(*t.dtype), t.dims[0] * t.dims[1] * t.dims[2], t.bytes);
  }
  return {};
}

std::string to_json(const Info& info) {
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
  json.key("metadata").begin_array();
  for (const Entry& e : info.metadata) {
    json.begin_object().key("key").value(e.key).key("type").value(e.type);
    json.key("value").value(e.shown).end_object();
  }
  json.end_array().end_object();
  return json.text() + "\n";
}

std::string to_text(const Info& info) {
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
  if (!info.metadata.empty()) out += "metadata\n";
  for (const Entry& e : info.metadata) {
    out += "  " + e.key + " (" + e.type + ") = " + e.shown + "\n";
  }
  return out;
}

struct InfoArgs {
  ModelArgs model;
  bool json = false;
};

Status run_info(const InfoArgs& args) {
  Info info;
  ONEPASS_ASSIGN(info.path, args.model.path());
  if (info.path.starts_with(llm::synthetic_prefix)) {
    ONEPASS_TRY(read_synthetic(info));
  } else if (io::is_folder(info.path)) {
    ONEPASS_TRY(read_folder(info));
  } else {
    ONEPASS_TRY(read_gguf(info));
  }
  return put(args.json ? to_json(info) : to_text(info));
}

}  // namespace

void add_info(CLI::App& app, Run& run) {
  const auto args = std::make_shared<InfoArgs>();
  CLI::App* command = app.add_subcommand("info", "what is in a model file; reads no tensor");
  command->add_option(
      "model,-m,--model", args->model.model,
      "GGUF file, folder or synthetic:PRESET:QUANT (default: the model in the box)");
  command->add_flag("--json", args->json, "as one JSON object");
  command->footer("Example:\n  onepass info model.gguf");
  command->callback([&run, args] { run = [args] { return exit_code(run_info(*args)); }; });
}

}  // namespace onepass::tool
