#include "io/safetensors_output.h"

#include <algorithm>

#include "core/guarded.h"
#include "io/json_text.h"

namespace onepass::io {

Status SafetensorsOutput::add_tensor(std::string_view name, const SafetensorsType& type,
                                     std::span<const std::uint64_t> dims) {
  return guarded([&]() -> Status {
    if (created_) return fail(ErrorCode::invalid_state, "add_tensor: the file was created already");
    if (name.empty() || name.size() > max_key_bytes || !is_utf8(name)) {
      return fail(ErrorCode::invalid_argument,
                  "add_tensor: the name is empty, too long or not UTF-8");
    }
    if (dims.size() > max_safetensors_dims) {
      return fail(ErrorCode::invalid_argument,
                  clipped(name) + ": " + std::to_string(dims.size()) + " dimensions, at most " +
                      std::to_string(max_safetensors_dims) + " are allowed");
    }
    std::uint64_t bytes = type.bytes, end = 0;
    std::string shape;
    for (const std::uint64_t d : dims) {
      if (!multiply(bytes, d, bytes)) {
        return fail(ErrorCode::limit, clipped(name) + ": the number of bytes does not fit 64 bits");
      }
      shape += (shape.empty() ? "" : ",") + std::to_string(d);
    }
    if (!add(data_bytes_, bytes, end)) {
      return fail(ErrorCode::limit, clipped(name) + ": the number of bytes does not fit 64 bits");
    }
    entries_ += "," + json_text(name) + ":{\"dtype\":\"" + std::string(type.name) +
                "\",\"shape\":[" + shape + "],\"data_offsets\":[" + std::to_string(data_bytes_) +
                "," + std::to_string(end) + "]}";
    data_bytes_ = end;
    names_.emplace_back(name);
    return {};
  });
}

Status SafetensorsOutput::create(const std::string& path) {
  return guarded([&]() -> Status {
    if (created_) return fail(ErrorCode::invalid_state, "create: the file was created already");
    std::sort(names_.begin(), names_.end());
    const auto twice = std::adjacent_find(names_.begin(), names_.end());
    if (twice != names_.end()) {
      return fail(ErrorCode::invalid_argument, clipped(*twice) + " was added twice");
    }
    std::string header = "{\"__metadata__\":{\"format\":\"mlx\"}" + entries_ + "}";
    header.resize((header.size() + 7) / 8 * 8, ' ');
    if (header.size() > max_safetensors_header) {
      return fail(ErrorCode::limit, "the header has " + std::to_string(header.size()) +
                                        " bytes, at most " +
                                        std::to_string(max_safetensors_header) + " are allowed");
    }
    ONEPASS_ASSIGN(file_, os::AtomicFile::create(path));
    created_ = true;
    const std::uint64_t size = header.size();
    ONEPASS_TRY(file_.write(std::as_bytes(std::span(&size, 1))));
    return file_.write(header);
  });
}

Status SafetensorsOutput::write(std::span<const std::byte> bytes) {
  return guarded([&]() -> Status {
    if (!created_) return fail(ErrorCode::invalid_state, "write: the file was not created");
    if (bytes.size() > data_bytes_ - written_) {
      return fail(ErrorCode::invalid_argument, "write: " + std::to_string(bytes.size()) +
                                                   " bytes, the tensors lack " +
                                                   std::to_string(data_bytes_ - written_));
    }
    ONEPASS_TRY(file_.write(bytes));
    written_ += bytes.size();
    return {};
  });
}

Status SafetensorsOutput::commit() {
  return guarded([&]() -> Status {
    if (!created_ || written_ != data_bytes_) {
      return fail(ErrorCode::invalid_state, "commit: " + std::to_string(data_bytes_ - written_) +
                                                " bytes of the tensors are missing");
    }
    return file_.commit();
  });
}

}  // namespace onepass::io
