// The most a file may ask for. Real files stay far below each of these.
#pragma once

#include <cstdint>

namespace onepass::io {

inline constexpr std::uint64_t max_string_bytes = 16u << 20;  // values; chat templates are long
inline constexpr std::uint64_t max_key_bytes = 65535;
inline constexpr std::uint64_t max_tensor_name_bytes = 255;
inline constexpr std::uint64_t max_array_elements = 1u << 24;
inline constexpr std::uint64_t max_keys = 65536;
inline constexpr std::uint64_t max_tensors = 262144;
inline constexpr std::uint32_t max_dims = 4;
inline constexpr std::uint64_t max_dim = std::uint64_t{1} << 40;
inline constexpr std::uint64_t min_alignment = 8;
inline constexpr std::uint64_t max_alignment = 65536;
inline constexpr std::uint64_t max_shards = 1024;
inline constexpr std::uint32_t max_json_depth = 64;
inline constexpr std::uint64_t max_json_bytes = 256u << 20;   // tokenizer.json is the longest
inline constexpr std::uint64_t max_config_bytes = 16u << 20;  // config.json and shard index
inline constexpr std::uint64_t max_safetensors_header = 100'000'000;  // bytes
inline constexpr std::uint32_t max_safetensors_depth = 4;
inline constexpr std::uint64_t max_safetensors_entries = 1u << 20;
inline constexpr std::uint32_t max_safetensors_dims = 8;

}  // namespace onepass::io
