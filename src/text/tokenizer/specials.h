// Finding special tokens in text: Aho-Corasick from the end to the start, so that every position
// knows the longest token that begins there.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/tokenizer/spec.h"

namespace onepass::llm::text {

class SpecialFinder {
 public:
  struct Hit {
    std::size_t begin = 0, end = 0;
    std::uint32_t id = 0;
  };

  // leftmost: leftmost-longest matches; else the longest token anywhere is taken first, of equal
  // lengths the leftmost.
  Status build(std::vector<SpecialToken> tokens, bool leftmost);
  bool empty() const noexcept { return tokens_.empty(); }
  // From left to right, without overlap. O(text) except for vocabularies made to prevent it,
  // which give ErrorCode::limit.
  Result<std::vector<Hit>> find(std::string_view text) const;

 private:
  struct State {
    std::uint32_t fail = 0;
    std::uint32_t shorter = 0;  // nearest state on the fail chain that ends a token; 0: none
    std::uint32_t token = ~std::uint32_t{0};
    std::uint32_t depth = 0;
  };
  struct Candidate {
    std::uint32_t begin = 0;
    std::uint32_t state = 0;  // of the longest token that begins here
  };

  std::uint32_t child(std::uint32_t state, unsigned char byte) const noexcept;
  std::uint32_t step(std::uint32_t state, unsigned char byte) const noexcept;
  std::vector<Candidate> candidates(std::string_view text) const;
  std::vector<Candidate> pick_leftmost(const std::vector<Candidate>& found) const;
  Result<std::vector<Candidate>> pick_longest(std::vector<Candidate> found,
                                              std::size_t text_bytes) const;
  Status pick_cluster(const Candidate* first, const Candidate* last, std::size_t& budget,
                      std::vector<Candidate>& picked) const;

  std::vector<SpecialToken> tokens_;
  bool leftmost_ = false;
  std::vector<State> states_;
  std::array<std::uint32_t, 256> root_{};
  std::unordered_map<std::uint64_t, std::uint32_t> edges_;
};

}  // namespace onepass::llm::text
