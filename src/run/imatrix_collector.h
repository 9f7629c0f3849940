// Computes an importance matrix: a model reads texts, and what its products take is squared and
// summed up column by column.
//
//   ONEPASS_ASSIGN(ImatrixCollector collector, ImatrixCollector::create(model, 512));
//   ONEPASS_TRY(collector.add(window));
//   ONEPASS_ASSIGN(const Imatrix matrix, collector.finish());
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "model/imatrix.h"
#include "run/decoder.h"

namespace onepass::llm {

class ImatrixCollector {
 public:
  // Windows of up to so many tokens; head: of the output head, too.
  static Result<ImatrixCollector> create(std::shared_ptr<const Model> model, std::uint32_t window,
                                         bool head = false);
  // Each window is read from an empty cache.
  Status add(std::span<const std::uint32_t> tokens, const std::atomic<bool>* cancel = nullptr);
  // Tensors that no product took are left out. An error where a sum is no number.
  Result<Imatrix> finish() const;

 private:
  ImatrixCollector(Decoder decoder, std::uint32_t window, bool head)
      : decoder_(std::move(decoder)), window_(window), head_(head) {}
  void name_weights();
  // Of a dispatch that is about to run.
  Status see(const Dispatch& d, const Decoder::ReadView& read);
  Status add_rows(const Dispatch& d, const Decoder::ReadView& read, ImatrixEntry& entry);
  Status add_pairs(const Dispatch& d, const Decoder::ReadView& read, ImatrixEntry& entry);

  Decoder decoder_;
  std::uint32_t window_;
  bool head_;
  std::uint64_t windows_ = 0;
  using Place = std::pair<std::uint32_t, std::uint64_t>;  // a buffer, and where in it
  std::map<Place, std::string> names_;                    // of weights
  std::map<std::string, ImatrixEntry, std::less<>> entries_;
  std::vector<float> values_;
  std::vector<std::uint32_t> ids_;
};

}  // namespace onepass::llm
