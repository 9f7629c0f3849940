# A SPIR-V module as a C++ header: IN, OUT, SYMBOL.
file(READ ${IN} hex HEX)
string(REGEX REPLACE "(..)(..)(..)(..)" "0x\\4\\3\\2\\1," words "${hex}")
file(WRITE ${OUT} "// From ${SYMBOL}\n#pragma once\n#include <cstdint>\n"
  "namespace onepass::ops::spirv {\ninline constexpr std::uint32_t ${SYMBOL}[] = {${words}};\n"
  "}  // namespace onepass::ops::spirv\n")
