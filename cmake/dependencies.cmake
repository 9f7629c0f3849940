set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

include(${CMAKE_CURRENT_LIST_DIR}/onepass_tl_expected.cmake)
if(NOT TARGET tl::expected)
  message(FATAL_ERROR "tl/expected.hpp not found; Debian and Ubuntu: apt-get install libexpected-dev")
endif()

set(suffixes ${CMAKE_FIND_LIBRARY_SUFFIXES})
if(ONEPASS_STATIC_LIBRARIES)
  list(PREPEND CMAKE_FIND_LIBRARY_SUFFIXES ${CMAKE_STATIC_LIBRARY_SUFFIX})
endif()
include(${CMAKE_CURRENT_LIST_DIR}/onepass_tokenizer_libraries.cmake)
set(CMAKE_FIND_LIBRARY_SUFFIXES ${suffixes})
if(onepass_missing_libraries)
  message(FATAL_ERROR "not found: ${onepass_missing_libraries}; Debian and Ubuntu: "
    "apt-get install libpcre2-dev libutf8proc-dev")
endif()

# Headers only: users of the installed library need nothing of it.
find_path(ONEPASS_FAST_FLOAT_INCLUDE_DIR fast_float/fast_float.h)
mark_as_advanced(ONEPASS_FAST_FLOAT_INCLUDE_DIR)
if(NOT ONEPASS_FAST_FLOAT_INCLUDE_DIR)
  message(FATAL_ERROR
    "fast_float/fast_float.h not found; Debian and Ubuntu: apt-get install libfast-float-dev")
endif()

if(ONEPASS_BUILD_CLI)
  find_package(CLI11 REQUIRED)
  find_library(ONEPASS_edit_LIBRARY edit)
  find_path(ONEPASS_edit_INCLUDE_DIR histedit.h)
  mark_as_advanced(ONEPASS_edit_LIBRARY ONEPASS_edit_INCLUDE_DIR)
  if(NOT ONEPASS_edit_LIBRARY OR NOT ONEPASS_edit_INCLUDE_DIR)
    message(FATAL_ERROR "libedit not found; Debian and Ubuntu: apt-get install libedit-dev")
  endif()
  add_library(onepass_edit UNKNOWN IMPORTED)
  set_target_properties(onepass_edit PROPERTIES
    IMPORTED_LOCATION ${ONEPASS_edit_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${ONEPASS_edit_INCLUDE_DIR})
endif()

if(ONEPASS_BUILD_TESTS)
  if(ONEPASS_LIBCXX)
    # The distribution's GoogleTest is built against libstdc++.
    set(ONEPASS_GTEST_SOURCE /usr/src/googletest CACHE PATH "GoogleTest sources")
    set(BUILD_GMOCK ON CACHE BOOL "" FORCE)
    set(INSTALL_GTEST OFF CACHE BOOL "" FORCE)
    add_subdirectory(${ONEPASS_GTEST_SOURCE} ${PROJECT_BINARY_DIR}/googletest EXCLUDE_FROM_ALL SYSTEM)
    foreach(name gtest gmock)
      # Its matchers of string_view exist only in libraries built with a standard that has it.
      target_compile_features(${name} PUBLIC cxx_std_20)
      target_compile_options(${name} PRIVATE -O0 -fno-sanitize=undefined)
      if(NOT TARGET GTest::${name})
        add_library(GTest::${name} ALIAS ${name})
        add_library(GTest::${name}_main ALIAS ${name}_main)
      endif()
    endforeach()
  else()
    find_package(GTest REQUIRED)
  endif()
endif()

if(ONEPASS_BUILD_BENCHES)
  find_package(benchmark REQUIRED)
endif()
