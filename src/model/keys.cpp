#include "model/keys.h"

#include <cmath>

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

Status read_count(const KeyReader& reader, const Key& key, ModelConfig& c) {
  std::uint64_t n = 0;
  if (reader.has(key)) {
    ONEPASS_ASSIGN(n, reader.integer(key, c));
  } else {
    ONEPASS_ASSIGN(const double value, fallback_of(reader, key, c));
    key.count(c) = static_cast<std::uint32_t>(value);
    return {};
  }
  if (static_cast<double>(n) < key.min) {
    return reader.refuse(ErrorCode::parse, key, "is " + std::to_string(n));
  }
  if (static_cast<double>(n) > key.max) {
    return reader.refuse(
        ErrorCode::limit, key,
        "is " + std::to_string(n) + ", at most " + text_of(key.max) + " is allowed");
  }
  key.count(c) = static_cast<std::uint32_t>(n);
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
  if (c.n_heads % c.n_kv_heads != 0) {
    return reader.refuse(ErrorCode::parse, key_of(a, at<&ModelConfig::n_kv_heads>),
                         "is " + std::to_string(c.n_kv_heads) + ", which does not divide " +
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
  if (c.head_dim == 0 || c.head_dim % 2 != 0 || std::uint64_t{c.head_dim} * c.n_heads > max_width) {
    return reader.refuse(ErrorCode::parse, heads,
                         std::to_string(c.n_heads) + " heads of " + std::to_string(c.head_dim));
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
