#include <string_view>

#include "capi/handles.h"
#include "model/architecture.h"

namespace onepass::capi {
namespace {

// One call at a time inside a sequence; callbacks that use it are found too.
class Entered {
 public:
  static Result<Entered> make(const onepass_sequence& sequence) {
    if (sequence.busy.exchange(true)) {
      return make_error(ErrorCode::invalid_state, "the sequence is in use by another call", "", 0);
    }
    sequence.cancel.store(false);
    return Entered(sequence);
  }
  Entered(Entered&& other) noexcept : sequence_(std::exchange(other.sequence_, nullptr)) {}
  Entered& operator=(Entered&&) = delete;
  ~Entered() {
    if (sequence_ != nullptr) sequence_->busy.store(false);
  }

 private:
  explicit Entered(const onepass_sequence& sequence) noexcept : sequence_(&sequence) {}
  const onepass_sequence* sequence_;
};

const llm::Tokenizer& tokenizer_of(const onepass_model& model) { return *model.text.tokenizer; }

Status check_flags(uint32_t flags, uint32_t known) {
  if ((flags & ~known) == 0) return {};
  return bad_argument("unknown flags " + std::to_string(flags & ~known));
}

onepass_stop stop_of(llm::StopReason reason) noexcept {
  switch (reason) {
    case llm::StopReason::end_of_text:
    case llm::StopReason::stop_text:
      return ONEPASS_STOP_END_OF_TEXT;
    case llm::StopReason::max_tokens:
      return ONEPASS_STOP_MAX_TOKENS;
    case llm::StopReason::context_full:
      return ONEPASS_STOP_CONTEXT_FULL;
    case llm::StopReason::cancelled:
      return ONEPASS_STOP_CALLER;
  }
  return ONEPASS_STOP_CALLER;
}

// Prompt is a text or token ids.
template <class Prompt>
Status generate(onepass_sequence& sequence, const Prompt& prompt,
                const onepass_generate_options* options, onepass_generate_report* report) {
  ONEPASS_ASSIGN(const onepass_generate_options o,
                 take_options(options, "onepass_generate_options"));
  if (report != nullptr) ONEPASS_TRY(check_size(report, "onepass_generate_report"));
  ONEPASS_ASSIGN(const Entered entered, Entered::make(sequence));
  std::atomic<bool>& stop = sequence.cancel;
  llm::GenerateOptions g;
  if (o.max_tokens != 0) g.max_tokens = o.max_tokens;
  g.sampling.temperature = o.temperature;
  g.sampling.top_k = o.top_k;
  g.sampling.top_p = o.top_p == 0.0f ? 1.0f : o.top_p;
  g.sampling.min_p = o.min_p;
  g.sampling.seed = o.seed;
  g.cancel = &stop;
  ONEPASS_TRY(llm::check(g.sampling));
  const auto each = [&](const llm::Piece& piece) -> Status {
    if (o.piece == nullptr || stop.load()) return {};
    onepass_piece p{};
    p.text = piece.text.data();
    p.text_bytes = piece.text.size();
    p.token = piece.token.value_or(0);
    p.has_token = piece.token ? 1 : 0;
    if (o.piece(o.user, &p) != 0) stop.store(true);
    return {};
  };
  ONEPASS_ASSIGN(const llm::GenerateReport made, sequence.generator.run(prompt, g, each));
  if (report == nullptr) return {};
  onepass_generate_report value{};
  value.stop = stop.load() ? ONEPASS_STOP_CALLER : stop_of(made.stop);
  value.prompt_tokens = made.prompt_tokens;
  value.tokens = static_cast<uint32_t>(made.tokens.size());
  value.prefill_ns = made.prefill_ns;
  value.first_token_ns = made.first_token_ns;
  value.decode_ns = made.decode_ns;
  return give(report, value, "onepass_generate_report");
}

}  // namespace
}  // namespace onepass::capi

using namespace onepass;
using namespace onepass::capi;

extern "C" {

onepass_result onepass_model_load(const onepass_device* device, const char* path,
                                  const onepass_model_options* options, onepass_model** model) {
  return call([&]() -> Status {
    ONEPASS_TRY(require(device, "device"));
    ONEPASS_TRY(require(path, "path"));
    ONEPASS_TRY(require(model, "model"));
    ONEPASS_ASSIGN(const onepass_model_options o, take_options(options, "onepass_model_options"));
    llm::OpenOptions open;
    open.tokenizer = o.no_tokenizer == 0;
    if (o.progress != nullptr) {
      open.progress = [&o](std::uint64_t done, std::uint64_t total) -> Status {
        if (o.progress(o.user, done, total) == 0) return {};
        return make_error(ErrorCode::cancelled, "loading was stopped by the caller", "", 0);
      };
    }
    ONEPASS_ASSIGN(llm::TextModel text, llm::open_text_model(device->device, path, open));
    std::string architecture(text.model->config().architecture->name);
    std::string error = text.tokenizer ? std::string() : text.tokenizer.error().message;
    *model = new onepass_model{std::move(text), path, std::move(architecture), std::move(error)};
    return {};
  });
}

onepass_result onepass_model_get_info(const onepass_model* model, onepass_model_info* info) {
  return call([&]() -> Status {
    ONEPASS_TRY(require(model, "model"));
    const llm::ModelConfig& config = model->text.model->config();
    onepass_model_info value{};
    value.name = config.name.c_str();
    value.architecture = model->architecture.c_str();
    value.tokenizer_error = model->tokenizer_error.c_str();
    value.layers = config.n_layers;
    value.dim = config.dim;
    value.vocab = config.vocab;
    value.context = config.context;
    value.weight_bytes = model->text.model->weight_bytes();
    return give(info, value, "onepass_model_info");
  });
}

void onepass_model_close(onepass_model* model) { delete model; }

onepass_result onepass_tokenize(const onepass_model* model, const char* text, size_t text_bytes,
                                uint32_t flags, uint32_t* ids, size_t capacity, size_t* n) {
  return call([&]() -> Status {
    ONEPASS_TRY(require(model, "model"));
    ONEPASS_TRY(require(n, "n"));
    if (text_bytes > 0) ONEPASS_TRY(require(text, "text"));
    ONEPASS_TRY(check_flags(flags, ONEPASS_NO_SPECIAL | ONEPASS_PARSE_SPECIAL | ONEPASS_AS_PROMPT));
    if (!model->text.tokenizer) return model->text.tokenizer.error();
    const bool bare = (flags & ONEPASS_NO_SPECIAL) != 0;
    const bool parse_special = (flags & ONEPASS_PARSE_SPECIAL) != 0;
    const std::string_view bytes = text_bytes > 0 ? std::string_view(text, text_bytes) : "";
    std::vector<std::uint32_t> made;
    if ((flags & ONEPASS_AS_PROMPT) != 0) {
      ONEPASS_ASSIGN(made, llm::encode_prompt(tokenizer_of(*model), bytes,
                                              {.at_start = !bare, .parse_special = parse_special}));
    } else {
      llm::EncodeOptions encode;
      encode.add_special = !bare;
      encode.parse_special = parse_special;
      ONEPASS_ASSIGN(made, tokenizer_of(*model).encode(bytes, encode));
    }
    return copy_out(made, ids, capacity, n);
  });
}

onepass_result onepass_detokenize(const onepass_model* model, const uint32_t* ids, size_t n_ids,
                                  uint32_t flags, char* text, size_t capacity, size_t* n) {
  return call([&]() -> Status {
    ONEPASS_TRY(require(model, "model"));
    ONEPASS_TRY(require(n, "n"));
    if (n_ids > 0) ONEPASS_TRY(require(ids, "ids"));
    ONEPASS_TRY(check_flags(flags, ONEPASS_SHOW_SPECIAL));
    if (!model->text.tokenizer) return model->text.tokenizer.error();
    llm::DecodeOptions decode;
    decode.special = (flags & ONEPASS_SHOW_SPECIAL) != 0;
    ONEPASS_ASSIGN(const std::string made, tokenizer_of(*model).decode({ids, n_ids}, decode));
    return copy_out(made, text, capacity, n);
  });
}

onepass_result onepass_sequence_create(const onepass_model* model,
                                       const onepass_sequence_options* options,
                                       onepass_sequence** sequence) {
  return call([&]() -> Status {
    ONEPASS_TRY(require(model, "model"));
    ONEPASS_TRY(require(sequence, "sequence"));
    ONEPASS_ASSIGN(const onepass_sequence_options o,
                   take_options(options, "onepass_sequence_options"));
    llm::DecoderOptions decoder;
    decoder.context = o.context;
    if (o.kv_f32 != 0) decoder.kv = DType::f32;
    ONEPASS_ASSIGN(llm::Generator generator, llm::Generator::create(model->text, decoder));
    *sequence = new onepass_sequence(std::move(generator));
    return {};
  });
}

onepass_result onepass_sequence_append(onepass_sequence* sequence, const uint32_t* ids,
                                       size_t n_ids) {
  return call([&]() -> Status {
    ONEPASS_TRY(require(sequence, "sequence"));
    if (n_ids > 0) ONEPASS_TRY(require(ids, "ids"));
    ONEPASS_ASSIGN(const Entered entered, Entered::make(*sequence));
    llm::GenerateOptions none;
    none.max_tokens = 0;
    none.cancel = &sequence->cancel;
    const std::span<const std::uint32_t> tokens(ids, n_ids);
    ONEPASS_ASSIGN(const llm::GenerateReport made, sequence->generator.run(tokens, none, nullptr));
    if (made.stop != llm::StopReason::cancelled) return {};
    return make_error(ErrorCode::cancelled, "appending was stopped by the caller", "", 0);
  });
}

onepass_result onepass_sequence_logits(const onepass_sequence* sequence, float* logits, size_t n) {
  return call([&]() -> Status {
    ONEPASS_TRY(require(sequence, "sequence"));
    ONEPASS_TRY(require(logits, "logits"));
    ONEPASS_ASSIGN(const Entered entered, Entered::make(*sequence));
    ONEPASS_ASSIGN(const std::vector<float> made, sequence->generator.decoder().logits());
    if (n != made.size()) {
      return bad_argument("n is " + std::to_string(n) + ", the vocabulary has " +
                          std::to_string(made.size()) + " tokens");
    }
    std::copy(made.begin(), made.end(), logits);
    return {};
  });
}

onepass_result onepass_sequence_length(const onepass_sequence* sequence, uint32_t* length,
                                       uint32_t* context) {
  return call([&]() -> Status {
    ONEPASS_TRY(require(sequence, "sequence"));
    ONEPASS_ASSIGN(const Entered entered, Entered::make(*sequence));
    const llm::Decoder& decoder = sequence->generator.decoder();
    if (length != nullptr) *length = decoder.length();
    if (context != nullptr) *context = decoder.context();
    return {};
  });
}

onepass_result onepass_sequence_truncate(onepass_sequence* sequence, uint32_t length) {
  return call([&]() -> Status {
    ONEPASS_TRY(require(sequence, "sequence"));
    ONEPASS_ASSIGN(const Entered entered, Entered::make(*sequence));
    return sequence->generator.truncate(length);
  });
}

onepass_result onepass_sequence_cancel(const onepass_sequence* sequence) {
  return call([&]() -> Status {
    ONEPASS_TRY(require(sequence, "sequence"));
    sequence->cancel.store(true);
    return {};
  });
}

void onepass_sequence_close(onepass_sequence* sequence) { delete sequence; }

onepass_result onepass_generate(onepass_sequence* sequence, const char* prompt, size_t prompt_bytes,
                                const onepass_generate_options* options,
                                onepass_generate_report* report) {
  return call([&]() -> Status {
    ONEPASS_TRY(require(sequence, "sequence"));
    if (prompt_bytes > 0) ONEPASS_TRY(require(prompt, "prompt"));
    const std::string_view text = prompt_bytes > 0 ? std::string_view(prompt, prompt_bytes) : "";
    return generate(*sequence, text, options, report);
  });
}

onepass_result onepass_generate_tokens(onepass_sequence* sequence, const uint32_t* ids,
                                       size_t n_ids, const onepass_generate_options* options,
                                       onepass_generate_report* report) {
  return call([&]() -> Status {
    ONEPASS_TRY(require(sequence, "sequence"));
    if (n_ids > 0) ONEPASS_TRY(require(ids, "ids"));
    return generate(*sequence, std::span<const std::uint32_t>(ids, n_ids), options, report);
  });
}

}  // extern "C"
