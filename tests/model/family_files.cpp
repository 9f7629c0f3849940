// family_files FOLDER [ARCHITECTURE...]: tiny GGUF files of every architecture, plain, with every
// key, with experts, with each optional tensor on its own and with all of them; beside each its
// logits after each of 40 tokens, in one chunk, token by token and in chunks of 7.
// scripts/experiments/compare_families.py compares them with another program's.
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "run/decoder.h"
#include "support/family_file.h"

namespace onepass::test {
namespace {

constexpr std::size_t n_tokens = 40;

Status write_logits(const Device& device, const std::string& path) {
  ONEPASS_ASSIGN(const auto model, llm::Model::open(device, path + ".gguf"));
  std::vector<std::uint32_t> tokens;
  for (std::uint32_t i = 0; i < n_tokens; ++i) tokens.push_back((i * 37 + i * i * 5 + 3) % 101);
  for (const std::size_t chunk : {n_tokens, std::size_t{1}, std::size_t{7}}) {
    ONEPASS_ASSIGN(llm::Decoder d, llm::Decoder::create(model, {.context = 64, .kv = DType::f32}));
    std::ofstream out(path + "." + std::to_string(chunk) + ".f32", std::ios::binary);
    for (std::size_t at = 0; at < tokens.size(); at += chunk) {
      const auto part = std::span(tokens).subspan(at, std::min(chunk, tokens.size() - at));
      ONEPASS_TRY(d.score(part, [&](std::size_t, std::span<const float> logits) -> Status {
        out.write(reinterpret_cast<const char*>(logits.data()),
                  static_cast<std::streamsize>(logits.size_bytes()));
        return {};
      }));
    }
  }
  return {};
}

class Writer {
 public:
  Writer(const llm::Architecture& a, std::string folder) : a_(a), folder_(std::move(folder)) {}

  bool write_all() {
    const FamilyFile plain(a_, {}), keys(a_, {.keys = true});
    write("plain", plain, {});
    write("keys", keys, {});
    const bool experts = llm::key_of(a_, llm::at<&llm::ModelConfig::n_experts>).count != nullptr;
    const FamilyFile mixture(a_, {.keys = true, .experts = true});
    if (experts) write("experts", mixture, {});
    std::set<std::string> all;
    for (const std::string& name : mixture.optional()) {
      if (name == "attn_k.weight" || name == "attn_v.weight") continue;
      write("with-" + name, mixture, {name});
      if (!name.starts_with("attn_qkv") && !name.starts_with("rope_factors") &&
          name != "attn_q.weight" && !name.ends_with("_exps.weight"))
        all.insert(name);
    }
    write("all", mixture, all);
    return ok_;
  }

 private:
  void write(const std::string& variant, const FamilyFile& file, std::set<std::string> optional) {
    const std::string path = folder_ + "/" + std::string(a_.name) + "--" + variant;
    if (optional.contains("rope_factors_long.weight")) {
      optional.insert({"rope_factors_short.weight", "long context"});
    }
    if (optional.contains("rope_factors_short.weight")) optional.insert("rope_factors_long.weight");
    if (optional.contains("attn_qkv.bias")) optional.insert("attn_qkv.weight");
    for (const char* other : {"attn_k.weight", "attn_v.weight"}) {
      if (optional.contains("attn_q.weight")) optional.insert(other);
    }
    const std::vector<std::byte> bytes = file.bytes(optional);
    std::ofstream out(path + ".gguf", std::ios::binary);
    out.write(reinterpret_cast<const char*>(bytes.data()),
              static_cast<std::streamsize>(bytes.size()));
    out.close();
    const Status status = write_logits(device_, path);
    if (status) return;
    std::fprintf(stderr, "%s: %s\n", path.c_str(), status.error().to_string().c_str());
    ok_ = false;
  }

  const llm::Architecture& a_;
  std::string folder_;
  Device device_ = Device::open("cpu").value();
  bool ok_ = true;
};

}  // namespace
}  // namespace onepass::test

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fputs("family_files FOLDER [ARCHITECTURE...]\n", stderr);
    return 2;
  }
  std::filesystem::create_directories(argv[1]);
  const std::set<std::string> wanted(argv + 2, argv + argc);
  bool ok = true;
  for (const auto* a : onepass::llm::architectures()) {
    if (!wanted.empty() && !wanted.contains(std::string(a->name))) continue;
    ok = onepass::test::Writer(*a, argv[1]).write_all() && ok;
  }
  return ok ? 0 : 1;
}
