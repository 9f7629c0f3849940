// A backend around another one: every call goes to it, until a test overrides it.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/backend.h"

namespace onepass::test {

class ForwardingBackend : public Backend {
 public:
  explicit ForwardingBackend(std::unique_ptr<Backend> inner) : inner_(std::move(inner)) {}

  const DeviceInfo& info() const noexcept override { return inner_->info(); }
  KernelTable kernels() const noexcept override { return inner_->kernels(); }
  Result<KernelCode> build(const KernelDesc& desc) override { return inner_->build(desc); }
  Result<Allocation> allocate(std::uint64_t bytes, MemoryKind kind, bool zero) override {
    return inner_->allocate(bytes, kind, zero);
  }
  void release(const Allocation& memory) noexcept override { inner_->release(memory); }
  Status write(const Allocation& memory, std::uint64_t offset,
               std::span<const std::byte> bytes) override {
    return inner_->write(memory, offset, bytes);
  }
  Status read(const Allocation& memory, std::uint64_t offset, std::span<std::byte> bytes) override {
    return inner_->read(memory, offset, bytes);
  }
  Result<std::byte*> map(const Allocation& memory) override { return inner_->map(memory); }
  Result<std::unique_ptr<Recorded>> record(const Recording& recording,
                                           const Order& order) override {
    return inner_->record(recording, order);
  }
  Status submit(Recorded& recorded, std::span<const std::byte> step_bytes,
                Completion& completion) override {
    return inner_->submit(recorded, step_bytes, completion);
  }
  void wait(Completion& completion) override { inner_->wait(completion); }
  bool poll(Completion& completion) override { return inner_->poll(completion); }
  Status timestamps(Recorded& recorded, std::span<TimeSpan> out) override {
    return inner_->timestamps(recorded, out);
  }
  void append_slices(Recorded& recorded, std::vector<WorkSlice>& out) override {
    inner_->append_slices(recorded, out);
  }
  void* native_handle(const Allocation* memory) noexcept override {
    return inner_->native_handle(memory);
  }
  void* native_stream() noexcept override { return inner_->native_stream(); }
  void* native_submission(const Completion& submission) noexcept override {
    return inner_->native_submission(submission);
  }

 protected:
  std::unique_ptr<Backend> inner_;
};

}  // namespace onepass::test
