// What differs between two models.
#pragma once

#include <string>
#include <vector>

#include "model_info.h"

namespace onepass::tool {

struct InfoDiff {
  // Indices of ModelInfo::metadata or ModelInfo::list, in the first and the second model.
  struct Pair {
    std::size_t before, after;
    bool values = false;  // type and shape are equal, the bytes are not
  };
  struct Part {
    std::vector<std::size_t> removed, added;
    std::vector<Pair> changed;
    std::size_t equal = 0;
    bool same() const { return removed.empty() && added.empty() && changed.empty(); }
  };
  Part metadata, tensors;
  bool formats_differ = false;  // then names mean other things: nothing more is compared

  bool same() const { return !formats_differ && metadata.same() && tensors.same(); }
};

// Reads both files where tensors have equal types and shapes.
Result<InfoDiff> diff_models(const ModelInfo& before, const ModelInfo& after);

std::string diff_text(const ModelInfo& before, const ModelInfo& after, const InfoDiff& diff);
std::string diff_json(const ModelInfo& before, const ModelInfo& after, const InfoDiff& diff);

}  // namespace onepass::tool
