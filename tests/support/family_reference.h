// A forward pass in float64 for models of many families, written from their descriptions: it knows
// tensors by their names in GGUF files and what a family does by a few numbers, and nothing of the
// library's tables.
//
//   FamilyReference forward(shape, tensors);
//   std::vector<double> logits = forward.next(token);      // keeps the keys and values
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <numeric>
#include <string>
#include <vector>

namespace onepass::test {

struct FamilyShape {
  std::uint32_t layers = 3, dim = 64, heads = 4, kv_heads = 2, head_dim = 24, ffn = 80;
  std::uint32_t vocab = 97, context = 40;
  std::uint32_t experts = 0, used = 0, expert_ffn = 56, shared_ffn = 40;
  std::uint32_t dense_layers = 0, expert_step = 1;
  double eps = static_cast<double>(1e-5f);
  bool layer_norm = false;  // else root mean square
  bool parallel = false;    // attention and network read the same rows
  enum class Gate { silu, gelu, relu2, clamped } gate = Gate::silu;
  enum class Rope { none, pairs, halves } rope = Rope::pairs;
  std::uint32_t rope_dims = 0;  // 0: head_dim
  // Of layers with a window, which have no factors then; 0: they turn as the others do.
  double rope_base = 10000.0, rope_base_local = 0.0;
  double yarn_factor = 0.0;  // 0: none
  std::uint32_t yarn_context = 0;
  std::uint32_t still_period = 0;        // heads of the last layer of each do not turn
  bool global_still = false;             // nor those of layers without a window
  std::uint32_t window = 0, period = 0;  // all but the last of each period; 0: every layer
  bool norm_after_rope = false, value_norm = false;
  double embedding_scale = 1.0, residual_scale = 1.0, attention_scale = 0.0, logit_factor = 1.0;
  double attention_softcap = 0.0, final_softcap = 0.0;
  bool sigmoid_gate = false, renormalise = true;
  double expert_scale = 1.0;
  // Names that families share for different places.
  const char* ffn_norm = "ffn_norm";
  const char* post_attention_norm = "";
  // Of layers with a window; 0: as the others.
  std::uint32_t local_head_dim = 0, local_kv_heads = 0;
  std::uint32_t shared_layers = 0, shared_ffn_factor = 1;  // the last ones: caches of others
  std::uint32_t per_layer = 0;                             // of each layer's own input

  bool is_local(std::uint32_t l) const {
    return window > 0 && (period == 0 || l % period + 1 < period);
  }
  std::uint32_t head_dim_of(std::uint32_t l) const {
    return is_local(l) && local_head_dim > 0 ? local_head_dim : head_dim;
  }
  std::uint32_t kv_heads_of(std::uint32_t l) const {
    return is_local(l) && local_kv_heads > 0 ? local_kv_heads : kv_heads;
  }
  bool is_shared(std::uint32_t l) const { return l + shared_layers >= layers; }
  std::uint32_t ffn_of(std::uint32_t l) const {
    return is_shared(l) && shared_layers > 0 ? ffn * shared_ffn_factor : ffn;
  }
  bool has_experts(std::uint32_t l) const {
    return experts > 0 && l >= dense_layers && (l + 1) % expert_step == 0;
  }
};

// By name without ".weight"; rows after rows.
using FamilyTensors = std::map<std::string, std::vector<float>>;

class FamilyReference {
 public:
  using Row = std::vector<double>;

  FamilyReference(const FamilyShape& shape, const FamilyTensors& tensors)
      : c_(shape), t_(tensors), keys_(shape.layers), values_(shape.layers) {}

  // Logits after one more token.
  Row next(std::uint32_t token) {
    Row h = row_of("token_embd", token, c_.dim);
    for (double& x : h) x *= c_.embedding_scale;
    if (has("position_embd")) add(h, row_of("position_embd", position_, c_.dim));
    const Row inputs = layer_inputs(token, h);
    for (std::uint32_t l = 0; l < c_.layers; ++l) {
      p_ = "blk." + std::to_string(l) + ".";
      layer(l, h, inputs);
    }
    ++position_;
    p_.clear();
    Row logits = linear(has("output") ? "output" : "token_embd", norm("output_norm", h));
    for (double& x : logits) {
      x *= c_.logit_factor;
      if (c_.final_softcap > 0.0) x = c_.final_softcap * std::tanh(x / c_.final_softcap);
    }
    return logits;
  }

 private:
  bool has(const std::string& name) const { return t_.count(p_ + name) != 0; }
  const std::vector<float>& values(const std::string& name) const { return t_.at(p_ + name); }
  Row row_of(const std::string& name, std::size_t row, std::size_t width) const {
    const auto first = values(name).begin() + static_cast<std::ptrdiff_t>(row * width);
    return {first, first + static_cast<std::ptrdiff_t>(width)};
  }
  static void add(Row& to, const Row& from, double factor = 1.0) {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] += factor * from[i];
  }
  static Row product(const float* w, std::size_t rows, const Row& x) {
    Row y(rows);
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t i = 0; i < x.size(); ++i) {
        y[r] += static_cast<double>(w[r * x.size() + i]) * x[i];
      }
    }
    return y;
  }
  // With the bias where there is one; of expert e.
  Row linear(const std::string& name, const Row& x, std::size_t e = 0, std::size_t of = 1) const {
    const std::vector<float>& w = values(name);
    const std::size_t rows = w.size() / x.size() / of;
    Row y = product(w.data() + e * rows * x.size(), rows, x);
    if (has(name + ".bias")) add(y, row_of(name + ".bias", e, rows));
    return y;
  }
  // Every part of x as long as the weight on its own; x itself where there is none.
  Row norm(const std::string& name, const Row& x) const {
    if (name.empty() || !has(name)) return x;
    const std::vector<float>& w = values(name);
    Row y = normed(x, w.size());
    for (std::size_t i = 0; i < y.size(); ++i) {
      y[i] *= static_cast<double>(w[i % w.size()]);
      if (has(name + ".bias")) y[i] += static_cast<double>(values(name + ".bias")[i]);
    }
    return y;
  }
  Row normed(const Row& x, std::size_t width) const {
    Row y(x);
    for (std::size_t at = 0; at < x.size(); at += width) {
      double mean = 0.0, squares = 0.0;
      const auto n = static_cast<double>(width);
      if (c_.layer_norm) {
        for (std::size_t i = at; i < at + width; ++i) mean += x[i] / n;
      }
      for (std::size_t i = at; i < at + width; ++i) squares += (x[i] - mean) * (x[i] - mean) / n;
      for (std::size_t i = at; i < at + width; ++i) {
        y[i] = (x[i] - mean) / std::sqrt(squares + c_.eps);
      }
    }
    return y;
  }
  double activation(double x) const {
    switch (c_.gate) {
      case FamilyShape::Gate::gelu:
        return 0.5 * x * (1.0 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
      case FamilyShape::Gate::relu2:
        return x > 0.0 ? x * x : 0.0;
      case FamilyShape::Gate::clamped:
      case FamilyShape::Gate::silu:
        break;
    }
    return x / (1.0 + std::exp(-x));
  }
  Row gated(const Row& gate, const Row& up) const {
    Row y(gate.size());
    for (std::size_t i = 0; i < y.size(); ++i) {
      if (c_.gate == FamilyShape::Gate::clamped) {
        const double g = std::min(gate[i], 7.0), u = std::clamp(up[i], -7.0, 7.0);
        y[i] = g / (1.0 + std::exp(-1.702 * g)) * (u + 1.0);
      } else {
        y[i] = activation(gate[i]) * up[i];
      }
    }
    return y;
  }

  void layer(std::uint32_t l, Row& h, const Row& inputs) {
    const Row x = norm("attn_norm", h);
    const Row o = norm(c_.post_attention_norm, linear("attn_output", attention(l, x)));
    Row r(h);
    add(r, o, c_.residual_scale);
    const Row y = c_.parallel ? (has("ffn_norm") ? norm("ffn_norm", h) : x) : norm(c_.ffn_norm, r);
    Row f = feed_forward(l, y, r);
    add(r, norm("post_ffw_norm", f), c_.residual_scale);
    h = r;
    if (has("inp_gate")) {
      Row g = linear("inp_gate", h);
      for (std::size_t i = 0; i < g.size(); ++i) {
        g[i] = activation(g[i]) * inputs[l * c_.per_layer + i];
      }
      add(h, norm("post_norm", linear("proj", g)));
    }
    if (has("layer_output_scale")) {
      for (double& v : h) v *= static_cast<double>(values("layer_output_scale")[0]);
    }
  }

  // Of all layers, one after the other.
  Row layer_inputs(std::uint32_t token, const Row& h) const {
    if (!has("per_layer_token_embd")) return {};
    const std::size_t n = std::size_t{c_.per_layer} * c_.layers;
    Row mine = row_of("per_layer_token_embd", token, n), wide = linear("per_layer_model_proj", h);
    for (double& v : wide) v /= std::sqrt(static_cast<double>(c_.dim));
    Row sum = norm("per_layer_proj_norm", wide);
    add(sum, mine, std::sqrt(static_cast<double>(c_.per_layer)));
    for (double& v : sum) v /= std::sqrt(2.0);
    return sum;
  }

  Row feed_forward(std::uint32_t l, const Row& x, const Row& r) const {
    if (!c_.has_experts(l)) return network("ffn_", "", x);
    if (!has("ffn_gate_inp.scale")) return experts(x, linear("ffn_gate_inp", x));
    // A network and experts beside each other.
    Row routed = normed(r, c_.dim);
    for (std::size_t i = 0; i < routed.size(); ++i) {
      routed[i] *= static_cast<double>(values("ffn_gate_inp.scale")[i]) /
                   std::sqrt(static_cast<double>(c_.dim));
    }
    Row sum = norm("post_ffw_norm_1", network("ffn_", "", x));
    add(sum, norm("post_ffw_norm_2",
                  experts(norm("pre_ffw_norm_2", r), linear("ffn_gate_inp", routed))));
    return sum;
  }
  Row network(const std::string& front, const std::string& end, const Row& x) const {
    Row up = linear(front + "up" + end, x);
    if (has(front + "gate" + end)) {
      up = gated(linear(front + "gate" + end, x), up);
    } else if (up.size() == 2 * c_.ffn) {  // the gate's rows come first
      const auto half = up.begin() + static_cast<std::ptrdiff_t>(c_.ffn);
      up = gated(Row(up.begin(), half), Row(half, up.end()));
    } else {
      for (double& v : up) v = activation(v);
    }
    return linear(front + "down" + end, up);
  }
  Row experts(const Row& x, Row logits) const {
    const double top = *std::max_element(logits.begin(), logits.end());
    double total = 0.0;
    for (double& v : logits) {
      v = c_.sigmoid_gate ? 1.0 / (1.0 + std::exp(-v)) : std::exp(v - top);
      total += v;
    }
    Row rank(logits.size());
    for (std::size_t e = 0; e < rank.size(); ++e) {
      if (!c_.sigmoid_gate) logits[e] /= total;
      rank[e] = logits[e];
      if (has("exp_probs_b.bias")) rank[e] += static_cast<double>(values("exp_probs_b.bias")[e]);
    }
    std::vector<std::size_t> order(rank.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(), [&](auto a, auto b) { return rank[a] > rank[b]; });
    order.resize(c_.used);
    double sum = 0.0;
    for (const std::size_t e : order) sum += logits[e];
    Row out(x.size());
    for (const std::size_t e : order) {
      const Row up = linear("ffn_up_exps", x, e, c_.experts);
      const Row y = linear("ffn_down_exps", gated(linear("ffn_gate_exps", x, e, c_.experts), up), e,
                           c_.experts);
      double weight = logits[e] / (c_.renormalise ? sum : 1.0) * c_.expert_scale;
      if (has("ffn_down_exps.scale"))
        weight *= static_cast<double>(values("ffn_down_exps.scale")[e]);
      add(out, y, weight);
    }
    if (has("ffn_up_shexp")) {
      const double gate = has("ffn_gate_inp_shexp") ? linear("ffn_gate_inp_shexp", x)[0] : 0.0;
      add(out, network("ffn_", "_shexp", x),
          has("ffn_gate_inp_shexp") ? 1.0 / (1.0 + std::exp(-gate)) : 1.0);
    }
    return out;
  }

  Row attention(std::uint32_t l, const Row& x) {
    const std::size_t d = c_.head_dim_of(l), n_q = c_.heads * d, n_k = c_.kv_heads_of(l) * d;
    Row q, k, v;
    const bool own = !c_.is_shared(l);
    if (has("attn_qkv")) {
      const Row all = linear("attn_qkv", x);
      const auto at = [&](std::size_t i) { return all.begin() + static_cast<std::ptrdiff_t>(i); };
      q.assign(at(0), at(n_q)), k.assign(at(n_q), at(n_q + n_k));
      v.assign(at(n_q + n_k), at(n_q + 2 * n_k));
    } else {
      q = linear("attn_q", x);
      if (own) k = linear("attn_k", x), v = has("attn_v") ? linear("attn_v", x) : k;
    }
    turn(l, q, "attn_q_norm");
    std::uint32_t cache = l;
    if (own) {
      turn(l, k, "attn_k_norm");
      if (c_.value_norm) v = normed(v, d);
      keys_[l].insert(keys_[l].end(), k.begin(), k.end());
      values_[l].insert(values_[l].end(), v.begin(), v.end());
    } else {
      cache = c_.layers - c_.shared_layers - (c_.is_local(l) ? 2 : 1);
    }
    return attend(l, q, keys_[cache], values_[cache]);
  }
  void turn(std::uint32_t l, Row& x, const char* norm_name) const {
    if (!c_.norm_after_rope) x = norm(norm_name, x);
    rotate(l, x);
    if (c_.norm_after_rope) x = norm(norm_name, x);
  }
  void rotate(std::uint32_t l, Row& x) const {
    if (c_.rope == FamilyShape::Rope::none) return;
    if (c_.still_period > 0 && (l + 1) % c_.still_period == 0) return;
    if (c_.global_still && !c_.is_local(l)) return;
    const bool local = c_.is_local(l) && c_.rope_base_local > 0.0;
    const std::size_t d = c_.head_dim_of(l);
    const std::size_t dims = c_.rope_dims > 0 ? c_.rope_dims : d;
    const double base = local ? c_.rope_base_local : c_.rope_base;
    const auto pair_of = [&](double beta) {
      return static_cast<double>(dims) *
             std::log(c_.yarn_context / (2.0 * 3.14159265358979323846 * beta)) /
             (2.0 * std::log(base));
    };
    const auto factors = t_.find("rope_freqs");
    for (std::size_t i = 0; i < dims / 2; ++i) {
      double angle =
          position_ * std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(dims));
      if (!local && factors != t_.end()) angle /= static_cast<double>(factors->second[i]);
      double size = 1.0;
      if (c_.yarn_factor > 0.0) {
        const double lo = std::max(0.0, std::floor(pair_of(32.0)));
        const double hi = std::min(static_cast<double>(dims) - 1.0, std::ceil(pair_of(1.0)));
        const double kept =
            1.0 - std::clamp((static_cast<double>(i) - lo) / std::max(0.001, hi - lo), 0.0, 1.0);
        angle *= (1.0 - kept) / c_.yarn_factor + kept;
        size = 1.0 + 0.1 * std::log(c_.yarn_factor);
      }
      const double c = size * std::cos(angle), s = size * std::sin(angle);
      for (std::size_t head = 0; head < x.size(); head += d) {
        const bool halves = c_.rope == FamilyShape::Rope::halves;
        const std::size_t a = head + (halves ? i : 2 * i), b = halves ? a + dims / 2 : a + 1;
        const double x0 = x[a], x1 = x[b];
        x[a] = x0 * c - x1 * s;
        x[b] = x0 * s + x1 * c;
      }
    }
  }
  Row attend(std::uint32_t l, const Row& q, const Row& keys, const Row& values_of) const {
    const std::size_t d = c_.head_dim_of(l), stride = c_.kv_heads_of(l) * d;
    const std::size_t all = keys.size() / stride;
    const std::size_t first = c_.is_local(l) && all > c_.window ? all - c_.window : 0;
    const double scale =
        c_.attention_scale > 0.0 ? c_.attention_scale : 1.0 / std::sqrt(static_cast<double>(d));
    Row out(q.size());
    for (std::size_t h = 0; h < c_.heads; ++h) {
      const std::size_t kv = h / (c_.heads / c_.kv_heads_of(l)) * d;
      Row p;
      for (std::size_t at = first; at < all; ++at) {
        double score = 0.0;
        for (std::size_t i = 0; i < d; ++i) score += q[h * d + i] * keys[at * stride + kv + i];
        score *= scale;
        if (c_.attention_softcap > 0.0) {
          score = c_.attention_softcap * std::tanh(score / c_.attention_softcap);
        }
        p.push_back(score);
      }
      double top = *std::max_element(p.begin(), p.end()), total = 0.0;
      if (has("attn_sinks")) {
        const auto sink = static_cast<double>(values("attn_sinks")[h]);
        top = std::max(top, sink);
        total = std::exp(sink - top);
      }
      for (double& v : p) total += v = std::exp(v - top);
      for (std::size_t i = 0; i < d; ++i) {
        for (std::size_t at = first; at < all; ++at) {
          out[h * d + i] += p[at - first] * values_of[at * stride + kv + i] / total;
        }
      }
    }
    return out;
  }

  const FamilyShape& c_;
  const FamilyTensors& t_;
  std::string p_;  // of the current layer's tensors
  std::vector<Row> keys_, values_;
  std::uint32_t position_ = 0;
};

}  // namespace onepass::test
