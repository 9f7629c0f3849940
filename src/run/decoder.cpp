#include "run/decoder.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <string>

#include "core/guarded.h"
#include "model/families/layers.h"

namespace onepass::llm {
namespace {

// Of the logits of a chunk, which reach the host.
constexpr std::uint64_t max_score_bytes = 64u << 20;

// Of a pass whose scratch tensors do not share memory.
constexpr std::uint32_t max_observed_rows = 128;

std::size_t bucket_of(std::uint32_t rows) {
  return static_cast<std::size_t>(std::bit_width(rows - 1));
}

// The same pass serves both: the seed is not part of it.
bool same_choice(SamplingOptions a, const SamplingOptions& b) {
  a.seed = b.seed;
  return a == b;
}

tl::unexpected<Error> refuse(const char* what, float got, const char* expected,
                             const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  return fail(
      ErrorCode::invalid_argument,
      std::string("sampling: ") + what + " is " + std::to_string(got) + ", expected " + expected,
      file, line);
}

}  // namespace

Status check(const SamplingOptions& o) {
  if (!(o.temperature >= 0.0f) || !std::isfinite(o.temperature)) {
    return refuse("temperature", o.temperature, "a finite number of 0 or more");
  }
  if (!(o.top_p > 0.0f && o.top_p <= 1.0f)) return refuse("top_p", o.top_p, "above 0, at most 1");
  if (!(o.min_p >= 0.0f && o.min_p <= 1.0f)) return refuse("min_p", o.min_p, "from 0 to 1");
  return {};
}

Result<Decoder> Decoder::create(std::shared_ptr<const Model> model, const DecoderOptions& options) {
  return guarded([&]() -> Result<Decoder> {
    if (!model) return fail(ErrorCode::invalid_argument, "decoder: there is no model");
    Decoder d(std::move(model));
    ONEPASS_TRY(d.allocate(options));
    return d;
  });
}

Status Decoder::allocate(const DecoderOptions& options) {
  const ModelConfig& c = model_->config();
  const Device& device = model_->device();
  context_ = options.context == 0 ? c.context : options.context;
  if (context_ > max_context) {
    return fail(ErrorCode::limit, "decoder: a context of " + std::to_string(context_) +
                                      ", at most " + std::to_string(max_context) + " is allowed");
  }
  if (model_->weights().positions && context_ > c.context) {
    return fail(ErrorCode::limit, "decoder: a context of " + std::to_string(context_) +
                                      ", the model has positions for " + std::to_string(c.context));
  }
  if (options.kv != DType::f16 && options.kv != DType::f32) {
    return fail(ErrorCode::invalid_argument,
                std::string("decoder: a cache of ") + name(options.kv) + ", expected f16 or f32");
  }
  ONEPASS_TRY(llm::check(options.sampling));
  if (!options.sampling.is_greedy()) sampling_ = options.sampling;
  chunk_rows_ = options.chunk_rows;
  chunk_rows_ = std::min(chunk_rows_, std::bit_floor(model_->most_rows()));
  if (!std::has_single_bit(chunk_rows_) || chunk_rows_ > max_chunk_rows) {
    return fail(ErrorCode::invalid_argument, "decoder: chunks of " + std::to_string(chunk_rows_) +
                                                 " rows, expected a power of two up to " +
                                                 std::to_string(max_chunk_rows));
  }
  const auto take = [&](DType type, const Shape& shape,
                        MemoryKind kind = MemoryKind::device) -> Result<Tensor> {
    ONEPASS_ASSIGN(Buffer b,
                   device.allocate(*storage_bytes(type, shape.elements()), {.kind = kind}));
    buffers_.push_back(std::move(b));
    return buffers_.back().tensor(type, shape);
  };
  for (std::uint32_t i = 0; i < c.n_layers; ++i) {
    if (!c.has_cache(i)) {
      cache_.push_back(cache_[c.cache_layer(i)]);
      continue;
    }
    const Shape kv_shape{1, c.kv_heads_of(i), context_, c.head_dim_of(i)};
    KvLayer layer;
    ONEPASS_ASSIGN(layer.k, take(options.kv, kv_shape));
    ONEPASS_ASSIGN(layer.v, take(options.kv, kv_shape));
    cache_.push_back(layer);
  }
  ONEPASS_ASSIGN(logits_, take(DType::f32, {1, c.vocab}));
  ONEPASS_ASSIGN(next_, take(DType::u32, {1}));
  ONEPASS_ASSIGN(history_, take(DType::u32, {1, context_ + 1}, MemoryKind::readback));
  rows_.reserve(chunk_rows_);
  return {};
}

Status Decoder::make_step(ShapeClass& pass, std::uint32_t rows) const {
  if (pass.step.max_rows() != 0) return {};
  ONEPASS_ASSIGN(pass.step, StepState::create(model_->device(), rows, 1));
  return {};
}

void Decoder::forward(GraphSession& s, const ModelConfig& c, const View& step, std::uint32_t rows,
                      const Tensor& logits) const {
  const Weights& w = model_->weights();
  const bool hidden = static_cast<bool>(logits);
  const ForwardArgs args{c, w, cache_, step, rows, context_, hidden};
  const Tensor h = c.architecture->forward(s, args);
  if (hidden) output_head(s, args, h, logits);
}

void Decoder::choose(GraphSession& s, const View& step, const SamplingOptions& options) const {
  if (options.is_greedy()) {
    ops::argmax(s, {.x = logits_, .out = next_});
  } else {
    ops::sample(s, {.logits = logits_,
                    .out = next_,
                    .step = step,
                    .temperature = options.temperature,
                    .top_k = options.top_k,
                    .top_p = options.top_p,
                    .min_p = options.min_p});
  }
  ops::step_advance(s, {.tokens = next_, .step = step, .history = history_});
}

void Decoder::record_token(GraphSession& s, const View& step,
                           const SamplingOptions& options) const {
  forward(s, model_->config(), step, 1, logits_);
  choose(s, step, options);
}

Status Decoder::record(ShapeClass& pass, std::uint32_t rows, const Tensor& logits) {
  if (pass.plan) return {};
  ONEPASS_TRY(make_step(pass, rows));
  GraphSession s = executor_.begin_recorded();
  if (rows == 1) {
    record_token(s, pass.step.view());
  } else {
    forward(s, model_->config(), pass.step.view(), rows, logits);
  }
  ONEPASS_ASSIGN(pass.plan,
                 s.compile({.step = &pass.step, .label = rows == 1 ? "decode" : "prefill"}));
  return {};
}

Result<const Plan*> Decoder::decode_plan_for(const SamplingOptions& options) {
  ShapeClass& greedy_pass = passes_[0];
  if (options.is_greedy()) {
    ONEPASS_TRY(record(greedy_pass, 1, logits_));
    return &greedy_pass.plan;
  }
  if (!sampled_.plan || !same_choice(sampled_.options, options)) {
    ONEPASS_TRY(make_step(greedy_pass, 1));
    GraphSession s = executor_.begin_recorded();
    record_token(s, greedy_pass.step.view(), options);
    ONEPASS_ASSIGN(Plan plan, s.compile({.step = &greedy_pass.step, .label = "decode"}));
    sampled_ = {options, std::move(plan)};
  }
  return &sampled_.plan;
}

Result<const Plan*> Decoder::choice_plan_for(const SamplingOptions& options) {
  if (!choice_.plan || !same_choice(choice_.options, options)) {
    ShapeClass& pass = passes_[0];
    ONEPASS_TRY(make_step(pass, 1));
    GraphSession s = executor_.begin_recorded();
    choose(s, pass.step.view(), options);
    ONEPASS_ASSIGN(Plan plan, s.compile({.step = &pass.step, .label = "choice"}));
    choice_ = {options, std::move(plan)};
  }
  return &choice_.plan;
}

Status Decoder::check_room(std::size_t n) const {
  if (n <= context_ - length_) return {};
  return fail(ErrorCode::limit, "decoder: " + std::to_string(n) + " tokens after " +
                                    std::to_string(length_) + " exceed the context of " +
                                    std::to_string(context_));
}

Status Decoder::check(std::span<const std::uint32_t> tokens) const {
  ONEPASS_TRY(check_room(tokens.size()));
  const std::uint32_t vocab = model_->config().vocab;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] >= vocab) {
      return fail(ErrorCode::invalid_argument, "decoder: token " + std::to_string(i) + " is " +
                                                   std::to_string(tokens[i]) +
                                                   ", the vocabulary has " + std::to_string(vocab));
    }
  }
  return {};
}

std::uint32_t Decoder::chunk_of(std::size_t left) const noexcept {
  if (left >= chunk_rows_) return chunk_rows_;
  const auto n = static_cast<std::uint32_t>(left);
  const std::uint32_t above = std::bit_ceil(n);
  return above - n < above / 4 ? n : std::bit_floor(n);
}

Status Decoder::run_chunk(std::span<const std::uint32_t> tokens, std::uint32_t position,
                          bool scored) {
  const std::size_t bucket = bucket_of(static_cast<std::uint32_t>(tokens.size()));
  const std::uint32_t n = 1u << bucket;
  ShapeClass& pass = scored ? score_passes_[bucket] : passes_[bucket];
  Tensor logits;
  if (scored) {
    const std::uint32_t vocab = model_->config().vocab;
    logits = tensor(scores_.view, DType::f32, {n, vocab});
    ONEPASS_ASSIGN(logits.view, scores_.view.sub(0, std::uint64_t{n} * vocab * sizeof(float)));
  }
  ONEPASS_TRY(record(pass, n, logits));
  rows_.clear();
  for (const std::uint32_t token : tokens) rows_.push_back(StepRow{token, position++, 0, 0});
  const StepSlot slot{position, 0, 0, 0};
  ONEPASS_TRY(pass.plan.run(StepValues{0, 0, 0, rows_, {&slot, 1}}));
  return model_->status();
}

Status Decoder::run_tokens(std::uint32_t token, std::uint32_t position, std::size_t n,
                           const SamplingOptions& options) {
  ONEPASS_ASSIGN(const Plan* plan, decode_plan_for(options));
  const bool feed_back = device_is_ahead_ && (options.is_greedy() || device_seed_ == options.seed);
  // Until the passes have completed nothing on the device is known.
  device_is_ahead_ = false;
  has_output_ = false;
  has_choice_ = false;
  const SingleStep first(token, position);
  queue_.clear();
  queue_.reserve(n);
  Status status;
  for (std::size_t i = 0; i < n && status; ++i) {
    auto submission =
        i > 0 || feed_back ? plan->run_async() : plan->run_async(first.values(options.seed));
    if (submission) {
      queue_.push_back(std::move(*submission));
    } else {
      status = tl::unexpected(std::move(submission).error());
    }
  }
  // From the last one: when that is there, so are the others.
  for (auto s = queue_.rbegin(); s != queue_.rend(); ++s) {
    if (Status done = s->wait(); !done) status = std::move(done);
  }
  if (status) chosen_by_ = queue_.back();
  queue_.clear();
  ONEPASS_TRY(std::move(status));
  ONEPASS_TRY(model_->status());
  if (!feed_back) device_seed_ = options.seed;
  device_is_ahead_ = true;
  return {};
}

Status Decoder::run_choice(const SamplingOptions& options) {
  ONEPASS_ASSIGN(const Plan* plan, choice_plan_for(options));
  device_is_ahead_ = false;
  has_choice_ = false;
  // The row whose logits these are; which token it had makes no difference.
  ONEPASS_ASSIGN(chosen_by_, plan->run_async(SingleStep(0, length_ - 1).values(options.seed)));
  ONEPASS_TRY(chosen_by_.wait());
  device_seed_ = options.seed;
  device_is_ahead_ = true;
  has_choice_ = true;
  return {};
}

Status Decoder::append(std::span<const std::uint32_t> tokens, const std::atomic<bool>* cancel,
                       const Progress& progress) {
  return guarded([&]() -> Status { return advance(tokens, nullptr, cancel, progress); });
}

Status Decoder::score(std::span<const std::uint32_t> tokens, const Each& each,
                      const std::atomic<bool>* cancel) {
  return guarded([&]() -> Status {
    if (!each) return fail(ErrorCode::invalid_argument, "score: there is nobody to hand logits to");
    const std::uint64_t row_bytes = std::uint64_t{model_->config().vocab} * sizeof(float);
    if (!scores_) {
      score_rows_ =
          std::min(chunk_rows_, std::bit_floor(static_cast<std::uint32_t>(
                                    std::max<std::uint64_t>(max_score_bytes / row_bytes, 1))));
      ONEPASS_ASSIGN(Buffer b, model_->device().allocate(score_rows_ * row_bytes));
      scores_ = b.tensor(DType::f32, {score_rows_, model_->config().vocab});
      buffers_.push_back(std::move(b));
    }
    return advance(tokens, &each, cancel, nullptr);
  });
}

Status Decoder::advance(std::span<const std::uint32_t> tokens, const Each* each,
                        const std::atomic<bool>* cancel, const Progress& progress) {
  if (tokens.empty()) return {};
  ONEPASS_TRY(check(tokens));
  if (has_choice_ && !token_read_) ONEPASS_TRY(read_token());  // for next, should this fail
  const std::uint32_t vocab = model_->config().vocab;
  std::vector<float> values;
  const auto hand_out = [&](const View& logits, std::size_t first, std::size_t n) -> Status {
    values.resize(n * vocab);
    ONEPASS_ASSIGN(const View part, logits.sub(0, values.size() * sizeof(float)));
    ONEPASS_TRY(model_->device().read_as<float>(part, values));
    for (std::size_t i = 0; i < n; ++i) {
      ONEPASS_TRY((*each)(first + i, std::span(values).subspan(i * vocab, vocab)));
    }
    return {};
  };
  for (std::size_t done = 0; done < tokens.size();) {
    if (cancel != nullptr && cancel->load(std::memory_order_relaxed)) {
      return fail(ErrorCode::cancelled, "decoder: cancelled after " + std::to_string(done) +
                                            " of " + std::to_string(tokens.size()) + " tokens");
    }
    const std::uint32_t position = length_ + static_cast<std::uint32_t>(done);
    // The last token goes alone through the decode pass, which has the output head.
    const std::size_t body = tokens.size() - 1 - done;
    std::uint32_t n = body < 2 ? 1 : chunk_of(body);
    if (each != nullptr) n = std::min(n, score_rows_);
    if (n == 1) {
      device_is_ahead_ = false;
      ONEPASS_TRY(run_tokens(tokens[done], position, 1, sampling_));
      if (each != nullptr) ONEPASS_TRY(hand_out(logits_.view, done, 1));
    } else {
      ONEPASS_TRY(run_chunk(tokens.subspan(done, n), position, each != nullptr));
      if (each != nullptr) ONEPASS_TRY(hand_out(scores_.view, done, n));
    }
    done += n;
    if (progress) progress(done);
  }
  length_ += static_cast<std::uint32_t>(tokens.size());
  has_output_ = true;
  has_choice_ = true;
  token_read_ = false;
  given_ = false;
  return {};
}

Status Decoder::observe(std::span<const std::uint32_t> tokens, const Observe& before, bool head,
                        const std::atomic<bool>* cancel) {
  return guarded([&]() -> Status {
    ONEPASS_TRY(check(tokens));
    if (tokens.empty()) return {};
    has_output_ = has_choice_ = token_read_ = given_ = device_is_ahead_ = false;
    for (std::size_t done = 0; done < tokens.size();) {
      if (cancel != nullptr && cancel->load(std::memory_order_relaxed)) {
        return fail(ErrorCode::cancelled, "decoder: cancelled after " + std::to_string(done) +
                                              " of " + std::to_string(tokens.size()) + " tokens");
      }
      const std::uint32_t n = std::bit_floor(static_cast<std::uint32_t>(
          std::min<std::size_t>(tokens.size() - done, max_observed_rows)));
      ONEPASS_TRY(observe_chunk(tokens.subspan(done, n), length_ + static_cast<std::uint32_t>(done),
                                before, head));
      done += n;
    }
    length_ += static_cast<std::uint32_t>(tokens.size());
    return {};
  });
}

Status Decoder::observe_chunk(std::span<const std::uint32_t> tokens, std::uint32_t position,
                              const Observe& before, bool head) {
  const auto n = static_cast<std::uint32_t>(tokens.size());
  ShapeClass& pass = passes_[bucket_of(n)];
  ONEPASS_TRY(make_step(pass, n));
  rows_.clear();
  for (const std::uint32_t token : tokens) rows_.push_back(StepRow{token, position++, 0, 0});
  const StepSlot slot{position, 0, 0, 0};
  std::vector<std::byte> step(pass.step.view().bytes);
  ONEPASS_TRY(pass.step.serialize(StepValues{0, 0, 0, rows_, {&slot, 1}}, step));
  ONEPASS_TRY(model_->device().write(pass.step.view(), step));

  GraphSession s = executor_.begin_recorded();  // holds the scratch of its ops
  const ModelConfig& c = model_->config();
  const ForwardArgs args{c, model_->weights(), cache_, pass.step.view(), n, context_, true};
  const Tensor h = c.architecture->forward(s, args);
  if (head) output_head(s, args, h, s.scratch(DType::f32, {n, c.vocab}));
  return run_observed(s, before);
}

// What was recorded, dispatch by dispatch.
Status Decoder::run_observed(GraphSession& s, const Observe& before) {
  ONEPASS_TRY(s.status());
  std::optional<ComputeGraph> graph = s.encoder().take_capture();
  if (!graph) return fail(ErrorCode::internal, "observe: nothing was recorded");
  const Device& device = model_->device();
  Buffer staging;
  const ReadView read = [&](const View& view, std::span<std::byte> out) -> Status {
    if (!staging || staging.bytes() < view.bytes) {
      ONEPASS_ASSIGN(staging, device.allocate(view.bytes, {.kind = MemoryKind::readback}));
    }
    const Shape words{static_cast<std::uint32_t>(view.bytes / 4)};
    const View copy = staging.view(0, view.bytes);
    ops::copy(s, {.x = tensor(view, DType::u32, words), .out = tensor(copy, DType::u32, words)});
    ONEPASS_TRY(s.status());
    ONEPASS_TRY(s.encoder().commit_and_wait());
    return device.read(copy, out);
  };
  for (const CapturedNode& node : std::move(*graph).into_nodes()) {
    if (node.kind != CapturedNode::Kind::dispatch) continue;
    ONEPASS_TRY(before(node.dispatch, read));
    s.encoder().encode(node.dispatch);
  }
  return s.encoder().commit_and_wait();
}

Status Decoder::read_token() {
  std::uint32_t token = 0;
  return read_tokens({&token, 1}, length_ - 1);
}

Status Decoder::read_tokens(std::span<std::uint32_t> tokens, std::uint32_t last_position) {
  const std::uint64_t begin = (std::uint64_t{last_position} + 2 - tokens.size()) * 4;
  ONEPASS_ASSIGN(const View part, history_.view.sub(begin, tokens.size_bytes()));
  ONEPASS_TRY(chosen_by_.read_as<std::uint32_t>(part, tokens));
  token_ = tokens.back();
  token_read_ = true;
  return {};
}

Result<std::uint32_t> Decoder::next(const SamplingOptions& options) {
  std::uint32_t token = 0;
  ONEPASS_TRY(next({&token, 1}, options));
  return token;
}

Status Decoder::next(std::span<std::uint32_t> tokens, const SamplingOptions& asked) {
  return guarded([&]() -> Status {
    if (tokens.empty()) return {};
    ONEPASS_TRY(llm::check(asked));
    const SamplingOptions options = asked.is_greedy() ? SamplingOptions{} : asked;
    const std::size_t passes = tokens.size() - (given_ ? 0 : 1);
    ONEPASS_TRY(check_room(passes));
    if (!given_) {
      const bool chosen = options == sampling_ && (token_read_ || has_choice_);
      if (!chosen) {
        if (!has_output_) {
          return fail(ErrorCode::invalid_state,
                      length_ == 0 ? "next: nothing was appended"
                                   : "next: the logits of the last token are gone");
        }
        ONEPASS_TRY(run_choice(options));
        sampling_ = options;
        token_read_ = false;
      }
      if (!token_read_) ONEPASS_TRY(read_token());
    }
    const std::uint32_t first = token_;
    if (passes > 0) {
      const auto n = static_cast<std::uint32_t>(passes);
      ONEPASS_TRY(run_tokens(token_, length_, n, options));
      if (Status s = read_tokens(tokens.last(passes), length_ + n - 1); !s) {
        device_is_ahead_ = false;  // it has gone on, this sequence has not
        return s;
      }
      length_ += n;
      sampling_ = options;
      has_output_ = true;
      has_choice_ = true;
    }
    if (passes < tokens.size()) tokens[0] = first;
    given_ = true;
    return {};
  });
}

Result<std::vector<float>> Decoder::logits() const {
  return guarded([&]() -> Result<std::vector<float>> {
    if (!has_output_) return fail(ErrorCode::invalid_state, "logits: the last pass has none");
    std::vector<float> values(model_->config().vocab);
    ONEPASS_TRY(model_->device().read_as<float>(logits_.view, values));
    return values;
  });
}

Status Decoder::truncate(std::uint32_t n) {
  if (n > length_) {
    return fail(ErrorCode::invalid_argument, "truncate: to " + std::to_string(n) + " tokens, " +
                                                 std::to_string(length_) + " are there");
  }
  if (n == length_) return {};
  length_ = n;
  has_output_ = false;
  has_choice_ = false;
  token_read_ = false;
  given_ = false;
  device_is_ahead_ = false;
  return {};
}

Result<Plan> Decoder::inspect(std::uint32_t rows, PlanOptions options, std::uint32_t layers) const {
  return guarded([&]() -> Result<Plan> {
    if (rows == 0 || rows > max_chunk_rows) {
      return fail(ErrorCode::invalid_argument, "inspect: " + std::to_string(rows) +
                                                   " rows, expected 1 to " +
                                                   std::to_string(max_chunk_rows));
    }
    ModelConfig config = model_->config();
    if (layers < config.n_layers) {
      config.shared_kv_layers -=
          std::min(config.shared_kv_layers, config.n_layers - std::max(layers, 1u));
      config.n_layers = layers;
    }
    ONEPASS_ASSIGN(const StepState step, StepState::create(model_->device(), rows, 1));
    GraphSession s = executor_.begin_recorded();
    forward(s, config, step.view(), rows, rows == 1 ? logits_ : Tensor{});
    if (rows == 1) choose(s, step.view(), {});
    options.step = &step;
    return s.compile(options);
  });
}

std::uint32_t Decoder::recorded_plans() const noexcept {
  const auto n = std::count_if(passes_.begin(), passes_.end(),
                               [](const ShapeClass& p) { return bool(p.plan); });
  return static_cast<std::uint32_t>(n) + (sampled_.plan ? 1 : 0) + (choice_.plan ? 1 : 0);
}

}  // namespace onepass::llm
