// Safetensors on disk: one file, or a folder with model.safetensors or shards and their index.
//
//   ONEPASS_ASSIGN(SafetensorsFile file, SafetensorsFile::open("folder"));
//   std::optional<SafetensorSource> t = file.find("model.norm.weight");
//   ONEPASS_TRY(file.read(*t, 0, bytes));
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/os.h"
#include "io/safetensors.h"

namespace onepass::io {

struct SafetensorSource {
  const Safetensor* info;
  std::uint32_t shard;
};

class SafetensorsFile {
 public:
  // A file, or a folder as published: the shards that `model.safetensors.index.json` names, else
  // `model.safetensors`.
  static Result<SafetensorsFile> open(const std::string& path);

  std::size_t n_shards() const noexcept { return shards_.size(); }
  const Safetensors& shard(std::size_t i) const noexcept { return shards_[i].table; }
  std::optional<SafetensorSource> find(std::string_view tensor_name) const noexcept;
  // Bytes of the tensor from `offset` on, as many as out holds.
  Status read(const SafetensorSource& tensor, std::uint64_t offset, std::span<std::byte> out) const;

 private:
  struct Shard {
    os::File file;
    std::vector<std::byte> header;
    Safetensors table;
  };
  static Result<Shard> open_shard(const std::string& path);
  Status open_shards(const std::string& folder, const std::string& index);

  std::vector<Shard> shards_;
};

// A whole small text file, at most limit bytes.
Result<std::string> read_text(const std::string& path, std::uint64_t limit);
// False also where it cannot be looked at.
bool is_folder(const std::string& path) noexcept;

}  // namespace onepass::io
