#include "model/expert_cache.h"

#include <algorithm>
#include <atomic>
#include <string>

#include "core/guarded.h"
#include "model/weights.h"
#include "onepass/kernel.h"

namespace onepass::llm {

ExpertCache::ExpertCache(std::shared_ptr<const WeightSource> source, std::uint32_t experts,
                         std::uint32_t places)
    : source_(std::move(source)),
      place_of_(experts, none),
      expert_in_(places, none),
      used_(places, 0) {}

Status ExpertCache::add(const Device& device, const StoredTensor& stored, std::uint64_t first_row,
                        const Tensor& weight) {
  Part p{stored, first_row, weight, {}};
  ONEPASS_ASSIGN(p.memory, device.map(weight.view));
  parts_.push_back(std::move(p));
  return {};
}

Status ExpertCache::open(const Device& device) {
  static std::atomic<std::uint64_t> count{0};
  KernelDesc desc;
  desc.name = "read_experts_" + std::to_string(count.fetch_add(1));
  desc.slots = "io" + std::string(parts_.size(), 'x');
  desc.cpu = run;
  desc.user = this;
  ONEPASS_ASSIGN(kernel_, device.kernels().add(desc));
  return {};
}

Tensor ExpertCache::record(GraphSession& s, const Tensor& ids) const {
  const Tensor places = s.scratch(DType::u32, ids.shape);
  Dispatch d = make_dispatch(Op::custom);
  d.kernel = kernel_;
  d.grid = Grid::groups({1, 1, 1}, {1, 1, 1});
  d.bind(ids.view, Access::read);
  d.bind(places.view, Access::write);
  for (const Part& p : parts_) d.bind(p.weight.view, Access::read_write);
  s.encode(d);
  return places;
}

Status ExpertCache::status() const {
  if (!error_) return {};
  return *error_;
}

void ExpertCache::run(const KernelArgs& a) noexcept {
  auto& cache = *static_cast<ExpertCache*>(a.user);
  const std::span ids(a.ptr<const std::uint32_t>(0), static_cast<std::size_t>(a.bytes[0] / 4));
  const Status done = guarded([&]() -> Status {
    cache.choose(ids, a.ptr<std::uint32_t>(1));
    return {};
  });
  if (!done && !cache.error_) cache.error_ = done.error();
}

void ExpertCache::choose(std::span<const std::uint32_t> ids, std::uint32_t* places) {
  ++pass_;
  const auto missing = static_cast<std::uint32_t>(expert_in_.size());  // a place that is not there
  // Those that are there first: none of them makes room.
  for (const std::uint32_t e : ids) {
    if (e < place_of_.size() && place_of_[e] != none) used_[place_of_[e]] = pass_;
  }
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::uint32_t e = ids[i];
    places[i] = e < place_of_.size() ? place_of_[e] : missing;
    if (places[i] != none) continue;
    const std::uint32_t place = oldest();
    if (expert_in_[place] != none) place_of_[expert_in_[place]] = none;
    expert_in_[place] = e;
    used_[place] = pass_;
    places[i] = place_of_[e] = place;
    Status done = read(e, place);
    if (!done && !error_) error_ = std::move(done).error();
  }
}

std::uint32_t ExpertCache::oldest() const {
  return static_cast<std::uint32_t>(std::min_element(used_.begin(), used_.end()) - used_.begin());
}

Status ExpertCache::read(std::uint32_t expert, std::uint32_t place) const {
  for (const Part& p : parts_) {
    const std::size_t size = p.memory.size() / expert_in_.size();
    const std::uint64_t stored_rows = p.stored.dims[p.stored.rank - 2];
    const std::span<std::byte> target = p.memory.subspan(place * size, size);
    const Status done =
        read_rows(*source_, p.stored, p.weight.format(), expert * stored_rows + p.first_row,
                  p.weight.shape[1], p.weight.shape[2], expert, target);
    if (done) continue;
    std::fill(target.begin(), target.end(), std::byte{});
    return done;
  }
  return {};
}

}  // namespace onepass::llm
