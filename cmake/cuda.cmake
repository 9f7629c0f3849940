# Decides whether CUDA kernels are compiled: sets ONEPASS_CUDA_ENABLED, ONEPASS_CUDA_ARCHITECTURES,
# and the target onepass_cuda_headers (cuda.h for the driver API, which is loaded at run time).
# No CMake language is enabled and no CUDA library is linked: kernels become fatbins inside libonepass.

set(ONEPASS_CUDA_ENABLED OFF)
if(NOT ONEPASS_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "ONEPASS_CUDA is '${ONEPASS_CUDA}', expected AUTO, ON or OFF")
endif()
if(ONEPASS_CUDA STREQUAL "ON" OR (ONEPASS_CUDA STREQUAL "AUTO" AND CMAKE_BUILD_TYPE STREQUAL "Release"))
  find_program(ONEPASS_NVCC nvcc HINTS $ENV{CUDA_PATH}/bin $ENV{CUDA_HOME}/bin /usr/local/cuda/bin)
  if(ONEPASS_NVCC)
    set(ONEPASS_CUDA_ENABLED ON)
  elseif(ONEPASS_CUDA STREQUAL "ON")
    message(FATAL_ERROR "ONEPASS_CUDA=ON, but nvcc was not found")
  endif()
endif()

if(ONEPASS_CUDA_ENABLED)
  if(ONEPASS_CUDA_ARCH)
    set(ONEPASS_CUDA_ARCHITECTURES ${ONEPASS_CUDA_ARCH})
  elseif(CMAKE_CUDA_ARCHITECTURES)
    set(ONEPASS_CUDA_ARCHITECTURES ${CMAKE_CUDA_ARCHITECTURES})
  else()
    set(ONEPASS_CUDA_ARCHITECTURES "")
    find_program(ONEPASS_NVIDIA_SMI nvidia-smi)
    if(ONEPASS_NVIDIA_SMI)
      execute_process(COMMAND ${ONEPASS_NVIDIA_SMI} --query-gpu=compute_cap --format=csv,noheader
        OUTPUT_VARIABLE caps RESULT_VARIABLE failed ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
      if(NOT failed AND caps MATCHES "^[0-9]+\\.[0-9]")
        string(REPLACE "." "" caps "${caps}")
        string(REGEX MATCHALL "[0-9]+" ONEPASS_CUDA_ARCHITECTURES "${caps}")
        list(REMOVE_DUPLICATES ONEPASS_CUDA_ARCHITECTURES)
      endif()
    endif()
    if(NOT ONEPASS_CUDA_ARCHITECTURES)
      set(ONEPASS_CUDA_ARCHITECTURES 90)
    endif()
  endif()
  file(REAL_PATH ${ONEPASS_NVCC} nvcc_path)
  get_filename_component(nvcc_dir ${nvcc_path} DIRECTORY)
  find_path(ONEPASS_CUDA_INCLUDE_DIR cuda.h HINTS ${nvcc_dir}/../include REQUIRED)
  add_library(onepass_cuda_headers INTERFACE)
  target_include_directories(onepass_cuda_headers SYSTEM INTERFACE ${ONEPASS_CUDA_INCLUDE_DIR})
  message(STATUS "CUDA kernels: ${ONEPASS_NVCC}, architectures ${ONEPASS_CUDA_ARCHITECTURES} ${ONEPASS_CUDA_FLAGS}")
else()
  message(STATUS "CUDA kernels: not compiled (ONEPASS_CUDA=${ONEPASS_CUDA})")
endif()

# onepass_add_fatbin(target source.cu): compiles one kernel file and puts its fatbin into target.
# src/ops/norm/cuda_rms.cu is reached as
#   extern "C" const unsigned char onepass_fatbin_norm_cuda_rms[], onepass_fatbin_norm_cuda_rms_end[];
# Architectures use CMake's notation: 90 (SASS and PTX), 90-real (SASS), 80-virtual (PTX).
function(onepass_add_fatbin target source)
  get_filename_component(source ${source} ABSOLUTE)
  get_filename_component(stem ${source} NAME_WE)
  get_filename_component(family ${source} DIRECTORY)
  get_filename_component(family ${family} NAME)
  set(symbol onepass_fatbin_${family}_${stem})
  set(out ${CMAKE_CURRENT_BINARY_DIR}/${symbol})

  set(gencode "")
  foreach(arch ${ONEPASS_CUDA_ARCHITECTURES})
    string(REGEX REPLACE "-(real|virtual)$" "" number ${arch})
    if(arch MATCHES "-virtual$")
      list(APPEND gencode -gencode arch=compute_${number},code=compute_${number})
    elseif(arch MATCHES "-real$")
      list(APPEND gencode -gencode arch=compute_${number},code=sm_${number})
    else()
      list(APPEND gencode -gencode arch=compute_${number},code=[compute_${number},sm_${number}])
    endif()
  endforeach()

  # -fmad=false is nvcc's -ffp-contract=off.
  add_custom_command(OUTPUT ${out}.fatbin
    COMMAND ${ONEPASS_NVCC} -fatbin -std=c++20 -O3 -fmad=false -lineinfo ${ONEPASS_CUDA_FLAGS} ${gencode}
      -I ${PROJECT_SOURCE_DIR}/include -I ${PROJECT_SOURCE_DIR}/src
      -MD -MF ${out}.d -MT ${out}.fatbin -o ${out}.fatbin ${source}
    DEPENDS ${source} DEPFILE ${out}.d VERBATIM
    COMMENT "Building CUDA fatbin ${family}/${stem}")
  file(CONFIGURE OUTPUT ${out}.cpp @ONLY CONTENT [[
__asm__(
    ".section .rodata\n.balign 64\n.global @symbol@\n@symbol@:\n.incbin \"@out@.fatbin\"\n"
    ".global @symbol@_end\n@symbol@_end:\n.byte 0\n.text\n");
]])
  set_source_files_properties(${out}.cpp PROPERTIES OBJECT_DEPENDS ${out}.fatbin
    CXX_COMPILER_LAUNCHER "")
  target_sources(${target} PRIVATE ${out}.cpp)
endfunction()
