# Libraries of the system. The right column of docs/dependencies.md says why each is here.
# On a machine that lacks one, scripts/setup installs them all.

find_package(fmt REQUIRED)
find_package(tomlplusplus REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(Ceres REQUIRED)
find_package(CLI11 REQUIRED)
find_package(Threads REQUIRED)
# Headers only: Asio, Beast, URL.
find_package(Boost 1.81 REQUIRED)
find_package(SQLite3 REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)

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
