# Toolchain file: builds for arm64 Linux with the cross compiler of Debian and runs what was built
# under qemu-user. Libraries come from the arm64 packages that scripts/check_neon.sh unpacks.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)

set(ONEPASS_AARCH64_PACKAGES ${CMAKE_CURRENT_LIST_DIR}/../build/aarch64-packages/root CACHE PATH
  "Folder with unpacked arm64 packages")
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES ONEPASS_AARCH64_PACKAGES)
get_filename_component(packages ${ONEPASS_AARCH64_PACKAGES} ABSOLUTE)
set(CMAKE_FIND_ROOT_PATH ${packages} /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)

# -cpu max has the 8-bit dot product.
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -cpu max -L /usr/aarch64-linux-gnu)
