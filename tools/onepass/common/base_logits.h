// Log-probabilities of a reference model on disk, in the format of llama-perplexity
// --kl-divergence-base: "_logits_", u32 n_ctx, i32 n_vocab, i32 n_chunk, i32
// tokens[n_chunk][n_ctx], then for each scored position f32 step, f32 smallest, u16 values[n_vocab
// rounded up to even]. Scored are the positions n_ctx / 2 to n_ctx - 2 of each chunk. Little
// endian.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/os.h"

namespace onepass::tool {

struct BaseShape {
  std::uint32_t context = 0;  // tokens of a window
  std::uint32_t vocab = 0;
  std::uint32_t windows = 0;

  std::uint32_t first() const { return context / 2; }             // position that is scored first
  std::uint32_t scored() const { return context - 1 - first(); }  // of each window
};

class BaseLogitsWriter {
 public:
  // tokens: windows * context.
  static Result<BaseLogitsWriter> create(const std::string& path, const BaseShape& shape,
                                         std::span<const std::uint32_t> tokens);
  // In order, all positions that are scored.
  Status add(std::span<const float> logits);
  Status commit();

 private:
  os::AtomicFile file_;
  std::vector<std::uint16_t> row_;
};

class BaseLogits {
 public:
  // Checks the size of the file against its header, and every token.
  static Result<BaseLogits> open(const std::string& path);

  const BaseShape& shape() const noexcept { return shape_; }
  const std::vector<std::uint32_t>& tokens() const noexcept { return tokens_; }
  // Log-probabilities [vocab] of scored position `index` of a window.
  Status read(std::uint32_t window, std::uint32_t index, std::span<float> out);

 private:
  os::File file_;
  std::string path_;
  BaseShape shape_;
  std::vector<std::uint32_t> tokens_;
  std::uint64_t rows_at_ = 0;  // offset in the file
  std::vector<std::uint16_t> row_;
};

}  // namespace onepass::tool
