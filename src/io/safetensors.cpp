#include "io/safetensors.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "core/guarded.h"
#include "io/json.h"

namespace onepass::io {
namespace {

constexpr SafetensorsType type_table[] = {
    {"F32", 4},  {"F16", 2}, {"BF16", 2},    {"U32", 4},     {"I32", 4},     {"F64", 8},
    {"I64", 8},  {"U64", 8}, {"I16", 2},     {"U16", 2},     {"U8", 1},      {"I8", 1},
    {"BOOL", 1}, {"C64", 8}, {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"F8_E8M0", 1},
};

Status check_name(std::string_view name, std::uint64_t at, const char* field) {
  if (name.empty()) return fail_at(ErrorCode::parse, "is empty", at, field);
  if (name.size() > max_tensor_name_bytes) {
    return fail_at(ErrorCode::limit,
                   std::to_string(name.size()) + " bytes, at most " +
                       std::to_string(max_tensor_name_bytes) + " are allowed",
                   at, field);
  }
  if (name.find('\0') != name.npos) return fail_at(ErrorCode::parse, "contains NUL", at, field);
  return {};
}

// Fields of the errors below come after the tensor's name.
Status read_shape(JsonReader& json, Safetensor& t) {
  constexpr const char* field = ".shape";
  ONEPASS_TRY(json.begin_array(field));
  while (true) {
    ONEPASS_ASSIGN(const bool more, json.next_item(field));
    if (!more) return {};
    if (t.n_dims == max_safetensors_dims) {
      return fail_at(ErrorCode::limit,
                     "more than " + std::to_string(max_safetensors_dims) + " dimensions",
                     json.offset(), field);
    }
    const std::uint64_t at = json.offset();
    ONEPASS_ASSIGN(const std::uint64_t dim, json.integer(field));
    if (dim > max_dim) {
      return fail_at(ErrorCode::limit,
                     "dimension is " + std::to_string(dim) + ", at most " +
                         std::to_string(max_dim) + " is allowed",
                     at, field);
    }
    t.dims[t.n_dims++] = dim;
  }
}

// Offset and bytes; end must not be before begin.
Status read_offsets(JsonReader& json, Safetensor& t) {
  constexpr const char* field = ".data_offsets";
  const std::uint64_t at = json.offset();
  ONEPASS_TRY(json.begin_array(field));
  std::uint64_t ends[2]{};
  std::uint32_t n = 0;
  while (true) {
    ONEPASS_ASSIGN(const bool more, json.next_item(field));
    if (!more) break;
    ONEPASS_ASSIGN(const std::uint64_t value, json.integer(field));
    if (n < 2) ends[n] = value;
    ++n;
  }
  if (n != 2) {
    return fail_at(ErrorCode::parse, "has " + std::to_string(n) + " entries, expected 2", at,
                   field);
  }
  if (ends[1] < ends[0]) {
    return fail_at(
        ErrorCode::parse,
        "ends at " + std::to_string(ends[1]) + ", before it begins at " + std::to_string(ends[0]),
        at, field);
  }
  t.offset = ends[0];
  t.bytes = ends[1] - ends[0];
  return {};
}

Status read_tensor(JsonReader& json, Safetensor& t) {
  bool has_type = false, has_shape = false, has_offsets = false;
  ONEPASS_TRY(json.begin_object(""));
  while (true) {
    ONEPASS_ASSIGN(const std::optional<std::string_view> key, json.next_key(""));
    if (!key) break;
    const std::uint64_t at = json.offset();
    const auto refuse = [&](ErrorCode code, std::string message) {
      return fail_at(code, std::move(message), at, "." + clipped(*key));
    };
    bool& seen = *key == "dtype" ? has_type : *key == "shape" ? has_shape : has_offsets;
    if (*key != "dtype" && *key != "shape" && *key != "data_offsets") {
      return refuse(ErrorCode::parse, "is not known");
    }
    if (std::exchange(seen, true)) return refuse(ErrorCode::parse, "the key is there twice");
    if (*key == "dtype") {
      ONEPASS_ASSIGN(const std::string_view type, json.string(".dtype"));
      t.type = safetensors_type(type);
      if (t.type == nullptr) {
        return refuse(ErrorCode::unsupported, "dtype " + clipped(type) + " is not known");
      }
    } else if (*key == "shape") {
      ONEPASS_TRY(read_shape(json, t));
    } else {
      ONEPASS_TRY(read_offsets(json, t));
    }
  }
  const char* missing = !has_type      ? ".dtype"
                        : !has_shape   ? ".shape"
                        : !has_offsets ? ".data_offsets"
                                       : nullptr;
  if (missing != nullptr) return fail_at(ErrorCode::parse, "is missing", t.at, missing);
  std::uint64_t bytes = t.type->bytes;
  for (std::uint32_t d = 0; d < t.n_dims; ++d) {
    if (!multiply(bytes, t.dims[d], bytes)) {
      return fail_at(ErrorCode::limit, "the number of bytes does not fit 64 bits", t.at, ".shape");
    }
  }
  if (bytes != t.bytes) {
    return fail_at(ErrorCode::parse,
                   "spans " + std::to_string(t.bytes) + " bytes, shape and dtype need " +
                       std::to_string(bytes),
                   t.at, ".data_offsets");
  }
  return {};
}

}  // namespace

const SafetensorsType* safetensors_type(std::string_view name) noexcept {
  for (const SafetensorsType& type : type_table) {
    if (type.name == name) return &type;
  }
  return nullptr;
}

Result<Safetensors> Safetensors::parse(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  return parse(reader);
}

Result<Safetensors> Safetensors::parse(Reader& r) {
  return guarded([&]() -> Result<Safetensors> {
    Safetensors file;
    ONEPASS_ASSIGN(const std::uint64_t n, r.number<std::uint64_t>("header.bytes"));
    if (n == 0) return fail_at(ErrorCode::parse, "is 0", 0, "header.bytes");
    if (n > max_safetensors_header) {
      return fail_at(ErrorCode::limit,
                     "is " + std::to_string(n) + ", at most " +
                         std::to_string(max_safetensors_header) + " are allowed",
                     0, "header.bytes");
    }
    ONEPASS_ASSIGN(const std::span<const std::byte> header, r.bytes(n, "header"));
    file.data_offset_ = r.offset();
    ONEPASS_TRY(file.read_header({reinterpret_cast<const char*>(header.data()), header.size()},
                                 r.remaining()));
    return file;
  });
}

Status Safetensors::read_header(std::string_view header, std::uint64_t data_bytes) {
  constexpr std::uint64_t base = 8;
  if (header.front() != '{') {
    return fail_at(ErrorCode::parse, "does not begin with '{'", base, "header");
  }
  JsonReader json(header, base, max_safetensors_depth);
  bool has_metadata = false;
  ONEPASS_TRY(json.begin_object("header"));
  while (true) {
    const std::uint64_t at = json.offset();
    ONEPASS_ASSIGN(const std::optional<std::string_view> key, json.next_key("header"));
    if (!key) break;
    if (*key == "__metadata__") {
      if (std::exchange(has_metadata, true)) {
        return fail_at(ErrorCode::parse, "the key is there twice", at, "__metadata__");
      }
      ONEPASS_ASSIGN(const JsonKind kind, json.kind("__metadata__"));
      if (kind == JsonKind::null) {  // as some writers say that there is none
        ONEPASS_TRY(json.null("__metadata__"));
        continue;
      }
      ONEPASS_TRY(json.begin_object("__metadata__"));
      while (true) {
        ONEPASS_ASSIGN(const std::optional<std::string_view> entry, json.next_key("__metadata__"));
        if (!entry) break;
        ONEPASS_ASSIGN(const std::string_view text, json.string("__metadata__." + clipped(*entry)));
        metadata_.emplace_back(*entry, text);
      }
      continue;
    }
    if (tensors_.size() == max_safetensors_entries) {
      return fail_at(ErrorCode::limit,
                     "more than " + std::to_string(max_safetensors_entries) + " tensors", at,
                     "header");
    }
    ONEPASS_TRY(check_name(*key, at, "header"));
    Safetensor t;
    t.name = *key;
    t.at = at;
    if (Status status = read_tensor(json, t); !status) {
      Error e = std::move(status).error();
      e.field = clipped(t.name) + e.field;
      return e;
    }
    tensors_.push_back(t);
  }
  ONEPASS_TRY(json.end("header"));
  decoded_ = json.take_decoded();
  by_name_.resize(tensors_.size());
  std::iota(by_name_.begin(), by_name_.end(), 0u);
  std::sort(by_name_.begin(), by_name_.end(), [this](std::uint32_t a, std::uint32_t b) {
    const int order = tensors_[a].name.compare(tensors_[b].name);
    return order != 0 ? order < 0 : a < b;
  });
  ONEPASS_TRY(check_names());
  return check_extents(data_bytes);
}

Status Safetensors::check_names() const {
  for (std::size_t i = 1; i < by_name_.size(); ++i) {
    const Safetensor& t = tensors_[by_name_[i]];
    if (tensors_[by_name_[i - 1]].name == t.name) {
      return fail_at(ErrorCode::parse, "the tensor is there twice", t.at, clipped(t.name));
    }
  }
  std::vector<std::string_view> keys;
  for (const auto& entry : metadata_) keys.push_back(entry.first);
  std::sort(keys.begin(), keys.end());
  if (const auto twice = std::adjacent_find(keys.begin(), keys.end()); twice != keys.end()) {
    return fail_at(ErrorCode::parse, "the key is there twice", 8,
                   "__metadata__." + clipped(*twice));
  }
  return {};
}

Status Safetensors::check_extents(std::uint64_t data_bytes) const {
  std::vector<std::uint32_t> order(tensors_.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [this](std::uint32_t a, std::uint32_t b) {
    const Safetensor &x = tensors_[a], &y = tensors_[b];
    if (x.offset != y.offset) return x.offset < y.offset;
    return x.bytes != y.bytes ? x.bytes < y.bytes : a < b;
  });
  std::uint64_t end = 0;
  for (const std::uint32_t i : order) {
    const Safetensor& t = tensors_[i];
    const auto refuse = [&](std::string message) {
      return fail_at(ErrorCode::parse, std::move(message), t.at, clipped(t.name) + ".data_offsets");
    };
    if (t.offset > data_bytes || t.bytes > data_bytes - t.offset) {
      return refuse("the file is truncated: ends beyond the " + std::to_string(data_bytes) +
                    " bytes of data");
    }
    if (t.offset != end) {
      return refuse("begins at " + std::to_string(t.offset) + ", the tensor before it ends at " +
                    std::to_string(end));
    }
    end = t.offset + t.bytes;
  }
  if (end != data_bytes) {
    return fail_at(ErrorCode::parse,
                   std::to_string(data_bytes - end) + " bytes after the last tensor",
                   data_offset_ + end, "data");
  }
  return {};
}

const Safetensor* Safetensors::find(std::string_view tensor_name) const noexcept {
  const auto it = std::lower_bound(
      by_name_.begin(), by_name_.end(), tensor_name,
      [this](std::uint32_t i, std::string_view n) { return tensors_[i].name < n; });
  return it != by_name_.end() && tensors_[*it].name == tensor_name ? &tensors_[*it] : nullptr;
}

}  // namespace onepass::io
