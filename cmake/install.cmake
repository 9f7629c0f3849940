include(CMakePackageConfigHelpers)

set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/onepass)

install(TARGETS onepass EXPORT onepass-targets)
if(TARGET onepass_c)
  # Of its own, so that programs in C need nothing that only the C++ headers need.
  install(TARGETS onepass_c EXPORT onepass-c-targets)
  install(EXPORT onepass-c-targets NAMESPACE onepass:: FILE onepassCTargets.cmake
    DESTINATION ${config_dir})
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/onepass DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp" PATTERN "*.def")
if(TARGET onepass-cli)
  install(TARGETS onepass-cli)
  install(FILES ${PROJECT_SOURCE_DIR}/models/stories-12m-q8_0.gguf
    DESTINATION ${CMAKE_INSTALL_DATADIR}/onepass)
  install(FILES ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/CHANGELOG.md
    DESTINATION ${CMAKE_INSTALL_DOCDIR})
  install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright)
  # Of what is linked in or included, as Debian has it.
  foreach(package libbsd-dev libcli11-dev libedit-dev libexpected-dev libfast-float-dev libmd-dev libncurses-dev
      libpcre2-dev libutf8proc-dev)
    if(EXISTS /usr/share/doc/${package}/copyright)
      install(FILES /usr/share/doc/${package}/copyright
        DESTINATION ${CMAKE_INSTALL_DOCDIR}/licenses RENAME ${package})
    endif()
  endforeach()
  if(onepass_generated_dir)
    # Where zsh looks: Debian keeps the folder of the name used elsewhere for administrators.
    if(EXISTS /etc/debian_version)
      set(zsh_dir zsh/vendor-completions)
    else()
      set(zsh_dir zsh/site-functions)
    endif()
    install(DIRECTORY ${onepass_generated_dir}/man1 DESTINATION ${CMAKE_INSTALL_MANDIR})
    install(FILES ${onepass_generated_dir}/onepass
      DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
    install(FILES ${onepass_generated_dir}/_onepass DESTINATION ${CMAKE_INSTALL_DATADIR}/${zsh_dir})
    install(FILES ${onepass_generated_dir}/onepass.fish
      DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
  endif()
endif()

install(EXPORT onepass-targets NAMESPACE onepass:: FILE onepassTargets.cmake DESTINATION ${config_dir})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/onepassConfig.cmake.in
  ${PROJECT_BINARY_DIR}/onepassConfig.cmake INSTALL_DESTINATION ${config_dir})
# Before 1.0 a new minor version may break callers.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/onepassConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES
  ${PROJECT_BINARY_DIR}/onepassConfig.cmake ${PROJECT_BINARY_DIR}/onepassConfigVersion.cmake
  ${PROJECT_SOURCE_DIR}/cmake/onepass_tl_expected.cmake
  ${PROJECT_SOURCE_DIR}/cmake/onepass_tokenizer_libraries.cmake
  DESTINATION ${config_dir})

# pkg-config. tl-expected has a .pc file on few systems: name the package where it exists,
# its include folder elsewhere.
set(pc_requires "")
set(pc_cflags "")
find_package(PkgConfig QUIET)
if(PKG_CONFIG_FOUND)
  pkg_check_modules(TL_EXPECTED_PC QUIET tl-expected)
endif()
if(TL_EXPECTED_PC_FOUND)
  set(pc_requires "tl-expected")
else()
  get_target_property(tl_expected_include_dirs tl::expected INTERFACE_INCLUDE_DIRECTORIES)
  list(GET tl_expected_include_dirs 0 tl_expected_include_dir)
  set(pc_cflags " -I\${tl_expected_includedir}")
endif()
set(pc_private_libs "-lpcre2-8 -lutf8proc -pthread")
if(CMAKE_DL_LIBS)
  string(APPEND pc_private_libs " -l${CMAKE_DL_LIBS}")
endif()
if(BUILD_SHARED_LIBS)
  set(pc_libs "-L\${libdir} -lonepass_cpp")
else()
  # By its file, as -lonepass is the C library; and plain `pkg-config --libs` must be enough to link.
  set(pc_libs "\${libdir}/${CMAKE_STATIC_LIBRARY_PREFIX}onepass${CMAKE_STATIC_LIBRARY_SUFFIX} ${pc_private_libs}")
  set(pc_private_libs "")
endif()
# Relative to the file itself, so an installed tree can be moved.
file(RELATIVE_PATH pc_to_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" pc_to_prefix "${pc_to_prefix}")
configure_file(${PROJECT_SOURCE_DIR}/cmake/onepass.pc.in ${PROJECT_BINARY_DIR}/onepass.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/onepass.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
if(TARGET onepass_c)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/onepass-c.pc.in ${PROJECT_BINARY_DIR}/onepass-c.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/onepass-c.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endif()
