#include "model_facts.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <map>

#include "model/architecture.h"

namespace onepass::tool {
namespace {

// "Q4_0", or "4-bit" of MLX weights.
std::string format_name(DType type, const llm::AffineFormat& affine, bool is_affine) {
  std::string text = name(type);
  if (is_affine || (text.size() > 1 && text[0] == 'a' && std::isdigit(text[1]) != 0)) {
    return std::to_string(affine.bits) + "-bit";
  }
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

class Totals {
 public:
  void add(const Tensor& t, double share_read = 1.0) {
    if (t) add(t.view.bytes, t.shape.elements(), share_read);
  }
  void add(const llm::Linear& l, double share_read = 1.0) {
    if (!l.weight) return;
    const bool affine = bool(l.scales);
    std::uint64_t elements = l.weight.shape.elements();
    if (affine) elements = elements * 32 / l.affine.bits;
    const std::uint64_t n = l.weight.view.bytes + l.scales.view.bytes + l.biases.view.bytes;
    add(n, elements, share_read);
    formats_[format_name(l.weight.dtype, l.affine, affine)] += n;
    add(l.bias, share_read);
  }
  std::string main_format() const {
    const auto most = std::max_element(formats_.begin(), formats_.end(),
                                       [](auto& a, auto& b) { return a.second < b.second; });
    return most == formats_.end() ? "" : most->first;
  }

  std::uint64_t parameters = 0, bytes = 0;
  double read = 0.0;

 private:
  void add(std::uint64_t n_bytes, std::uint64_t elements, double share_read) {
    bytes += n_bytes;
    parameters += elements;
    read += static_cast<double>(n_bytes) * share_read;
  }
  std::map<std::string, std::uint64_t> formats_;
};

}  // namespace

ModelFacts facts_of(const llm::Model& model) {
  const llm::ModelConfig& c = model.config();
  const llm::Weights& w = model.weights();
  Totals t;
  const bool tied = w.output.weight.view == w.embedding.weight.view;
  const double used = c.n_experts > 0 ? double(c.n_experts_used) / double(c.n_experts) : 1.0;
  for (const llm::LoadedPart& p : model.parts()) {
    if (p.row->form == llm::TensorForm::vector) {
      t.add(p.weights.weight);
      t.add(p.weights.bias);
    } else if (p.row->form == llm::TensorForm::experts) {
      t.add(p.weights, used);
    } else {
      t.add(p.weights, p.row->model == &llm::Weights::embedding && !tied ? 1.0 / c.vocab : 1.0);
    }
  }
  ModelFacts f;
  f.parameters = t.parameters;
  f.bytes = t.bytes;
  f.bytes_per_token = static_cast<std::uint64_t>(t.read);
  char size[32];
  const double millions = static_cast<double>(t.parameters) * 1e-6;
  if (millions >= 1000.0) {
    std::snprintf(size, sizeof size, "%.1fB", millions * 1e-3);
  } else {
    std::snprintf(size, sizeof size, millions >= 10.0 ? "%.0fM" : "%.1fM", millions);
  }
  f.type = std::string(c.architecture->name) + " " + size + " " + t.main_format();
  return f;
}

}  // namespace onepass::tool
