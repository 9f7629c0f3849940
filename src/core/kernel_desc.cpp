#include "core/kernel_desc.h"

#include <cstring>
#include <string>

#include "core/backend.h"

namespace onepass {
namespace {

constexpr std::uint32_t spirv_magic = 0x07230203;
constexpr std::uint32_t spirv_header_words = 5;
constexpr std::uint32_t op_entry_point = 15, model_gl_compute = 5;

// Whether the text at the front of the words, which ends with a zero byte among them, is `text`.
bool is_text(std::span<const std::uint32_t> words, const std::string& text) {
  const std::size_t bytes = words.size() * sizeof(std::uint32_t);
  return text.size() < bytes && std::memcmp(words.data(), text.c_str(), text.size() + 1) == 0;
}

// Empty, or what is wrong with the module.
std::string spirv_fault(const SpirvCode& code, const std::string& entry) {
  const std::span<const std::uint32_t> words(code.words);
  if (words.size() < spirv_header_words || words[0] != spirv_magic) {
    return "the words are no SPIR-V module";
  }
  for (std::size_t at = spirv_header_words; at < words.size();) {
    const std::uint32_t length = words[at] >> 16;  // of the instruction, in words
    if (length == 0 || length > words.size() - at) {
      return "the SPIR-V instruction at word " + std::to_string(at) + " has " +
             std::to_string(length) + " words, " + std::to_string(words.size() - at) + " are left";
    }
    // Words: length and opcode, execution model, id, name, interface.
    if ((words[at] & 0xffffu) == op_entry_point && length > 3 &&
        words[at + 1] == model_gl_compute && is_text(words.subspan(at + 3, length - 3), entry)) {
      return {};
    }
    at += length;
  }
  return "the SPIR-V module has no compute entry point '" + entry + "'";
}

}  // namespace

const std::string& entry_of(const KernelDesc& desc, const std::string& entry) noexcept {
  return entry.empty() ? desc.name : entry;
}

Status check(const KernelDesc& desc) {
  const std::string call = "add kernel '" + desc.name + "': ";
  if (desc.name.empty()) return fail(ErrorCode::invalid_argument, "add kernel: no name");
  if (desc.name.find('|') != std::string::npos) {
    return fail(ErrorCode::invalid_argument, call + "names have no '|'");
  }
  if (desc.slots.size() > max_views || desc.slots.find_first_not_of("iox") != std::string::npos) {
    return fail(ErrorCode::invalid_argument,
                call + "slots '" + desc.slots + "', expected at most 16 of i, o and x");
  }
  if (desc.params_bytes > max_params_bytes) {
    return fail(ErrorCode::invalid_argument, call + std::to_string(desc.params_bytes) +
                                                 " bytes of parameters, at most " +
                                                 std::to_string(max_params_bytes));
  }
  if (!desc.spirv.words.empty()) {
    const std::string fault = spirv_fault(desc.spirv, entry_of(desc, desc.spirv.entry));
    if (!fault.empty()) return fail(ErrorCode::kernel_build, call + fault);
  }
  const std::string& function = entry_of(desc, desc.msl.entry);
  if (!desc.msl.source.empty() && desc.msl.source.find(function) == std::string::npos) {
    return fail(ErrorCode::kernel_build,
                call + "the MSL source has no function '" + function + "'");
  }
  return {};
}

Error no_kernel_code(const KernelDesc& desc, const std::string& device, const char* takes) {
  std::string given;
  const auto add = [&](bool is_given, const char* what) {
    if (is_given) given += (given.empty() ? "" : ", ") + std::string(what);
  };
  add(desc.cpu != nullptr, "a CPU function");
  add(!desc.cuda.image.empty(), "a CUDA image");
  add(!desc.spirv.words.empty(), "SPIR-V");
  add(!desc.msl.source.empty(), "MSL");
  return make_error(ErrorCode::kernel_build, "add kernel '" + desc.name + "': " + device +
                                                 " takes " + takes +
                                                 ", given: " + (given.empty() ? "no code" : given));
}

}  // namespace onepass
