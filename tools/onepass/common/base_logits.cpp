#include "base_logits.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "probabilities.h"
#include "run/decoder.h"

namespace onepass::tool {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr char magic[] = "_logits_";
constexpr std::size_t magic_bytes = 8, header_bytes = magic_bytes + 12;
constexpr std::uint32_t max_vocab = 1u << 24, max_windows = 1u << 20;
constexpr float deepest = 16.0f;  // below the largest logit; less is stored as that
constexpr float levels = 65535.0f;
constexpr std::size_t head_words = 4;  // two floats in front of the values

std::size_t row_words(std::uint32_t vocab) { return head_words + (std::size_t{vocab} + 1) / 2 * 2; }

tl::unexpected<Error> bad(const std::string& path, const std::string& message, std::uint64_t at,
                          const char* field, const char* file = __builtin_FILE(),
                          int line = __builtin_LINE()) {
  Error error = make_error(ErrorCode::parse, path + ": " + message, file, line);
  error.byte_offset = at;
  error.field = field;
  return tl::unexpected<Error>(std::move(error));
}

}  // namespace

Result<BaseLogitsWriter> BaseLogitsWriter::create(const std::string& path, const BaseShape& shape,
                                                  std::span<const std::uint32_t> tokens) {
  BaseLogitsWriter out;
  out.row_.resize(row_words(shape.vocab));
  ONEPASS_ASSIGN(out.file_, os::AtomicFile::create(path));
  const std::uint32_t header[] = {shape.context, shape.vocab, shape.windows};
  ONEPASS_TRY(out.file_.write(std::string_view(magic, magic_bytes)));
  ONEPASS_TRY(out.file_.write(std::as_bytes(std::span(header))));
  ONEPASS_TRY(out.file_.write(std::as_bytes(tokens)));
  return out;
}

Status BaseLogitsWriter::add(std::span<const float> logits) {
  const auto [least, most] = std::minmax_element(logits.begin(), logits.end());
  const float top = *most, bottom = std::max(*least, top - deepest);
  const float head[] = {(top - bottom) / levels,
                        static_cast<float>(static_cast<double>(bottom) - log_sum_exp(logits))};
  if (!std::isfinite(head[0]) || !std::isfinite(head[1])) {
    return fail(ErrorCode::internal, "the model gave logits that are not numbers");
  }
  std::memcpy(row_.data(), head, sizeof head);
  std::fill(row_.begin() + head_words, row_.end(), std::uint16_t{0});
  for (std::size_t i = 0; i < logits.size() && head[0] > 0.0f; ++i) {
    const float level = std::clamp((logits[i] - bottom) / head[0], 0.0f, levels);
    row_[head_words + i] = static_cast<std::uint16_t>(std::lround(level));
  }
  return file_.write(std::as_bytes(std::span<const std::uint16_t>(row_)));
}

Status BaseLogitsWriter::commit() { return file_.commit(); }

Result<BaseLogits> BaseLogits::open(const std::string& path) {
  BaseLogits base;
  base.path_ = path;
  ONEPASS_ASSIGN(base.file_, os::File::open(path));
  std::array<std::byte, header_bytes> head{};
  if (base.file_.bytes() >= head.size()) ONEPASS_TRY(base.file_.read(0, head));
  if (std::memcmp(head.data(), magic, magic_bytes) != 0) {
    return bad(path, "no file of log-probabilities, which perplexity --save-logits writes", 0,
               "magic");
  }
  std::uint32_t numbers[3];
  std::memcpy(numbers, head.data() + magic_bytes, sizeof numbers);
  BaseShape& shape = base.shape_;
  shape = {numbers[0], numbers[1], numbers[2]};
  const auto check = [&](std::uint32_t value, std::uint32_t least, std::uint32_t most,
                         std::uint64_t at, const char* field) -> Status {
    if (value >= least && value <= most) return {};
    return bad(path,
               "is " + std::to_string(value) + ", expected " + std::to_string(least) + " to " +
                   std::to_string(most),
               at, field);
  };
  ONEPASS_TRY(check(shape.context, 4, llm::max_context, 8, "n_ctx"));
  ONEPASS_TRY(check(shape.vocab, 1, max_vocab, 12, "n_vocab"));
  ONEPASS_TRY(check(shape.windows, 1, max_windows, 16, "n_chunk"));
  // Products stay below 2^64: three factors below 2^27, 2^20 and 2^26.
  const std::uint64_t n_tokens = std::uint64_t{shape.windows} * shape.context;
  base.rows_at_ = header_bytes + n_tokens * sizeof(std::uint32_t);
  __extension__ using Wide = unsigned __int128;
  const Wide expected = Wide{base.rows_at_} + Wide{shape.windows} * shape.scored() *
                                                  row_words(shape.vocab) * sizeof(std::uint16_t);
  if (expected != base.file_.bytes()) {
    return bad(
        path,
        "has " + std::to_string(base.file_.bytes()) + " bytes, " + std::to_string(shape.windows) +
            " windows of " + std::to_string(shape.context) + " tokens and a vocabulary of " +
            std::to_string(shape.vocab) + " make " +
            (expected > ~std::uint64_t{0} ? "more than 2^64"
                                          : std::to_string(static_cast<std::uint64_t>(expected))),
        8, "n_chunk");
  }
  base.tokens_.resize(n_tokens);
  ONEPASS_TRY(base.file_.read(header_bytes, std::as_writable_bytes(std::span(base.tokens_))));
  for (std::size_t i = 0; i < base.tokens_.size(); ++i) {
    if (base.tokens_[i] < shape.vocab) continue;
    return bad(path, "token " + std::to_string(base.tokens_[i]) + " is not in the vocabulary",
               header_bytes + i * sizeof(std::uint32_t), "tokens");
  }
  base.row_.resize(row_words(shape.vocab));
  return base;
}

Status BaseLogits::read(std::uint32_t window, std::uint32_t index, std::span<float> out) {
  const std::uint64_t row = std::uint64_t{window} * shape_.scored() + index;
  const std::uint64_t at = rows_at_ + row * row_.size() * sizeof(std::uint16_t);
  ONEPASS_TRY(file_.read(at, std::as_writable_bytes(std::span(row_))));
  float head[2];
  std::memcpy(head, row_.data(), sizeof head);
  if (!std::isfinite(head[0]) || !std::isfinite(head[1])) {
    return bad(path_, "a step or smallest value is not a number", at, "values");
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = head[0] * static_cast<float>(row_[head_words + i]) + head[1];
  }
  return {};
}

}  // namespace onepass::tool
