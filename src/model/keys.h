// Numbers of a model from either kind of file, row by row of its architecture's table.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "model/architecture.h"

namespace onepass::llm {

// What a file says. Everything asked for counts as used.
class KeyReader {
 public:
  virtual ~KeyReader() = default;
  // The file's name for a key, empty where its kind has none.
  virtual std::string name_of(const Key& key) const = 0;
  virtual bool has(const Key& key) const = 0;
  virtual bool is_null(const Key& key) const = 0;
  virtual Result<std::uint64_t> integer(const Key& key, const ModelConfig& c) const = 0;
  // One for each layer, or one for all.
  virtual Result<std::vector<std::uint64_t>> integers(const Key& key, const ModelConfig& c) const {
    ONEPASS_ASSIGN(const std::uint64_t n, integer(key, c));
    return std::vector<std::uint64_t>{n};
  }
  virtual Result<double> number(const Key& key) const = 0;
  virtual Result<bool> flag(const Key& key) const = 0;
  // Of a key that must be there and is not.
  virtual Result<double> missing(const Key& key) const = 0;
  virtual tl::unexpected<Error> refuse(ErrorCode code, const Key& key,
                                       std::string message) const = 0;
};

// All rows of the architecture's table, in order.
Status read_keys(const KeyReader& reader, ModelConfig& c);
// What follows from them, and whether they fit each other.
void derive_config(ModelConfig& c);
Status finish_config(const KeyReader& reader, ModelConfig& c);

// The row of a number, which the table has.
const Key& key_of(const Architecture& a, std::uint32_t& (*count)(ModelConfig&)) noexcept;
double value_of(const Key& key, const ModelConfig& c);

// Scale of attention that follows from the shapes.
float derived_attention_scale(const ModelConfig& c) noexcept;
// Layers with a window where no list says: all but the last of each period.
void set_period(ModelConfig& c, std::uint32_t period);

// A harmless entry's condition, where it has one, holds for a value; else the error says so.
Status check_harmless(const Harmless* h, std::optional<double> value,
                      const std::function<tl::unexpected<Error>(std::string)>& refuse);

}  // namespace onepass::llm
