// Importance matrices: for the matrices of a model the sums of the squares of what their columns
// were multiplied with, over a text. Quantizers spend their bits where that is large.
//
//   ONEPASS_ASSIGN(const Imatrix matrix, Imatrix::read("imatrix.gguf"));
//   std::vector<float> means = matrix.means("blk.0.attn_q.weight");   // of each column
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/gguf_file.h"
#include "onepass/result.h"

namespace onepass::llm {

struct ImatrixEntry {
  std::vector<double> sums;           // of the columns of one matrix after the other
  std::vector<std::uint64_t> counts;  // rows that were seen: of each matrix, or of all alike
};

struct Imatrix {
  std::map<std::string, ImatrixEntry, std::less<>> entries;  // by the names of GGUF tensors
  std::vector<std::string> datasets;
  std::uint32_t chunks = 0, chunk_tokens = 0;

  // A GGUF file as llama-imatrix writes it, or the older form of its files.
  static Result<Imatrix> read(const std::string& path);
  // The GGUF form.
  Status write(const std::string& path) const;
  // The mean squares, as many as there are sums; 1 for a matrix of which nothing was seen. Empty:
  // there is no such entry.
  std::vector<float> means(std::string_view name) const;
};

}  // namespace onepass::llm
