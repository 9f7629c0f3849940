// The support matrix: which kernel each op and format gets on each device, from the kernel tables
// of this build, as a section of docs/support.md.
#pragma once

#include <string>
#include <vector>

#include "conformance/case.h"

namespace onepass::conformance {

// The document with the section of this build replaced, the others as they are.
std::string support_document(const std::string& old, const std::vector<Case>& ci_cases);
// CPU kernels that no case names.
std::vector<std::string> kernels_without_cases(const std::vector<Case>& ci_cases);

}  // namespace onepass::conformance
