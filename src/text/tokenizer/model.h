// From one word to token ids.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer/merge.h"
#include "text/tokenizer/spec.h"
#include "text/tokenizer/tables.h"

namespace onepass::llm::text {

class MergeModel {
 public:
  Status build(const Spec& spec);
  std::uint32_t find(std::string_view text) const noexcept { return table_.find(text); }

  struct PairSymbol {
    std::uint32_t id = no_id;  // at or above the vocabulary's size: a merge that is no token
    std::uint32_t size = 1;
    std::uint32_t bytes() const noexcept { return size; }
  };
  struct ByteRules {
    const MergeModel& model;
    using Symbol = PairSymbol;
    Symbol first(const char* p, const char*) const noexcept {
      return {model.byte_symbols_[static_cast<unsigned char>(*p)], 1};
    }
    std::uint32_t join(Symbol a, Symbol b, Symbol& joined) const noexcept {
      return model.join(a, b, joined);
    }
  };
  struct CharRules {
    const MergeModel& model;
    using Symbol = PairSymbol;
    Symbol first(const char* p, const char* end) const noexcept { return model.first_char(p, end); }
    std::uint32_t join(Symbol a, Symbol b, Symbol& joined) const noexcept {
      return model.join(a, b, joined);
    }
  };
  struct TextSymbol : PairSymbol {
    const char* text = nullptr;
  };
  struct ScoreRules {
    const MergeModel& model;
    using Symbol = TextSymbol;
    Symbol first(const char* p, const char* end) const noexcept {
      return {model.first_char(p, end), p};
    }
    std::uint32_t join(const Symbol& a, const Symbol& b, Symbol& joined) const noexcept {
      const std::uint32_t size = a.size + b.size;
      const std::uint32_t id = model.table_.find({a.text, size});
      if (id == no_id) return no_id;
      joined = {{id, size}, a.text};
      return model.score_ranks_[id];
    }
  };

 private:
  friend class WordEncoder;

  std::uint32_t join(PairSymbol a, PairSymbol b, PairSymbol& joined) const noexcept {
    if (a.id == no_id || b.id == no_id) return no_id;
    const Merge merge = merges_.find(a.id, b.id);
    joined = {merge.result, a.size + b.size};
    return merge.rank;
  }
  PairSymbol first_char(const char* p, const char* end) const noexcept;
  Status build_texts(const Spec& spec);
  Status build_merges(const Spec& spec);
  Status build_scores(const Spec& spec);
  void find_space_cuts(const Spec& spec);

  ModelKind kind_ = ModelKind::byte_pairs;
  bool ignore_merges_ = false, whole_newlines_ = false, byte_fallback_ = false;
  bool fuse_unknown_ = false;
  std::uint32_t unknown_ = no_id;
  std::uint32_t size_ = 0;
  std::vector<std::string> texts_;  // byte_pairs: bytes of each token
  TextTable table_;
  MergeTable merges_;
  std::vector<std::uint32_t> score_ranks_;
  std::array<std::uint32_t, 256> byte_symbols_{};  // token of a single byte
  std::array<std::uint32_t, 256> byte_tokens_{};   // <0xHH>
  // Bytes after which U+2581 can merge with what is before it.
  std::array<bool, 256> joins_space_{};
};

// Encodes the words of one text; keeps frequent ones.
class WordEncoder {
 public:
  WordEncoder(const MergeModel& model, std::size_t text_bytes);
  // Fails where a byte has no token at all.
  Status encode(std::string_view word, std::vector<std::uint32_t>& out);

 private:
  struct Entry {
    std::uint64_t hash = 0;
    std::uint32_t text = 0, size = 0;  // size 0: empty
    std::uint32_t ids = 0, count = 0;
  };
  Status encode_cached(std::string_view word, std::vector<std::uint32_t>& out);
  Status merge(std::string_view word, std::vector<std::uint32_t>& out);
  template <class Rules>
  Status merge_with(Merger<Rules>& merger, std::vector<typename Rules::Symbol>& symbols,
                    std::string_view word, std::vector<std::uint32_t>& out);
  Status emit_unknown(std::string_view bytes, std::vector<std::uint32_t>& out);

  const MergeModel& model_;
  Merger<MergeModel::ByteRules> byte_merger_;
  Merger<MergeModel::CharRules> char_merger_;
  Merger<MergeModel::ScoreRules> score_merger_;
  std::vector<MergeModel::PairSymbol> pair_nodes_;
  std::vector<MergeModel::TextSymbol> text_nodes_;
  bool has_unknown_ = false;
  std::vector<Entry> entries_;
  std::string cached_texts_;
  std::vector<std::uint32_t> cached_ids_;
};

}  // namespace onepass::llm::text
