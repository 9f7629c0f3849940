// What is in a model file or folder.
//
//   ONEPASS_ASSIGN(const ModelInfo info, read_model_info("model.gguf"));   // reads no tensor
//   for (const TensorInfo& t : info.list) print(t.name, t.type, t.dims);
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/config.h"
#include "model/model_files.h"
#include "model/weight_plan.h"
#include "onepass/result.h"

namespace onepass::tool {

struct TypeCount {
  std::uint64_t tensors = 0, elements = 0, bytes = 0;
};

// One metadata value: cut for people, whole for programs unless it is a list.
struct MetadataEntry {
  std::string key, type, shown;
  std::string exact;  // equal where the values are
};

using TensorInfo = llm::FileTensor;

struct ModelInfo {
  std::string path, format, architecture, name;
  std::optional<std::string> refused;  // why it cannot be run
  std::optional<llm::ModelConfig> config;
  std::vector<llm::LeftOut> left_out;  // tensors that are there and not used
  std::uint64_t shards = 1, tensors = 0, parameters = 0, bytes = 0;
  std::map<std::string, TypeCount> types;
  std::uint64_t context = 0, vocabulary = 0;
  std::string tokenizer;  // empty: none
  std::optional<std::string> tokenizer_refused;
  std::vector<MetadataEntry> metadata;
  std::vector<TensorInfo> list;
  std::vector<std::string> files;  // that make up the model
  // Bytes of a tensor from an offset on. Not of synthetic models.
  std::function<Status(const std::string& name, std::uint64_t offset, std::span<std::byte> out)>
      read = nullptr;

  void add(std::string_view type, std::uint64_t elements, std::uint64_t size) {
    ++tensors;
    parameters += elements;
    bytes += size;
    TypeCount& t = types[std::string(type)];
    ++t.tensors;
    t.elements += elements;
    t.bytes += size;
  }
};

// A GGUF file, a folder with safetensors, or synthetic:PRESET:QUANT.
Result<ModelInfo> read_model_info(const std::string& path);

// "q8_0 [384, 4096]"
std::string shape_text(const TensorInfo& tensor);

}  // namespace onepass::tool
