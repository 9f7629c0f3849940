// A GGUF file in another format.
//
//   ONEPASS_ASSIGN(io::GgufFile file, io::GgufFile::open("f16.gguf"));
//   ONEPASS_ASSIGN(QuantizePlan plan, plan_quantize(file, {.mix = find_mix("q4_k_m")}));
//   ONEPASS_TRY(quantize_file(file, plan, "q4_k_m.gguf"));
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "io/gguf_file.h"
#include "model/imatrix.h"
#include "model/quant_mix.h"

namespace onepass::llm {

struct QuantizeOptions {
  const QuantMix* mix = nullptr;
  bool pure = false;                 // the mix's base format for every matrix
  bool requantize = false;           // matrices may have fewer bits than q8_0 already
  const Imatrix* imatrix = nullptr;  // what is known of the importance of columns
  std::string imatrix_path{};        // for the metadata
  std::uint32_t threads = 0;
  // Values done, and of all. An error ends the work.
  std::function<Status(std::uint64_t done, std::uint64_t total)> progress = nullptr;
};

struct PlannedTensor {
  std::string name;
  std::string from;  // type, as the file calls it
  std::string to;
  std::uint32_t to_id = 0;  // ggml
  std::array<std::uint64_t, 4> dims{1, 1, 1, 1};
  std::uint32_t n_dims = 0;
  std::uint64_t values = 0;
  std::uint64_t from_bytes = 0, to_bytes = 0;
  bool weighed = false;           // by the importance of its columns
  bool needs_importance = false;  // and there is none
};
struct QuantizePlan {
  const QuantMix* mix = nullptr;
  std::vector<PlannedTensor> tensors;  // in the order of the new file
  std::uint64_t values = 0;
  std::uint64_t from_bytes = 0, to_bytes = 0;  // of tensors
};

// A source that would lose twice is refused unless asked for.
Result<QuantizePlan> plan_quantize(const io::GgufFile& file, const QuantizeOptions& options);
// Metadata is kept; the file is there under its name only once it is complete, and an older one of
// that name, be it the source, until then.
// A plan with tensors that need importance is refused.
Status quantize_file(const io::GgufFile& file, const QuantizePlan& plan, const std::string& path,
                     const QuantizeOptions& options = {});

}  // namespace onepass::llm
