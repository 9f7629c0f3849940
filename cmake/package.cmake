# An archive and a Debian package with all that is installed: cpack in the build folder (docs/release.md).
set(CPACK_GENERATOR TGZ DEB)
set(CPACK_PACKAGE_NAME onepass)
set(CPACK_PACKAGE_VENDOR "onepass developers")
set(CPACK_PACKAGE_CONTACT "onepass developers <onepass@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "transformer inference as one recorded pass")
set(CPACK_PACKAGE_DESCRIPTION
"A tool and a C++ library that run transformer models: every op of a forward
pass is recorded once, fused, ordered by its exact dependencies and replayed
for each token. Reads GGUF files, MLX and Hugging Face folders; comes with a
small story model.")
set(CPACK_PACKAGE_FILE_NAME onepass-${PROJECT_VERSION}-${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_DEBIAN_PACKAGE_NAME onepass)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
# What the program links is found out; what the headers need is not.
find_program(ONEPASS_SHLIBDEPS dpkg-shlibdeps)
mark_as_advanced(ONEPASS_SHLIBDEPS)
if(ONEPASS_SHLIBDEPS)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
endif()
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "libexpected-dev, libpcre2-dev, libutf8proc-dev")
include(CPack)
