// Models of many families with random weights against a forward pass in float64 that knows nothing
// of the library's tables: which tensors a family has, where its norms stand and how its gates and
// windows work is said here once more.
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "run/decoder.h"
#include "support/family_reference.h"
#include "support/gguf_writer.h"
#include "support/temp_folder.h"

namespace onepass::test::families_test {
namespace {

using Shape = FamilyShape;

// Tensors "name ROWSxCOLS"; +b: with a bias. Letters as in size_of.
struct Family {
  const char* name;  // of the case
  const char* architecture;
  Shape shape{};
  std::string model, layer;
  // Further keys behind the architecture's name.
  std::vector<std::pair<std::string, std::uint32_t>> counts{};
  std::vector<std::pair<std::string, float>> numbers{};
  std::vector<std::uint32_t> local{};  // list of windows; empty: none
};
void PrintTo(const Family& f, std::ostream* out) { *out << f.name; }

// V vocab, D dim, Q queries, K keys, H heads, h head, F network, G its gate and up, W queries, keys
// and values, C context, E experts, X width of an expert, S of shared ones, P own input, L that of
// all layers, R pairs that turn, 1.
std::size_t size_of(char letter, const Shape& s, std::uint32_t l) {
  const std::size_t head = s.head_dim_of(l), q = s.heads * head, k = s.kv_heads_of(l) * head;
  switch (letter) {
    case 'V':
      return s.vocab;
    case 'D':
      return s.dim;
    case 'Q':
      return q;
    case 'K':
      return k;
    case 'W':
      return q + 2 * k;
    case 'H':
      return s.heads;
    case 'h':
      return head;
    case 'F':
      return s.ffn_of(l);
    case 'G':
      return 2 * s.ffn_of(l);
    case 'C':
      return s.context;
    case 'E':
      return s.experts;
    case 'X':
      return s.expert_ffn;
    case 'S':
      return s.shared_ffn;
    case 'P':
      return s.per_layer;
    case 'L':
      return std::size_t{s.per_layer} * s.layers;
    case 'R':
      return s.head_dim / 2;
    default:
      return 1;
  }
}

// The file and, by name, the weights in it.
class RandomFamily {
 public:
  explicit RandomFamily(const Family& f) : f_(f) {
    set_numbers();
    add(f.model, "", 0);
    for (std::uint32_t l = 0; l < f.shape.layers; ++l) {
      add(f.layer, "blk." + std::to_string(l) + ".", l);
    }
  }
  GgufWriter writer;
  FamilyTensors tensors;

 private:
  void set_numbers() {
    const Shape& s = f_.shape;
    const std::string p = std::string(f_.architecture) + ".";
    writer.set("general.architecture", std::string(f_.architecture));
    const std::pair<const char*, std::uint32_t> counts[] = {{"block_count", s.layers},
                                                            {"embedding_length", s.dim},
                                                            {"feed_forward_length", s.ffn},
                                                            {"context_length", s.context},
                                                            {"attention.head_count", s.heads},
                                                            {"attention.head_count_kv", s.kv_heads},
                                                            {"attention.key_length", s.head_dim},
                                                            {"attention.value_length", s.head_dim},
                                                            {"vocab_size", s.vocab}};
    for (const auto& [key, value] : counts) {
      if (key == std::string("attention.head_count_kv") && s.local_kv_heads > 0) {
        std::vector<std::uint32_t> list;
        for (std::uint32_t l = 0; l < s.layers; ++l) list.push_back(s.kv_heads_of(l));
        writer.set_array(p + key, list);
      } else if (key == std::string("feed_forward_length") && s.shared_ffn_factor > 1) {
        std::vector<std::uint32_t> list;
        for (std::uint32_t l = 0; l < s.layers; ++l) list.push_back(s.ffn_of(l));
        writer.set_array(p + key, list);
      } else {
        writer.set(p + key, value);
      }
    }
    writer.set(
        p + (s.layer_norm ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon"),
        static_cast<float>(s.eps));
    if (s.rope_dims > 0) writer.set(p + "rope.dimension_count", s.rope_dims);
    if (s.window > 0) writer.set(p + "attention.sliding_window", s.window);
    if (s.yarn_factor > 0.0) {
      writer.set(p + "rope.scaling.type", std::string("yarn"));
      writer.set(p + "rope.scaling.factor", static_cast<float>(s.yarn_factor));
      writer.set(p + "rope.scaling.original_context_length", s.yarn_context);
    }
    if (s.experts > 0) {
      writer.set(p + "expert_count", s.experts).set(p + "expert_used_count", s.used);
    }
    for (const auto& [key, value] : f_.counts) writer.set(p + key, value);
    for (const auto& [key, value] : f_.numbers) writer.set(p + key, value);
    if (!f_.local.empty()) writer.set_array(p + "attention.sliding_window_pattern", f_.local);
  }

  // Uniform in [-1, 1), SplitMix64.
  float next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    return static_cast<float>(z >> 40) * (1.0f / 8388608.0f) - 1.0f;
  }
  bool exists(const std::string& name, std::uint32_t l) const {
    const Shape& s = f_.shape;
    const bool of_experts = name.find("exp") != name.npos || name.find("_inp") != name.npos;
    const bool dense = name.starts_with("ffn_") && !of_experts && name.find("norm") == name.npos;
    const bool own = name.starts_with("attn_k") || name == "attn_v";
    if (s.is_shared(l) && own) return false;
    if (of_experts) return s.has_experts(l);
    // Networks that stand beside experts are there in every layer.
    return !dense || s.value_norm || !s.has_experts(l);
  }
  void add(const std::string& list, const std::string& prefix, std::uint32_t l) {
    std::istringstream words(list);
    std::string name, dims;
    while (words >> name >> dims) {
      const bool bias = dims.ends_with("+b");
      if (bias) dims.resize(dims.size() - 2);
      if (!prefix.empty() && !exists(name, l)) continue;
      std::vector<std::uint64_t> sizes;  // fastest first
      for (const char letter : dims) sizes.insert(sizes.begin(), size_of(letter, f_.shape, l));
      store(prefix + name, sizes, false);
      if (!bias) continue;
      if (sizes.size() > 1) sizes.erase(sizes.begin());
      store(prefix + name + ".bias", sizes, true);
    }
  }
  void store(const std::string& name, const std::vector<std::uint64_t>& sizes, bool bias) {
    std::size_t n = 1;
    for (const std::uint64_t s : sizes) n *= static_cast<std::size_t>(s);
    std::vector<float> values(n);
    const bool sinks = name.ends_with("attn_sinks"), choice = name.ends_with("exp_probs_b.bias");
    const bool vector = sizes.size() == 1 && !bias && !sinks && !choice;
    const float size = 1.7320508f / std::sqrt(static_cast<float>(sizes[0]));
    for (float& v : values) {
      v = vector           ? 1.0f + 0.3f * next()
          : bias || choice ? 0.3f * next()
          : sinks          ? next()
                           : size * next();
    }
    const bool named = bias || name.ends_with(".scale") || choice;
    writer.tensor(named ? name : name + ".weight", sizes, values);
    tensors[name] = std::move(values);
  }

  const Family& f_;
  std::uint64_t state_ = 11;
};

double nmse(std::span<const float> got, const std::vector<double>& expected) {
  double error = 0.0, size = 0.0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double e = static_cast<double>(got[i]) - expected[i];
    error += e * e;
    size += expected[i] * expected[i];
  }
  return error / size;
}

class Families : public testing::TestWithParam<Family> {};

TEST_P(Families, MatchFloat64) {
  const Family& f = GetParam();
  const RandomFamily random(f);
  const TempFolder folder;
  const Device device = Device::open("cpu").value();
  const auto model = llm::Model::open(device, folder.write("model.gguf", random.writer.finish()));
  ASSERT_TRUE(model) << model.error().to_string();
  std::vector<std::uint32_t> tokens;
  for (std::uint32_t i = 0; i < f.shape.context; ++i) tokens.push_back(i * 29 % f.shape.vocab);
  FamilyReference forward(f.shape, random.tensors);
  std::vector<std::vector<double>> expected;
  for (const std::uint32_t token : tokens) expected.push_back(forward.next(token));
  for (const std::size_t chunk : {tokens.size(), std::size_t{1}, std::size_t{7}}) {
    auto d = llm::Decoder::create(*model, {.kv = DType::f32});
    ASSERT_TRUE(d) << d.error().to_string();
    double worst = 0.0;
    for (std::size_t at = 0; at < tokens.size(); at += chunk) {
      const std::size_t n = std::min(chunk, tokens.size() - at);
      const auto each = [&](std::size_t i, std::span<const float> logits) -> Status {
        worst = std::max(worst, nmse(logits, expected[at + i]));
        return {};
      };
      ASSERT_TRUE(d->score(std::span(tokens).subspan(at, n), each));
    }
    EXPECT_LE(worst, 1e-9) << "in chunks of " << chunk;
  }
}

const std::string tied = "token_embd VD output_norm D ";
const std::string untied = tied + "output VD ";
const std::string norms = "attn_norm D ffn_norm D ";
const std::string apart = "attn_q QD attn_k KD attn_v KD attn_output DQ ";
const std::string apart_biased = "attn_q QD+b attn_k KD+b attn_v KD+b attn_output DQ+b ";
const std::string gated = "ffn_gate FD ffn_up FD ffn_down DF ";
const std::string experts = "ffn_gate_inp ED ffn_gate_exps EXD ffn_up_exps EXD ffn_down_exps EDX ";

const Family families[] = {
    {.name = "gpt_oss",
     .architecture = "gpt-oss",
     .shape = {.layers = 4,
               .experts = 6,
               .used = 2,
               .gate = Shape::Gate::clamped,
               .rope = Shape::Rope::halves,
               .yarn_factor = 4.0,
               .yarn_context = 16,
               .window = 8,
               .period = 2,
               .ffn_norm = "post_attention_norm"},
     .model = untied,
     .layer = "attn_norm D post_attention_norm D attn_sinks H " + apart_biased +
              "ffn_gate_inp ED+b ffn_gate_exps EXD+b ffn_up_exps EXD+b ffn_down_exps EDX+b ",
     .counts = {{"expert_feed_forward_length", 56}}},
    {.name = "gpt2",
     .architecture = "gpt2",
     .shape = {.layer_norm = true, .gate = Shape::Gate::gelu, .rope = Shape::Rope::none},
     .model = "token_embd VD position_embd CD output_norm D+b ",
     .layer =
         "attn_norm D+b ffn_norm D+b attn_qkv WD+b attn_output DQ+b ffn_up FD+b ffn_down DF+b "},
    {.name = "gemma4",
     .architecture = "gemma4",
     .shape = {.layers = 6,
               .gate = Shape::Gate::gelu,
               .rope = Shape::Rope::halves,
               .rope_base_local = 5000.0,
               .window = 8,
               .period = 3,
               .value_norm = true,
               .embedding_scale = 8.0,
               .attention_scale = 1.0,
               .final_softcap = 3.0,
               .post_attention_norm = "post_attention_norm",
               .local_head_dim = 16,
               .local_kv_heads = 4,
               .shared_layers = 3,
               .shared_ffn_factor = 2,
               .per_layer = 20},
     .model = tied + "rope_freqs R per_layer_token_embd VL per_layer_model_proj LD "
                     "per_layer_proj_norm P ",
     .layer = norms + apart + gated +
              "attn_q_norm h attn_k_norm h post_attention_norm D post_ffw_norm D inp_gate PD "
              "proj DP post_norm D layer_output_scale 1 ",
     .counts = {{"attention.key_length_swa", 16},
                {"attention.value_length_swa", 16},
                {"rope.dimension_count_swa", 16},
                {"attention.shared_kv_layers", 3},
                {"embedding_length_per_layer_input", 20}},
     .numbers = {{"rope.freq_base_swa", 5000.0f}, {"final_logit_softcapping", 3.0f}},
     .local = {1, 1, 0, 1, 1, 0}},
    {.name = "gemma4_mixture",
     .architecture = "gemma4",
     .shape = {.layers = 4,
               .experts = 6,
               .used = 2,
               .gate = Shape::Gate::gelu,
               .rope = Shape::Rope::halves,
               .rope_base_local = 10000.0,
               .window = 8,
               .period = 2,
               .value_norm = true,
               .embedding_scale = 8.0,
               .attention_scale = 1.0,
               .final_softcap = 30.0,
               .post_attention_norm = "post_attention_norm"},
     .model = tied + "rope_freqs R ",
     // Keys are values, too.
     .layer =
         norms + gated + experts +
         "attn_q QD attn_k KD attn_output DQ attn_q_norm h attn_k_norm h post_attention_norm D "
         "post_ffw_norm D post_ffw_norm_1 D post_ffw_norm_2 D pre_ffw_norm_2 D "
         "ffn_gate_inp.scale D ffn_down_exps.scale E ",
     .counts = {{"expert_feed_forward_length", 56}},
     .local = {1, 0, 1, 0}},
    {.name = "internlm2",
     .architecture = "internlm2",
     .model = untied,
     .layer = norms + apart_biased + gated},
    {.name = "exaone",
     .architecture = "exaone",
     .shape = {.rope = Shape::Rope::halves},
     .model = untied + "rope_freqs R ",
     .layer = norms + apart + gated},
    {.name = "seed_oss",
     .architecture = "seed_oss",
     .shape = {.rope = Shape::Rope::halves, .ffn_norm = "post_attention_norm"},
     .model = untied,
     .layer =
         "attn_norm D post_attention_norm D attn_q QD+b attn_k KD+b attn_v KD+b attn_output DQ " +
         gated},
    {.name = "granite",
     .architecture = "granite",
     .shape = {.embedding_scale = 12.0,
               .residual_scale = 0.25,
               .attention_scale = 0.125,
               .logit_factor = 0.125},
     .model = tied,
     .layer = norms + apart + gated,
     .numbers = {{"embedding_scale", 12.0f},
                 {"residual_scale", 0.25f},
                 {"attention.scale", 0.125f},
                 {"logit_scale", 8.0f}}},
    {.name = "starcoder2",
     .architecture = "starcoder2",
     .shape = {.layer_norm = true, .gate = Shape::Gate::gelu, .rope = Shape::Rope::halves},
     .model = "token_embd VD output_norm D+b ",
     .layer = "attn_norm D+b ffn_norm D+b ffn_up FD+b ffn_down DF+b " + apart_biased},
    {.name = "nemotron",
     .architecture = "nemotron",
     .shape = {.layer_norm = true,
               .gate = Shape::Gate::relu2,
               .rope = Shape::Rope::halves,
               .rope_dims = 12},
     .model = "token_embd VD output VD output_norm D+b ",
     .layer = "attn_norm D+b ffn_norm D+b ffn_up FD ffn_down DF " + apart},
    {.name = "command_r",
     .architecture = "command-r",
     .shape = {.layer_norm = true, .parallel = true, .logit_factor = 0.0625},
     .model = tied,
     .layer = "attn_norm D " + apart + gated,
     .numbers = {{"logit_scale", 0.0625f}}},
    {.name = "glm4",
     .architecture = "glm4",
     .shape = {.rope_dims = 12, .post_attention_norm = "post_attention_norm"},
     .model = untied,
     .layer = norms + "post_attention_norm D post_ffw_norm D attn_q QD+b attn_k KD+b attn_v KD+b "
                      "attn_output DQ ffn_up GD ffn_down DF "},
    {.name = "qwen2moe",
     .architecture = "qwen2moe",
     .shape = {.experts = 5, .used = 2, .rope = Shape::Rope::halves, .renormalise = false},
     .model = untied,
     .layer = norms + experts +
              "attn_q QD+b attn_k KD+b attn_v KD+b attn_output DQ "
              "ffn_gate_inp_shexp 1D ffn_gate_shexp SD ffn_up_shexp SD ffn_down_shexp DS ",
     .counts = {{"expert_feed_forward_length", 56}, {"expert_shared_feed_forward_length", 40}}},
    {.name = "minimax_m2",
     .architecture = "minimax-m2",
     .shape = {.experts = 5,
               .used = 2,
               .rope = Shape::Rope::halves,
               .rope_dims = 12,
               .sigmoid_gate = true},
     .model = untied,
     .layer = norms + experts + apart + "attn_q_norm Q attn_k_norm K exp_probs_b.bias E ",
     .counts = {{"expert_feed_forward_length", 56}, {"expert_gating_func", 2}}},
};
INSTANTIATE_TEST_SUITE_P(All, Families, testing::ValuesIn(families),
                         [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace onepass::test::families_test
