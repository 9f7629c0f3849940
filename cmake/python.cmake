# onepass_python_library(file): the shared library as it lies in the Python package, for scikit-build-core
# (pyproject.toml) alone.
function(onepass_python_library file)
  install(FILES ${file} DESTINATION . RENAME ${CMAKE_SHARED_LIBRARY_PREFIX}onepass${CMAKE_SHARED_LIBRARY_SUFFIX}
    COMPONENT python EXCLUDE_FROM_ALL)
endfunction()

if(ONEPASS_PREBUILT)
  file(REAL_PATH ${ONEPASS_PREBUILT} prebuilt)
  onepass_python_library(${prebuilt})
  add_custom_target(onepass_c)
endif()
