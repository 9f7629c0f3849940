// Files with an unknown, missing, doubled or misshapen tensor or key, of every architecture, as
// GGUF files and as folders: refused by name, or the logits of the untouched file. Some of them by
// default, all with ONEPASS_FULL=1.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>
#include <variant>

#include "io/gguf_file.h"
#include "io/safetensors_file.h"
#include "model/convert.h"
#include "model/keys.h"
#include "model/synthetic.h"
#include "run/decoder.h"
#include "support/full_run.h"
#include "support/gguf_writer.h"
#include "support/temp_folder.h"

namespace onepass::test::strict_test {
namespace {

using llm::Architecture;
using llm::ModelConfig;

// A number or text of GGUF metadata, or a value of a JSON object.
struct Entry {
  std::string key;
  std::variant<std::uint32_t, float, bool, std::string> value;
};
struct Stored {
  std::string name;
  std::vector<std::uint64_t> dims;  // as in the file
  std::vector<std::byte> bytes;     // f32
};
struct Content {
  std::vector<Entry> entries;
  std::vector<Stored> tensors;
};

std::vector<std::byte> gguf_of(const Content& c) {
  GgufWriter w;
  for (const Entry& e : c.entries) std::visit([&](const auto& v) { w.set(e.key, v); }, e.value);
  for (const Stored& t : c.tensors) w.tensor(t.name, 0, t.dims, t.bytes);
  return w.finish();
}

void write_folder(const TempFolder& folder, const Content& c) {
  std::string config;
  for (const Entry& e : c.entries) {
    config += (config.empty() ? "{\"" : ",\n\"") + e.key + "\": " + std::get<std::string>(e.value);
  }
  folder.write_text("config.json", config + "}");
  std::string header;
  std::vector<std::byte> data;
  for (const Stored& t : c.tensors) {
    std::string shape;
    for (const std::uint64_t d : t.dims) shape += (shape.empty() ? "" : ",") + std::to_string(d);
    header += (header.empty() ? "{\"" : ",\"") + t.name + "\":{\"dtype\":\"F32\",\"shape\":[" +
              shape + "],\"data_offsets\":[" + std::to_string(data.size()) + "," +
              std::to_string(data.size() + t.bytes.size()) + "]}";
    data.insert(data.end(), t.bytes.begin(), t.bytes.end());
  }
  header += "}";
  std::vector<std::byte> file(8);
  const std::uint64_t n = header.size();
  std::memcpy(file.data(), &n, 8);
  const auto text = std::as_bytes(std::span<const char>(header));
  file.insert(file.end(), text.begin(), text.end());
  file.insert(file.end(), data.begin(), data.end());
  folder.write("model.safetensors", file);
}

// With every tensor that a file of the architecture may have.
Content gguf_content(const Architecture& a, bool all) {
  const bool mixture = llm::key_of(a, llm::at<&ModelConfig::n_experts>).min > 0.0;
  llm::SyntheticPreset preset{"strict", a.name, 64, 2, 4, 2, 16, 96, 97, 10000.0f};
  if (mixture) preset.experts = 4, preset.experts_used = 2, preset.expert_ffn = 48;
  if (mixture) preset.shared_ffn = 48;
  if (llm::key_of(a, llm::at<&ModelConfig::per_layer_dim>).count != nullptr) preset.per_layer = 32;
  if (llm::key_of(a, llm::at<&ModelConfig::window>).min > 0.0) preset.window = 3;
  const auto source = llm::SyntheticSource::create(preset, DType::f32, 5, all);
  const ModelConfig& c = source.config();
  Content content;
  content.entries.push_back({"general.architecture", std::string(a.name)});
  content.entries.push_back({"general.name", std::string("strict")});
  const std::string prefix = std::string(a.name) + ".";
  for (const llm::Key& key : a.keys) {
    if (key.gguf.empty()) continue;
    double value = llm::value_of(key, c);
    // What no key says must be as if this one were missing.
    if (key.number != nullptr && key.fallback != nullptr) value = key.fallback(c);
    if (value < key.min) continue;  // says that there is none
    Entry e{prefix + std::string(key.gguf), static_cast<std::uint32_t>(value)};
    if (key.number != nullptr) e.value = static_cast<float>(value);
    if (key.flag != nullptr) e.value = value != 0.0;
    content.entries.push_back(std::move(e));
  }
  for (const llm::StoredTensor& t : source.stored()) {
    Stored s{t.name, {}, std::vector<std::byte>(static_cast<std::size_t>(t.bytes))};
    for (std::uint32_t d = t.rank; d-- > 0;) s.dims.push_back(t.dims[d]);
    EXPECT_TRUE(source.read(t, 0, s.bytes));
    content.tensors.push_back(std::move(s));
  }
  return content;
}

// The same model as a folder; nothing where the architecture has none.
std::optional<Content> folder_content(const Content& gguf) {
  const TempFolder target;
  const std::string in = target.write("model.gguf", gguf_of(gguf));
  const std::string out = (target.path() / "folder").string();
  if (!llm::gguf_to_folder(in, out, {.type = DType::f32, .tokenizer = false})) return std::nullopt;
  const std::string text = io::read_text(out + "/config.json", 1u << 20).value();
  const auto document = io::JsonDocument::parse(text);
  Content c;
  for (const auto& [key, value] : document->root().members()) {
    std::string written;
    if (const auto words = value.text()) written = "\"" + std::string(*words) + "\"";
    if (const auto flag = value.boolean()) written = *flag ? "true" : "false";
    if (const auto number = value.number_text()) written = *number;
    if (value.is(io::JsonKind::array)) {
      for (const io::Json item : value.items()) {
        written += (written.empty() ? "[\"" : ",\"") + std::string(item.text().value()) + "\"";
      }
      written += "]";
    }
    if (written.empty()) written = "null";
    c.entries.push_back({std::string(key), written});
  }
  const auto file = io::SafetensorsFile::open(out);
  EXPECT_TRUE(file);
  for (const io::Safetensor& t : file->shard(0).tensors()) {
    Stored s{std::string(t.name), {t.dims.begin(), t.dims.begin() + t.n_dims}, {}};
    s.bytes.resize(static_cast<std::size_t>(t.bytes));
    EXPECT_TRUE(file->read(*file->find(t.name), 0, s.bytes));
    c.tensors.push_back(std::move(s));
  }
  return c;
}

struct Mutant {
  std::string what, name;  // what was done to which key or tensor
  Content content;
};

void change_tensors(const Content& c, bool folder, std::vector<Mutant>& list) {
  for (std::size_t i = 0; i < c.tensors.size(); ++i) {
    const std::string& name = c.tensors[i].name;
    const auto add = [&](const char* what, const std::string& of, const auto& change) {
      Mutant m{what, of, c};
      change(m.content.tensors);
      list.push_back(std::move(m));
    };
    const std::string part = name.substr(0, name.rfind('.'));
    for (const char* suffix : {".scale", ".unknown"}) {
      add("unknown", part + suffix, [&](auto& tensors) {
        tensors.push_back({part + suffix, {1}, std::vector<std::byte>(4)});
      });
    }
    // Which no tool can tell from a file that never had them.
    const bool unseen = name == "output.weight" || name == "output.bias" ||
                        name == "rope_freqs.weight" ||
                        (folder && name.ends_with(".bias") && name.starts_with("lm_head"));
    if (!unseen) {
      add("missing", name,
          [&](auto& tensors) { tensors.erase(tensors.begin() + static_cast<std::ptrdiff_t>(i)); });
    }
    add("doubled", name, [&](auto& tensors) { tensors.push_back(tensors[i]); });
    add("misshapen", name, [&](auto& tensors) {
      std::vector<std::uint64_t>& dims = tensors[i].dims;
      if (dims.size() == 1) {
        dims = {2, dims[0] / 2};
      } else if (dims[0] != dims[1]) {
        std::swap(dims[0], dims[1]);
      } else {
        dims[0] /= 2, dims[1] *= 2;
      }
    });
  }
}

std::vector<Mutant> mutants_of(const Content& c, bool folder) {
  std::vector<Mutant> list;
  change_tensors(c, folder, list);
  for (std::size_t i = 0; i < c.entries.size(); ++i) {
    const auto add = [&](const char* what, const std::string& name, const auto& change) {
      Mutant m{what, name, c};
      change(m.content.entries);
      list.push_back(std::move(m));
    };
    const std::string& name = c.entries[i].key;
    add("missing", name,
        [&](auto& entries) { entries.erase(entries.begin() + static_cast<std::ptrdiff_t>(i)); });
    add("doubled", name, [&](auto& entries) { entries.push_back(entries[i]); });
    add("misshapen", name,
        [&](auto& entries) { entries[i].value = std::string(folder ? "[3]" : "three"); });
    if (!folder && name.starts_with("general.")) continue;
    add("unknown", name + "_2", [&](auto& entries) {
      entries.push_back(entries[i]);
      entries.back().key += "_2";
    });
  }
  return list;
}

Result<std::vector<float>> logits_of(const Device& device, const std::string& path) {
  ONEPASS_ASSIGN(const auto model, llm::Model::open(device, path));
  ONEPASS_ASSIGN(llm::Decoder d, llm::Decoder::create(model, {.context = 16, .kv = DType::f32}));
  const std::uint32_t tokens[] = {5, 17, 3, 88, 41};
  ONEPASS_TRY(d.append(tokens));
  return d.logits();
}

class Strict : public testing::TestWithParam<std::string> {
 protected:
  // Counts what was refused; a folder and a file are told apart by what writes them.
  template <class Write>
  void try_all(const Content& content, bool folder, const Write& write) {
    const auto expected = logits_of(device_, write(content));
    ASSERT_TRUE(expected) << expected.error().to_string();
    const std::vector<Mutant> mutants = mutants_of(content, folder);
    const std::size_t step = full_run() ? 1 : 9;
    for (std::size_t i = 0; i < mutants.size(); i += step) {
      const Mutant& m = mutants[i];
      const auto logits = logits_of(device_, write(m.content));
      ++tried;
      if (logits) {
        EXPECT_EQ(*logits, *expected) << m.what << " " << m.name << ": other logits, not refused";
        EXPECT_NE(std::string(m.what), "doubled") << m.name;
        continue;
      }
      ++refused;
      const Error& e = logits.error();
      const std::string said = e.field + " " + e.message;
      EXPECT_FALSE(e.field.empty()) << m.what << " " << m.name << ": " << e.to_string();
      // Without a key others follow from it: then the tensor is named that does not fit.
      const bool key = m.name.find(".weight") == m.name.npos && m.name.find(".bias") == m.name.npos;
      if (m.what == "missing" && key) continue;
      EXPECT_NE(said.find(m.name), said.npos) << m.what << " " << m.name << ": " << e.to_string();
    }
  }

  Device device_ = Device::open("cpu").value();
  std::size_t tried = 0, refused = 0;
};

TEST_P(Strict, NoFileIsReadWrongInSilence) {
  const Architecture& a = *llm::find_architecture(GetParam());
  const TempFolder folder;
  const Content file = gguf_content(a, true);
  try_all(file, false, [&](const Content& c) { return folder.write("m.gguf", gguf_of(c)); });
  if (const auto content = folder_content(gguf_content(a, false))) {
    const TempFolder target;
    try_all(*content, true, [&](const Content& c) {
      write_folder(target, c);
      return target.path().string();
    });
  }
  std::cout << "[ FILES    ] " << a.name << ": " << tried << ", " << refused << " refused\n";
}

// From a GGUF file to a folder and back.
TEST_P(Strict, FoldersHaveTheSameLogits) {
  const Content c = gguf_content(*llm::find_architecture(GetParam()), false);
  const TempFolder temp;
  const std::string first = temp.write("first.gguf", gguf_of(c));
  const std::string folder = (temp.path() / "folder").string();
  const std::string second = (temp.path() / "second.gguf").string();
  const auto converted =
      llm::gguf_to_folder(first, folder, {.type = DType::f32, .tokenizer = false});
  if (llm::find_architecture(GetParam())->model_types.empty()) {
    ASSERT_FALSE(converted);
    EXPECT_EQ(converted.error().code, ErrorCode::unsupported);
    return;
  }
  ASSERT_TRUE(converted) << converted.error().to_string();
  const auto back = llm::folder_to_gguf(folder, second, {.tokenizer = false});
  ASSERT_TRUE(back) << back.error().to_string();
  const auto a = logits_of(device_, first), b = logits_of(device_, folder),
             c2 = logits_of(device_, second);
  ASSERT_TRUE(a && b && c2);
  EXPECT_EQ(*a, *c2);
  double error = 0.0, size = 0.0;
  for (std::size_t i = 0; i < a->size(); ++i) {
    const auto x = static_cast<double>((*a)[i]), y = static_cast<double>((*b)[i]);
    error += (x - y) * (x - y);
    size += x * x;
  }
  EXPECT_LE(error / size, 1e-11);
}

std::vector<std::string> names() {
  std::vector<std::string> list;
  for (const Architecture* a : llm::architectures()) list.emplace_back(a->name);
  return list;
}
std::string test_name(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(All, Strict, testing::ValuesIn(names()), test_name);

// Ordinary files.
TEST(Lenient, TakesWhatIsHarmlessAndNamesWhatIsLeftOut) {
  Content c = gguf_content(*llm::find_architecture("llama"), false);
  const TempFolder folder;
  const Device device = Device::open("cpu").value();
  const auto expected = logits_of(device, folder.write("a.gguf", gguf_of(c)));
  ASSERT_TRUE(expected);
  for (const char* key :
       {"general.file_type", "tokenizer.ggml.bos_token_id", "split.tensors.count",
        "quantize.imatrix.entries_count", "llama.expert_count", "llama.attention.sliding_window"}) {
    std::erase_if(c.entries, [&](const Entry& e) { return e.key == key; });
    c.entries.push_back({key, 0u});
  }
  for (const char* name : {"v.blk.0.attn_q.weight", "mm.0.weight", "blk.2.nextn.eh_proj.weight"}) {
    c.tensors.push_back({name, {2}, std::vector<std::byte>(8)});
  }
  const std::string path = folder.write("b.gguf", gguf_of(c));
  const auto logits = logits_of(device, path);
  ASSERT_TRUE(logits) << logits.error().to_string();
  EXPECT_EQ(*logits, *expected);
  const auto file = io::GgufFile::open(path).value();
  const auto plan =
      llm::plan_weights(llm::read_config(file.metadata()).value(), llm::GgufSource(file));
  ASSERT_TRUE(plan);
  ASSERT_EQ(plan->left_out.size(), 2u);
  EXPECT_EQ(plan->left_out[0].name, "v.blk.0.attn_q.weight");
  EXPECT_EQ(plan->left_out[0].tensors, 2u);
}

TEST(StrictTools, QuantizeAndConvertRefuseAsWell) {
  Content c = gguf_content(*llm::find_architecture("qwen3"), false);
  c.tensors.push_back({"blk.0.attn_q.scale", {1}, std::vector<std::byte>(4)});
  const TempFolder folder;
  const std::string path = folder.write("a.gguf", gguf_of(c));
  const auto converted = llm::gguf_to_folder(path, (folder.path() / "b").string(), {});
  ASSERT_FALSE(converted);
  EXPECT_EQ(converted.error().field, "blk.0.attn_q.scale");
  EXPECT_NE(converted.error().message.find("scale of all values"), std::string::npos);
}

TEST(Guide, NamesEveryArchitecture) {
  std::ifstream in(std::string(ONEPASS_SOURCE_DIR) + "/docs/guide.md");
  std::string text{std::istreambuf_iterator<char>(in), {}};
  std::replace(text.begin(), text.end(), '\n', ' ');
  for (const Architecture* a : llm::architectures()) {
    const std::string name(a->name);
    const bool named =
        text.find(" " + name + ",") != text.npos || text.find(" " + name + ")") != text.npos;
    EXPECT_TRUE(named) << name;
  }
}

TEST(Unsupported, ComesWithTheNearestName) {
  EXPECT_EQ(llm::nearest_architecture("qwen9"), "qwen2");
  EXPECT_EQ(llm::nearest_architecture("gemma7n"), "gemma2");
  EXPECT_EQ(llm::nearest_model_type("phi7"), "phi3");
}

}  // namespace
}  // namespace onepass::test::strict_test
