# Decides whether the Vulkan backend is built: sets ONEPASS_VULKAN_ENABLED. Nothing of Vulkan is
# linked: the loader is found at run time.

set(ONEPASS_VULKAN_ENABLED OFF)
if(NOT ONEPASS_VULKAN MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "ONEPASS_VULKAN is '${ONEPASS_VULKAN}', expected AUTO, ON or OFF")
endif()
if(NOT ONEPASS_VULKAN STREQUAL "OFF")
  find_program(ONEPASS_GLSLC glslc)
  find_program(ONEPASS_SPIRV_OPT spirv-opt)
  find_program(ONEPASS_SPIRV_VAL spirv-val)
  find_path(ONEPASS_VOLK_INCLUDE_DIR volk.h)
  find_path(ONEPASS_VULKAN_INCLUDE_DIR vulkan/vulkan.h)
  mark_as_advanced(ONEPASS_GLSLC ONEPASS_SPIRV_OPT ONEPASS_SPIRV_VAL ONEPASS_VOLK_INCLUDE_DIR
    ONEPASS_VULKAN_INCLUDE_DIR)
  set(missing "")
  foreach(pair GLSLC:glslc SPIRV_OPT:spirv-tools SPIRV_VAL:spirv-tools
      VOLK_INCLUDE_DIR:libvulkan-volk-dev VULKAN_INCLUDE_DIR:libvulkan-dev)
    string(REPLACE ":" ";" pair ${pair})
    list(GET pair 0 name)
    list(GET pair 1 package)
    if(NOT ONEPASS_${name})
      list(APPEND missing ${package})
    endif()
  endforeach()
  list(REMOVE_DUPLICATES missing)
  list(JOIN missing " " missing)
  if(NOT missing)
    set(ONEPASS_VULKAN_ENABLED ON)
  elseif(ONEPASS_VULKAN STREQUAL "ON")
    message(FATAL_ERROR "ONEPASS_VULKAN=ON, but not everything was found; Debian and Ubuntu: "
      "apt-get install ${missing}")
  endif()
endif()

if(ONEPASS_VULKAN_ENABLED)
  # Not what the compiler searches anyway, whose order would change.
  set(ONEPASS_VULKAN_INCLUDES ${ONEPASS_VOLK_INCLUDE_DIR} ${ONEPASS_VULKAN_INCLUDE_DIR})
  list(REMOVE_ITEM ONEPASS_VULKAN_INCLUDES ${CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES} /usr/include)
  message(STATUS "Vulkan kernels: ${ONEPASS_GLSLC}")
elseif(missing AND NOT ONEPASS_VULKAN STREQUAL "OFF")
  message(STATUS "Vulkan kernels: not compiled, missing ${missing}")
else()
  message(STATUS "Vulkan kernels: not compiled (ONEPASS_VULKAN=${ONEPASS_VULKAN})")
endif()

# onepass_add_spirv(target source.comp [name [definition...]]): compiles a kernel and puts its words
# into a header. src/ops/norm/vulkan_rms.comp is reached as
#   #include "spirv/norm_vulkan_rms.h"   // onepass::ops::spirv::norm_vulkan_rms
# or, with a name, as norm_NAME. -O0 and these passes keep every bit: nothing is
# fused or reordered.
function(onepass_add_spirv target source)
  get_filename_component(stem ${source} NAME_WE)
  get_filename_component(folder ${source} DIRECTORY)
  get_filename_component(family ${folder} NAME)
  set(definitions ${ARGN})
  if(definitions)
    list(POP_FRONT definitions stem)
    list(TRANSFORM definitions PREPEND -D)
  endif()
  set(symbol ${family}_${stem})
  set(out ${CMAKE_CURRENT_BINARY_DIR}/spirv/${symbol})
  file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/spirv)
  add_custom_command(OUTPUT ${out}.h
    COMMAND ${ONEPASS_GLSLC} -O0 -fshader-stage=compute --target-env=vulkan1.1 -Werror
      -I ${PROJECT_SOURCE_DIR}/src ${definitions} -MD -MF ${out}.d -MT ${out}.h -o ${out}.raw
      ${CMAKE_CURRENT_SOURCE_DIR}/${source}
    COMMAND ${ONEPASS_SPIRV_OPT} --eliminate-dead-functions --eliminate-dead-const
      --strip-debug ${out}.raw -o ${out}.spv
    COMMAND ${ONEPASS_SPIRV_VAL} --target-env vulkan1.1 ${out}.spv
    COMMAND ${CMAKE_COMMAND} -D IN=${out}.spv -D OUT=${out}.h -D SYMBOL=${symbol}
      -P ${PROJECT_SOURCE_DIR}/cmake/spirv_header.cmake
    DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${source} ${PROJECT_SOURCE_DIR}/cmake/spirv_header.cmake
    DEPFILE ${out}.d VERBATIM COMMENT "Building SPIR-V ${family}/${stem}")
  target_sources(${target} PRIVATE ${out}.h)
endfunction()
