// Writes the GGUF file of a recipe: keys and tensors of a tiny model whose weights are noise that
// depends on their names alone. The same bytes as the script beside the recipes makes.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "../tools/onepass/common/sha256.h"
#include "io/json.h"
#include "support/gguf_writer.h"

namespace onepass::test {

inline std::string sha256_of(std::span<const std::byte> bytes) {
  tool::Sha256 hash;
  hash.add(bytes);
  return hash.hex();
}

// NumPy's Philox generator (4 x 64 bits, 10 rounds) with a key made of a name.
class NamedNoise {
 public:
  explicit NamedNoise(std::string_view name) {
    const std::string hex = sha256_of(std::as_bytes(std::span(name.data(), name.size())));
    for (std::size_t i = 0; i < 16; ++i) {
      const std::uint64_t byte = std::stoul(hex.substr(2 * i, 2), nullptr, 16);
      key_[i / 8] |= byte << (i % 8 * 8);
    }
  }
  // Of mean 0 and deviation 1, uniform.
  double next() {
    if (at_ == 4) refill();
    const std::uint64_t raw = block_[at_++];
    return (static_cast<double>(raw >> 11) / 9007199254740992.0 * 2.0 - 1.0) * std::sqrt(3.0);
  }

 private:
  __extension__ using Wide = unsigned __int128;
  void refill() {
    ++counter_;  // never near 2^64
    std::array<std::uint64_t, 4> c{counter_, 0, 0, 0};
    std::uint64_t k0 = key_[0], k1 = key_[1];
    for (int round = 0; round < 10; ++round) {
      const Wide a = Wide{0xD2E7470EE14C6C93u} * c[0], b = Wide{0xCA5A826395121157u} * c[2];
      c = {static_cast<std::uint64_t>(b >> 64) ^ c[1] ^ k0, static_cast<std::uint64_t>(b),
           static_cast<std::uint64_t>(a >> 64) ^ c[3] ^ k1, static_cast<std::uint64_t>(a)};
      k0 += 0x9E3779B97F4A7C15u;
      k1 += 0xBB67AE8584CAA73Bu;
    }
    block_ = c;
    at_ = 0;
  }
  std::array<std::uint64_t, 2> key_{};
  std::uint64_t counter_ = 0;
  std::array<std::uint64_t, 4> block_{};
  std::size_t at_ = 4;
};

inline std::vector<float> recipe_values(const std::string& name,
                                        const std::vector<std::uint64_t>& dims) {
  const std::size_t dot = name.rfind('.');
  const std::string last = dot == name.npos ? name : name.substr(dot + 1);
  std::string stem = dot == name.npos ? name : name.substr(0, dot);
  if (stem.rfind('.') != stem.npos) stem = stem.substr(stem.rfind('.') + 1);
  const auto has = [&](const char* part) { return stem.find(part) != stem.npos; };
  const auto is = [&](auto... names) { return ((stem == names) || ...); };
  double scale = 1.2 / std::sqrt(static_cast<double>(dims[0])), offset = 0.0;
  bool absolute = false;
  if (last == "bias") {
    scale = 0.1;
  } else if (is("rope_freqs") || has("rope_factors")) {
    scale = 1.0, offset = 1.0, absolute = true;
  } else if (is("ssm_a") || last == "ssm_a") {
    scale = -0.1, offset = -0.05, absolute = true;
  } else if (has("norm") || is("ssm_d", "layer_output_scale") || last == "ssm_d") {
    scale = 0.15, offset = 1.0;
  } else if (is("token_embd", "position_embd", "token_types", "per_layer_token_embd")) {
    scale = 0.3;
  } else if (is("attn_q", "attn_k", "attn_qkv", "attn_q_b")) {
    scale = 1.7 / std::sqrt(static_cast<double>(dims[0]));
  } else if ((has("conv") && dims.size() > 1) || dims.size() == 1) {
    scale = 0.5;
  }
  std::size_t n = 1;
  for (const std::uint64_t d : dims) n *= static_cast<std::size_t>(d);
  NamedNoise noise(name);
  std::vector<float> values(n);
  for (float& v : values) {
    const double u = noise.next();
    v = static_cast<float>(offset + (absolute ? std::fabs(u) : u) * scale);
  }
  return values;
}

// Empty where a type of a key is not known.
inline std::vector<std::byte> recipe_file(const io::Json& recipe) {
  static constexpr std::pair<std::string_view, std::uint32_t> types[] = {
      {"u8", 0},  {"i8", 1},   {"u16", 2}, {"i16", 3},  {"u32", 4},  {"i32", 5},
      {"f32", 6}, {"bool", 7}, {"str", 8}, {"u64", 10}, {"i64", 11}, {"f64", 12}};
  Bytes b;
  const auto number_of = [](const io::Json& v) {
    if (const auto flag = v.boolean()) return *flag ? 1.0 : 0.0;
    return v.number().value_or(0.0);
  };
  const auto put = [&](std::uint32_t type, const io::Json& v) {
    const double x = number_of(v);
    if (type == 8) b.string(v.text().value());
    if (type == 0 || type == 7) b.put(static_cast<std::uint8_t>(x));
    if (type == 1) b.put(static_cast<std::int8_t>(x));
    if (type == 2) b.put(static_cast<std::uint16_t>(x));
    if (type == 3) b.put(static_cast<std::int16_t>(x));
    if (type == 4) b.put(static_cast<std::uint32_t>(x));
    if (type == 5) b.put(static_cast<std::int32_t>(x));
    if (type == 6) b.put(static_cast<float>(x));
    if (type == 10) b.put(static_cast<std::uint64_t>(x));
    if (type == 11) b.put(static_cast<std::int64_t>(x));
    if (type == 12) b.put(x);
  };
  b.header(recipe["tensors"].size(), recipe["keys"].size());
  for (const io::Json key : recipe["keys"].items()) {
    std::vector<io::Json> parts;
    for (const io::Json part : key.items()) parts.push_back(part);
    std::string_view type = parts[1].text().value();
    const bool array = type.front() == '[';
    if (array) type = type.substr(1, type.size() - 2);
    const auto row = std::find_if(std::begin(types), std::end(types),
                                  [&](const auto& t) { return t.first == type; });
    if (row == std::end(types)) return {};
    const std::string_view name = parts[0].text().value();
    if (array) {
      b.array(name, row->second, parts[2].size());
      for (const io::Json item : parts[2].items()) put(row->second, item);
    } else {
      b.key(name, row->second);
      put(row->second, parts[2]);
    }
  }
  Bytes data;
  for (const io::Json tensor : recipe["tensors"].items()) {
    std::string name;
    std::vector<std::uint64_t> dims;
    for (const io::Json part : tensor.items()) {
      if (const auto text = part.text()) name = *text;
      for (const io::Json d : part.items()) dims.push_back(d.integer().value());
    }
    b.tensor(name, dims, 0, data.size());
    const std::vector<float> values = recipe_values(name, dims);
    data.append(std::as_bytes(std::span(values))).pad();
  }
  return b.pad().append(data.data());
}

}  // namespace onepass::test
