# Libraries of the tokenizer, for the build and for users of the installed package:
# onepass_pcre2 and onepass_utf8proc, or a list of what is missing in
# onepass_missing_libraries.
set(onepass_missing_libraries "")
foreach(row pcre2:pcre2-8:pcre2.h utf8proc:utf8proc:utf8proc.h)
  string(REPLACE ":" ";" row ${row})
  list(GET row 0 name)
  list(GET row 1 library)
  list(GET row 2 header)
  find_library(ONEPASS_${name}_LIBRARY ${library})
  find_path(ONEPASS_${name}_INCLUDE_DIR ${header})
  mark_as_advanced(ONEPASS_${name}_LIBRARY ONEPASS_${name}_INCLUDE_DIR)
  if(NOT ONEPASS_${name}_LIBRARY OR NOT ONEPASS_${name}_INCLUDE_DIR)
    list(APPEND onepass_missing_libraries ${name})
  elseif(NOT TARGET onepass_${name})
    add_library(onepass_${name} UNKNOWN IMPORTED)
    set_target_properties(onepass_${name} PROPERTIES
      IMPORTED_LOCATION ${ONEPASS_${name}_LIBRARY}
      INTERFACE_INCLUDE_DIRECTORIES ${ONEPASS_${name}_INCLUDE_DIR})
  endif()
endforeach()
