#include "model_info.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <set>

#include "common/json_writer.h"
#include "io/json.h"
#include "model/architecture.h"

namespace onepass::tool {
namespace {

constexpr std::size_t shown_bytes = 60;   // of a long text
constexpr std::uint64_t shown_items = 6;  // of a long list

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

std::string reason(const Error& e) {
  const bool named = e.field.empty() || e.message.find(e.field) != e.message.npos;
  return e.message + (named ? "" : " (" + e.field + ")");
}

// The numbers, and whether the tensors are those of such a model.
void take_config(ModelInfo& info, llm::ModelFiles& files) {
  const Result<llm::ModelConfig> config = files.config();
  if (!config) {
    info.refused = reason(config.error());
    return;
  }
  const auto plan = [&]() -> Result<llm::WeightPlan> {
    ONEPASS_ASSIGN(const auto weights, files.weights());
    return llm::plan_weights(*config, *weights);
  }();
  if (plan) {
    info.left_out = plan->left_out;
  } else {
    info.refused = reason(plan.error());
  }
  info.config = *config;
  info.architecture = config->architecture->name;
  info.context = config->context;
  info.vocabulary = config->vocab;
  if (info.name.empty()) info.name = config->name;
}

void take_tokenizer(ModelInfo& info, const std::string& kind,
                    const Result<llm::Tokenizer>& tokenizer) {
  info.tokenizer = kind;
  if (tokenizer) {
    info.vocabulary = std::max<std::uint64_t>(info.vocabulary, tokenizer->size());
  } else {
    info.tokenizer_refused = tokenizer.error().message;
  }
}

// The files of a set are named NAME-00001-of-00003.gguf and so on.
std::vector<std::string> shard_paths(const std::string& first, std::size_t count) {
  if (count == 1) return {first};
  const std::size_t number = first.rfind("-00001-of-");
  std::vector<std::string> paths;
  for (std::size_t i = 1; i <= count && number != first.npos; ++i) {
    char digits[16];
    std::snprintf(digits, sizeof digits, "-%05zu", i);
    paths.push_back(first.substr(0, number) + digits + first.substr(number + 6));
  }
  return paths;
}

std::uint64_t elements_of(const TensorInfo& t) {
  std::uint64_t n = 1;
  for (const std::uint64_t d : t.dims) n *= d;
  return n;
}

void read_gguf(ModelInfo& info, const io::Gguf& meta, llm::ModelFiles& files) {
  info.files = shard_paths(info.path, info.shards);
  info.format = "GGUF v" + std::to_string(meta.version());
  for (const TensorInfo& t : info.list) info.add(t.type, elements_of(t), t.bytes);
  for (const io::GgufEntry& e : meta.entries()) {
    const auto* bytes = reinterpret_cast<const char*>(e.value.bytes.data());
    info.metadata.push_back({one_line(e.key), show_type(e.value), show_value(e.value),
                             std::string(bytes, e.value.bytes.size())});
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
    take_config(info, files);
  }
  if (const auto text = meta.text("tokenizer.ggml.model")) {
    std::string kind = one_line(*text);
    if (const auto pre = meta.text("tokenizer.ggml.pre")) kind += ", " + one_line(*pre);
    take_tokenizer(info, kind, files.tokenizer());
  }
}

// MLX keeps a quantized matrix as packed words with scales and biases beside it: one row of the
// table, and as many parameters as the words hold.
void add_folder_tensor(ModelInfo& info, const llm::Quantization& q,
                       const std::set<std::string_view>& names, const TensorInfo& t) {
  const std::uint64_t elements = elements_of(t);
  const std::string module = t.name.substr(0, t.name.rfind('.'));
  const std::string part = t.name.substr(std::min(module.size() + 1, t.name.size()));
  const bool packed = q.any && (part == "weight" || part == "scales" || part == "biases") &&
                      names.count(module + ".scales") != 0;
  if (!packed) return info.add(t.type, elements, t.bytes);
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

// Every file directly in a folder, by name.
Result<std::vector<std::string>> files_of(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    std::error_code ignored;
    if (at->is_regular_file(ignored)) files.push_back(at->path().string());
  }
  if (error) return fail(ErrorCode::io, folder + ": " + error.message());
  std::sort(files.begin(), files.end());
  return files;
}

// Numbers as they are written.
void add_exact(JsonWriter& out, const io::Json& value) {
  switch (value.kind()) {
    case io::JsonKind::null:
      out.null();
      break;
    case io::JsonKind::boolean:
      out.value(*value.boolean());
      break;
    case io::JsonKind::number:
      out.number(*value.number_text());
      break;
    case io::JsonKind::string:
      out.value(*value.text());
      break;
    case io::JsonKind::array:
      out.begin_array();
      for (const io::Json item : value.items()) add_exact(out, item);
      out.end_array();
      break;
    case io::JsonKind::object:
      out.begin_object();
      for (const io::JsonMember& m : value.members()) add_exact(out.key(m.key), m.value);
      out.end_object();
      break;
  }
}

Status read_folder(ModelInfo& info, const io::Json& json, llm::ModelFiles& files) {
  ONEPASS_ASSIGN(info.files, files_of(info.path));
  const auto quantization = llm::read_quantization(json);
  info.format = "safetensors";
  std::set<std::string_view> names;
  for (const TensorInfo& t : info.list) names.insert(t.name);
  for (const TensorInfo& t : info.list) {
    add_folder_tensor(info, quantization ? *quantization : llm::Quantization{}, names, t);
  }
  for (const auto& [key, value] : json.members()) {
    std::string shown;
    if (const auto words = value.text()) shown = one_line(*words);
    if (const auto flag = value.boolean()) shown = *flag ? "true" : "false";
    if (const auto number = value.number_text()) shown = one_line(*number);
    if (value.is(io::JsonKind::array)) shown = "(" + std::to_string(value.size()) + " items)";
    if (value.is(io::JsonKind::object)) shown = "(" + std::to_string(value.size()) + " keys)";
    JsonWriter exact;
    add_exact(exact, value);
    info.metadata.push_back({one_line(key), io::name(value.kind()), shown, exact.text()});
  }
  if (const auto type = json["model_type"].text()) info.architecture = one_line(*type);
  take_config(info, files);
  const auto tokenizer = files.tokenizer();
  if (tokenizer || tokenizer.error().code != ErrorCode::not_found) {
    take_tokenizer(info, "tokenizer.json", tokenizer);
  }
  return {};
}

}  // namespace

Result<ModelInfo> read_model_info(const std::string& path) {
  ModelInfo info;
  info.path = path;
  ONEPASS_ASSIGN(std::unique_ptr<llm::ModelFiles> opened, llm::ModelFiles::open(path));
  const std::shared_ptr<llm::ModelFiles> files = std::move(opened);
  const llm::ModelStore store = llm::model_store(path);
  io::Json json;
  if (store == llm::ModelStore::folder) {
    ONEPASS_ASSIGN(json, files->folder_config());
  }
  ONEPASS_ASSIGN(info.list, files->tensors());
  ONEPASS_ASSIGN(info.shards, files->n_shards());
  if (store != llm::ModelStore::synthetic) {
    info.read = [files](const std::string& name, std::uint64_t offset, std::span<std::byte> out) {
      return files->read(name, offset, out);
    };
  }
  if (const io::Gguf* metadata = files->gguf_metadata()) {
    read_gguf(info, *metadata, *files);
  } else if (store == llm::ModelStore::folder) {
    ONEPASS_TRY(read_folder(info, json, *files));
  } else {
    info.format = "random weights";
    take_config(info, *files);
    for (const TensorInfo& t : info.list) info.add(t.type, elements_of(t), t.bytes);
  }
  return info;
}

std::string shape_text(const TensorInfo& tensor) {
  std::string text;
  for (const std::uint64_t d : tensor.dims) text += (text.empty() ? "" : ", ") + std::to_string(d);
  return tensor.type + " [" + text + "]";
}

}  // namespace onepass::tool
