// What there is to say about this machine and this program.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace onepass::tool {

// Memory that a process can still get, swap included, within the limits set for it. 0: unknown.
std::uint64_t available_memory_bytes();

std::string system_name();    // "Debian GNU/Linux 12 (bookworm), Linux 6.1.0 x86_64"
std::string compiler_name();  // "g++ 12.2.0, libstdc++ 20220819"
std::string commit_name();    // "053a357" with "-dirty" behind it where files were changed
std::string build_name();     // "Release", with sanitizers where there are some

// Lines that name drivers of GPUs, as far as they are found.
std::vector<std::string> driver_versions();

// Of the instruction sets that matter to transformers, what the kernel says the CPU has.
std::vector<std::string> cpu_flags();

}  // namespace onepass::tool
