#include "onepass/device.h"

#include <algorithm>
#include <numeric>

#include "core/device_state.h"
#include "core/guarded.h"

namespace onepass {

namespace {

constexpr std::size_t n_formats =
    static_cast<std::size_t>(DType::count_) * static_cast<std::size_t>(Layout::count_);

std::size_t place_of(Op op, Format format) noexcept {
  return static_cast<std::size_t>(op) * n_formats +
         static_cast<std::size_t>(format.type) * static_cast<std::size_t>(Layout::count_) +
         static_cast<std::size_t>(format.layout);
}
std::size_t place_of(const KernelRow* row) noexcept { return place_of(row->op, row->format); }

}  // namespace

DeviceState::DeviceState(std::unique_ptr<Backend> backend, const DeviceOptions& options)
    : backend_(std::move(backend)),
      options_(options),
      registry_(*this),
      in_flight_(std::clamp(options.command_buffers, 1u, 4096u)) {
  options_.command_buffers = static_cast<std::uint32_t>(in_flight_.size());
  for (const KernelRow& row : backend_->kernels()) {
    if ((row.needs & ~info().features) == 0) rows_.push_back(&row);
  }
  const auto before = [](const KernelRow* a, const KernelRow* b) {
    return place_of(a) < place_of(b);
  };
  std::stable_sort(rows_.begin(), rows_.end(), before);
  first_row_.assign(static_cast<std::size_t>(Op::count_) * n_formats + 1, 0);
  for (const KernelRow* row : rows_) ++first_row_[place_of(row) + 1];
  std::partial_sum(first_row_.begin(), first_row_.end(), first_row_.begin());
  count_in_process();
}

std::span<const KernelRow* const> DeviceState::rows_of(Op op, Format format) const noexcept {
  if (op >= Op::count_ || format.type >= DType::count_ || format.layout >= Layout::count_)
    return {};
  const std::size_t place = place_of(op, format);
  return {rows_.data() + first_row_[place], rows_.data() + first_row_[place + 1]};
}

const KernelRow* DeviceState::find_row(const Dispatch& d) const noexcept {
  const std::uint32_t form = form_of(d);
  for (const KernelRow* row : rows_of(d.op, d.format)) {
    if (has_forms(*row, form) && (row->accepts == nullptr || row->accepts(info(), d))) return row;
  }
  return nullptr;
}

const KernelRow* DeviceState::find_row(Op op, Format format, std::uint32_t form) const noexcept {
  for (const KernelRow* row : rows_of(op, format)) {
    if (has_forms(*row, form)) return row;
  }
  return nullptr;
}

Result<std::shared_ptr<DeviceState>> DeviceState::create(std::unique_ptr<Backend> backend,
                                                         const DeviceOptions& options) {
  return guarded([&]() -> Result<std::shared_ptr<DeviceState>> {
    return std::shared_ptr<DeviceState>(new DeviceState(std::move(backend), options));
  });
}

DeviceState::~DeviceState() {
  {
    const std::lock_guard lock(submit_mutex_);
    while (!is_idle_locked()) {
      backend_->wait(oldest_locked()->completion);
      retire_locked();
    }
  }
  collect_free(~std::uint64_t{0});
  for (const Allocation& memory : arena_cache_) backend_->release(memory);
  leave_process();
}

namespace {

// "cuda:1" is entry cuda, index 1.
struct ParsedName {
  std::string_view base;
  std::uint32_t index = 0;
  bool ok = true;
};

ParsedName parse_name(std::string_view name) {
  const std::size_t colon = name.find(':');
  ParsedName parsed{name.substr(0, colon)};
  if (colon == std::string_view::npos) return parsed;
  const std::string_view digits = name.substr(colon + 1);
  parsed.ok = !digits.empty() && digits.size() <= 4;
  for (const char c : digits) {
    if (c < '0' || c > '9') parsed.ok = false;
    if (parsed.ok) parsed.index = parsed.index * 10 + static_cast<std::uint32_t>(c - '0');
  }
  return parsed;
}

}  // namespace

Result<std::unique_ptr<Backend>> open_best(std::span<const BackendEntry> entries,
                                           const DeviceOptions& options) {
  std::string refused;
  const auto pass_over = [&](const std::string& device, const std::string& why) {
    const std::string text = device + ": " + why;
    tell(options, "device", "passed over " + text);
    refused += "; " + text;
  };
  for (const bool cards : {true, false}) {
    for (const BackendEntry& entry : entries) {
      if (entry.card != cards || std::string_view(entry.name) == "null") continue;
      for (const DeviceListing& l : entry.list()) {
        if (!l.available) {
          if (l.name != entry.name) pass_over(l.name, l.reason);
          continue;
        }
        Result<std::unique_ptr<Backend>> backend = entry.open(parse_name(l.name).index, options);
        if (backend) return backend;
        pass_over(l.name, backend.error().message);
      }
    }
  }
  return fail(ErrorCode::not_found, "no device can be used" + refused);
}

namespace {

std::atomic<WrapBackend> backend_wrap{nullptr};

}  // namespace

void wrap_backends(WrapBackend wrap) noexcept { backend_wrap = wrap; }

Result<Device> Device::open(std::string_view name, const DeviceOptions& options) {
  return guarded([&]() -> Result<Device> {
    const auto with = [&](Result<std::unique_ptr<Backend>> opened) -> Result<Device> {
      ONEPASS_ASSIGN(std::unique_ptr<Backend> backend, std::move(opened));
      if (const WrapBackend wrap = backend_wrap) backend = wrap(std::move(backend));
      ONEPASS_ASSIGN(std::shared_ptr<DeviceState> state,
                     DeviceState::create(std::move(backend), options));
      return Device(std::move(state));
    };
    if (name == "auto") return with(open_best(backend_list(), options));
    const ParsedName parsed = parse_name(name);
    for (const BackendEntry& entry : backend_list()) {
      if (parsed.ok && parsed.base == entry.name) return with(entry.open(parsed.index, options));
    }
    std::string known;
    for (const DeviceListing& l : list()) known += (known.empty() ? "" : ", ") + l.name;
    return fail(ErrorCode::not_found,
                "no device '" + std::string(name) + "'; there are: auto, " + known);
  });
}

std::vector<DeviceListing> Device::list() try {
  std::vector<DeviceListing> all;
  for (const BackendEntry& entry : backend_list()) {
    for (DeviceListing& l : entry.list()) all.push_back(std::move(l));
  }
  return all;
} catch (const std::bad_alloc&) {
  return {};
}

const DeviceInfo& Device::info() const noexcept { return state_->info(); }
const DeviceOptions& Device::options() const noexcept { return state_->options(); }
Result<Buffer> Device::allocate(std::uint64_t bytes, const AllocateOptions& options) const {
  return state_->allocate(bytes, options);
}
Result<Buffer> Device::import_host(std::span<std::byte> memory) const {
  return state_->import_host(memory);
}
Status Device::write(const View& view, std::span<const std::byte> bytes) const {
  return state_->write(view, bytes);
}
Status Device::read(const View& view, std::span<std::byte> bytes) const {
  return state_->read(view, bytes);
}
Result<std::span<std::byte>> Device::map(const View& view) const { return state_->map(view); }
KernelRegistry& Device::kernels() const noexcept { return state_->kernels(); }
Status Device::fence() const {
  return guarded([&] { return state_->fence(true); });
}
Counters Device::counters() const noexcept { return state_->read_counters(); }
void Device::reset_counters() const noexcept { state_->reset_counters(); }
std::vector<Error> Device::take_errors() const { return state_->take_errors(); }
ProfileReport Device::profile() const try {
  return state_->profile();
} catch (const std::bad_alloc&) {
  return {};
}
void Device::reset_profile() const { state_->reset_profile(); }
std::uint64_t Device::live_bytes() const noexcept { return state_->live_bytes(); }
void* Device::native_handle() const noexcept { return state_->backend().native_handle(nullptr); }
void* Device::native_stream() const noexcept { return state_->backend().native_stream(); }

}  // namespace onepass
