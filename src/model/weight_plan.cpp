#include "model/weight_plan.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <tuple>

#include "core/guarded.h"

namespace onepass::llm {
namespace {

tl::unexpected<Error> refuse(ErrorCode code, const StoredTensor& t, std::string message) {
  return io::fail_at(code, io::clipped(t.name) + " " + std::move(message), t.at,
                     io::clipped(t.name));
}

std::string shape_text(std::span<const std::uint64_t> dims) {
  std::string s = "[";
  for (std::size_t i = 0; i < dims.size(); ++i) {
    s += (i == 0 ? "" : ", ") + std::to_string(dims[i]);
  }
  return s + "]";
}

// Ones in front do not count.
bool same_shape(std::span<const std::uint64_t> a, std::span<const std::uint64_t> b) {
  while (a.size() > b.size() && a.front() == 1) a = a.subspan(1);
  while (b.size() > a.size() && b.front() == 1) b = b.subspan(1);
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

Status check_shape(const StoredTensor& t, std::span<const std::uint64_t> dims) {
  if (t.rank <= t.dims.size() && same_shape(std::span(t.dims).first(t.rank), dims)) return {};
  return refuse(ErrorCode::parse, t,
                "is " + shape_text(std::span(t.dims).first(std::min(t.rank, 4u))) + ", expected " +
                    shape_text(dims));
}

bool is_float(const StoredTensor& t) {
  return t.dtype == DType::f32 || t.dtype == DType::f16 || t.dtype == DType::bf16;
}

class Planner {
 public:
  Planner(const ModelConfig& c, const WeightSource& source) : c_(c), source_(source) {}

  Result<WeightPlan> plan() {
    const auto take = [&](const TensorRow& row, std::uint32_t i) -> Status {
      if (i != layer_) ONEPASS_TRY(end_layer());
      layer_ = i;
      return place(row);
    };
    ONEPASS_TRY(for_each_tensor(c_, take));
    ONEPASS_TRY(end_layer());
    ONEPASS_TRY(check_layers_alike());
    ONEPASS_TRY(check_all_used());
    return std::move(plan_);
  }

 private:
  Error missing(const std::string& name, const std::string& why = "") const {
    const std::string own = source_.own_name(name);
    Error e = make_error(ErrorCode::not_found, "there is no tensor " + own + why);
    e.field = own;
    return e;
  }
  std::optional<StoredTensor> find(const std::string& name) {
    std::optional<StoredTensor> found = source_.find(name);
    if (!found) return found;
    used_.insert(found->name);
    used_.insert(found->pieces.begin(), found->pieces.end());
    return found;
  }

  Status place(const TensorRow& row) {
    WeightPart p;
    p.row = &row;
    p.layer = layer_;
    p.name = gguf_part(row, layer_);
    p.experts = row.form == TensorForm::experts ? c_.n_experts : 0;
    p.rows = row_count(row, c_, layer_);
    p.cols = extent(row.cols, c_, layer_);
    const std::string name = p.name + std::string(row.suffix);
    std::optional<StoredTensor> found = find(name);
    if (row.need != Need::required) note(row, found.has_value(), false);
    if (!found) {
      if (row.need == Need::required) absent_.push_back(&row);
      return {};
    }
    ONEPASS_TRY(check_pieces(*found));
    ONEPASS_TRY(fill(row, *found));
    p.weight = *std::move(found);
    ONEPASS_TRY(take_affine(p));
    if (!p.affine) {
      std::vector<std::uint64_t> dims;
      if (p.experts != 0) dims.push_back(p.experts);
      if (p.rows != 0) dims.push_back(p.rows);
      dims.push_back(p.cols);
      ONEPASS_TRY(check_shape(p.weight, dims));
      if (is_floats(row.form)) ONEPASS_TRY(check_floats(p.weight));
    }
    if (!row.together.empty()) {
      const std::string other = std::string(row.together) + std::string(row.suffix);
      if (!source_.find(other)) return missing(other, ", which goes with " + name);
    }
    ONEPASS_TRY(take_bias(p));
    ONEPASS_TRY(take_scale(p));
    plan_.parts.push_back(std::move(p));
    return {};
  }

  Status check_pieces(const StoredTensor& t) const {
    if (t.bad_piece.empty()) return {};
    Error e = make_error(ErrorCode::parse, t.bad_piece +
                                               " is missing or not of the type and shape of the "
                                               "others, of which the first is " +
                                               t.name);
    e.field = t.bad_piece;
    return e;
  }

  static Status check_floats(const StoredTensor& t) {
    if (is_float(t)) return {};
    return refuse(ErrorCode::unsupported, t, "is " + t.type + ", expected f32, f16 or bf16");
  }

  // The weights of a row have no other one.
  Status fill(const TensorRow& row, const StoredTensor& t) {
    for (const Target& target : row.into) {
      if (target.weights == nullptr) continue;
      for (const auto& [weights, by] : filled_) {
        if (weights != target.weights) continue;
        return refuse(ErrorCode::parse, t, "gives what " + by + " gives already");
      }
      filled_.push_back({target.weights, t.name});
    }
    return {};
  }

  Status take_bias(WeightPart& p) {
    const TensorRow& row = *p.row;
    if (row.bias == Need::never) return {};
    p.bias = find(p.name + ".bias");
    if (row.bias != Need::required) note(row, p.bias.has_value(), true);
    if (!p.bias) {
      if (row.bias == Need::required) return missing(p.name + ".bias");
      return {};
    }
    std::vector<std::uint64_t> dims;
    if (p.experts != 0) dims.push_back(p.experts);
    dims.push_back(p.rows != 0 ? p.rows : p.cols);
    ONEPASS_TRY(check_shape(*p.bias, dims));
    return check_floats(*p.bias);
  }

  Status take_scale(WeightPart& p) {
    const auto is_scale = [&](const TensorRow& row) {
      return row.gguf == p.row->gguf && row.suffix == ".scale";
    };
    const std::span<const TensorRow> table = c_.architecture->tensors;
    const bool apart = std::any_of(table.begin(), table.end(), is_scale);
    if (p.rows == 0 || p.affine || apart) return {};
    p.scale = find(p.name + ".scale");
    if (!p.scale) return {};
    const std::uint64_t dims[] = {std::max(p.experts, 1u)};
    ONEPASS_TRY(check_shape(*p.scale, dims));
    return check_floats(*p.scale);
  }

  Status take_affine(WeightPart& p) {
    ONEPASS_ASSIGN(const std::optional<AffineFormat> format, source_.affine(p.name));
    if (!format) return {};
    StoredAffine s;
    s.format = *format;
    s.weight = p.weight;
    const auto part = [&](const char* suffix) -> Result<StoredTensor> {
      std::optional<StoredTensor> found = find(p.name + suffix);
      if (!found) return missing(p.name + suffix);
      return *std::move(found);
    };
    ONEPASS_ASSIGN(s.scales, part(".scales"));
    ONEPASS_ASSIGN(s.biases, part(".biases"));
    const std::uint64_t n = p.rows, k = p.cols;
    std::vector<std::uint64_t> words{n, k * format->bits / 32}, groups{n, k / format->group_size};
    if (p.experts != 0) {
      words.insert(words.begin(), p.experts);
      groups.insert(groups.begin(), p.experts);
    }
    ONEPASS_TRY(check_shape(s.weight, words));
    ONEPASS_TRY(check_shape(s.scales, groups));
    ONEPASS_TRY(check_shape(s.biases, groups));
    if (k % format->group_size != 0 || k % 32 != 0) {
      return refuse(ErrorCode::parse, s.weight,
                    "has rows of " + std::to_string(k) + ", groups have " +
                        std::to_string(format->group_size));
    }
    if (s.weight.dtype != DType::u32) {
      return refuse(ErrorCode::parse, s.weight, "is " + s.weight.type + ", expected U32");
    }
    if (!is_float(s.scales)) {
      return refuse(ErrorCode::unsupported, s.scales, "is " + s.scales.type);
    }
    if (s.biases.dtype != s.scales.dtype) {
      return refuse(ErrorCode::parse, s.biases,
                    "is " + s.biases.type + ", scales are " + s.scales.type);
    }
    p.affine = std::move(s);
    return {};
  }

  // Whether a layer has an optional tensor: all of a kind that may have it do, or none does.
  struct Presence {
    std::optional<std::uint32_t> with, without;  // the first layers
  };
  void note(const TensorRow& row, bool there, bool bias) {
    if (row.where == Where::model) return;
    Presence& p = presence_[{&row, bias, c_.is_local(layer_)}];
    std::optional<std::uint32_t>& first = there ? p.with : p.without;
    if (!first) first = layer_;
  }
  Status check_layers_alike() const {
    for (const auto& [key, p] : presence_) {
      if (!p.with || !p.without) continue;
      const auto& [row, bias, local] = key;
      const std::string suffix = bias ? ".bias" : std::string(row->suffix);
      return missing(gguf_part(*row, *p.without) + suffix,
                     ", which layer " + std::to_string(*p.with) + " has");
    }
    return {};
  }

  // What a layer must have is there.
  Status end_layer() {
    for (const TensorRow* row : absent_) {
      const bool by_others =
          row->model == nullptr && std::all_of(std::begin(row->into), std::end(row->into),
                                               [&](const Target& t) { return is_filled(t); });
      if (!by_others) return missing(gguf_part(*row, layer_) + std::string(row->suffix));
    }
    absent_.clear();
    filled_.clear();
    return {};
  }
  bool is_filled(const Target& target) const {
    return target.weights == nullptr ||
           std::any_of(filled_.begin(), filled_.end(),
                       [&](const auto& f) { return f.first == target.weights; });
  }

  // Of a layer behind those that run.
  bool is_prediction(std::string_view name) const {
    for (std::uint32_t i = 0; i < c_.n_prediction_layers; ++i) {
      const std::string layer = std::to_string(c_.n_layers + i) + ".";
      if (name.starts_with("blk." + layer) || name.starts_with("model.layers." + layer))
        return true;
    }
    return false;
  }
  // Of a layer that uses the cache of another.
  bool is_of_shared_cache(std::string_view name) const {
    for (std::uint32_t i = c_.cache_layers(); i < c_.n_layers; ++i) {
      for (const TensorRow& row : c_.architecture->tensors) {
        const bool same = row.where == Where::cache_layers &&
                          source_.own_name(gguf_part(row, i) + std::string(row.suffix)) == name;
        if (same) return true;
      }
    }
    return false;
  }
  static constexpr Harmless shared_cache{"", "the layer uses the cache of another"};
  static constexpr Harmless prediction{
      "", "layers that predict further tokens are not used", {}, true};

  Status check_all_used() {
    for (const StoredTensor& t : source_.stored()) {
      if (used_.contains(t.name)) continue;
      const Harmless* h = find_harmless(c_.architecture->harmless_tensors, t.name);
      if (h == nullptr && is_of_shared_cache(t.name)) h = &shared_cache;
      if (h == nullptr) h = is_prediction(t.name) ? &prediction : source_.harmless(t.name);
      if (h == nullptr) {
        const std::string_view purpose = purpose_of_tensor(t.name);
        return refuse(ErrorCode::unsupported, t,
                      "is not used by models of architecture " +
                          std::string(c_.architecture->name) +
                          (purpose.empty() ? std::string(", and what it is for is not known")
                                           : ": it is " + std::string(purpose)));
      }
      if (!h->left_out) continue;
      const auto same = std::find_if(plan_.left_out.begin(), plan_.left_out.end(),
                                     [&](const LeftOut& l) { return l.reason == h->reason; });
      if (same != plan_.left_out.end()) {
        ++same->tensors;
      } else {
        plan_.left_out.push_back({t.name, 1, h->reason});
      }
    }
    return {};
  }

  const ModelConfig& c_;
  const WeightSource& source_;
  WeightPlan plan_;
  std::set<std::string, std::less<>> used_;
  std::uint32_t layer_ = 0;
  std::vector<const TensorRow*> absent_;                                   // of the current layer
  std::vector<std::pair<Linear LayerWeights::*, std::string>> filled_;     // likewise
  std::map<std::tuple<const TensorRow*, bool, bool>, Presence> presence_;  // row, bias, local
};

}  // namespace

Result<WeightPlan> plan_weights(const ModelConfig& config, const WeightSource& source) {
  return guarded([&]() -> Result<WeightPlan> { return Planner(config, source).plan(); });
}

Status refuse_scales(const WeightPlan& plan) {
  for (const WeightPart& p : plan.parts) {
    if (p.scale)
      return refuse(ErrorCode::unsupported, *p.scale,
                    "cannot be kept: it is the scale of all values of " + p.weight.name);
  }
  return {};
}

}  // namespace onepass::llm
