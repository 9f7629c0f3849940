#include <algorithm>

#include "core/device_state.h"
#include "core/guarded.h"
#include "core/kernel_desc.h"

namespace onepass {
namespace {

std::string build_label(std::string_view name, std::vector<SpecValue>& spec) {
  std::sort(spec.begin(), spec.end(),
            [](const SpecValue& a, const SpecValue& b) { return a.index < b.index; });
  std::string label(name);
  for (const SpecValue& v : spec) {
    label += "|" + std::to_string(v.index) + ":i" + std::to_string(v.value);
  }
  return label;
}

}  // namespace

const KernelEntry* DeviceState::find_kernel(KernelId id) const noexcept {
  if (id.index == 0) return nullptr;
  if (id.index <= kernel_cache_.size()) {
    return kernel_cache_[id.index - 1].load(std::memory_order_acquire);
  }
  const std::shared_lock lock(kernel_mutex_);
  return id.index <= kernel_storage_.size() ? &kernel_storage_[id.index - 1] : nullptr;
}

Result<KernelId> KernelRegistry::add(const KernelDesc& desc) {
  return guarded([&]() -> Result<KernelId> {
    DeviceState& d = *device_;
    ONEPASS_TRY(check(desc));
    for (const KernelRow& row : d.backend().kernels()) {
      if (desc.name == row.name) {
        return fail(ErrorCode::invalid_argument,
                    "add kernel '" + desc.name + "': the name of a built-in kernel");
      }
    }
    ONEPASS_ASSIGN(KernelCode code, d.noted(d.backend().build(desc)));
    const std::unique_lock lock(d.kernel_mutex_);
    if (d.kernel_storage_.size() >= DeviceState::max_kernels) {
      return fail(ErrorCode::limit, "add kernel '" + desc.name + "': too many kernels");
    }
    KernelEntry& e = d.kernel_storage_.emplace_back();
    try {
      const auto index = static_cast<std::uint32_t>(d.kernel_storage_.size());
      e.name = desc.name;
      e.slots = desc.slots;
      e.params_bytes = desc.params_bytes;
      e.row.name = e.name.c_str();
      e.row.launch = desc.launch;
      e.row.code = code;
      e.row.user = desc.user;
      e.row.kind = desc.kind;
      d.sources_.insert_or_assign(e.name, index);  // the last that can fail
      for (auto it = d.builds_.lower_bound(desc.name); it != d.builds_.end();) {
        const bool same =
            it->first.compare(0, desc.name.size(), desc.name) == 0 &&
            (it->first.size() == desc.name.size() || it->first[desc.name.size()] == '|');
        if (same) {
          it = d.builds_.erase(it);
        } else if (it->first.compare(0, desc.name.size(), desc.name) == 0) {
          ++it;
        } else {
          break;
        }
      }
      if (index <= d.kernel_cache_.size()) {
        d.kernel_cache_[index - 1].store(&e, std::memory_order_release);
      }
      return KernelId{index};
    } catch (...) {
      d.kernel_storage_.pop_back();
      throw;
    }
  });
}

Result<KernelId> KernelRegistry::get(std::string_view name, std::span<const SpecValue> spec) {
  return guarded([&]() -> Result<KernelId> {
    DeviceState& d = *device_;
    if (spec.size() > max_spec_values) {
      return fail(ErrorCode::invalid_argument, "kernel '" + std::string(name) +
                                                   "': " + std::to_string(spec.size()) +
                                                   " specialization values, at most 8");
    }
    std::vector<SpecValue> values(spec.begin(), spec.end());
    const std::string label = build_label(name, values);
    for (std::size_t i = 1; i < values.size(); ++i) {
      if (values[i].index == values[i - 1].index) {
        return fail(ErrorCode::invalid_argument,
                    "kernel '" + std::string(name) + "': specialization index " +
                        std::to_string(values[i].index) + " is given twice");
      }
    }
    {
      const std::shared_lock lock(d.kernel_mutex_);
      if (const auto it = d.builds_.find(label); it != d.builds_.end()) {
        return KernelId{it->second};
      }
    }
    const std::unique_lock lock(d.kernel_mutex_);
    if (const auto it = d.builds_.find(label); it != d.builds_.end()) {
      return KernelId{it->second};
    }
    KernelEntry entry;
    if (const auto it = d.sources_.find(name); it != d.sources_.end()) {
      entry = d.kernel_storage_[it->second - 1];
    } else {
      const auto rows = d.backend().kernels();
      const auto is_named = [&](const KernelRow& r) { return name == r.name; };
      const auto runs_here = [&](const KernelRow& r) {
        return (r.needs & ~d.info().features) == 0;
      };
      const auto row = std::find_if(rows.begin(), rows.end(), [&](const KernelRow& r) {
        return is_named(r) && runs_here(r);
      });
      if (row == rows.end() && std::none_of(rows.begin(), rows.end(), is_named)) {
        return fail(ErrorCode::not_found,
                    "kernel '" + std::string(name) + "' is not known on " + d.info().name);
      }
      if (row == rows.end()) {
        return fail(
            ErrorCode::unsupported,
            "kernel '" + std::string(name) + "' needs features that " + d.info().name + " lacks");
      }
      const OpInfo& op = onepass::info(row->op);
      entry.row = *row;
      entry.name = row->name;
      entry.slots = op.slots;
      entry.params_bytes = op.params_bytes;
      entry.builtin = true;
    }
    if (d.kernel_storage_.size() >= DeviceState::max_kernels) {
      return fail(ErrorCode::limit, "kernel '" + label + "': too many kernels");
    }
    entry.spec = std::move(values);
    const auto index = static_cast<std::uint32_t>(d.kernel_storage_.size() + 1);
    const auto [it, inserted] = d.builds_.emplace(label, index);
    try {
      KernelEntry& stored = d.kernel_storage_.emplace_back(std::move(entry));
      if (!stored.builtin) stored.row.name = stored.name.c_str();
      if (index <= d.kernel_cache_.size()) {
        d.kernel_cache_[index - 1].store(&stored, std::memory_order_release);
      }
    } catch (...) {
      d.builds_.erase(it);
      throw;
    }
    return KernelId{index};
  });
}

Status KernelRegistry::prewarm(std::span<const std::string_view> names) {
  for (const std::string_view n : names) ONEPASS_TRY(get(n));
  return {};
}

bool KernelRegistry::is_cached(std::string_view name) const {
  const std::shared_lock lock(device_->kernel_mutex_);
  return device_->builds_.find(name) != device_->builds_.end();
}

std::size_t KernelRegistry::cached_count() const {
  const std::shared_lock lock(device_->kernel_mutex_);
  return device_->builds_.size();
}

std::size_t KernelRegistry::source_count() const {
  const std::shared_lock lock(device_->kernel_mutex_);
  return device_->sources_.size() + device_->backend().kernels().size();
}

std::string KernelRegistry::label(KernelId id) const try {
  const KernelEntry* e = device_->find_kernel(id);
  if (e == nullptr) return {};
  std::vector<SpecValue> spec = e->spec;
  return build_label(e->name, spec);
} catch (const std::bad_alloc&) {
  return {};
}

}  // namespace onepass
