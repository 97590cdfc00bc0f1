# Compiler settings of all our targets: language, warnings, sanitizers, ccache.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
# The simulated vendor library and the Python module are shared objects made of the same code.
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

if(NOT CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(FLYBALL_CCACHE ccache)
  if(FLYBALL_CCACHE)
    set(CMAKE_CXX_COMPILER_LAUNCHER "${FLYBALL_CCACHE}")
  endif()
endif()

# Most of the time that a file takes goes into the headers that it shares with its neighbours. The price: two files of a
# folder cannot both have a name of their own (in an anonymous namespace) that means different things, and what a file
# forgets to include may come from a neighbour. scripts/check_includes finds that.
set(CMAKE_UNITY_BUILD ${FLYBALL_UNITY})
set(CMAKE_UNITY_BUILD_BATCH_SIZE 6 CACHE STRING "How many files are compiled as one")

# A shared library is needed by what uses it, not by all that could: libflyball.so stays light inside a training process.
add_link_options(-Wl,--as-needed)

# Everything that our targets share; linked privately, so that none of it leaks to users of the libraries.
add_library(flyball_options INTERFACE)
target_compile_options(flyball_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor -Woverloaded-virtual
  # Same input, same bytes on every machine: no fused multiply-add where the source has two operations.
  -ffp-contract=off)
target_compile_definitions(flyball_options INTERFACE FLYBALL_VERSION="${PROJECT_VERSION}")
if(FLYBALL_WARNINGS_AS_ERRORS)
  target_compile_options(flyball_options INTERFACE -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # clang takes a defaulted <=> for a null pointer.
  target_compile_options(flyball_options INTERFACE -Wzero-as-null-pointer-constant)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # g++ 12 warns about the standard library's own std::string concatenation (GCC bug 105651) and, where it moves
  # the subtraction in std::vector::size() behind the destructor itself, about the use of a freed pointer.
  target_compile_options(flyball_options INTERFACE -Wno-restrict -Wuse-after-free=1)
endif()

if(FLYBALL_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ warns where a class with a name outside of anonymous namespaces has a member of one of these in a file that is
  # included, as all are then.
  target_compile_options(flyball_options INTERFACE -Wno-subobject-linkage)
endif()

if(FLYBALL_SANITIZE)
  # Globally, not per target: every object of the program has to be built alike.
  add_compile_options(-fsanitize=${FLYBALL_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${FLYBALL_SANITIZE} -fno-sanitize-recover=all)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # The instrumentation hides initialisations from the optimiser; the plain build keeps this warning.
    target_compile_options(flyball_options INTERFACE -Wno-maybe-uninitialized)
  endif()
endif()
if(FLYBALL_FUZZ AND NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  message(FATAL_ERROR "libFuzzer comes with clang: use cmake --preset asan-ubsan")
endif()
