#include "io/gguf_file.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "core/guarded.h"

namespace onepass::io {
namespace {

// What is read of a file before its size of metadata is known.
constexpr std::uint64_t first_read_bytes = 1u << 20;

std::string shard_suffix(std::uint64_t no, std::uint64_t count) {
  char text[64];
  std::snprintf(text, sizeof text, "-%05llu-of-%05llu.gguf", static_cast<unsigned long long>(no),
                static_cast<unsigned long long>(count));
  return text;
}

// Number of shards by the metadata; 1 without the key.
Result<std::uint64_t> shard_count(const Gguf& gguf) {
  const GgufValue* value = gguf.find("split.count");
  if (value == nullptr) return std::uint64_t{1};
  ONEPASS_ASSIGN(const std::uint64_t count, gguf.integer("split.count"));
  if (count == 0) return fail_at(ErrorCode::parse, "is 0", value->at, "split.count");
  if (count > max_shards) {
    return fail_at(
        ErrorCode::limit,
        std::to_string(count) + " shards, at most " + std::to_string(max_shards) + " are allowed",
        value->at, "split.count");
  }
  return count;
}

}  // namespace

Result<GgufFile::Shard> GgufFile::open_shard(const std::string& path,
                                             const GgufFileOptions& options) {
  Shard shard;
  ONEPASS_ASSIGN(shard.file, os::File::open(path));
  if (options.map) {
    ONEPASS_ASSIGN(shard.bytes, shard.file.map());
    ONEPASS_ASSIGN(shard.gguf, Gguf::parse(shard.bytes));
    return shard;
  }
  const std::uint64_t file_bytes = shard.file.bytes();
  for (std::uint64_t size = std::min(first_read_bytes, file_bytes);;
       size = size > file_bytes / 4 ? file_bytes : size * 4) {
    shard.head = {};  // freed before the larger one is allocated
    shard.head.resize(static_cast<std::size_t>(size));
    ONEPASS_TRY(shard.file.read(0, shard.head));
    Reader reader(shard.head, file_bytes);
    auto gguf = Gguf::parse(reader);
    if (gguf) {
      shard.gguf = std::move(*gguf);
      return shard;
    }
    if (!reader.needs_more()) return std::move(gguf).error();
  }
}

Status GgufFile::check_shard(const Shard& shard, std::uint64_t no, std::uint64_t count) {
  ONEPASS_ASSIGN(const std::uint64_t own_count, shard_count(shard.gguf));
  if (own_count != count) {
    return fail_at(
        ErrorCode::parse,
        "is " + std::to_string(own_count) + ", the first shard says " + std::to_string(count),
        Error::no_offset, "split.count");
  }
  ONEPASS_ASSIGN(const std::uint64_t own_no, shard.gguf.integer("split.no"));
  if (own_no != no) {
    return fail_at(ErrorCode::parse,
                   "is " + std::to_string(own_no) + ", expected " + std::to_string(no),
                   Error::no_offset, "split.no");
  }
  return {};
}

Result<GgufFile> GgufFile::open(const std::string& path, const GgufFileOptions& options) {
  return guarded([&]() -> Result<GgufFile> {
    GgufFile model;
    Result<Shard> first = open_shard(path, options);
    if (!first) {
      Error e = std::move(first).error();
      if (e.message.find(path) == std::string::npos) e.message = path + ": " + e.message;
      return e;
    }
    ONEPASS_ASSIGN(const std::uint64_t count, shard_count(first->gguf));
    model.shards_.push_back(std::move(*first));
    if (count == 1) return model;

    ONEPASS_TRY(check_shard(model.shards_[0], 0, count));
    const std::string suffix = shard_suffix(1, count);
    if (!path.ends_with(suffix)) {
      return fail(ErrorCode::invalid_argument, path + " is a shard of " + std::to_string(count) +
                                                   ": its name must end with " + suffix);
    }
    const std::string stem = path.substr(0, path.size() - suffix.size());
    for (std::uint64_t i = 1; i < count; ++i) {
      const std::string name = stem + shard_suffix(i + 1, count);
      const auto in_file = [&name](Error e) {
        e.message = name + ": " + e.message;
        return e;
      };
      auto shard = open_shard(name, options);
      if (!shard) return in_file(std::move(shard).error());
      if (auto s = check_shard(*shard, i, count); !s) return in_file(std::move(s).error());
      for (const GgufTensor& t : shard->gguf.tensors()) {
        if (model.find(t.name)) {
          return in_file(fail_at(ErrorCode::parse, "the tensor is in an earlier shard too", t.at,
                                 std::string(t.name))
                             .value());
        }
      }
      model.shards_.push_back(std::move(*shard));
    }
    std::uint64_t tensors = 0;
    for (const Shard& shard : model.shards_) tensors += shard.gguf.tensors().size();
    if (model.metadata().find("split.tensors.count") != nullptr) {
      ONEPASS_ASSIGN(const std::uint64_t expected, model.metadata().integer("split.tensors.count"));
      if (tensors != expected) {
        return fail_at(ErrorCode::parse,
                       "is " + std::to_string(expected) + ", the shards have " +
                           std::to_string(tensors) + " tensors",
                       Error::no_offset, "split.tensors.count");
      }
    }
    return model;
  });
}

std::optional<TensorSource> GgufFile::find(std::string_view tensor_name) const noexcept {
  for (std::uint32_t i = 0; i < shards_.size(); ++i) {
    if (const GgufTensor* t = shards_[i].gguf.find_tensor(tensor_name)) return TensorSource{t, i};
  }
  return std::nullopt;
}

Status GgufFile::read(const TensorSource& tensor, std::span<std::byte> out) const {
  return guarded([&]() -> Status {
    if (out.size() != tensor.info->bytes) {
      return fail(ErrorCode::invalid_argument, "read " + std::string(tensor.info->name) +
                                                   ": room for " + std::to_string(out.size()) +
                                                   " bytes, it has " +
                                                   std::to_string(tensor.info->bytes));
    }
    return read(tensor, 0, out);
  });
}

Status GgufFile::read(const TensorSource& tensor, std::uint64_t offset,
                      std::span<std::byte> out) const {
  return guarded([&]() -> Status {
    const GgufTensor& t = *tensor.info;
    if (offset > t.bytes || out.size() > t.bytes - offset) {
      return fail(ErrorCode::invalid_argument,
                  "read " + std::string(t.name) + ": bytes " + std::to_string(offset) + " to " +
                      std::to_string(offset + out.size()) + " of " + std::to_string(t.bytes));
    }
    const Shard& shard = shards_[tensor.shard];
    if (const auto from = mapped(tensor); !from.empty()) {
      const auto part = from.subspan(static_cast<std::size_t>(offset), out.size());
      std::copy(part.begin(), part.end(), out.begin());
      return {};
    }
    return shard.file.read(shard.gguf.data_offset() + t.offset + offset, out);
  });
}

std::span<const std::byte> GgufFile::mapped(const TensorSource& tensor) const noexcept {
  const Shard& shard = shards_[tensor.shard];
  if (shard.bytes.empty()) return {};
  return shard.bytes.subspan(
      static_cast<std::size_t>(shard.gguf.data_offset() + tensor.info->offset),
      static_cast<std::size_t>(tensor.info->bytes));
}

}  // namespace onepass::io
