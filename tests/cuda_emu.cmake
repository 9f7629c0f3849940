# The emulated CUDA device (support/cuda_emu/backend.h) for test programs. It needs no CUDA: the
# kernel files are compiled as C++.

add_library(onepass_cuda_emu OBJECT
  support/cuda_emu/backend.cpp
  support/cuda_emu/fiber.cpp
  support/cuda_emu/machine.cpp
)
onepass_target_defaults(onepass_cuda_emu)
set_target_properties(onepass_cuda_emu PROPERTIES UNITY_BUILD OFF)  # tables of one name
target_include_directories(onepass_cuda_emu PRIVATE
  ${PROJECT_SOURCE_DIR}/src ${CMAKE_CURRENT_SOURCE_DIR})
target_link_libraries(onepass_cuda_emu PRIVATE onepass::onepass)
if(NOT ONEPASS_CUDA_ENABLED)
  target_sources(onepass_cuda_emu PRIVATE ${ONEPASS_CUDA_ROWS})
  target_compile_definitions(onepass_cuda_emu PRIVATE ONEPASS_CUDA_NO_FATBINS)
endif()

# A misaligned wide access or an index out of an array ends the program with its line.
set(onepass_emu_checks -fsanitize=alignment,bounds -fno-sanitize-recover=alignment,bounds)
set(onepass_emu_sources ${ONEPASS_CUDA_KERNELS}
  ${CMAKE_CURRENT_SOURCE_DIR}/backends/callers_kernel.cu
  ${CMAKE_CURRENT_SOURCE_DIR}/compat/card_kernel.cu
  ${PROJECT_SOURCE_DIR}/examples/snippets/cuda_kernel.cu)
add_library(onepass_cuda_emu_kernels OBJECT ${onepass_emu_sources})
set_source_files_properties(${onepass_emu_sources} PROPERTIES LANGUAGE CXX)
target_compile_options(onepass_cuda_emu_kernels PRIVATE
  -x c++ -include ${CMAKE_CURRENT_SOURCE_DIR}/support/cuda_emu/kernel.h -w -O1
  ${onepass_emu_checks})
target_compile_definitions(onepass_cuda_emu_kernels PRIVATE ONEPASS_CUDA_EMU)
target_include_directories(onepass_cuda_emu_kernels PRIVATE
  ${CMAKE_CURRENT_SOURCE_DIR}/support/cuda_emu/include ${CMAKE_CURRENT_SOURCE_DIR}
  ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
target_link_libraries(onepass_cuda_emu_kernels PRIVATE onepass_flags)

# Fibers come and go too often for ASan's stacks of returned functions.
if(ONEPASS_SANITIZE MATCHES "address")
  foreach(target onepass_cuda_emu onepass_cuda_emu_kernels)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      target_compile_options(${target} PRIVATE --param=asan-use-after-return=0)
    else()
      target_compile_options(${target} PRIVATE -fsanitize-address-use-after-return=never)
    endif()
  endforeach()
endif()

# Kernels are found by name, so the program exports its symbols.
function(onepass_link_cuda_emu target)
  target_link_libraries(${target} PRIVATE
    onepass_cuda_emu onepass_cuda_emu_kernels ${CMAKE_DL_LIBS})
  target_compile_definitions(${target} PRIVATE ONEPASS_TEST_CUDA_EMU)
  target_link_options(${target} PRIVATE ${onepass_emu_checks})
  set_target_properties(${target} PROPERTIES ENABLE_EXPORTS ON)
endfunction()
