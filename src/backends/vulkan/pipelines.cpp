#include "backends/vulkan/pipelines.h"

#include <bit>
#include <string>

#include "backends/vulkan/spirv.h"

namespace onepass::vulkan {

std::uint32_t bindings_of(const RecordedLaunch& l) noexcept {
  const std::uint32_t views = info(l.kernel->op).n_slots;
  std::uint32_t bits = ((1u << views) - 1u) << 1;
  if (l.scratch.bytes != 0) bits |= 1u << scratch_binding;
  if (l.persistent.bytes != 0) bits |= 1u << persistent_binding;
  return bits;
}

Status Pipelines::open() {
  VkPipelineCacheCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO;
  return check(gpu_.api.vkCreatePipelineCache(gpu_.device, &info, nullptr, &cache_),
               "vkCreatePipelineCache", ErrorCode::out_of_memory);
}

Pipelines::~Pipelines() {
  const VolkDeviceTable& api = gpu_.api;
  for (const auto& [key, pipeline] : pipelines_) {
    api.vkDestroyPipeline(gpu_.device, pipeline, nullptr);
  }
  for (const auto& [words, module] : modules_) {
    api.vkDestroyShaderModule(gpu_.device, module, nullptr);
  }
  for (const auto& [bindings, layout] : layouts_) {
    if (layout.pipeline) api.vkDestroyPipelineLayout(gpu_.device, layout.pipeline, nullptr);
    if (layout.set) api.vkDestroyDescriptorSetLayout(gpu_.device, layout.set, nullptr);
  }
  if (cache_ != VK_NULL_HANDLE) api.vkDestroyPipelineCache(gpu_.device, cache_, nullptr);
}

Result<const Layout*> Pipelines::layout_of(std::uint32_t bindings) {
  Layout& layout = layouts_[bindings];
  if (layout.pipeline != VK_NULL_HANDLE) return &layout;
  layout.bindings = bindings;
  std::vector<VkDescriptorSetLayoutBinding> list;
  for (std::uint32_t b = 0; b < 32; ++b) {
    if ((bindings >> b & 1u) == 0) continue;
    VkDescriptorSetLayoutBinding& one = list.emplace_back();
    one.binding = b;
    one.descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
    one.descriptorCount = 1;
    one.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT;
  }
  VkDescriptorSetLayoutCreateInfo set{};
  set.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO;
  set.bindingCount = static_cast<std::uint32_t>(list.size());
  set.pBindings = list.data();
  if (layout.set == VK_NULL_HANDLE) {
    ONEPASS_TRY(check(gpu_.api.vkCreateDescriptorSetLayout(gpu_.device, &set, nullptr, &layout.set),
                      "vkCreateDescriptorSetLayout", ErrorCode::kernel_build));
  }
  VkPushConstantRange push{VK_SHADER_STAGE_COMPUTE_BIT, 0, push_bytes};
  VkPipelineLayoutCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO;
  info.setLayoutCount = 1;
  info.pSetLayouts = &layout.set;
  info.pushConstantRangeCount = 1;
  info.pPushConstantRanges = &push;
  ONEPASS_TRY(check(gpu_.api.vkCreatePipelineLayout(gpu_.device, &info, nullptr, &layout.pipeline),
                    "vkCreatePipelineLayout", ErrorCode::kernel_build));
  return &layout;
}

Result<VkShaderModule> Pipelines::module_of(const SpirvModule& code) {
  if (const auto found = modules_.find(code.words.data()); found != modules_.end()) {
    return found->second;
  }
  const std::vector<std::uint32_t> words = without_contraction(code.words);
  VkShaderModuleCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO;
  info.codeSize = words.size() * sizeof(std::uint32_t);
  info.pCode = words.data();
  VkShaderModule module = VK_NULL_HANDLE;
  ONEPASS_TRY(check(gpu_.api.vkCreateShaderModule(gpu_.device, &info, nullptr, &module),
                    "vkCreateShaderModule", ErrorCode::kernel_build));
  modules_[code.words.data()] = module;
  return module;
}

Result<Pipelines::Kernel> Pipelines::get(const RecordedLaunch& l) {
  const SpirvModule* const code = std::get_if<SpirvModule>(&l.kernel->code);
  if (code == nullptr) {
    return fail(ErrorCode::kernel_build,
                std::string("vulkan: ") + l.kernel->name + " has no SPIR-V");
  }
  Key key;
  key.words = code->words.data();
  key.bindings = bindings_of(l);
  for (std::size_t i = 0; i < 3; ++i) key.constants[i] = l.launch.group[i];
  for (std::size_t i = 0; i < l.n_views; ++i) {
    if (l.views[i].bytes != 0) key.constants[3] |= 1u << i;
  }
  for (std::size_t i = 0; i < l.launch.n_spec; ++i) {
    const SpecValue& spec = l.launch.spec[i];
    if (spec.index < max_spec_values) {
      key.constants[4 + spec.index] = static_cast<std::uint32_t>(spec.value);
    }
  }
  const std::lock_guard lock(mutex_);
  ONEPASS_ASSIGN(const Layout* const layout, layout_of(key.bindings));
  if (const auto found = pipelines_.find(key); found != pipelines_.end()) {
    return Kernel{found->second, layout};
  }
  ONEPASS_ASSIGN(const VkPipeline pipeline, compile(l, *code, key, *layout));
  pipelines_[key] = pipeline;
  return Kernel{pipeline, layout};
}

Result<VkPipeline> Pipelines::compile(const RecordedLaunch& l, const SpirvModule& code,
                                      const Key& key, const Layout& layout) {
  std::array<VkSpecializationMapEntry, n_constants> entries;
  for (std::uint32_t i = 0; i < n_constants; ++i) entries[i] = {i, 4 * i, 4};
  const VkSpecializationInfo special{n_constants, entries.data(), sizeof key.constants,
                                     key.constants.data()};
  VkComputePipelineCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO;
  info.layout = layout.pipeline;
  info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
  info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
  info.stage.pName = code.entry;
  info.stage.pSpecializationInfo = &special;
  ONEPASS_ASSIGN(info.stage.module, module_of(code));
  VkPipeline pipeline = VK_NULL_HANDLE;
  ONEPASS_TRY(
      check(gpu_.api.vkCreateComputePipelines(gpu_.device, cache_, 1, &info, nullptr, &pipeline),
            (std::string("vkCreateComputePipelines ") + l.kernel->name).c_str(),
            ErrorCode::kernel_build));
  return pipeline;
}

}  // namespace onepass::vulkan
