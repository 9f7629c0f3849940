// A GGUF model on disk: one file or a set of shards.
//
//   ONEPASS_ASSIGN(GgufFile file, GgufFile::open("model.gguf"));
//   ONEPASS_ASSIGN(double base, file.metadata().number("llama.rope.freq_base"));
//   std::optional<TensorSource> t = file.find("output.weight");
//   ONEPASS_TRY(file.read(*t, bytes));
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/os.h"
#include "io/gguf.h"

namespace onepass::io {

struct GgufFileOptions {
  // Map instead of read. Only for files that are not cut short meanwhile (os::File::map).
  bool map = false;
};

struct TensorSource {
  const GgufTensor* info;
  std::uint32_t shard;
};

class GgufFile {
 public:
  // The only file, or the first of `NAME-00001-of-00003.gguf`: the others are found beside it.
  static Result<GgufFile> open(const std::string& path, const GgufFileOptions& options = {});

  const Gguf& metadata() const noexcept { return shards_.front().gguf; }
  std::size_t n_shards() const noexcept { return shards_.size(); }
  const Gguf& shard(std::size_t i) const noexcept { return shards_[i].gguf; }
  std::optional<TensorSource> find(std::string_view tensor_name) const noexcept;

  // All bytes of the tensor; out has exactly that size.
  Status read(const TensorSource& tensor, std::span<std::byte> out) const;
  // Bytes of the tensor from `offset` on, as many as out holds.
  Status read(const TensorSource& tensor, std::uint64_t offset, std::span<std::byte> out) const;
  // Where they are mapped; empty when the file was not.
  std::span<const std::byte> mapped(const TensorSource& tensor) const noexcept;

 private:
  struct Shard {
    os::File file;
    std::vector<std::byte> head;       // up to the data section, unless mapped
    std::span<const std::byte> bytes;  // the mapped file, or empty
    Gguf gguf;
  };
  static Result<Shard> open_shard(const std::string& path, const GgufFileOptions& options);
  static Status check_shard(const Shard& shard, std::uint64_t no, std::uint64_t count);

  std::vector<Shard> shards_;
};

}  // namespace onepass::io
