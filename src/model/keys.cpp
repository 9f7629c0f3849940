#include "model/keys.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace onepass::llm {
namespace {

std::string text_of(double value) {
  return value == std::floor(value) && std::fabs(value) < 1e15
             ? std::to_string(static_cast<std::int64_t>(value))
             : std::to_string(value);
}

// What the row says where the file says nothing.
Result<double> fallback_of(const KeyReader& reader, const Key& key, const ModelConfig& c) {
  const double value = key.fallback != nullptr ? key.fallback(c) : std::nan("");
  if (!std::isnan(value)) return value;
  return reader.missing(key);
}

Status check_range(const KeyReader& reader, const Key& key, std::uint64_t n) {
  if (static_cast<double>(n) < key.min) {
    return reader.refuse(ErrorCode::parse, key, "is " + std::to_string(n));
  }
  if (static_cast<double>(n) > key.max) {
    return reader.refuse(
        ErrorCode::limit, key,
        "is " + std::to_string(n) + ", at most " + text_of(key.max) + " is allowed");
  }
  return {};
}

Status read_count(const KeyReader& reader, const Key& key, ModelConfig& c) {
  if (!reader.has(key)) {
    ONEPASS_ASSIGN(const double value, fallback_of(reader, key, c));
    key.count(c) = static_cast<std::uint32_t>(value);
    return {};
  }
  std::vector<std::uint64_t> all;
  if (key.list != nullptr) {
    ONEPASS_ASSIGN(all, reader.integers(key, c));
  } else {
    ONEPASS_ASSIGN(const std::uint64_t n, reader.integer(key, c));
    all.push_back(n);
  }
  for (const std::uint64_t n : all) ONEPASS_TRY(check_range(reader, key, n));
  key.count(c) = static_cast<std::uint32_t>(*std::max_element(all.begin(), all.end()));
  if (std::adjacent_find(all.begin(), all.end(), std::not_equal_to<>()) != all.end()) {
    key.list(c).assign(all.begin(), all.end());
  }
  return {};
}

Status read_number(const KeyReader& reader, const Key& key, ModelConfig& c) {
  if (!reader.has(key)) {
    ONEPASS_ASSIGN(const double value, fallback_of(reader, key, c));
    key.number(c) = static_cast<float>(value);
    return {};
  }
  ONEPASS_ASSIGN(const double x, reader.number(key));
  if (!(x >= key.min && x <= key.max)) {  // also what is not a number
    return reader.refuse(ErrorCode::parse, key,
                         "is " + std::to_string(x) + ", expected " + std::to_string(key.min) +
                             " to " + std::to_string(key.max));
  }
  key.number(c) = static_cast<float>(x);
  return {};
}

Status check_heads(const KeyReader& reader, ModelConfig& c) {
  const Architecture& a = *c.architecture;
  const Key& heads = key_of(a, at<&ModelConfig::n_heads>);
  std::vector<std::uint32_t> kv_heads{c.n_kv_heads};
  kv_heads.insert(kv_heads.end(), c.layer_kv_heads.begin(), c.layer_kv_heads.end());
  for (const std::uint32_t n : kv_heads) {
    if (c.n_heads % n == 0) continue;
    return reader.refuse(ErrorCode::parse, key_of(a, at<&ModelConfig::n_kv_heads>),
                         "is " + std::to_string(n) + ", which does not divide " +
                             std::to_string(c.n_heads) + " heads");
  }
  if (!reader.has(key_of(a, at<&ModelConfig::head_dim>)) && c.dim % c.n_heads != 0) {
    return reader.refuse(ErrorCode::parse, heads,
                         "is " + std::to_string(c.n_heads) + ", which does not divide rows of " +
                             std::to_string(c.dim));
  }
  if (c.value_dim != c.head_dim) {
    return reader.refuse(
        ErrorCode::unsupported, key_of(a, at<&ModelConfig::value_dim>),
        "is " + std::to_string(c.value_dim) + ", keys have " + std::to_string(c.head_dim));
  }
  if (c.head_dim_local != c.value_dim_local) {
    return reader.refuse(ErrorCode::unsupported, key_of(a, at<&ModelConfig::value_dim_local>),
                         "is " + std::to_string(c.value_dim_local) + ", keys have " +
                             std::to_string(c.head_dim_local));
  }
  for (const std::uint32_t dim : {c.head_dim, c.head_dim_local}) {
    const bool none = dim == 0 && c.head_dim != 0;
    if (none || (dim != 0 && dim % 2 == 0 && std::uint64_t{dim} * c.n_heads <= max_width)) continue;
    return reader.refuse(ErrorCode::parse, heads,
                         std::to_string(c.n_heads) + " heads of " + std::to_string(dim));
  }
  return {};
}

// Layers that use the cache of another have heads like its.
Status check_shared_caches(const KeyReader& reader, const ModelConfig& c) {
  if (c.shared_kv_layers == 0) return {};
  const Key& key = key_of(*c.architecture, at<&ModelConfig::shared_kv_layers>);
  if (c.shared_kv_layers + 2 > c.n_layers) {
    return reader.refuse(ErrorCode::parse, key,
                         "is " + std::to_string(c.shared_kv_layers) + " of " +
                             std::to_string(c.n_layers) + " layers, which leaves fewer than two");
  }
  for (std::uint32_t i = c.cache_layers(); i < c.n_layers; ++i) {
    const std::uint32_t from = c.cache_layer(i);
    if (c.is_local(i) == c.is_local(from) && c.kv_heads_of(i) == c.kv_heads_of(from)) continue;
    return reader.refuse(ErrorCode::unsupported, key,
                         "makes layer " + std::to_string(i) + " use the cache of layer " +
                             std::to_string(from) + ", which is of another kind");
  }
  return {};
}

Status check_experts(const KeyReader& reader, const ModelConfig& c) {
  if (c.n_experts == 0) return {};
  const Architecture& a = *c.architecture;
  const Key& used = key_of(a, at<&ModelConfig::n_experts_used>);
  if (c.n_experts_used == 0) return reader.refuse(ErrorCode::parse, used, "is 0");
  if (c.n_experts_used > c.n_experts) {
    return reader.refuse(ErrorCode::limit, used,
                         "is " + std::to_string(c.n_experts_used) + ", at most " +
                             std::to_string(c.n_experts) + " is allowed");
  }
  if (c.expert_ffn_dim == 0) {
    return reader.refuse(ErrorCode::parse, used,
                         "is " + std::to_string(c.n_experts_used) + ", more than the rows of " +
                             std::to_string(c.ffn_dim));
  }
  return {};
}

}  // namespace

Status read_keys(const KeyReader& reader, ModelConfig& c) {
  for (const Key& key : c.architecture->keys) {
    if (key.null_is_zero && reader.is_null(key)) {
      key.number(c) = 0.0f;
    } else if (key.count != nullptr) {
      ONEPASS_TRY(read_count(reader, key, c));
    } else if (key.number != nullptr) {
      ONEPASS_TRY(read_number(reader, key, c));
    } else if (reader.has(key)) {
      ONEPASS_ASSIGN(key.flag(c), reader.flag(key));
    } else {
      ONEPASS_ASSIGN(const double value, fallback_of(reader, key, c));
      key.flag(c) = value != 0.0;
    }
  }
  return check_heads(reader, c);
}

void derive_config(ModelConfig& c) {
  const Architecture& a = *c.architecture;
  if (a.derive != nullptr) a.derive(c);
  if (c.attention_scale == 0.0f && c.query_scalar > 0.0f) {
    c.attention_scale = 1.0f / std::sqrt(c.query_scalar);
  }
  if (c.attention_scale == 0.0f && a.wide_layers != 0 && c.n_layers == a.wide_layers) {
    c.attention_scale = derived_attention_scale(c);
  }
}

Status finish_config(const KeyReader& reader, ModelConfig& c) {
  derive_config(c);
  ONEPASS_TRY(check_shared_caches(reader, c));
  return check_experts(reader, c);
}

const Key& key_of(const Architecture& a, std::uint32_t& (*count)(ModelConfig&)) noexcept {
  static constexpr Key none{};
  for (const Key& key : a.keys) {
    if (key.count == count) return key;
  }
  return none;
}

double value_of(const Key& key, const ModelConfig& c) {
  ModelConfig& numbers = const_cast<ModelConfig&>(c);  // nothing is written
  if (key.count != nullptr) return key.count(numbers);
  if (key.number != nullptr) return static_cast<double>(key.number(numbers));
  return key.flag(numbers) ? 1.0 : 0.0;
}

float derived_attention_scale(const ModelConfig& c) noexcept {
  const Architecture& a = *c.architecture;
  const bool wide = a.wide_layers != 0 && c.n_layers == a.wide_layers;
  return 1.0f / std::sqrt(wide ? static_cast<float>(c.dim) / static_cast<float>(c.n_heads)
                               : static_cast<float>(c.head_dim));
}

void set_period(ModelConfig& c, std::uint32_t period) {
  for (std::uint32_t i = 0; i < c.n_layers; ++i) c.local.push_back(i % period < period - 1 ? 1 : 0);
}

Status check_harmless(const Harmless* h, std::optional<double> value,
                      const std::function<tl::unexpected<Error>(std::string)>& refuse) {
  if (h == nullptr) {
    return refuse("is not known: it may change what the model says; a newer version may read it");
  }
  if (!h->only || value == h->only) return {};
  return refuse((value ? "is " + text_of(*value) : std::string("has a value")) +
                ", of which this architecture runs only " + text_of(*h->only));
}

}  // namespace onepass::llm
