#include <algorithm>
#include <array>
#include <vector>

#include "core/device_state.h"
#include "core/guarded.h"
#include "core/workspace.h"
#include "model/weight_kernel.h"
#include "model/weights.h"
#include "quant/packed.h"

namespace onepass::llm {
namespace {

// Bytes of a file that are read at a time.
constexpr std::uint64_t step_bytes = 1u << 20;

// How the device stores rows of `cols` values of that type; none where it does not.
std::optional<Format> device_format(const Device& device, Op op, DType stored, std::uint64_t cols) {
  const auto kernel = weight_kernel(device, op, stored, cols);
  return kernel ? std::optional(kernel->format) : std::nullopt;
}

}  // namespace

Result<Format> device_format(const Device& device, const StoredTensor& stored, const Shape& shape) {
  const Op op = shape.rank == 3 ? Op::matmul_id : Op::matmul;
  const auto type =
      stored.dtype ? device_format(device, op, *stored.dtype, shape.last()) : std::nullopt;
  if (!type) {
    return io::fail_at(
        ErrorCode::unsupported,
        stored.name + " is " + stored.type + ", which " + device.info().name + " does not run",
        stored.at, stored.name);
  }
  const bool scaled =
      std::any_of(stored.scales.begin(), stored.scales.end(), [](float s) { return s != 1.0f; });
  if (scaled && info(*type).row_scale_bytes == 0) {
    const std::string scale = stored.name.substr(0, stored.name.rfind('.')) + ".scale";
    return io::fail_at(ErrorCode::unsupported,
                       scale + " scales all values of a tensor of type " + stored.type +
                           ", which " + device.info().name + " does not do for that type",
                       stored.at, scale);
  }
  if (!storage_bytes(*type, shape) || !storage_bytes(*stored.dtype, shape.last())) {
    return io::fail_at(ErrorCode::limit, stored.name + " is too large", stored.at, stored.name);
  }
  return *type;
}

namespace {

// Rows of a stored matrix in pieces of some of them; write(bytes before, bytes) takes each.
template <class Write>
Status in_rows(const WeightSource& source, const StoredTensor& stored, Format type,
               std::uint64_t first_row, std::uint64_t rows, std::uint64_t cols,
               std::uint64_t matrix, const Write& write) {
  const std::uint64_t row_bytes = *storage_bytes(*stored.dtype, cols);
  const std::uint64_t step =
      std::max<std::uint64_t>(1, step_bytes / row_bytes / quant::group_rows) * quant::group_rows;
  const float scale =
      stored.scales.empty() ? 1.0f : stored.scales[static_cast<std::size_t>(matrix)];
  Workspace memory;
  for (std::uint64_t r = 0; r < rows; r += step) {
    const std::uint64_t n = std::min(step, rows - r), from = (first_row + r) * row_bytes;
    const auto size = static_cast<std::size_t>(*storage_bytes(type, n, cols));
    const auto fill = [&](std::span<std::byte> target) -> Status {
      if (!is_packed(type)) return source.read(stored, from, target);
      const auto in = memory.take(static_cast<std::size_t>(n * row_bytes));
      ONEPASS_TRY(source.read(stored, from, in));
      return quant::pack(type, n, cols, in, target, scale);
    };
    ONEPASS_TRY(write(*storage_bytes(type, r, cols), size, fill));
  }
  return {};
}

}  // namespace

Status read_rows(const WeightSource& source, const StoredTensor& stored, Format type,
                 std::uint64_t first_row, std::uint64_t rows, std::uint64_t cols,
                 std::uint64_t matrix, std::span<std::byte> out) {
  return in_rows(source, stored, type, first_row, rows, cols, matrix,
                 [&](std::uint64_t to, std::size_t size, const auto& fill) {
                   return fill(out.subspan(static_cast<std::size_t>(to), size));
                 });
}

Result<UploadedTensor> upload_tensor(const Device& device, const WeightSource& source,
                                     const StoredTensor& stored, std::uint64_t first_row,
                                     const Shape& shape) {
  return guarded([&]() -> Result<UploadedTensor> {
    const std::uint64_t cols = shape.last(), rows = shape[shape.rank - 2];
    const std::uint64_t matrices = shape.rank == 3 ? shape[0] : 1;
    const std::uint64_t stored_rows = stored.rank < 2 ? 1 : stored.dims[stored.rank - 2];
    ONEPASS_ASSIGN(const Format type, device_format(device, stored, shape));
    const std::uint64_t bytes = *storage_bytes(type, shape), matrix_bytes = bytes / matrices;
    UploadedTensor up;
    ONEPASS_ASSIGN(up.buffer, device.allocate(bytes, {.zero = false}));
    std::span<std::byte> mapped;
    if (device.info().unified_memory) {
      ONEPASS_ASSIGN(mapped, device.map(up.buffer.view()));
    }
    Workspace out_memory;
    for (std::uint64_t m = 0; m < matrices; ++m) {
      const auto write = [&](std::uint64_t at, std::size_t size, const auto& fill) -> Status {
        const std::uint64_t to = m * matrix_bytes + at;
        if (!mapped.empty()) return fill(mapped.subspan(static_cast<std::size_t>(to), size));
        const std::span<std::byte> target = out_memory.take(size);
        ONEPASS_TRY(fill(target));
        return device.write(up.buffer.view(to, size), target);
      };
      ONEPASS_TRY(in_rows(source, stored, type, first_row + m * stored_rows, rows, cols, m, write));
    }
    ONEPASS_TRY(up.buffer.set_immutable());
    up.tensor = up.buffer.tensor(type, shape);
    return up;
  });
}

namespace {

// Rows of a tensor of plain elements, as they are.
Result<UploadedTensor> upload_rows(const Device& device, const WeightSource& source,
                                   const StoredTensor& stored, std::uint64_t first_row,
                                   const Shape& shape) {
  UploadedTensor up;
  const std::uint64_t bytes = *storage_bytes(*stored.dtype, shape);
  ONEPASS_ASSIGN(up.buffer, device.allocate(bytes, {.zero = false}));
  const std::uint64_t from = first_row * (bytes / shape[0]);
  if (device.info().unified_memory) {
    ONEPASS_ASSIGN(const std::span<std::byte> memory, device.map(up.buffer.view()));
    ONEPASS_TRY(source.read(stored, from, memory));
  } else {
    Workspace memory;
    const std::span<std::byte> staging = memory.take(static_cast<std::size_t>(bytes));
    ONEPASS_TRY(source.read(stored, from, staging));
    ONEPASS_TRY(device.write(up.buffer.view(), staging));
  }
  ONEPASS_TRY(up.buffer.set_immutable());
  up.tensor = up.buffer.tensor(*stored.dtype, shape);
  return up;
}

Result<UploadedTensor> pack_affine_rows(const Device& device, const WeightSource& source,
                                        const StoredAffine& stored, Format type,
                                        std::uint64_t first_row, const Shape& shape) {
  const std::uint64_t cols = shape.last(), rows = shape[shape.rank - 2];
  const std::uint64_t matrices = shape.rank == 3 ? shape[0] : 1;
  const std::uint64_t scale_bytes =
      cols / stored.format.group_size * info(*stored.scales.dtype).block_bytes;
  const std::uint64_t row_bytes[] = {cols * stored.format.bits / 8, scale_bytes, scale_bytes};
  const StoredTensor* parts[] = {&stored.weight, &stored.scales, &stored.biases};
  const std::uint64_t step =
      std::max<std::uint64_t>(1, step_bytes / row_bytes[0] / quant::group_rows) * quant::group_rows;
  UploadedTensor up;
  const std::uint64_t matrix_bytes = *storage_bytes(type, shape) / matrices;
  ONEPASS_ASSIGN(up.buffer, device.allocate(matrices * matrix_bytes, {.zero = false}));
  std::array<Workspace, 3> in_memory;
  Workspace out_memory;
  for (std::uint64_t at = 0; at < matrices * rows;) {
    const std::uint64_t m = at / rows, r = at % rows, n = std::min(step, rows - r);
    std::span<std::byte> in[3];
    for (std::size_t i = 0; i < 3; ++i) {
      in[i] = in_memory[i].take(static_cast<std::size_t>(n * row_bytes[i]));
      ONEPASS_TRY(source.read(*parts[i], (first_row + at) * row_bytes[i], in[i]));
    }
    const auto out = out_memory.take(static_cast<std::size_t>(*storage_bytes(type, n, cols)));
    ONEPASS_TRY(quant::pack_affine(
        {in[0], in[1], in[2], stored.format.bits, stored.format.group_size, *stored.scales.dtype},
        type, n, cols, out));
    const std::uint64_t to = m * matrix_bytes + *storage_bytes(type, r, cols);
    ONEPASS_TRY(device.write(up.buffer.view(to, out.size()), out));
    at += n;
  }
  ONEPASS_TRY(up.buffer.set_immutable());
  up.tensor = up.buffer.tensor(type, shape);
  return up;
}

}  // namespace

Result<Linear> upload_affine(const Device& device, const WeightSource& source,
                             const StoredAffine& stored, std::uint64_t first_row,
                             const Shape& shape, std::vector<Buffer>& buffers) {
  return guarded([&]() -> Result<Linear> {
    Linear l;
    const std::uint32_t cols = shape.last(), rows = shape[shape.rank - 2];
    const bool experts = shape.rank == 3;
    l.affine = stored.format;
    const DType scale_type = *stored.scales.dtype;
    const auto keep = [&](UploadedTensor up) {
      buffers.push_back(std::move(up.buffer));
      return up.tensor;
    };
    const auto type = quant::affine_type(stored.format.bits, stored.format.group_size, scale_type);
    const auto packed =
        type ? device_format(device, experts ? Op::matmul_id : Op::matmul, *type, cols)
             : std::nullopt;
    if (packed) {
      ONEPASS_ASSIGN(UploadedTensor up,
                     pack_affine_rows(device, source, stored, *packed, first_row, shape));
      l.weight = keep(std::move(up));
      return l;
    }
    if (experts || device.state().find_row(Op::matmul_affine, scale_type) == nullptr) {
      return io::fail_at(ErrorCode::unsupported,
                         stored.weight.name + " is quantized in a way that " + device.info().name +
                             " does not run",
                         stored.weight.at, stored.weight.name);
    }
    const std::uint32_t groups = cols / stored.format.group_size;
    const std::uint32_t words = cols / 32 * stored.format.bits;
    ONEPASS_ASSIGN(UploadedTensor weight,
                   upload_rows(device, source, stored.weight, first_row, {rows, words}));
    ONEPASS_ASSIGN(UploadedTensor scales,
                   upload_rows(device, source, stored.scales, first_row, {rows, groups}));
    ONEPASS_ASSIGN(UploadedTensor biases,
                   upload_rows(device, source, stored.biases, first_row, {rows, groups}));
    l.weight = keep(std::move(weight));
    l.scales = keep(std::move(scales));
    l.biases = keep(std::move(biases));
    return l;
  });
}

}  // namespace onepass::llm
