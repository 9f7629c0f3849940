// The ancestor's executor and session: fifteen ops, ten ways to finish.
//
//   compat::GraphExecutor executor(device);
//   compat::GraphSession s = executor.begin_recorded();
//   s.rms_norm(x, weight, out, 1e-5f, rows, dim);
//   ONEPASS_ASSIGN(const onepass::FinishReport report, s.finish_with_fusion_and_reorder());
#pragma once

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <iostream>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "onepass/compat/encoder.h"
#include "onepass/ops.h"

namespace onepass::compat {

// The ancestor's reorder: greedy, a window of 64. Returns how many positions changed.
inline Result<std::uint32_t> reorder(ComputeGraph& graph) {
  ONEPASS_ASSIGN(const ReorderReport report, graph.reorder(Policy::greedy64));
  return report.moved;
}

struct QuantizedMatmulParams {
  std::uint32_t m, k, n, group_size, bits;
};
struct GgmlMatmulParams {
  std::uint32_t m, n, k;
  DType type;
};
struct GgmlMatmulIdParams {
  std::uint32_t n_tokens, top_k, n, k, n_experts;
  std::uint64_t expert_stride;  // bytes; experts lie one behind the other
  DType type;
};
struct SdpaParams {
  std::uint32_t n_heads, n_kv_heads, head_dim, seq_len, kv_seq_len;
  float scale;                    // 0: 1 / sqrt(head_dim)
  std::uint32_t kv_capacity = 0;  // 0: kv_seq_len
};
struct FlashAttnVecParams {
  std::uint32_t num_heads, num_kv_heads, head_dim, kv_seq_len, kv_capacity;
  float scale;                  // 0: 1 / sqrt(head_dim)
  std::uint32_t mask_type = 0;  // 2: only the last sliding_window keys, if that is not 0
  std::uint32_t sliding_window = 0;
  float softcap = 0.0f;
};

// A session with the ancestor's ops and finish forms. Ops report errors to the session.
class GraphSession : public onepass::GraphSession {
 public:
  using Here = ops::Here;
  using Clock = std::chrono::steady_clock;

  explicit GraphSession(onepass::GraphSession&& s)
      : onepass::GraphSession(std::move(s)), encoder_(onepass::GraphSession::encoder()) {}

  CommandEncoder& encoder_mut() noexcept { return encoder_; }

  using onepass::GraphSession::barrier_between;
  using onepass::GraphSession::track_dispatch;
  void barrier_between(std::initializer_list<View> reads, std::initializer_list<View> writes) {
    barrier_between(std::span(reads.begin(), reads.size()),
                    std::span(writes.begin(), writes.size()));
  }
  void track_dispatch(std::initializer_list<View> reads, std::initializer_list<View> writes) {
    track_dispatch(std::span(reads.begin(), reads.size()),
                   std::span(writes.begin(), writes.size()));
  }
  GroupStats dump_group_stats(std::ostream& out = std::cerr) const {
    const GroupStats stats = group_stats();
    out << stats.to_string() << '\n';
    return stats;
  }

  void rms_norm(const Tensor& input, const Tensor& weight, const Tensor& output, float eps,
                std::uint32_t rows, std::uint32_t dim, Here here = Here::now()) {
    ops::rms_norm(*this,
                  {.x = shaped(input, {rows, dim}, here),
                   .weight = weight,
                   .out = shaped(output, {rows, dim}, here),
                   .eps = eps},
                  here);
  }
  void rms_norm_no_scale_f32(const Tensor& input, const Tensor& output, float eps,
                             std::uint32_t rows, std::uint32_t dim, Here here = Here::now()) {
    rms_norm(typed(input, DType::f32, here), {}, typed(output, DType::f32, here), eps, rows, dim,
             here);
  }

  // Allocates the output, f32 [m, n].
  Result<Buffer> quantized_matmul(const Tensor& input, const View& weight, const Tensor& scales,
                                  const Tensor& biases, const QuantizedMatmulParams& p,
                                  Here here = Here::now()) {
    ONEPASS_TRY(status());
    ONEPASS_ASSIGN(Buffer out, device().allocate(std::uint64_t{4} * p.m * p.n));
    const auto words = static_cast<std::uint32_t>(std::uint64_t{p.k} * p.bits / 32);
    const Shape groups{p.n, p.group_size == 0 ? 0 : p.k / p.group_size};
    ops::matmul_affine(*this,
                       {.x = shaped(input, {p.m, p.k}, here),
                        .weight = tensor(weight, DType::u32, {p.n, words}),
                        .scales = shaped(scales, groups, here),
                        .biases = shaped(biases, groups, here),
                        .out = out.tensor(DType::f32, {p.m, p.n}),
                        .bits = p.bits,
                        .group_size = p.group_size},
                       here);
    ONEPASS_TRY(status());
    return out;
  }
  // The same: launch functions choose the kernel.
  Result<Buffer> quantized_matmul_simd(const Tensor& input, const View& weight,
                                       const Tensor& scales, const Tensor& biases,
                                       const QuantizedMatmulParams& p, Here here = Here::now()) {
    return quantized_matmul(input, weight, scales, biases, p, here);
  }
  void quantized_matmul_ggml(const Tensor& input, const View& weight, const Tensor& output,
                             const GgmlMatmulParams& p, Here here = Here::now()) {
    ops::matmul(*this,
                {.x = shaped(input, {p.m, p.k}, here),
                 .weight = tensor(weight, p.type, {p.n, p.k}),
                 .out = shaped(output, {p.m, p.n}, here)},
                here);
  }
  void quantized_matmul_id_ggml(const Tensor& input, const View& weight, const Tensor& ids,
                                const Tensor& output, const GgmlMatmulIdParams& p,
                                Here here = Here::now()) {
    const Shape expert{p.n, p.k};
    if (storage_bytes(p.type, expert.elements()) != p.expert_stride) {
      refuse(ErrorCode::unsupported,
             "quantized_matmul_id_ggml: experts " + std::to_string(p.expert_stride) +
                 " bytes apart, expected them one behind the other",
             here);
      return;
    }
    ops::matmul_id(*this,
                   {.x = shaped(input, {p.n_tokens, p.k}, here),
                    .weight = tensor(weight, p.type, {p.n_experts, p.n, p.k}),
                    .ids = shaped(ids, {p.n_tokens, p.top_k}, here),
                    .out = shaped(output, {p.n_tokens, p.top_k, p.n}, here)},
                   here);
  }

  // q, output [batch, heads, seq, dim]; k, v [batch, kv heads, capacity, dim]; causal, the queries
  // are the last of the keys. One dispatch per batch for one query, else one per head.
  void sdpa(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& output,
            const SdpaParams& p, std::uint32_t batch_size, Here here = Here::now()) {
    const std::uint32_t capacity = p.kv_capacity == 0 ? p.kv_seq_len : p.kv_capacity;
    const std::uint32_t heads = p.seq_len == 1 ? p.n_heads : 1;
    if (p.n_kv_heads == 0 || p.n_heads % p.n_kv_heads != 0) {
      refuse(ErrorCode::invalid_argument,
             "sdpa: " + std::to_string(p.n_heads) + " heads, expected a multiple of " +
                 std::to_string(p.n_kv_heads) + " kv heads",
             here);
      return;
    }
    const std::uint32_t kv_heads = p.seq_len == 1 ? p.n_kv_heads : 1;
    const std::uint64_t parts = std::uint64_t{batch_size} * (p.n_heads / heads);
    const Shape rows{p.seq_len, heads, p.head_dim}, cache{1, kv_heads, capacity, p.head_dim};
    const std::uint32_t shared_by = p.seq_len == 1 ? 1 : p.n_heads / p.n_kv_heads;
    for (std::uint64_t i = 0; i < parts && status(); ++i) {
      ops::attention(*this,
                     {.q = part(q, rows, i, here),
                      .k = part(k, cache, i / shared_by, here),
                      .v = part(v, cache, i / shared_by, here),
                      .out = part(output, rows, i, here),
                      .scale = p.scale,
                      .kv_len = p.kv_seq_len},
                     here);
    }
    if (parts == 0) refuse(ErrorCode::invalid_argument, "sdpa: no heads or no batch", here);
  }
  // q, output [heads, dim]; k, v [kv heads, capacity, dim]. tmp is not needed and not touched.
  void flash_attn_vec(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& output,
                      const Tensor& /*tmp*/, const FlashAttnVecParams& p, Here here = Here::now()) {
    if (p.mask_type > 2) {
      refuse(ErrorCode::invalid_argument,
             "flash_attn_vec: mask_type " + std::to_string(p.mask_type) + ", expected 0 to 2",
             here);
      return;
    }
    const Shape rows{1, p.num_heads, p.head_dim};
    const Shape cache{1, p.num_kv_heads, p.kv_capacity, p.head_dim};
    if (p.num_kv_heads == 0) {
      refuse(ErrorCode::invalid_argument, "flash_attn_vec: no kv heads", here);
      return;
    }
    ops::attention(*this,
                   {.q = shaped(q, rows, here),
                    .k = tensor(k.view, k.dtype, cache),
                    .v = tensor(v.view, v.dtype, cache),
                    .out = shaped(output, rows, here),
                    .scale = p.scale,
                    .kv_len = p.kv_seq_len,
                    .window = p.mask_type == 2 ? p.sliding_window : 0,
                    .softcap = p.softcap},
                   here);
  }

  void elementwise_add(const View& a, const View& b, const View& output, std::uint32_t n_elements,
                       DType dtype, Here here = Here::now()) {
    ops::add(*this, binary(a, b, output, n_elements, dtype), here);
  }
  void elementwise_mul(const View& a, const View& b, const View& output, std::uint32_t n_elements,
                       DType dtype, Here here = Here::now()) {
    ops::mul(*this, binary(a, b, output, n_elements, dtype), here);
  }
  // Pairs (2i, 2i + 1). input, output [seq, dim]; positions u32 [seq].
  void rope(const Tensor& input, const Tensor& output, float theta, const View& positions,
            std::uint32_t seq_len, std::uint32_t head_dim, Here here = Here::now()) {
    const Shape rows{seq_len, 1, head_dim};
    ops::rope(*this,
              {.x = shaped(input, rows, here),
               .out = shaped(output, rows, here),
               .positions = positions,
               .positions_are_u32 = true,
               .theta = theta},
              here);
  }
  // Pairs (i, i + head_dim / 2), i < rope_dim / 2. input, output [seq, heads, head_dim].
  void rope_neox_f32(const Tensor& input, const Tensor& output, float theta, const View& positions,
                     const Tensor& freq_factors, std::uint32_t seq_len, std::uint32_t n_heads,
                     std::uint32_t head_dim, std::uint32_t rope_dim, Here here = Here::now()) {
    const Shape rows{seq_len, n_heads, head_dim};
    ops::rope(*this,
              {.x = shaped(typed(input, DType::f32, here), rows, here),
               .out = shaped(typed(output, DType::f32, here), rows, here),
               .positions = positions,
               .positions_are_u32 = true,
               .theta = theta,
               .mode = ops::RopeMode::neox_full,
               .rope_dim = rope_dim,
               .freq_factors = freq_factors},
              here);
  }
  void gelu(const Tensor& input, const Tensor& output, Here here = Here::now()) {
    ops::gelu(*this, {.x = input, .out = output}, here);
  }
  void softmax(const Tensor& input, const Tensor& output, std::uint32_t rows, std::uint32_t cols,
               Here here = Here::now()) {
    ops::softmax(
        *this, {.x = shaped(input, {rows, cols}, here), .out = shaped(output, {rows, cols}, here)},
        here);
  }
  void softcap(const Tensor& input, const Tensor& output, float cap, Here here = Here::now()) {
    ops::softcap(*this, {.x = input, .out = output, .cap = cap}, here);
  }

  // The finish forms. Each ends the session; the report has what the ancestor returned and more.
  Result<FinishReport> finish() { return finish(sequential()); }
  Result<FinishReport> finish(const FinishOptions& options) {
    return onepass::GraphSession::finish(options);
  }
  Result<Submission> commit(std::string_view label = {}) {
    return onepass::GraphSession::commit(label);
  }
  Result<FinishReport> finish_with_timing(Clock::time_point begin) {
    return finish(timed(sequential(), begin));
  }
  Result<FinishReport> finish_with_fusion() { return finish(fused()); }
  Result<FinishReport> finish_with_fusion_and_timing(Clock::time_point begin) {
    return finish(timed(fused(), begin));
  }
  Result<FinishReport> finish_with_fusion_and_reorder() { return finish(FinishOptions{}); }
  Result<FinishReport> finish_with_fusion_reorder_and_timing(Clock::time_point begin) {
    return finish(timed(FinishOptions{}, begin));
  }
  Result<FinishReport> finish_optimized() { return finish(optimized()); }
  // encode_ns ends before the first submission; the ancestor's ends after both halves are encoded.
  Result<FinishReport> finish_optimized_with_timing(Clock::time_point begin) {
    return finish(timed(optimized(), begin));
  }

 private:
  static FinishOptions sequential() {
    FinishOptions o;
    o.fuse = o.reorder = false;
    o.barriers = BarrierSource::recorded;
    return o;
  }
  static FinishOptions fused() {
    FinishOptions o;
    o.reorder = false;
    return o;
  }
  static FinishOptions optimized() {
    FinishOptions o;
    o.command_buffers = 2;
    return o;
  }
  static FinishOptions timed(FinishOptions o, Clock::time_point begin) {
    o.begin = begin;
    return o;
  }

  void refuse(ErrorCode code, std::string message, Here here) {
    fail(make_error(code, std::move(message), here.file, here.line));
  }
  // The tensor in the shape an op wants. The counts must agree.
  Tensor shaped(const Tensor& t, const Shape& shape, Here here) {
    if (t && t.shape.elements() != shape.elements()) {
      refuse(ErrorCode::invalid_argument,
             "a tensor of " + std::to_string(t.shape.elements()) + " elements, expected " +
                 std::to_string(shape.elements()),
             here);
    }
    return tensor(t.view, t.dtype, shape);
  }
  Tensor typed(const Tensor& t, DType dtype, Here here) {
    if (t && t.dtype != dtype) {
      refuse(ErrorCode::unsupported,
             std::string("a tensor of ") + name(t.dtype) + ", expected " + name(dtype), here);
    }
    return t;
  }
  // Part `index` of a tensor that is a row of parts of one shape.
  Tensor part(const Tensor& t, const Shape& shape, std::uint64_t index, Here here) {
    const std::uint64_t bytes =
        storage_bytes(t.dtype, shape.elements()).value_or(~std::uint64_t{0});
    if (bytes == 0 || bytes > t.view.bytes || index > t.view.bytes / bytes - 1) {
      refuse(ErrorCode::invalid_argument,
             "sdpa: a view of " + std::to_string(t.view.bytes) + " bytes, part " +
                 std::to_string(index) + " of " + std::to_string(bytes) + " does not fit",
             here);
      return tensor(t.view, t.dtype, shape);
    }
    return tensor(View{t.view.buffer, t.view.offset + index * bytes, bytes}, t.dtype, shape);
  }
  static ops::Binary binary(const View& a, const View& b, const View& out, std::uint32_t n,
                            DType dtype) {
    return {tensor(a, dtype, {n}), tensor(b, dtype, {n}), tensor(out, dtype, {n})};
  }

  CommandEncoder encoder_;
};

class GraphExecutor : public onepass::GraphExecutor {
 public:
  using onepass::GraphExecutor::GraphExecutor;
  GraphSession begin() const { return GraphSession(onepass::GraphExecutor::begin()); }
  GraphSession begin_recorded() const {
    return GraphSession(onepass::GraphExecutor::begin_recorded());
  }
};

}  // namespace onepass::compat
