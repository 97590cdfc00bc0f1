# What nearly every source includes, parsed once for all targets that are compiled alike. A source still names what it
# uses: the clang-tidy build compiles each without this.

# flyball_precompile(<target> <kind> [OPTIONS <option>...] [LIBRARIES <target>...] HEADERS <header>...)
#
# Lets <target> use the precompiled headers of <kind>, which the first call for a kind defines. Targets of one kind must
# be of one type (library or executable) and have the same optimisation.
function(flyball_precompile target kind)
  if(NOT FLYBALL_PRECOMPILE)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "OPTIONS;LIBRARIES;HEADERS")
  set(holder "flyball_precompiled_${kind}")
  if(NOT TARGET ${holder})
    set(source "${PROJECT_BINARY_DIR}/${holder}.cpp")
    get_target_property(type ${target} TYPE)
    if(type STREQUAL "EXECUTABLE")
      file(CONFIGURE OUTPUT "${source}" CONTENT "int main() {}\n")
      add_executable(${holder} "${source}")
    else()
      file(CONFIGURE OUTPUT "${source}" CONTENT "")
      add_library(${holder} OBJECT "${source}")
    endif()
    target_compile_options(${holder} PRIVATE ${arg_OPTIONS})
    target_link_libraries(${holder} PRIVATE flyball_options ${arg_LIBRARIES})
    target_precompile_headers(${holder} PRIVATE ${arg_HEADERS})
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      target_compile_options(${holder} PRIVATE -fpch-preprocess)
    else()
      target_compile_options(${holder} PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
    endif()
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE -fpch-preprocess)  # for ccache
  else()
    target_compile_options(${target} PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
  endif()
  target_precompile_headers(${target} REUSE_FROM ${holder})
endfunction()

set(FLYBALL_STANDARD_HEADERS <algorithm> <array> <chrono> <cmath> <filesystem> <functional> <map> <memory> <optional>
  <set> <span> <string> <string_view> <utility> <vector> <fmt/format.h>)
