#include "text/tokenizer/model.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <unordered_map>

#include "text/tokenizer/unicode.h"

namespace onepass::llm::text {
namespace {

constexpr std::size_t cache_entries = 1u << 14;
constexpr std::size_t cache_text_bytes = 1u << 20;
constexpr std::size_t cache_from_bytes = 2048;  // shorter texts are not worth a cache
constexpr std::size_t max_cached_word = 64;

tl::unexpected<Error> bad_merge(std::size_t index, const std::string& what) {
  Error error = make_error(ErrorCode::parse, what);
  error.field = "merges[" + std::to_string(index) + "]";
  return tl::unexpected<Error>(std::move(error));
}

std::string shown(std::string_view text) {
  return "'" + replace_invalid(text.substr(0, 64)) + (text.size() > 64 ? "...'" : "'");
}

}  // namespace

int byte_token_value(std::string_view text) noexcept {
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
  };
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return -1;
  const int high = digit(text[3]), low = digit(text[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

Status MergeModel::build(const Spec& spec) {
  kind_ = spec.kind;
  ignore_merges_ = spec.ignore_merges;
  whole_newlines_ = spec.whole_newlines;
  byte_fallback_ = spec.byte_fallback;
  fuse_unknown_ = spec.fuse_unknown;
  unknown_ = spec.unknown.value_or(no_id);
  size_ = static_cast<std::uint32_t>(spec.tokens.size());
  ONEPASS_TRY(build_texts(spec));
  ONEPASS_TRY(kind_ == ModelKind::scores ? build_scores(spec) : build_merges(spec));
  find_space_cuts(spec);
  return {};
}

Status MergeModel::build_texts(const Spec& spec) {
  std::vector<std::string_view> views;
  std::vector<std::uint32_t> ids;
  views.reserve(size_);
  ids.reserve(size_);
  if (kind_ == ModelKind::byte_pairs) texts_.resize(size_);
  for (std::uint32_t i = 0; i < size_; ++i) {
    if (!spec.in_model.empty() && !spec.in_model[i]) continue;
    std::string_view text = spec.tokens[i];
    if (kind_ == ModelKind::byte_pairs) {
      if (!from_alphabet(text, texts_[i])) continue;
      text = texts_[i];
    }
    if (text.empty()) continue;
    views.push_back(text);
    ids.push_back(i);
  }
  ONEPASS_TRY(table_.build(views, ids));
  for (unsigned b = 0; b < 256; ++b) {
    const char byte = static_cast<char>(b);
    byte_symbols_[b] = table_.find({&byte, 1});
    static constexpr char digits[] = "0123456789ABCDEF";
    const char name[] = {'<', '0', 'x', digits[b >> 4], digits[b & 15], '>'};
    byte_tokens_[b] = byte_fallback_ ? table_.find({name, sizeof name}) : no_id;
  }
  return {};
}

Status MergeModel::build_merges(const Spec& spec) {
  if (spec.merges.size() > max_merges) {
    return bad_merge(max_merges, std::to_string(spec.merges.size()) + " merges, at most " +
                                     std::to_string(max_merges));
  }
  // Results that are no tokens still take part in further merges.
  std::unordered_map<std::string, std::uint32_t> extra;
  const auto symbol = [&](const std::string& text) {
    const std::uint32_t id = table_.find(text);
    if (id != no_id) return id;
    const auto found = extra.find(text);
    return found == extra.end() ? no_id : found->second;
  };
  std::vector<MergeTable::Entry> entries;
  entries.reserve(spec.merges.size());
  std::string left, right;
  for (std::size_t i = 0; i < spec.merges.size(); ++i) {
    const auto& [a, b] = spec.merges[i];
    if (kind_ == ModelKind::byte_pairs) {
      if (!from_alphabet(a, left)) return bad_merge(i, shown(a) + " is not in the byte alphabet");
      if (!from_alphabet(b, right)) return bad_merge(i, shown(b) + " is not in the byte alphabet");
    } else {
      left = a;
      right = b;
    }
    const std::uint32_t left_id = symbol(left);
    const std::uint32_t right_id = symbol(right);
    if (left_id == no_id) return bad_merge(i, shown(a) + " is not in the vocabulary");
    if (right_id == no_id) return bad_merge(i, shown(b) + " is not in the vocabulary");
    std::uint32_t result = symbol(left + right);
    if (result == no_id) {
      result = size_ + static_cast<std::uint32_t>(extra.size());
      extra.emplace(left + right, result);
    }
    entries.push_back({left_id, right_id, {static_cast<std::uint32_t>(i), result}});
  }
  return merges_.build(entries);
}

Status MergeModel::build_scores(const Spec& spec) {
  score_ranks_.assign(size_, 0);
  if (spec.scores.empty()) return {};
  for (std::size_t i = 0; i < spec.scores.size(); ++i) {
    if (std::isnan(spec.scores[i])) {
      Error error = make_error(ErrorCode::parse, "score is not a number");
      error.field = "scores[" + std::to_string(i) + "]";
      return error;
    }
  }
  std::vector<float> levels = spec.scores;
  std::sort(levels.begin(), levels.end(), std::greater<>());
  levels.erase(std::unique(levels.begin(), levels.end()), levels.end());
  for (std::uint32_t i = 0; i < size_; ++i) {
    score_ranks_[i] = static_cast<std::uint32_t>(
        std::lower_bound(levels.begin(), levels.end(), spec.scores[i], std::greater<>()) -
        levels.begin());
  }
  return {};
}

void MergeModel::find_space_cuts(const Spec& spec) {
  if (kind_ == ModelKind::byte_pairs) return;
  const auto note = [this](std::string_view before) {
    if (!before.empty()) joins_space_[static_cast<unsigned char>(before.back())] = true;
  };
  if (kind_ == ModelKind::char_pairs) {
    for (const auto& [left, right] : spec.merges) {
      if (right.starts_with(space_mark)) note(left);
    }
    return;
  }
  for (const std::string_view text : spec.tokens) {
    for (std::size_t at = text.find(space_mark, 1); at != std::string_view::npos;
         at = text.find(space_mark, at + 1)) {
      note(text.substr(0, at));
    }
  }
}

MergeModel::PairSymbol MergeModel::first_char(const char* p, const char* end) const noexcept {
  const auto byte = static_cast<unsigned char>(*p);
  if (byte < 0x80) return {byte_symbols_[byte], 1};
  const std::uint32_t size = decode_multibyte(p, end).bytes;
  return {table_.find({p, size}), size};
}

WordEncoder::WordEncoder(const MergeModel& model, std::size_t text_bytes) : model_(model) {
  if (text_bytes >= cache_from_bytes) entries_.resize(cache_entries);
}

Status WordEncoder::encode(std::string_view word, std::vector<std::uint32_t>& out) {
  if (model_.kind_ == ModelKind::byte_pairs) return encode_cached(word, out);
  // Nothing merges across most places before a space mark: shorter words, found again more often.
  std::size_t begin = 0;
  for (std::size_t at = word.find(space_mark, 1); at != std::string_view::npos;
       at = word.find(space_mark, at + 1)) {
    if (model_.joins_space_[static_cast<unsigned char>(word[at - 1])]) continue;
    ONEPASS_TRY(encode_cached(word.substr(begin, at - begin), out));
    begin = at;
  }
  return encode_cached(word.substr(begin), out);
}

Status WordEncoder::encode_cached(std::string_view word, std::vector<std::uint32_t>& out) {
  if (entries_.empty() || word.size() > max_cached_word) return merge(word, out);
  const std::uint64_t hash = hash_bytes(word);
  Entry& entry = entries_[static_cast<std::size_t>(hash >> 20) & (cache_entries - 1)];
  if (entry.hash == hash && entry.size == word.size() &&
      std::string_view(cached_texts_).substr(entry.text, entry.size) == word) {
    const auto ids = cached_ids_.begin() + entry.ids;
    out.insert(out.end(), ids, ids + entry.count);
    return {};
  }
  const std::size_t before = out.size();
  has_unknown_ = false;
  ONEPASS_TRY(merge(word, out));
  // An unknown token may have been fused with the one before it.
  if (has_unknown_) return {};
  if (cached_texts_.size() > cache_text_bytes) {
    cached_texts_.clear();
    cached_ids_.clear();
    std::fill(entries_.begin(), entries_.end(), Entry{});
  }
  entry = {hash, static_cast<std::uint32_t>(cached_texts_.size()),
           static_cast<std::uint32_t>(word.size()), static_cast<std::uint32_t>(cached_ids_.size()),
           static_cast<std::uint32_t>(out.size() - before)};
  cached_texts_.append(word);
  cached_ids_.insert(cached_ids_.end(), out.begin() + static_cast<std::ptrdiff_t>(before),
                     out.end());
  return {};
}

Status WordEncoder::merge(std::string_view word, std::vector<std::uint32_t>& out) {
  if (word.empty()) return {};
  const bool looks_up_whole =
      model_.ignore_merges_ ||
      (model_.whole_newlines_ && word.find_first_not_of('\n') == std::string_view::npos);
  if (looks_up_whole) {
    if (const std::uint32_t id = model_.table_.find(word); id != no_id) {
      out.push_back(id);
      return {};
    }
  }
  switch (model_.kind_) {
    case ModelKind::byte_pairs:
      return merge_with(byte_merger_, pair_nodes_, word, out);
    case ModelKind::char_pairs:
      return merge_with(char_merger_, pair_nodes_, word, out);
    case ModelKind::scores:
      return merge_with(score_merger_, text_nodes_, word, out);
  }
  return {};
}

template <class Rules>
Status WordEncoder::merge_with(Merger<Rules>& merger, std::vector<typename Rules::Symbol>& symbols,
                               std::string_view word, std::vector<std::uint32_t>& out) {
  merger.run(Rules{model_}, word, symbols);
  std::size_t at = 0;
  for (const auto& symbol : symbols) {
    if (symbol.id < model_.size_) {
      out.push_back(symbol.id);
    } else {
      ONEPASS_TRY(emit_unknown(word.substr(at, symbol.size), out));
    }
    at += symbol.size;
  }
  return {};
}

Status WordEncoder::emit_unknown(std::string_view bytes, std::vector<std::uint32_t>& out) {
  const bool by_alphabet = model_.kind_ == ModelKind::byte_pairs;
  const auto push_unknown = [&] {
    has_unknown_ = true;
    if (!model_.fuse_unknown_ || out.empty() || out.back() != model_.unknown_) {
      out.push_back(model_.unknown_);
    }
  };
  const auto& tokens = by_alphabet ? model_.byte_symbols_ : model_.byte_tokens_;
  const auto token_of = [&](char c) {
    const std::uint32_t id = tokens[static_cast<unsigned char>(c)];
    return id != no_id ? id : model_.byte_symbols_[static_cast<unsigned char>(c)];
  };
  if (!by_alphabet && model_.unknown_ != no_id &&
      (!model_.byte_fallback_ ||
       std::any_of(bytes.begin(), bytes.end(), [&](char c) { return token_of(c) == no_id; }))) {
    push_unknown();
    return {};
  }
  for (const char c : bytes) {
    const std::uint32_t id = token_of(c);
    if (id != no_id) {
      out.push_back(id);
    } else if (model_.unknown_ != no_id) {
      push_unknown();
    } else if (!by_alphabet) {
      return fail(ErrorCode::not_found,
                  "byte " + std::to_string(static_cast<unsigned char>(c)) +
                      " has no token, and the vocabulary has no unknown token");
    }
  }
  return {};
}

}  // namespace onepass::llm::text
