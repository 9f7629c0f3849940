# Makes the target tl::expected. Some packages of tl-expected ship no CMake config, only the header.
# Also installed: onepassConfig.cmake includes it.
if(NOT TARGET tl::expected)
  find_package(tl-expected CONFIG QUIET)
endif()
if(NOT TARGET tl::expected)
  find_path(TL_EXPECTED_INCLUDE_DIR tl/expected.hpp)
  if(TL_EXPECTED_INCLUDE_DIR)
    add_library(tl::expected INTERFACE IMPORTED)
    set_target_properties(tl::expected PROPERTIES
      INTERFACE_INCLUDE_DIRECTORIES ${TL_EXPECTED_INCLUDE_DIR})
  endif()
endif()
