# Writes HEADER with the commit of SOURCE_DIR and the kind of build, only when they changed.
# Arguments: HEADER SOURCE_DIR BUILD_TYPE
set(commit "unknown")
find_program(git git)
if(git)
  execute_process(COMMAND ${git} describe --always --dirty --abbrev=12 --exclude *
    WORKING_DIRECTORY ${SOURCE_DIR} RESULT_VARIABLE status OUTPUT_VARIABLE text
    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  # A folder inside somebody else's repository is not one of ours.
  if(status EQUAL 0 AND EXISTS ${SOURCE_DIR}/.git)
    set(commit "${text}")
  endif()
endif()
file(CONFIGURE OUTPUT ${HEADER} @ONLY CONTENT
"#define ONEPASS_COMMIT \"${commit}\"
#define ONEPASS_BUILD_TYPE \"${BUILD_TYPE}\"
")
