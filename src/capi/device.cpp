#include "capi/handles.h"
#include "onepass/backends/cpu.h"

using namespace onepass;
using namespace onepass::capi;

extern "C" {

onepass_result onepass_device_count(size_t* count) {
  return call([&]() -> Status {
    ONEPASS_TRY(require(count, "count"));
    *count = Device::list().size();
    return {};
  });
}

onepass_result onepass_device_list_entry(size_t index, onepass_device_info* info) {
  thread_local DeviceListing entry;
  return call([&]() -> Status {
    std::vector<DeviceListing> list = Device::list();
    if (index >= list.size()) {
      return make_error(ErrorCode::not_found,
                        "device " + std::to_string(index) + " of " + std::to_string(list.size()),
                        "", 0);
    }
    entry = std::move(list[index]);
    onepass_device_info value{};
    value.name = entry.name.c_str();
    value.description = entry.description.c_str();
    value.reason = entry.reason.c_str();
    value.available = entry.available ? 1 : 0;
    return give(info, value, "onepass_device_info");
  });
}

onepass_result onepass_device_open(const char* name, const onepass_device_options* options,
                                   onepass_device** device) {
  return call([&]() -> Status {
    ONEPASS_TRY(require(name, "name"));
    ONEPASS_TRY(require(device, "device"));
    ONEPASS_ASSIGN(const onepass_device_options o, take_options(options, "onepass_device_options"));
    const DeviceOptions device_options{.backend = {CpuOptions{.threads = o.threads}},
                                       .serial = o.serial != 0};
    ONEPASS_ASSIGN(Device opened, Device::open(name, device_options));
    *device = new onepass_device{opened, GraphExecutor(opened)};
    return {};
  });
}

onepass_result onepass_device_get_info(const onepass_device* device, onepass_device_info* info) {
  return call([&]() -> Status {
    ONEPASS_TRY(require(device, "device"));
    const DeviceInfo& known = device->device.info();
    onepass_device_info value{};
    value.name = known.name.c_str();
    value.description = known.description.c_str();
    value.reason = "";
    value.available = 1;
    value.unified_memory = known.unified_memory ? 1 : 0;
    value.memory_bytes = known.memory_bytes;
    value.compute_units = known.compute_units;
    return give(info, value, "onepass_device_info");
  });
}

onepass_result onepass_device_wait(const onepass_device* device) {
  return call([&]() -> Status {
    ONEPASS_TRY(require(device, "device"));
    return device->device.fence();
  });
}

void onepass_device_close(onepass_device* device) { delete device; }

onepass_result onepass_buffer_create(const onepass_device* device, uint64_t bytes,
                                     onepass_buffer** buffer) {
  return call([&]() -> Status {
    ONEPASS_TRY(require(device, "device"));
    ONEPASS_TRY(require(buffer, "buffer"));
    ONEPASS_ASSIGN(Buffer made, device->device.allocate(bytes));
    *buffer = new onepass_buffer{device->device, std::move(made)};
    return {};
  });
}

onepass_result onepass_buffer_wrap(const onepass_device* device, void* memory, uint64_t bytes,
                                   onepass_buffer** buffer) {
  return call([&]() -> Status {
    ONEPASS_TRY(require(device, "device"));
    ONEPASS_TRY(require(memory, "memory"));
    ONEPASS_TRY(require(buffer, "buffer"));
    if (bytes > SIZE_MAX / 2) return bad_argument("bytes is " + std::to_string(bytes));
    ONEPASS_ASSIGN(Buffer made, device->device.import_host(
                                    {static_cast<std::byte*>(memory), std::size_t{bytes}}));
    *buffer = new onepass_buffer{device->device, std::move(made)};
    return {};
  });
}

onepass_result onepass_buffer_size(const onepass_buffer* buffer, uint64_t* bytes) {
  return call([&]() -> Status {
    ONEPASS_TRY(require(buffer, "buffer"));
    ONEPASS_TRY(require(bytes, "bytes"));
    *bytes = buffer->buffer.bytes();
    return {};
  });
}

onepass_result onepass_buffer_map(const onepass_buffer* buffer, void** pointer) {
  return call([&]() -> Status {
    ONEPASS_TRY(require(buffer, "buffer"));
    ONEPASS_TRY(require(pointer, "pointer"));
    ONEPASS_ASSIGN(const std::span<std::byte> memory, buffer->device.map(buffer->buffer.view()));
    *pointer = memory.data();
    return {};
  });
}

onepass_result onepass_buffer_write(const onepass_buffer* buffer, uint64_t offset,
                                    const void* bytes, size_t n) {
  return call([&]() -> Status {
    ONEPASS_TRY(require(buffer, "buffer"));
    if (n == 0) return {};
    ONEPASS_TRY(require(bytes, "bytes"));
    ONEPASS_ASSIGN(const View view, buffer->buffer.view().sub(offset, n));
    return buffer->device.write(view, {static_cast<const std::byte*>(bytes), n});
  });
}

onepass_result onepass_buffer_read(const onepass_buffer* buffer, uint64_t offset, void* bytes,
                                   size_t n) {
  return call([&]() -> Status {
    ONEPASS_TRY(require(buffer, "buffer"));
    if (n == 0) return {};
    ONEPASS_TRY(require(bytes, "bytes"));
    ONEPASS_ASSIGN(const View view, buffer->buffer.view().sub(offset, n));
    return buffer->device.read(view, {static_cast<std::byte*>(bytes), n});
  });
}

void onepass_buffer_close(onepass_buffer* buffer) { delete buffer; }

}  // extern "C"
