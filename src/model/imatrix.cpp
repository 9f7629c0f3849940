#include "model/imatrix.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "core/guarded.h"
#include "core/os.h"
#include "io/gguf_output.h"

namespace onepass::llm {
namespace {

constexpr std::string_view sums_suffix = ".in_sum2", counts_suffix = ".counts";
constexpr const char* datasets_key = "imatrix.datasets";
constexpr const char* chunks_key = "imatrix.chunk_count";
constexpr const char* tokens_key = "imatrix.chunk_size";
constexpr std::uint64_t max_name_bytes = 4096;
// A form without a magic number may be asked for any file.
constexpr std::uint64_t max_old_bytes = std::uint64_t{1} << 32;

Result<std::vector<float>> floats_of(const io::GgufFile& file, const io::GgufTensor& t) {
  if (std::string_view(t.type->name) != "f32") {
    return io::fail_at(ErrorCode::parse, std::string("is ") + t.type->name + ", expected f32", t.at,
                       io::clipped(t.name));
  }
  std::vector<float> values(static_cast<std::size_t>(t.bytes / sizeof(float)));
  ONEPASS_TRY(file.read(*file.find(t.name), std::as_writable_bytes(std::span(values))));
  for (const float v : values) {
    if (!(v >= 0.0f) || !std::isfinite(v)) {
      return io::fail_at(ErrorCode::parse,
                         "has the value " + std::to_string(v) + ", expected finite ones from 0 on",
                         t.at, io::clipped(t.name));
    }
  }
  return values;
}

Status check_entry(const std::string& name, const ImatrixEntry& e) {
  if (!e.sums.empty() && !e.counts.empty() && e.sums.size() % e.counts.size() == 0) return {};
  return io::fail_at(ErrorCode::parse,
                     std::to_string(e.sums.size()) + " sums of squares and " +
                         std::to_string(e.counts.size()) +
                         " counts, expected as many sums for each count, and some of both",
                     Error::no_offset, io::clipped(name));
}

Status add_tensor(const io::GgufFile& file, const io::GgufTensor& t, Imatrix& out) {
  const bool sums = t.name.ends_with(sums_suffix);
  if (!sums && !t.name.ends_with(counts_suffix)) {
    return io::fail_at(ErrorCode::parse,
                       "is not part of an importance matrix, whose tensors end in .in_sum2 or "
                       ".counts (onepass imatrix makes one)",
                       t.at, io::clipped(t.name));
  }
  ONEPASS_ASSIGN(const std::vector<float> values, floats_of(file, t));
  const std::size_t suffix = sums ? sums_suffix.size() : counts_suffix.size();
  ImatrixEntry& e = out.entries[std::string(t.name.substr(0, t.name.size() - suffix))];
  if (sums) {
    e.sums.assign(values.begin(), values.end());
    return {};
  }
  for (const float v : values) {
    if (v > 1e15f) {
      return io::fail_at(ErrorCode::parse, "has a count of " + std::to_string(v), t.at,
                         io::clipped(t.name));
    }
    e.counts.push_back(static_cast<std::uint64_t>(v + 0.5f));
  }
  return {};
}

Result<Imatrix> read_gguf(const std::string& path) {
  ONEPASS_ASSIGN(const io::GgufFile file, io::GgufFile::open(path));
  const io::Gguf& metadata = file.metadata();
  Imatrix out;
  for (const io::GgufTensor& t : metadata.tensors()) ONEPASS_TRY(add_tensor(file, t, out));
  for (const auto& [name, entry] : out.entries) ONEPASS_TRY(check_entry(name, entry));
  if (metadata.find(datasets_key) != nullptr) {
    ONEPASS_ASSIGN(const io::GgufStrings names, metadata.strings(datasets_key));
    for (const std::string_view name : names) out.datasets.emplace_back(name);
  }
  for (const auto& [key, value] :
       {std::pair(chunks_key, &out.chunks), std::pair(tokens_key, &out.chunk_tokens)}) {
    if (metadata.find(key) == nullptr) continue;
    ONEPASS_ASSIGN(const std::uint64_t n, metadata.integer(key));
    *value = static_cast<std::uint32_t>(n);
  }
  return out;
}

// A text with its length in 32 bits.
Result<std::string> old_text(io::Reader& reader, const char* field) {
  ONEPASS_ASSIGN(const auto bytes, reader.number<std::int32_t>(field));
  if (bytes < 0 || static_cast<std::uint64_t>(bytes) > max_name_bytes) {
    return io::fail_at(
        ErrorCode::parse,
        std::to_string(bytes) + " bytes of text, expected up to " + std::to_string(max_name_bytes),
        reader.offset() - 4, field);
  }
  ONEPASS_ASSIGN(const auto text, reader.bytes(static_cast<std::uint64_t>(bytes), field));
  return std::string(reinterpret_cast<const char*>(text.data()), text.size());
}

// What is stored is the mean square times the number of chunks.
Result<Imatrix> read_old(std::span<const std::byte> bytes) {
  io::Reader reader(bytes);
  ONEPASS_ASSIGN(const auto n, reader.number<std::int32_t>("entries"));
  if (n < 1) {
    return io::fail_at(ErrorCode::parse,
                       std::to_string(n) + " entries, expected an importance matrix", 0, "entries");
  }
  Imatrix out;
  for (std::int32_t i = 0; i < n; ++i) {
    ONEPASS_ASSIGN(std::string name, old_text(reader, "entry.name"));
    ONEPASS_ASSIGN(const auto chunks, reader.number<std::int32_t>("entry.chunks"));
    const std::uint64_t at = reader.offset();
    ONEPASS_ASSIGN(const auto values, reader.number<std::int32_t>("entry.values"));
    if (name.empty() || chunks < 0 || values < 1) {
      return io::fail_at(ErrorCode::parse,
                         "an entry of " + std::to_string(values) + " values from " +
                             std::to_string(chunks) + " chunks",
                         at, io::clipped(name));
    }
    ONEPASS_ASSIGN(
        const auto from,
        reader.bytes(std::uint64_t{4} * static_cast<std::uint32_t>(values), "entry.sums"));
    ImatrixEntry& e = out.entries[std::move(name)];
    e.counts = {static_cast<std::uint64_t>(std::max(chunks, 1))};
    e.sums.resize(static_cast<std::size_t>(values));
    for (std::size_t k = 0; k < e.sums.size(); ++k) {
      float v;
      std::memcpy(&v, from.data() + 4 * k, 4);
      if (!(v >= 0.0f) || !std::isfinite(v)) {
        return io::fail_at(ErrorCode::parse, "has the value " + std::to_string(v), at + 4 + 4 * k,
                           "entry.sums");
      }
      e.sums[k] = static_cast<double>(v);
    }
  }
  if (reader.remaining() > 0) {
    ONEPASS_ASSIGN(const auto chunks, reader.number<std::int32_t>("chunks"));
    out.chunks = chunks > 0 ? static_cast<std::uint32_t>(chunks) : 0;
  }
  if (reader.remaining() > 0) {
    ONEPASS_ASSIGN(std::string dataset, old_text(reader, "dataset"));
    if (!dataset.empty()) out.datasets.push_back(std::move(dataset));
  }
  return out;
}

}  // namespace

Result<Imatrix> Imatrix::read(const std::string& path) {
  return guarded([&]() -> Result<Imatrix> {
    ONEPASS_ASSIGN(const os::File file, os::File::open(path));
    std::array<char, 4> magic{};
    if (file.bytes() >= magic.size()) {
      ONEPASS_TRY(file.read(0, std::as_writable_bytes(std::span(magic))));
      if (std::string_view(magic.data(), magic.size()) == "GGUF") return read_gguf(path);
    }
    if (file.bytes() > max_old_bytes) {
      return fail(ErrorCode::limit, path + " is too large for an importance matrix");
    }
    std::vector<std::byte> bytes(static_cast<std::size_t>(file.bytes()));
    ONEPASS_TRY(file.read(0, bytes));
    return read_old(bytes);
  });
}

Status Imatrix::write(const std::string& path) const {
  return guarded([&]() -> Status {
    io::GgufOutput out;
    ONEPASS_TRY(out.set("general.type", "imatrix"));
    ONEPASS_TRY(out.set(datasets_key, std::span<const std::string>(datasets)));
    ONEPASS_TRY(out.set(chunks_key, chunks));
    ONEPASS_TRY(out.set(tokens_key, chunk_tokens));
    const io::GgmlType& f32 = *io::ggml_type(0);
    for (const auto& [name, e] : entries) {
      ONEPASS_TRY(check_entry(name, e));
      const std::uint64_t matrices = e.counts.size();
      const std::uint64_t sums[] = {e.sums.size() / matrices, matrices}, counts[] = {1, matrices};
      const std::size_t dims = matrices > 1 ? 2 : 1;  // as ggml counts them
      const std::string& part = name;                 // no binding: lambdas take it
      const auto add = [&](std::string_view suffix, std::span<const std::uint64_t> shape) {
        return out.add_tensor(part + std::string(suffix), f32, shape.first(dims));
      };
      ONEPASS_TRY(add(sums_suffix, sums));
      ONEPASS_TRY(add(counts_suffix, counts));
    }
    ONEPASS_TRY(out.create(path));
    for (const auto& [name, e] : entries) {
      const std::vector<float> sums(e.sums.begin(), e.sums.end());
      const std::vector<float> counts(e.counts.begin(), e.counts.end());
      ONEPASS_TRY(out.write(std::as_bytes(std::span(sums))));
      ONEPASS_TRY(out.write(std::as_bytes(std::span(counts))));
    }
    return out.commit();
  });
}

std::vector<float> Imatrix::means(std::string_view name) const {
  const auto entry = entries.find(name);
  if (entry == entries.end()) return {};
  const ImatrixEntry& e = entry->second;
  const std::size_t each = e.sums.size() / e.counts.size();
  std::vector<float> means(e.sums.size(), 1.0f);
  for (std::size_t i = 0; i < means.size(); ++i) {
    const std::uint64_t count = e.counts[i / each];
    if (count != 0) means[i] = static_cast<float>(e.sums[i] / static_cast<double>(count));
  }
  return means;
}

}  // namespace onepass::llm
