# Compile units that are made from the rows of a list, in the build folder.

# onepass_isa_units(units template name): for each row of ops/shared/isa.def the template with @isa@,
# @condition@ and @feature@ of the row, and @name@. Sets `units` to their paths, best set first:
# name/cpu_ISA.cpp, under ops in src.
function(onepass_isa_units units template name)
  set(list ${PROJECT_SOURCE_DIR}/src/ops/shared/isa.def)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${list})
  file(STRINGS ${list} rows REGEX "^ISA\\(")
  set(made "")
  foreach(row ${rows})
    if(NOT row MATCHES "^ISA\\(([a-z0-9_]+), ([A-Za-z0-9_]+), ([a-z0-9_]+), .+, \"[^\"]*\"\\)$")
      message(FATAL_ERROR "${list}: '${row}', expected ISA(name, condition, feature, there, text)")
    endif()
    set(isa ${CMAKE_MATCH_1})
    set(condition ${CMAKE_MATCH_2})
    set(feature ${CMAKE_MATCH_3})
    set(unit ${CMAKE_CURRENT_BINARY_DIR}/ops/${name}/cpu_${isa}.cpp)
    configure_file(${template} ${unit} @ONLY)
    list(APPEND made ${unit})
  endforeach()
  set(${units} ${made} PARENT_SCOPE)
endfunction()

# onepass_cuda_format_units(units): one kernel file matmul/cuda_FORMAT.cu per row of
# ops/shared/cuda_formats.def.
function(onepass_cuda_format_units units)
  set(list ${PROJECT_SOURCE_DIR}/src/ops/shared/cuda_formats.def)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${list})
  file(STRINGS ${list} rows REGEX "^CUDA_FORMAT\\(")
  set(made "")
  foreach(row ${rows})
    if(NOT row MATCHES "^CUDA_FORMAT\\(([a-z0-9_]+), ([a-z]+), (.+)\\)$")
      message(FATAL_ERROR "${list}: '${row}', expected CUDA_FORMAT(format, blocks, Form, AnyWeights)")
    endif()
    set(format ${CMAKE_MATCH_1})
    set(blocks ${CMAKE_MATCH_2})
    set(types ${CMAKE_MATCH_3})
    set(unit ${CMAKE_CURRENT_BINARY_DIR}/ops/matmul/cuda_${format}.cu)
    configure_file(${PROJECT_SOURCE_DIR}/src/ops/matmul/cuda_format.cu.in ${unit} @ONLY)
    list(APPEND made ${unit})
  endforeach()
  set(${units} ${made} PARENT_SCOPE)
endfunction()
