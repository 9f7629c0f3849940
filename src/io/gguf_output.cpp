#include "io/gguf_output.h"

#include <algorithm>
#include <utility>

#include "core/guarded.h"

namespace onepass::io {
namespace {

constexpr std::uint32_t magic = 0x46554747u;
constexpr std::uint32_t version = 3;
constexpr std::string_view alignment_key = "general.alignment";

using Bytes = std::vector<std::byte>;

void append(Bytes& to, std::span<const std::byte> bytes) {
  to.insert(to.end(), bytes.begin(), bytes.end());
}
template <class T>
void append_number(Bytes& to, T value) {
  append(to, std::as_bytes(std::span(&value, 1)));
}
void append_string(Bytes& to, std::string_view text) {
  append_number(to, std::uint64_t{text.size()});
  append(to, std::as_bytes(std::span<const char>(text)));
}

tl::unexpected<Error> refuse(ErrorCode code, std::string_view field, std::string message) {
  Error e = make_error(code, std::move(message));
  e.field = clipped(field);
  return tl::unexpected<Error>(std::move(e));
}

Status check_name(std::string_view name, std::uint64_t limit, const char* what) {
  if (name.empty() || name.size() > limit) {
    return refuse(ErrorCode::invalid_argument, name,
                  std::string(what) + " has " + std::to_string(name.size()) +
                      " bytes, expected 1 to " + std::to_string(limit));
  }
  if (!is_utf8(name) || name.find('\0') != name.npos) {
    return refuse(ErrorCode::invalid_argument, what, std::string(what) + " is not UTF-8");
  }
  return {};
}

}  // namespace

Result<GgufOutput> GgufOutput::make(std::uint64_t alignment) {
  return guarded([&]() -> Result<GgufOutput> {
    if (alignment < min_alignment || alignment > max_alignment ||
        (alignment & (alignment - 1)) != 0) {
      return fail(ErrorCode::invalid_argument,
                  "alignment is " + std::to_string(alignment) + ", expected a power of two from " +
                      std::to_string(min_alignment) + " to " + std::to_string(max_alignment));
    }
    GgufOutput out;
    out.alignment_ = alignment;
    if (alignment != 32) {
      ONEPASS_TRY(out.set(alignment_key, static_cast<std::uint32_t>(alignment)));
    }
    return out;
  });
}

Status GgufOutput::put(std::string_view key, std::vector<std::byte> bytes) {
  if (created_) return fail(ErrorCode::invalid_state, "set: the file was created already");
  ONEPASS_TRY(check_name(key, max_key_bytes, "key"));
  for (Entry& entry : entries_) {
    if (entry.key != key) continue;
    entry.bytes = std::move(bytes);
    return {};
  }
  if (entries_.size() >= max_keys) {
    return refuse(ErrorCode::limit, key, "more than " + std::to_string(max_keys) + " keys");
  }
  entries_.push_back({std::string(key), std::move(bytes)});
  return {};
}

Status GgufOutput::set_raw(std::string_view key, GgufType type, std::span<const std::byte> value) {
  return guarded([&]() -> Status {
    Bytes bytes;
    append_number(bytes, static_cast<std::uint32_t>(type));
    append(bytes, value);
    return put(key, std::move(bytes));
  });
}

Status GgufOutput::set_array(std::string_view key, GgufType element, std::uint64_t count,
                             std::span<const std::byte> values) {
  return guarded([&]() -> Status {
    if (count > max_array_elements) {
      return refuse(ErrorCode::limit, key,
                    std::to_string(count) + " elements, at most " +
                        std::to_string(max_array_elements) + " are allowed");
    }
    Bytes bytes;
    append_number(bytes, static_cast<std::uint32_t>(GgufType::array));
    append_number(bytes, static_cast<std::uint32_t>(element));
    append_number(bytes, count);
    append(bytes, values);
    return put(key, std::move(bytes));
  });
}

Status GgufOutput::set(std::string_view key, std::string_view text) {
  return guarded([&]() -> Status {
    if (text.size() > max_string_bytes) {
      return refuse(ErrorCode::limit, key,
                    std::to_string(text.size()) + " bytes, at most " +
                        std::to_string(max_string_bytes) + " are allowed");
    }
    Bytes bytes;
    append_number(bytes, static_cast<std::uint32_t>(GgufType::string));
    append_string(bytes, text);
    return put(key, std::move(bytes));
  });
}

Status GgufOutput::set(std::string_view key, std::span<const std::string> texts) {
  return guarded([&]() -> Status {
    Bytes values;
    for (const std::string& text : texts) append_string(values, text);
    return set_array(key, GgufType::string, texts.size(), values);
  });
}

Status GgufOutput::set_flags(std::string_view key, std::span<const std::uint8_t> flags) {
  return set_array(key, GgufType::boolean, flags.size(), std::as_bytes(flags));
}

Status GgufOutput::copy(const GgufEntry& entry) {
  return guarded([&]() -> Status {
    const GgufValue& v = entry.value;
    if (entry.key == alignment_key) return {};
    if (v.type == GgufType::array) return set_array(entry.key, v.element, v.count, v.bytes);
    if (v.type == GgufType::string) {
      return set(entry.key,
                 std::string_view(reinterpret_cast<const char*>(v.bytes.data()), v.bytes.size()));
    }
    return set_raw(entry.key, v.type, v.bytes);
  });
}

Status GgufOutput::add_tensor(std::string_view name, const GgmlType& type,
                              std::span<const std::uint64_t> dims) {
  return guarded([&]() -> Status {
    if (created_) return fail(ErrorCode::invalid_state, "add_tensor: the file was created already");
    ONEPASS_TRY(check_name(name, max_tensor_name_bytes, "tensor name"));
    if (tensors_.size() >= max_tensors) {
      return refuse(ErrorCode::limit, name,
                    "more than " + std::to_string(max_tensors) + " tensors");
    }
    if (dims.empty() || dims.size() > max_dims) {
      return refuse(
          ErrorCode::invalid_argument, name,
          std::to_string(dims.size()) + " dimensions, expected 1 to " + std::to_string(max_dims));
    }
    std::uint64_t elements = 1;
    for (const std::uint64_t d : dims) {
      if (d == 0 || d > max_dim || !multiply(elements, d, elements)) {
        return refuse(ErrorCode::invalid_argument, name, "a dimension is " + std::to_string(d));
      }
    }
    if (dims[0] % type.block_elements != 0) {
      return refuse(ErrorCode::invalid_argument, name,
                    "rows of " + std::to_string(dims[0]) + " elements, " + type.name +
                        " has blocks of " + std::to_string(type.block_elements));
    }
    Tensor t{std::string(name), type.id, {dims.begin(), dims.end()}, data_bytes_, 0};
    std::uint64_t end = 0;
    if (!multiply(elements / type.block_elements, type.block_bytes, t.bytes) ||
        !add(t.offset, t.bytes, end) || !align_up(end, alignment_, data_bytes_)) {
      return refuse(ErrorCode::limit, name, "the number of bytes does not fit 64 bits");
    }
    tensors_.push_back(std::move(t));
    return {};
  });
}

Result<std::vector<std::byte>> GgufOutput::header() const {
  std::vector<std::string_view> names;
  for (const Tensor& t : tensors_) names.push_back(t.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) {
    return refuse(ErrorCode::invalid_argument, *twice, "the tensor was added twice");
  }
  Bytes bytes;
  append_number(bytes, magic);
  append_number(bytes, version);
  append_number(bytes, std::uint64_t{tensors_.size()});
  append_number(bytes, std::uint64_t{entries_.size()});
  for (const Entry& entry : entries_) {
    append_string(bytes, entry.key);
    append(bytes, entry.bytes);
  }
  for (const Tensor& t : tensors_) {
    append_string(bytes, t.name);
    append_number(bytes, static_cast<std::uint32_t>(t.dims.size()));
    for (const std::uint64_t d : t.dims) append_number(bytes, d);
    append_number(bytes, t.type);
    append_number(bytes, t.offset);
  }
  std::uint64_t size = 0;
  if (!align_up(bytes.size(), alignment_, size)) {
    return fail(ErrorCode::limit, "the metadata is too large");
  }
  bytes.resize(static_cast<std::size_t>(size));
  return bytes;
}

Result<std::uint64_t> GgufOutput::file_bytes() const {
  return guarded([&]() -> Result<std::uint64_t> {
    ONEPASS_ASSIGN(const Bytes head, header());
    std::uint64_t size = 0;
    if (!add(head.size(), data_bytes_, size)) {
      return fail(ErrorCode::limit, "the number of bytes does not fit 64 bits");
    }
    return size;
  });
}

Status GgufOutput::create(const std::string& path) {
  return guarded([&]() -> Status {
    if (created_) return fail(ErrorCode::invalid_state, "create: the file was created already");
    ONEPASS_ASSIGN(const Bytes head, header());
    ONEPASS_ASSIGN(file_, os::AtomicFile::create(path));
    created_ = true;
    return file_.write(head);
  });
}

Status GgufOutput::pad(std::uint64_t to) {
  constexpr std::array<std::byte, 256> zeros{};
  std::uint64_t end = 0;
  if (!align_up(to, alignment_, end)) return fail(ErrorCode::limit, "too many bytes");
  for (std::uint64_t n = end - to; n > 0;) {
    const auto step = static_cast<std::size_t>(std::min<std::uint64_t>(n, zeros.size()));
    ONEPASS_TRY(file_.write(std::span(zeros).first(step)));
    n -= step;
  }
  return {};
}

Status GgufOutput::write(std::span<const std::byte> bytes) {
  return guarded([&]() -> Status {
    if (!created_) return fail(ErrorCode::invalid_state, "write: the file was not created");
    if (bytes.empty()) return {};
    if (current_ == tensors_.size()) {
      return fail(ErrorCode::invalid_argument, "write: every tensor has all of its bytes");
    }
    const Tensor& t = tensors_[current_];
    if (bytes.size() > t.bytes - written_) {
      return refuse(ErrorCode::invalid_argument, t.name,
                    std::to_string(bytes.size()) + " bytes, the tensor lacks " +
                        std::to_string(t.bytes - written_));
    }
    ONEPASS_TRY(file_.write(bytes));
    written_ += bytes.size();
    if (written_ < t.bytes) return {};
    written_ = 0;
    ++current_;
    return pad(t.bytes);
  });
}

Status GgufOutput::commit() {
  return guarded([&]() -> Status {
    if (!created_) return fail(ErrorCode::invalid_state, "commit: the file was not created");
    if (current_ != tensors_.size()) {
      return refuse(
          ErrorCode::invalid_state, tensors_[current_].name,
          "the tensor lacks " + std::to_string(tensors_[current_].bytes - written_) + " bytes");
    }
    return file_.commit();
  });
}

}  // namespace onepass::io
