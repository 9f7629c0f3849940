#include "io/gguf.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <string>
#include <utility>

#include "core/guarded.h"

namespace onepass::io {
namespace {

constexpr std::uint32_t no_id = 0xffffffff;  // -1 in formats.def
constexpr GgmlType type_table[] = {
#define FORMAT(name, id, elements, bytes) {#name, static_cast<std::uint32_t>(id), elements, bytes},
#include "onepass/tables/formats.def"
#define GGML_TYPE(name, id, elements, bytes) {#name, id, elements, bytes},
#include "io/ggml_types.def"
#undef GGML_TYPE
};

struct ValueType {
  const char* name;
  std::uint32_t bytes;  // the least a value takes
};
constexpr ValueType value_types[] = {
    {"u8", 1},   {"i8", 1},     {"u16", 2},    {"i16", 2}, {"u32", 4}, {"i32", 4}, {"f32", 4},
    {"bool", 1}, {"string", 8}, {"array", 12}, {"u64", 8}, {"i64", 8}, {"f64", 8},
};
static_assert(std::size(value_types) == static_cast<std::size_t>(GgufType::f64) + 1);

// Smallest entry: key length, one byte of key, type, one byte of value. Smallest tensor: name
// length, number of dimensions, type, offset.
constexpr std::uint64_t min_entry_bytes = 8 + 1 + 4 + 1;
constexpr std::uint64_t min_tensor_bytes = 8 + 4 + 4 + 8;

constexpr std::uint32_t value_bytes(GgufType type) {
  return value_types[static_cast<std::size_t>(type)].bytes;
}

// The error of a part, named as part of owner.
Error within(Error error, std::string owner) {
  owner += error.field;
  error.field = std::move(owner);
  return error;
}

// "before[i]"
std::string indexed(const char* before, std::uint64_t i) {
  std::string text = before;
  text += '[';
  text += std::to_string(i);
  text += ']';
  return text;
}

Result<GgufType> read_type(Reader& r, const char* field) {
  const std::uint64_t at = r.offset();
  ONEPASS_ASSIGN(const std::uint32_t raw, r.number<std::uint32_t>(field));
  if (raw >= std::size(value_types)) {
    return fail_at(ErrorCode::parse,
                   "value type " + std::to_string(raw) + ", expected 0 to " +
                       std::to_string(std::size(value_types) - 1),
                   at, field);
  }
  return static_cast<GgufType>(raw);
}

Status check_booleans(const GgufValue& value, bool in_array) {
  for (std::size_t i = 0; i < value.bytes.size(); ++i) {
    const auto byte = std::to_integer<unsigned>(value.bytes[i]);
    if (byte > 1) {
      return fail_at(ErrorCode::parse, "boolean is " + std::to_string(byte) + ", expected 0 or 1",
                     value.at + i, in_array ? indexed("", i) : "");
    }
  }
  return {};
}

Status skip_strings(Reader& r, std::uint64_t n) {
  for (std::uint64_t i = 0; i < n; ++i) {
    if (auto s = r.string("", max_string_bytes); !s) {
      return within(std::move(s).error(), indexed("", i));
    }
  }
  return {};
}

Result<GgufValue> read_value(Reader& r, std::span<const std::byte> file) {
  GgufValue v;
  ONEPASS_ASSIGN(v.type, read_type(r, ".type"));
  v.element = v.type;
  if (v.type == GgufType::string) {
    ONEPASS_ASSIGN(const std::string_view text, r.string("", max_string_bytes));
    v.bytes = std::as_bytes(std::span<const char>(text));
    v.at = r.offset() - text.size();
    return v;
  }
  if (v.type == GgufType::array) {
    const std::uint64_t element_at = r.offset();
    ONEPASS_ASSIGN(v.element, read_type(r, ".element_type"));
    if (v.element == GgufType::array) {
      return fail_at(ErrorCode::unsupported, "an array of arrays", element_at, ".element_type");
    }
    ONEPASS_ASSIGN(v.count, r.count(".count", max_array_elements, value_bytes(v.element)));
  }
  v.at = r.offset();
  if (v.element == GgufType::string) {
    ONEPASS_TRY(skip_strings(r, v.count));
    v.bytes =
        file.subspan(static_cast<std::size_t>(v.at), static_cast<std::size_t>(r.offset() - v.at));
    return v;
  }
  // count() made sure that the product fits.
  ONEPASS_ASSIGN(v.bytes, r.bytes(v.count * value_bytes(v.element), ""));
  if (v.element == GgufType::boolean) {
    ONEPASS_TRY(check_booleans(v, v.type == GgufType::array));
  }
  return v;
}

// Everything after the name.
Status read_tensor(Reader& r, GgufTensor& t) {
  std::uint64_t at = r.offset();
  ONEPASS_ASSIGN(t.n_dims, r.number<std::uint32_t>(".n_dims"));
  if (t.n_dims == 0) return fail_at(ErrorCode::parse, "no dimensions", at, ".n_dims");
  if (t.n_dims > max_dims) {
    return fail_at(ErrorCode::limit,
                   std::to_string(t.n_dims) + " dimensions, at most " + std::to_string(max_dims) +
                       " are allowed",
                   at, ".n_dims");
  }
  std::uint64_t elements = 1;
  for (std::uint32_t d = 0; d < t.n_dims; ++d) {
    at = r.offset();
    const auto field = [d] { return indexed(".dims", d); };
    auto dim = r.number<std::uint64_t>("");
    if (!dim) return within(std::move(dim).error(), field());
    if (*dim == 0) return fail_at(ErrorCode::parse, "dimension is 0", at, field());
    if (*dim > max_dim) {
      return fail_at(ErrorCode::limit,
                     "dimension is " + std::to_string(*dim) + ", at most " +
                         std::to_string(max_dim) + " is allowed",
                     at, field());
    }
    if (!multiply(elements, *dim, elements)) {
      return fail_at(ErrorCode::limit, "the number of elements does not fit 64 bits", at, field());
    }
    t.dims[d] = *dim;
  }
  at = r.offset();
  ONEPASS_ASSIGN(const std::uint32_t type, r.number<std::uint32_t>(".type"));
  t.type = ggml_type(type);
  if (t.type == nullptr) {
    return fail_at(ErrorCode::unsupported, "tensor type " + std::to_string(type) + " is not known",
                   at, ".type");
  }
  if (t.dims[0] % t.type->block_elements != 0) {
    return fail_at(ErrorCode::parse,
                   "rows of " + std::to_string(t.dims[0]) + " elements, " + t.type->name +
                       " has blocks of " + std::to_string(t.type->block_elements),
                   at, ".dims[0]");
  }
  if (!multiply(elements / t.type->block_elements, t.type->block_bytes, t.bytes)) {
    return fail_at(ErrorCode::limit, "the number of bytes does not fit 64 bits", at, ".dims");
  }
  ONEPASS_ASSIGN(t.offset, r.number<std::uint64_t>(".offset"));
  return {};
}

Error wrong_type(std::string_view key, const GgufValue& value, const char* expected) {
  std::string got = name(value.type);
  if (value.type == GgufType::array) got += std::string(" of ") + name(value.element);
  return fail_at(ErrorCode::parse, "is " + got + ", expected " + expected, value.at, clipped(key))
      .value();
}

template <class T>
T load(std::span<const std::byte> bytes, std::uint64_t i) {
  T value;
  std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
  return value;
}

}  // namespace

const char* name(GgufType type) noexcept {
  return value_types[static_cast<std::size_t>(type)].name;
}

const GgmlType* ggml_type(std::uint32_t id) noexcept {
  for (const GgmlType& type : type_table) {
    if (type.id == id && id != no_id) return &type;
  }
  return nullptr;
}

Result<Gguf> Gguf::parse(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  return parse(reader);
}

Result<Gguf> Gguf::parse(Reader& r) {
  return guarded([&]() -> Result<Gguf> {
    Gguf file;
    ONEPASS_ASSIGN(const std::uint32_t magic, r.number<std::uint32_t>("header.magic"));
    if (magic != 0x46554747u) {
      return fail_at(ErrorCode::parse, "not a GGUF file: the first four bytes are not \"GGUF\"", 0,
                     "header.magic");
    }
    ONEPASS_ASSIGN(file.version_, r.number<std::uint32_t>("header.version"));
    if (file.version_ != 2 && file.version_ != 3) {
      return fail_at(ErrorCode::unsupported,
                     "GGUF version " + std::to_string(file.version_) + ", expected 2 or 3", 4,
                     "header.version");
    }
    ONEPASS_ASSIGN(const std::uint64_t n_tensors,
                   r.count("header.tensor_count", max_tensors, min_tensor_bytes));
    ONEPASS_ASSIGN(const std::uint64_t n_entries,
                   r.count("header.key_count", max_keys, min_entry_bytes));
    ONEPASS_TRY(file.read_entries(r, n_entries));
    ONEPASS_TRY(file.read_alignment());
    ONEPASS_TRY(file.read_tensors(r, n_tensors));
    ONEPASS_TRY(file.check_extents(r));
    return file;
  });
}

Status Gguf::read_entries(Reader& r, std::uint64_t n) {
  entries_.reserve(static_cast<std::size_t>(n));
  for (std::uint64_t i = 0; i < n; ++i) {
    auto key = r.name(".key", max_key_bytes);
    if (!key) return within(std::move(key).error(), indexed("kv", i));
    auto value = read_value(r, r.all());
    if (!value) return within(std::move(value).error(), clipped(*key));
    entries_.push_back(GgufEntry{*key, *value});
  }
  std::sort(entries_.begin(), entries_.end(), [](const GgufEntry& a, const GgufEntry& b) {
    const int order = a.key.compare(b.key);
    return order != 0 ? order < 0 : a.value.at < b.value.at;
  });
  const auto twice =
      std::adjacent_find(entries_.begin(), entries_.end(),
                         [](const GgufEntry& a, const GgufEntry& b) { return a.key == b.key; });
  if (twice != entries_.end()) {
    return fail_at(ErrorCode::parse, "the key is there twice", (twice + 1)->value.at,
                   clipped(twice->key));
  }
  return {};
}

Status Gguf::read_alignment() {
  constexpr std::string_view key = "general.alignment";
  const GgufValue* value = find(key);
  if (value == nullptr) return {};
  if (value->type != GgufType::u32) return wrong_type(key, *value, "u32");
  alignment_ = load<std::uint32_t>(value->bytes, 0);
  if (alignment_ < min_alignment || alignment_ > max_alignment) {
    return fail_at(ErrorCode::limit,
                   "alignment is " + std::to_string(alignment_) + ", expected " +
                       std::to_string(min_alignment) + " to " + std::to_string(max_alignment),
                   value->at, std::string(key));
  }
  if ((alignment_ & (alignment_ - 1)) != 0) {
    return fail_at(ErrorCode::parse,
                   "alignment is " + std::to_string(alignment_) + ", expected a power of two",
                   value->at, std::string(key));
  }
  return {};
}

Status Gguf::read_tensors(Reader& r, std::uint64_t n) {
  // The entries may have used up what the header's count was checked against.
  if (n > r.remaining() / min_tensor_bytes) {
    return fail_at(ErrorCode::parse,
                   "the file is truncated: " + std::to_string(n) + " tensors, it has " +
                       std::to_string(r.remaining()) + " bytes left for their descriptions",
                   8, "header.tensor_count");
  }
  tensors_.reserve(static_cast<std::size_t>(n));
  for (std::uint64_t i = 0; i < n; ++i) {
    GgufTensor t;
    t.at = r.offset();
    auto tensor_name = r.name(".name", max_tensor_name_bytes);
    if (!tensor_name) {
      return within(std::move(tensor_name).error(), indexed("tensor", i));
    }
    t.name = *tensor_name;
    if (auto s = read_tensor(r, t); !s) return within(std::move(s).error(), clipped(t.name));
    tensors_.push_back(t);
  }
  by_name_.resize(tensors_.size());
  std::iota(by_name_.begin(), by_name_.end(), 0u);
  std::sort(by_name_.begin(), by_name_.end(), [this](std::uint32_t a, std::uint32_t b) {
    const int order = tensors_[a].name.compare(tensors_[b].name);
    return order != 0 ? order < 0 : a < b;
  });
  for (std::size_t i = 1; i < by_name_.size(); ++i) {
    const GgufTensor& t = tensors_[by_name_[i]];
    if (tensors_[by_name_[i - 1]].name == t.name) {
      return fail_at(ErrorCode::parse, "the tensor is there twice", t.at, clipped(t.name));
    }
  }
  return {};
}

Status Gguf::check_extents(const Reader& r) {
  if (!align_up(r.offset(), alignment_, data_offset_) ||
      (data_offset_ > r.file_bytes() && !tensors_.empty())) {
    return fail_at(ErrorCode::parse, "the file is truncated: it ends before the data section",
                   r.offset(), "data");
  }
  data_offset_ = std::min(data_offset_, r.file_bytes());
  const std::uint64_t data_bytes = r.file_bytes() - data_offset_;
  for (const GgufTensor& t : tensors_) {
    const auto field = [&t] { return clipped(t.name) + ".offset"; };
    if (t.offset % alignment_ != 0) {
      return fail_at(
          ErrorCode::parse,
          "offset " + std::to_string(t.offset) + " is no multiple of " + std::to_string(alignment_),
          t.at, field());
    }
    if (t.offset > data_bytes || t.bytes > data_bytes - t.offset) {
      return fail_at(ErrorCode::parse,
                     "the file is truncated: " + std::to_string(t.bytes) + " bytes at " +
                         std::to_string(t.offset) + ", the data section has " +
                         std::to_string(data_bytes),
                     t.at, field());
    }
  }
  std::vector<std::uint32_t> order(tensors_.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [this](std::uint32_t a, std::uint32_t b) {
    return tensors_[a].offset != tensors_[b].offset ? tensors_[a].offset < tensors_[b].offset
                                                    : a < b;
  });
  for (std::size_t i = 1; i < order.size(); ++i) {
    const GgufTensor& a = tensors_[order[i - 1]];
    const GgufTensor& b = tensors_[order[i]];
    if (b.offset - a.offset < a.bytes) {
      return fail_at(ErrorCode::parse, "overlaps " + clipped(a.name), b.at,
                     clipped(b.name) + ".offset");
    }
  }
  return {};
}

const GgufValue* Gguf::find(std::string_view key) const noexcept {
  const auto it =
      std::lower_bound(entries_.begin(), entries_.end(), key,
                       [](const GgufEntry& entry, std::string_view k) { return entry.key < k; });
  return it != entries_.end() && it->key == key ? &it->value : nullptr;
}

const GgufTensor* Gguf::find_tensor(std::string_view tensor_name) const noexcept {
  const auto it = std::lower_bound(
      by_name_.begin(), by_name_.end(), tensor_name,
      [this](std::uint32_t i, std::string_view n) { return tensors_[i].name < n; });
  return it != by_name_.end() && tensors_[*it].name == tensor_name ? &tensors_[*it] : nullptr;
}

Result<GgufValue> Gguf::required(std::string_view key) const {
  if (const GgufValue* value = find(key)) return *value;
  Error e = make_error(ErrorCode::not_found, "the file has no key " + clipped(key));
  e.field = clipped(key);
  return e;
}

Result<std::uint64_t> integer_at(const GgufValue& value, std::uint64_t i, std::string_view key) {
  const auto checked = [&](std::int64_t number) -> Result<std::uint64_t> {
    if (number >= 0) return static_cast<std::uint64_t>(number);
    return fail_at(ErrorCode::parse, "is negative", value.at + i * value_bytes(value.element),
                   clipped(key));
  };
  switch (value.element) {
    case GgufType::u8:
      return load<std::uint8_t>(value.bytes, i);
    case GgufType::u16:
      return load<std::uint16_t>(value.bytes, i);
    case GgufType::u32:
      return load<std::uint32_t>(value.bytes, i);
    case GgufType::u64:
      return load<std::uint64_t>(value.bytes, i);
    case GgufType::i8:
      return checked(load<std::int8_t>(value.bytes, i));
    case GgufType::i16:
      return checked(load<std::int16_t>(value.bytes, i));
    case GgufType::i32:
      return checked(load<std::int32_t>(value.bytes, i));
    case GgufType::i64:
      return checked(load<std::int64_t>(value.bytes, i));
    default:
      return wrong_type(key, value, "an integer");
  }
}

Result<std::uint64_t> Gguf::integer(std::string_view key) const {
  return guarded([&]() -> Result<std::uint64_t> {
    ONEPASS_ASSIGN(const GgufValue value, required(key));
    if (value.type == GgufType::array) return wrong_type(key, value, "an integer");
    return integer_at(value, 0, key);
  });
}

Result<double> Gguf::number(std::string_view key) const {
  return guarded([&]() -> Result<double> {
    ONEPASS_ASSIGN(const GgufValue value, required(key));
    if (value.type == GgufType::f32) return static_cast<double>(load<float>(value.bytes, 0));
    if (value.type == GgufType::f64) return load<double>(value.bytes, 0);
    return wrong_type(key, value, "f32 or f64");
  });
}

Result<bool> Gguf::boolean(std::string_view key) const {
  return guarded([&]() -> Result<bool> {
    ONEPASS_ASSIGN(const GgufValue value, required(key));
    if (value.type != GgufType::boolean) return wrong_type(key, value, "bool");
    return load<std::uint8_t>(value.bytes, 0) != 0;
  });
}

Result<std::string_view> Gguf::text(std::string_view key) const {
  return guarded([&]() -> Result<std::string_view> {
    ONEPASS_ASSIGN(const GgufValue value, required(key));
    if (value.type != GgufType::string) return wrong_type(key, value, "string");
    return std::string_view(reinterpret_cast<const char*>(value.bytes.data()), value.bytes.size());
  });
}

Result<GgufValue> Gguf::array(std::string_view key, GgufType element) const {
  return guarded([&]() -> Result<GgufValue> {
    ONEPASS_ASSIGN(const GgufValue value, required(key));
    if (value.type != GgufType::array || value.element != element) {
      return wrong_type(key, value, (std::string("array of ") + name(element)).c_str());
    }
    return value;
  });
}

Result<GgufStrings> Gguf::strings(std::string_view key) const {
  ONEPASS_ASSIGN(const GgufValue value, array(key, GgufType::string));
  return GgufStrings(value);
}

}  // namespace onepass::io
