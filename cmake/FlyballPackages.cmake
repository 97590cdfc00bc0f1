# Libraries of the system. The right column of docs/dependencies.md says why each is here.
# On a machine that lacks one, scripts/setup installs them all.

find_package(fmt REQUIRED)
find_package(tomlplusplus REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(Ceres REQUIRED)
find_package(Eigen3 REQUIRED NO_MODULE)
find_package(CLI11 REQUIRED)
find_package(Threads REQUIRED)
# The module, not the package of its own: Debian ships none for CMake.
find_package(Protobuf REQUIRED)
# Headers only: Asio, Beast, URL.
find_package(Boost 1.81 REQUIRED)
find_package(SQLite3 REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto SSL)
find_package(simdjson REQUIRED)
find_package(ZLIB REQUIRED)
# Scripts for browsers, which the program embeds.
find_path(FLYBALL_DYGRAPHS dygraph.min.js PATHS /usr/share/javascript/dygraphs REQUIRED)

if(BUILD_TESTING)
  find_package(GTest REQUIRED)
  include(GoogleTest)
  # GLPK ships neither a CMake nor a pkg-config file.
  find_library(FLYBALL_GLPK_LIBRARY glpk REQUIRED)
  find_path(FLYBALL_GLPK_INCLUDE glpk.h REQUIRED)
  add_library(flyball_glpk INTERFACE)
  target_include_directories(flyball_glpk SYSTEM INTERFACE "${FLYBALL_GLPK_INCLUDE}")
  target_link_libraries(flyball_glpk INTERFACE "${FLYBALL_GLPK_LIBRARY}")
endif()
if(FLYBALL_BENCHMARKS)
  find_package(benchmark REQUIRED)
endif()
