# Toolchain file of the portable build: Zig's clang and libc++ compile for an older glibc (scripts/portable makes the
# compilers and the libraries below build/portable/ARCH/ that are linked in). FLYBALL_PORTABLE_ARCH: x86_64, aarch64.

set(FLYBALL_PORTABLE_ARCH x86_64 CACHE STRING "Processor of the portable build")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES FLYBALL_PORTABLE_ARCH)
cmake_path(SET portable NORMALIZE "${CMAKE_CURRENT_LIST_DIR}/../build/portable/${FLYBALL_PORTABLE_ARCH}")

# Licences of all that is linked in, for those who get it.
set(FLYBALL_LICENCES "${portable}/licences" CACHE PATH "Folder of licences that is installed beside the documents")

set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR "${FLYBALL_PORTABLE_ARCH}")
set(CMAKE_C_COMPILER "${portable}/bin/cc")
set(CMAKE_CXX_COMPILER "${portable}/bin/c++")
set(CMAKE_AR "${portable}/bin/ar")
set(CMAKE_RANLIB "${portable}/bin/ranlib")

# What runs programs of that processor here, to write their manual pages.
if(CMAKE_HOST_SYSTEM_PROCESSOR STREQUAL FLYBALL_PORTABLE_ARCH)
  set(CMAKE_CROSSCOMPILING_EMULATOR env)
else()
  set(CMAKE_CROSSCOMPILING_EMULATOR "qemu-${FLYBALL_PORTABLE_ARCH}-static;-L;${portable}/glibc")
endif()

# Only what was built for this: nothing of the machine's own libraries.
set(CMAKE_FIND_ROOT_PATH "${portable}/root")
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)

# Without debugging information, which Zig's clang writes unasked.
set(flags "-g0 -ffunction-sections -fdata-sections -ffp-contract=off")
set(CMAKE_C_FLAGS_INIT "${flags}")
set(CMAKE_CXX_FLAGS_INIT "${flags}")
set(CMAKE_C_FLAGS_RELEASE "-O2 -DNDEBUG" CACHE STRING "Flags of a release")
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG" CACHE STRING "Flags of a release")
set(CMAKE_EXE_LINKER_FLAGS_INIT "-Wl,--gc-sections -s")
set(CMAKE_SHARED_LINKER_FLAGS_INIT "-Wl,--gc-sections -s")
