# Installs the build tree into a fresh prefix, then builds and runs the consumer twice: by
# find_package and by pkg-config, in C++ and in C. Arguments: BUILD_DIR CONSUMER_DIR CC CXX GENERATOR
# LIBDIR VERSION ABI_FLAGS
set(work ${BUILD_DIR}/tests/install_consumer)
set(prefix ${work}/prefix)
file(REMOVE_RECURSE ${work})
file(MAKE_DIRECTORY ${work})

function(run)
  execute_process(COMMAND ${ARGV} WORKING_DIRECTORY ${work} RESULT_VARIABLE status
    OUTPUT_VARIABLE text ERROR_VARIABLE text)
  if(NOT status EQUAL 0)
    list(JOIN ARGV " " command)
    message(FATAL_ERROR "failed (${status}): ${command}\n${text}")
  endif()
  set(output "${text}" PARENT_SCOPE)
endfunction()

set(ENV{LD_LIBRARY_PATH} ${prefix}/${LIBDIR}:$ENV{LD_LIBRARY_PATH})
list(JOIN ABI_FLAGS " " abi_flags)

run(${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${prefix})

if(EXISTS ${prefix}/bin/onepass)
  file(GLOB models ${prefix}/share/onepass/*.gguf)
  if(NOT models)
    message(FATAL_ERROR "the model in the box was not installed")
  endif()
  run(${prefix}/bin/onepass info)
endif()

run(${CMAKE_COMMAND} -S ${CONSUMER_DIR} -B ${work}/build -G ${GENERATOR}
  -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_CXX_FLAGS=${abi_flags} -DCMAKE_PREFIX_PATH=${prefix}
  -DONEPASS_EXPECTED_VERSION=${VERSION})
run(${CMAKE_COMMAND} --build ${work}/build)
run(${work}/build/consumer ${VERSION})
message(STATUS "find_package: ${output}")

find_program(pkg_config NAMES pkgconf pkg-config REQUIRED)
set(ENV{PKG_CONFIG_PATH} ${prefix}/${LIBDIR}/pkgconfig)
run(${pkg_config} --exact-version=${VERSION} onepass)
run(${pkg_config} --cflags onepass)
separate_arguments(cflags UNIX_COMMAND "${output}")
run(${pkg_config} --libs onepass)
separate_arguments(libs UNIX_COMMAND "${output}")
run(${CXX} -std=c++20 ${ABI_FLAGS} ${CONSUMER_DIR}/main.cpp ${cflags} ${libs} -o ${work}/consumer_pc)
run(${work}/consumer_pc ${VERSION})
message(STATUS "pkg-config: ${output}")

# Flags that change the ABI belong to C++: a program in C would need the run-time libraries too.
if(ABI_FLAGS)
  return()
endif()
run(${CMAKE_COMMAND} -S ${CONSUMER_DIR}/c -B ${work}/build_c -G ${GENERATOR}
  -DCMAKE_C_COMPILER=${CC} -DCMAKE_PREFIX_PATH=${prefix} -DONEPASS_EXPECTED_VERSION=${VERSION})
run(${CMAKE_COMMAND} --build ${work}/build_c)
run(${work}/build_c/consumer ${VERSION})
message(STATUS "find_package, C: ${output}")
run(${pkg_config} --exact-version=${VERSION} onepass-c)
run(${pkg_config} --cflags --libs onepass-c)
separate_arguments(flags UNIX_COMMAND "${output}")
run(${CC} -std=c99 ${CONSUMER_DIR}/c/main.c ${flags} -o ${work}/consumer_c_pc)
run(${work}/consumer_c_pc ${VERSION})
message(STATUS "pkg-config, C: ${output}")
