# Every switch a user can set. Defaults differ only between a top-level build and add_subdirectory.

option(BUILD_SHARED_LIBS "Build libonepass as a shared library" OFF)
option(ONEPASS_BUILD_CLI "Build the command-line tool" ${PROJECT_IS_TOP_LEVEL})
option(ONEPASS_BUILD_TESTS "Build the tests" ${PROJECT_IS_TOP_LEVEL})
option(ONEPASS_BUILD_BENCHES "Build the benchmarks" ${PROJECT_IS_TOP_LEVEL})
option(ONEPASS_BUILD_EXAMPLES "Build the examples" ${PROJECT_IS_TOP_LEVEL})
option(ONEPASS_STATIC_LIBRARIES "Link static libraries of PCRE2, utf8proc and libedit where there are any"
  ${PROJECT_IS_TOP_LEVEL})
set(ONEPASS_PREBUILT "" CACHE FILEPATH
  "A built libonepass.so to put into a wheel; nothing else is built then")
option(ONEPASS_WERROR "Treat warnings as errors" OFF)
option(ONEPASS_LIBCXX "Use libc++ instead of the compiler's default library" OFF)
option(ONEPASS_FUZZ "Add libFuzzer programs for the file readers; needs clang" OFF)
option(ONEPASS_TSAN "Build only the tests of core, graph and CPU backend" OFF)
option(ONEPASS_BUILD_MODELS "Build what reads and runs model files" ON)
option(ONEPASS_PCH "Precompile common headers: faster builds without a compiler cache" OFF)
set(ONEPASS_SANITIZE "" CACHE STRING "Value for -fsanitize=, e.g. address,undefined")

set(ONEPASS_CUDA AUTO CACHE STRING "Compile CUDA kernels: AUTO, ON or OFF")
set_property(CACHE ONEPASS_CUDA PROPERTY STRINGS AUTO ON OFF)
set(ONEPASS_CUDA_ARCH "" CACHE STRING
  "CUDA architectures, e.g. 80-real;90-real;80-virtual. Empty: this machine's GPU, else 90")
set(ONEPASS_CUDA_FLAGS "" CACHE STRING "More options for nvcc, e.g. --Ofast-compile=mid")

set(ONEPASS_VULKAN AUTO CACHE STRING "Build the Vulkan backend: AUTO (where its tools are found), ON or OFF")
set_property(CACHE ONEPASS_VULKAN PROPERTY STRINGS AUTO ON OFF)
set(ONEPASS_SWIFTSHADER "" CACHE FILEPATH "ICD file of SwiftShader, a second Vulkan driver for tests")

if(CMAKE_SYSTEM_NAME STREQUAL "Linux")
  set(ONEPASS_OS linux CACHE STRING "Operating system layer: linux or posix")
else()
  set(ONEPASS_OS posix CACHE STRING "Operating system layer: linux or posix")
endif()
set_property(CACHE ONEPASS_OS PROPERTY STRINGS linux posix)
if(NOT ONEPASS_OS MATCHES "^(linux|posix)$")
  message(FATAL_ERROR "ONEPASS_OS is '${ONEPASS_OS}', expected linux or posix")
endif()

# Compiles every CUDA kernel once more; sanitized and optimized builds leave it out unless asked.
if(CMAKE_BUILD_TYPE STREQUAL "Debug" AND NOT ONEPASS_SANITIZE)
  set(_onepass_cuda_emu ON)
else()
  set(_onepass_cuda_emu OFF)
endif()
option(ONEPASS_CUDA_EMU "Test the CUDA kernels on an emulated device" ${_onepass_cuda_emu})

set(_onepass_test_data "")
if(EXISTS ${PROJECT_SOURCE_DIR}/../shared/models)
  get_filename_component(_onepass_test_data ${PROJECT_SOURCE_DIR}/../shared/models ABSOLUTE)
endif()
set(ONEPASS_TEST_DATA "${_onepass_test_data}" CACHE PATH
  "Folder with the test models; empty: tests that need them are skipped")

if(PROJECT_IS_TOP_LEVEL)
  if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
  endif()
  set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
  set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
  find_program(ONEPASS_CCACHE ccache)
  if(ONEPASS_CCACHE AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${ONEPASS_CCACHE})
    if(ONEPASS_PCH)
      set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_SLOPPINESS=pch_defines,time_macros ${ONEPASS_CCACHE})
    endif()
  endif()
endif()
