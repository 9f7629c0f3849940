#include "io/safetensors_file.h"

#include <algorithm>
#include <filesystem>
#include <new>
#include <utility>

#include "core/guarded.h"
#include "io/json.h"

namespace onepass::io {
namespace {

Error in_file(const std::string& name, Error e) {
  e.message = name + ": " + e.message;
  return e;
}

bool is_plain_name(std::string_view name) {
  return name.ends_with(".safetensors") && name.size() <= max_tensor_name_bytes &&
         name.find_first_of(std::string_view("/\\\0", 3)) == name.npos;
}

struct Mapped {
  std::string_view tensor, file;
  std::uint64_t at;
};

// The entries of weight_map, sorted by tensor.
Result<std::vector<Mapped>> read_weight_map(JsonReader& json) {
  std::vector<Mapped> map;
  bool seen = false;
  ONEPASS_TRY(json.begin_object("index"));
  while (true) {
    ONEPASS_ASSIGN(const std::optional<std::string_view> key, json.next_key("index"));
    if (!key) break;
    if (*key != "weight_map") {
      ONEPASS_TRY(json.skip(*key));
      continue;
    }
    if (std::exchange(seen, true)) {
      return fail_at(ErrorCode::parse, "the key is there twice", json.offset(), "weight_map");
    }
    ONEPASS_TRY(json.begin_object("weight_map"));
    while (true) {
      const std::uint64_t at = json.offset();
      ONEPASS_ASSIGN(const std::optional<std::string_view> tensor, json.next_key("weight_map"));
      if (!tensor) break;
      const std::string field = "weight_map." + clipped(*tensor);
      ONEPASS_ASSIGN(const std::string_view file, json.string(field));
      if (!is_plain_name(file)) {
        return fail_at(ErrorCode::parse,
                       "\"" + clipped(file) + "\" is not the name of a file in the same folder", at,
                       field);
      }
      if (map.size() == max_safetensors_entries) {
        return fail_at(ErrorCode::limit, "too many tensors", at, "weight_map");
      }
      map.push_back({*tensor, file, at});
    }
  }
  ONEPASS_TRY(json.end("index"));
  if (!seen) return fail_at(ErrorCode::not_found, "is missing", Error::no_offset, "weight_map");
  std::sort(map.begin(), map.end(), [](const Mapped& a, const Mapped& b) {
    const int order = a.tensor.compare(b.tensor);
    return order != 0 ? order < 0 : a.at < b.at;
  });
  const auto twice =
      std::adjacent_find(map.begin(), map.end(),
                         [](const Mapped& a, const Mapped& b) { return a.tensor == b.tensor; });
  if (twice != map.end()) {
    return fail_at(ErrorCode::parse, "the tensor is there twice", (twice + 1)->at,
                   "weight_map." + clipped(twice->tensor));
  }
  return map;
}

}  // namespace

bool is_folder(const std::string& path) noexcept {
  try {
    std::error_code error;
    return std::filesystem::is_directory(path, error);
  } catch (const std::bad_alloc&) {
    return false;
  }
}

Result<std::string> read_text(const std::string& path, std::uint64_t limit) {
  return guarded([&]() -> Result<std::string> {
    ONEPASS_ASSIGN(const os::File file, os::File::open(path));
    if (file.bytes() > limit) {
      return fail(ErrorCode::limit, path + ": " + std::to_string(file.bytes()) +
                                        " bytes, at most " + std::to_string(limit) +
                                        " are allowed");
    }
    std::string text(static_cast<std::size_t>(file.bytes()), '\0');
    ONEPASS_TRY(file.read(0, std::as_writable_bytes(std::span(text))));
    return text;
  });
}

Result<SafetensorsFile::Shard> SafetensorsFile::open_shard(const std::string& path) {
  Shard shard;
  ONEPASS_ASSIGN(shard.file, os::File::open(path));
  const std::uint64_t file_bytes = shard.file.bytes();
  for (std::uint64_t size = std::min<std::uint64_t>(8, file_bytes);;) {
    shard.header.resize(static_cast<std::size_t>(size));
    ONEPASS_TRY(shard.file.read(0, shard.header));
    Reader reader(shard.header, file_bytes);
    auto table = Safetensors::parse(reader);
    if (table) {
      shard.table = std::move(*table);
      return shard;
    }
    if (!reader.needs_more()) return std::move(table).error();
    // The length was read and checked; the rest of the header is what is missing.
    std::uint64_t header = 0;
    std::memcpy(&header, shard.header.data(), 8);
    size = 8 + header;
  }
}

Status SafetensorsFile::open_shards(const std::string& folder, const std::string& index) {
  JsonReader json(index);
  ONEPASS_ASSIGN(const std::vector<Mapped> map, read_weight_map(json));
  std::vector<std::string_view> files;
  for (const Mapped& m : map) files.push_back(m.file);
  std::sort(files.begin(), files.end());
  files.erase(std::unique(files.begin(), files.end()), files.end());
  if (files.size() > max_shards) {
    return fail_at(ErrorCode::limit,
                   std::to_string(files.size()) + " shards, at most " + std::to_string(max_shards) +
                       " are allowed",
                   Error::no_offset, "weight_map");
  }
  std::size_t found = 0;
  for (const std::string_view file : files) {
    const std::string name(file);
    auto shard = open_shard(folder + "/" + name);
    if (!shard) return in_file(name, std::move(shard).error());
    for (const Safetensor& t : shard->table.tensors()) {
      const auto entry =
          std::lower_bound(map.begin(), map.end(), t.name,
                           [](const Mapped& m, std::string_view n) { return m.tensor < n; });
      if (entry == map.end() || entry->tensor != t.name || entry->file != file) {
        return in_file(name, fail_at(ErrorCode::parse,
                                     "the index does not say that the tensor is in this file", t.at,
                                     clipped(t.name))
                                 .value());
      }
      ++found;
    }
    shards_.push_back(std::move(*shard));
  }
  if (found == map.size()) return {};
  for (const Mapped& m : map) {
    if (find(m.tensor)) continue;
    return fail_at(ErrorCode::not_found, std::string(m.file) + " does not have it", m.at,
                   "weight_map." + clipped(m.tensor));
  }
  return {};
}

Result<SafetensorsFile> SafetensorsFile::open(const std::string& path) {
  return guarded([&]() -> Result<SafetensorsFile> {
    SafetensorsFile model;
    if (!is_folder(path)) {
      ONEPASS_ASSIGN(Shard shard, open_shard(path));
      model.shards_.push_back(std::move(shard));
      return model;
    }
    const std::string index_name = "model.safetensors.index.json";
    auto index = read_text(path + "/" + index_name, max_config_bytes);
    if (index) {
      if (auto s = model.open_shards(path, *index); !s) {
        return in_file(index_name, std::move(s).error());
      }
      return model;
    }
    if (index.error().code != ErrorCode::not_found) return std::move(index).error();
    ONEPASS_ASSIGN(Shard shard, open_shard(path + "/model.safetensors"));
    model.shards_.push_back(std::move(shard));
    return model;
  });
}

std::optional<SafetensorSource> SafetensorsFile::find(std::string_view tensor_name) const noexcept {
  for (std::uint32_t i = 0; i < shards_.size(); ++i) {
    if (const Safetensor* t = shards_[i].table.find(tensor_name)) return SafetensorSource{t, i};
  }
  return std::nullopt;
}

Status SafetensorsFile::read(const SafetensorSource& tensor, std::uint64_t offset,
                             std::span<std::byte> out) const {
  return guarded([&]() -> Status {
    const Safetensor& t = *tensor.info;
    if (offset > t.bytes || out.size() > t.bytes - offset) {
      return fail(ErrorCode::invalid_argument,
                  "read " + std::string(t.name) + ": bytes " + std::to_string(offset) + " to " +
                      std::to_string(offset + out.size()) + " of " + std::to_string(t.bytes));
    }
    const Shard& shard = shards_[tensor.shard];
    return shard.file.read(shard.table.data_offset() + t.offset + offset, out);
  });
}

}  // namespace onepass::io
