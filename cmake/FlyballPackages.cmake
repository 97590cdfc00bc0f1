# Libraries of the system. The right column of docs/dependencies.md says why each is here.
# On a machine that lacks one, scripts/setup installs them all, or says how they are had.

# find_package, with what is missing or too old kept, so that all of it is told at once.
macro(flyball_find package)
  find_package(${package} ${ARGN} QUIET)
  if(NOT ${package}_FOUND)
    string(REGEX MATCH "^[0-9.]+" flyball_version "${ARGN}")
    string(STRIP "${package} ${flyball_version}" flyball_library)
    list(APPEND flyball_missing "${flyball_library}")
  endif()
endmacro()

set(flyball_missing "")
set(flyball_groups build)
flyball_find(fmt)
flyball_find(tomlplusplus)
flyball_find(nlohmann_json)
flyball_find(Ceres)
flyball_find(Eigen3 NO_MODULE)
flyball_find(CLI11)
flyball_find(Threads)
# The module, not the package of its own: Debian ships none for CMake.
flyball_find(Protobuf)
# Headers only: Asio, Beast, URL.
flyball_find(Boost 1.81)
flyball_find(SQLite3)
flyball_find(OpenSSL COMPONENTS Crypto SSL)
flyball_find(simdjson)
flyball_find(ZLIB)
# Scripts for browsers, which the program embeds.
find_path(FLYBALL_DYGRAPHS dygraph.min.js PATHS /usr/share/javascript/dygraphs)
if(NOT FLYBALL_DYGRAPHS)
  list(APPEND flyball_missing "dygraphs (-DFLYBALL_DYGRAPHS=FOLDER names that of dygraph.min.js)")
endif()

if(BUILD_TESTING)
  list(APPEND flyball_groups test)
  flyball_find(GTest)
  include(GoogleTest)
  # GLPK ships neither a CMake nor a pkg-config file.
  find_library(FLYBALL_GLPK_LIBRARY glpk)
  find_path(FLYBALL_GLPK_INCLUDE glpk.h)
  if(NOT FLYBALL_GLPK_LIBRARY OR NOT FLYBALL_GLPK_INCLUDE)
    list(APPEND flyball_missing GLPK)
  endif()
  add_library(flyball_glpk INTERFACE)
  target_include_directories(flyball_glpk SYSTEM INTERFACE "${FLYBALL_GLPK_INCLUDE}")
  target_link_libraries(flyball_glpk INTERFACE "${FLYBALL_GLPK_LIBRARY}")
endif()
if(FLYBALL_BENCHMARKS)
  list(APPEND flyball_groups bench)
  flyball_find(benchmark)
endif()

if(flyball_missing)
  list(JOIN flyball_missing "\n  " flyball_missing)
  list(JOIN flyball_groups " " flyball_group_words)
  execute_process(COMMAND "${PROJECT_SOURCE_DIR}/scripts/setup" --dry-run ${flyball_groups}
    OUTPUT_VARIABLE flyball_setup ERROR_VARIABLE flyball_setup)
  message(FATAL_ERROR "These libraries are missing or too old:\n  ${flyball_missing}\n"
    "`scripts/setup ${flyball_group_words}` installs what this system has of them; of itself it says:\n"
    "${flyball_setup}")
endif()
