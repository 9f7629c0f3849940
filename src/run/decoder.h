// One sequence of a model: its cache, its recorded passes, its position.
//
//   ONEPASS_ASSIGN(Decoder d, Decoder::create(model, {.context = 2048}));
//   ONEPASS_TRY(d.append(prompt));                              // prefill, in chunks
//   const SamplingOptions sampling{.temperature = 0.7f, .top_p = 0.95f, .seed = 1};
//   for (int i = 0; i < 100; ++i) { ONEPASS_ASSIGN(std::uint32_t token, d.next(sampling)); ... }
//   ONEPASS_ASSIGN(std::vector<float> logits, d.logits());      // of the last position
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "model/architecture.h"
#include "model/weights.h"
#include "onepass/plan.h"
#include "onepass/session.h"

namespace onepass::llm {

inline constexpr std::uint32_t max_chunk_rows = 512;

// How a token is chosen from logits; ops::sample says it exactly. Equal options, tokens and seed
// give equal text, for any chunks, threads and context.
struct SamplingOptions {
  float temperature = 0.0f;  // 0: the most likely token, whatever the rest says
  std::uint32_t top_k = 0;   // 0: all
  float top_p = 1.0f;        // above 0; 1: all
  float min_p = 0.0f;
  std::uint64_t seed = 0;

  bool operator==(const SamplingOptions&) const = default;
  bool is_greedy() const noexcept { return temperature == 0.0f; }
};
// Finite, in range; invalid_argument says which is not.
Status check(const SamplingOptions& options);

struct DecoderOptions {
  std::uint32_t context = 0;                  // tokens; 0: as trained
  DType kv = DType::f16;                      // or f32
  std::uint32_t chunk_rows = max_chunk_rows;  // most tokens in one pass, a power of two
  SamplingOptions sampling{};                 // what next() will be asked for, to record it at once
};

// Move-only; one thread at a time. A call that fails or is cancelled leaves length and the next
// token as they were; logits, and with them a choice by other options, may then be gone until
// another token was appended.
class Decoder {
 public:
  static Result<Decoder> create(std::shared_ptr<const Model> model,
                                const DecoderOptions& options = {});

  const Model& model() const noexcept { return *model_; }
  std::uint32_t length() const noexcept { return length_; }  // tokens in the cache
  std::uint32_t context() const noexcept { return context_; }

  // Appends tokens. Cancelled between chunks, when the flag is set. `progress` is
  // told how many tokens were computed so far.
  using Progress = std::function<void(std::size_t done)>;
  Status append(std::span<const std::uint32_t> tokens, const std::atomic<bool>* cancel = nullptr,
                const Progress& progress = nullptr);
  // As append, and hands out the logits [vocab] after each of the tokens; index counts them. An
  // error that `each` returns ends the call.
  using Each = std::function<Status(std::size_t index, std::span<const float> logits)>;
  Status score(std::span<const std::uint32_t> tokens, const Each& each,
               const std::atomic<bool>* cancel = nullptr);
  // As append, unfused and in order: `before` is told every dispatch, and can read what that is
  // about to read. head: with the output head, whose logits nobody reads. Logits and next need an
  // append first.
  using ReadView = std::function<Status(const View& view, std::span<std::byte> out)>;
  using Observe = std::function<Status(const Dispatch& dispatch, const ReadView& read)>;
  Status observe(std::span<const std::uint32_t> tokens, const Observe& before, bool head = false,
                 const std::atomic<bool>* cancel = nullptr);
  // The token after the last one, chosen on the device. The first call after append only chooses
  // and reads it; every later one first appends the token of the call before, on the device. Other
  // options than the last ones, the seed aside, record another pass.
  Result<std::uint32_t> next(const SamplingOptions& options);
  // As that many calls of next, but all passes are on their way before the first token is read;
  // logits then belong to the last one. An error gives none of them.
  Status next(std::span<std::uint32_t> tokens, const SamplingOptions& options);
  // So many tokens fit: what next can give at most, where it can give one.
  std::uint32_t left() const noexcept { return context_ - length_ + (given_ ? 0 : 1); }
  // The most likely token (lowest id on ties).
  Result<std::uint32_t> greedy() { return next({}); }
  // Logits [vocab] of the last position.
  Result<std::vector<float>> logits() const;
  // Forgets all but the first n tokens; then logits and next need an append first.
  Status truncate(std::uint32_t n);

  // Records what one token goes through: the row of `step` in, the token after it into chosen(),
  // and the row of that token into `step`. For sessions of the caller's own: length() does not
  // count their tokens, and logits and next are right again after another append.
  void record_token(GraphSession& s, const View& step, const SamplingOptions& options = {}) const;
  // u32 [1, context + 1]: the last token that was chosen for each position.
  const Tensor& chosen() const noexcept { return history_; }
  // The pass that every token of next replays. Empty before the first.
  const Plan& decode_plan() const noexcept { return decode_plan_of(sampling_); }
  std::uint32_t recorded_plans() const noexcept;
  // The pass of `rows` rows, compiled as asked: to look at, neither kept nor run. With fewer layers
  // than the model has, only the first ones.
  Result<Plan> inspect(std::uint32_t rows, PlanOptions options = {},
                       std::uint32_t layers = max_layers) const;

 private:
  // A recorded shape class: `rows` rows. The output head only for one row, or for scores.
  struct ShapeClass {
    StepState step;
    Plan plan;
  };
  static constexpr std::size_t n_buckets = 10;  // 1, 2, 4, ..., 512 rows

  explicit Decoder(std::shared_ptr<const Model> model)
      : model_(std::move(model)), executor_(model_->device()) {}
  Status allocate(const DecoderOptions& options);
  // Records the ops of a pass; logits only where the tensor is given. choose: the next token from
  // them, and the step of its pass.
  void forward(GraphSession& s, const ModelConfig& config, const View& step, std::uint32_t rows,
               const Tensor& logits) const;
  Status record(ShapeClass& pass, std::uint32_t rows, const Tensor& logits);
  Status make_step(ShapeClass& pass, std::uint32_t rows) const;
  // The plan that appends one token and chooses the next, and the one that only chooses.
  Result<const Plan*> decode_plan_for(const SamplingOptions& options);
  Result<const Plan*> choice_plan_for(const SamplingOptions& options);
  const Plan& decode_plan_of(const SamplingOptions& options) const noexcept {
    return options.is_greedy() ? passes_[0].plan : sampled_.plan;
  }
  void choose(GraphSession& s, const View& step, const SamplingOptions& options) const;
  Status check_room(std::size_t n) const;
  Status check(std::span<const std::uint32_t> tokens) const;
  // The rows of the next chunk: whole buckets, or one padded by less than a quarter.
  std::uint32_t chunk_of(std::size_t left) const noexcept;
  Status advance(std::span<const std::uint32_t> tokens, const Each* each,
                 const std::atomic<bool>* cancel, const Progress& progress);
  Status run_observed(GraphSession& s, const Observe& before);
  Status observe_chunk(std::span<const std::uint32_t> tokens, std::uint32_t position,
                       const Observe& before, bool head);
  // Scores, where the caller wants them, are left in scores_.
  Status run_chunk(std::span<const std::uint32_t> tokens, std::uint32_t position, bool scored);
  // The decode pass n times, first with that token, then with what the device chose; feeds back on
  // the device from the start where its state allows.
  Status run_tokens(std::uint32_t token, std::uint32_t position, std::size_t n,
                    const SamplingOptions& options);
  // Chooses again from logits_.
  Status run_choice(const SamplingOptions& options);
  Status read_token();
  // The last tokens that were chosen, up to that behind the last position, into token_ too.
  Status read_tokens(std::span<std::uint32_t> tokens, std::uint32_t last_position);

  std::shared_ptr<const Model> model_;
  GraphExecutor executor_;
  std::uint32_t context_ = 0;
  std::uint32_t chunk_rows_ = max_chunk_rows;
  std::vector<Buffer> buffers_;
  std::vector<KvLayer> cache_;
  Tensor logits_, next_;
  // See chosen(). The host reads tokens here; next_ is the device's own, which reads it back.
  Tensor history_;
  Tensor scores_;  // [score_rows_, vocab]; allocated when first asked for
  std::uint32_t score_rows_ = 1;
  std::array<ShapeClass, n_buckets> passes_, score_passes_;  // passes_[0] chooses greedily
  // For the options they were recorded with; their step is that of passes_[0].
  struct SampledPlan {
    SamplingOptions options;
    Plan plan;
  };
  SampledPlan sampled_, choice_;
  std::vector<StepRow> rows_;
  std::vector<Submission> queue_;
  Submission chosen_by_;  // done; made the choice that is in next_ and history_

  std::uint32_t length_ = 0;
  SamplingOptions sampling_;       // of the last call; next_ was chosen with them
  std::uint32_t token_ = 0;        // chosen after length_ tokens
  bool has_output_ = false;        // logits_ belong to position length_ - 1
  bool has_choice_ = false;        // and next_ too
  bool token_read_ = false;        // token_ is valid
  bool given_ = false;             // next has returned it
  bool device_is_ahead_ = false;   // the decode step holds token_ and position length_
  std::uint64_t device_seed_ = 0;  // and this seed
};

}  // namespace onepass::llm
