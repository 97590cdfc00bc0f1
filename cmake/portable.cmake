# Toolchain file of the portable build: Zig's clang and libc++ compile for an older glibc (scripts/portable makes the
# compilers and the libraries below build/portable/ARCH/ that are linked in). FLYBALL_PORTABLE_ARCH: x86_64, aarch64.

set(FLYBALL_PORTABLE_ARCH x86_64 CACHE STRING "Processor of the portable build")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES FLYBALL_PORTABLE_ARCH)
cmake_path(SET portable NORMALIZE "${CMAKE_CURRENT_LIST_DIR}/../build/portable/${FLYBALL_PORTABLE_ARCH}")

set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR "${FLYBALL_PORTABLE_ARCH}")
set(CMAKE_C_COMPILER "${portable}/bin/cc")
set(CMAKE_CXX_COMPILER "${portable}/bin/c++")
set(CMAKE_AR "${portable}/bin/ar")
set(CMAKE_RANLIB "${portable}/bin/ranlib")

# Only what was built for this: nothing of the machine's own libraries.
set(CMAKE_FIND_ROOT_PATH "${portable}/root")
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)

set(flags "-ffunction-sections -fdata-sections -ffp-contract=off")
set(CMAKE_C_FLAGS_INIT "${flags}")
set(CMAKE_CXX_FLAGS_INIT "${flags}")
set(CMAKE_C_FLAGS_RELEASE "-O2 -DNDEBUG" CACHE STRING "Flags of a release")
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG" CACHE STRING "Flags of a release")
set(CMAKE_EXE_LINKER_FLAGS_INIT "-Wl,--gc-sections -s")
set(CMAKE_SHARED_LINKER_FLAGS_INIT "-Wl,--gc-sections -s")
