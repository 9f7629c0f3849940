# Flags that change the ABI or the instrumentation apply to everything built here, a GoogleTest
# built from source included.
set(ONEPASS_ABI_FLAGS "")
if(ONEPASS_LIBCXX)
  list(APPEND ONEPASS_ABI_FLAGS -stdlib=libc++)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-stdlib=libc++>)
  add_link_options($<$<LINK_LANGUAGE:CXX>:-stdlib=libc++>)
endif()
if(ONEPASS_SANITIZE)
  set(sanitize_flags
    -fsanitize=${ONEPASS_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  list(APPEND ONEPASS_ABI_FLAGS ${sanitize_flags})
  add_compile_options(${sanitize_flags})
  add_link_options(${sanitize_flags})
endif()

# onepass_flags: language level and floating-point rules; every target of ours links it.
# Contraction is off so that the same source gives the same bits with every compiler.
add_library(onepass_flags INTERFACE)
target_compile_features(onepass_flags INTERFACE cxx_std_20)
target_compile_options(onepass_flags INTERFACE -ffp-contract=off)
# g++ ends AVX functions with vzeroupper only with this, at -O1 too; SSE code and libm that run
# afterwards are a hundred times slower without it.
target_compile_options(onepass_flags INTERFACE
  $<$<AND:$<CONFIG:Debug>,$<CXX_COMPILER_ID:GNU>>:-fexpensive-optimizations>)

add_library(onepass_warnings INTERFACE)
target_compile_options(onepass_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wdouble-promotion
  $<$<BOOL:${ONEPASS_WERROR}>:-Werror>)
# g++ 12 sees overlapping copies in the library's own string operator+ once it is optimized.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(onepass_warnings INTERFACE -Wno-restrict)
endif()

# onepass_precompile(target header...): headers that most sources of target include, with ONEPASS_PCH.
function(onepass_precompile target)
  if(ONEPASS_PCH)
    target_precompile_headers(${target} PRIVATE ${ARGN}
      <algorithm> <array> <atomic> <cmath> <cstring> <functional> <map> <memory> <mutex> <optional>
      <span> <string> <unordered_map> <vector>)
  endif()
endfunction()

# Settings shared by every target of this project.
function(onepass_target_defaults target)
  target_link_libraries(${target} PRIVATE
    $<BUILD_INTERFACE:onepass_flags> $<BUILD_INTERFACE:onepass_warnings>)
  set_target_properties(${target} PROPERTIES
    CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF)
endfunction()
