# One folder of src/ is one target. Who may link whom stands in cmake/layers.txt only.

# Sets FLYBALL_FOLDERS (bottom row first), FLYBALL_MODULES (their targets, top row first, the order of linking) and
# FLYBALL_BELOW_<folder> from cmake/layers.txt.
macro(flyball_read_layers)
  set(FLYBALL_FOLDERS "")
  set(FLYBALL_MODULES "")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/cmake/layers.txt")
  file(STRINGS "${PROJECT_SOURCE_DIR}/cmake/layers.txt" layer_lines REGEX "^[a-z]")
  foreach(line IN LISTS layer_lines)
    if(NOT line MATCHES "^([a-z_]+):(.*)$")
      message(FATAL_ERROR "cmake/layers.txt: expected 'folder: folders below', got '${line}'")
    endif()
    set(folder "${CMAKE_MATCH_1}")
    separate_arguments(below UNIX_COMMAND "${CMAKE_MATCH_2}")
    foreach(lower IN LISTS below)
      if(NOT lower IN_LIST FLYBALL_FOLDERS)
        message(FATAL_ERROR "cmake/layers.txt: '${folder}' allows '${lower}', which is not on a line above it")
      endif()
    endforeach()
    list(APPEND FLYBALL_FOLDERS "${folder}")
    list(PREPEND FLYBALL_MODULES "flyball_${folder}")
    set(FLYBALL_BELOW_${folder} "${below}")
  endforeach()
endmacro()

# flyball_module(<folder> [COLD [CALLED_OFTEN]] [LIBRARIES <external target>...] [EXCLUDE <file>...])
#
# Makes the target flyball_<folder> from the folder's *.cpp (all but the EXCLUDEd) and links the folders that
# cmake/layers.txt allows it, and the external libraries. A folder without a source makes a header-only target.
# COLD: no computing, but messages, sockets and pictures. Sanitizer builds leave it unoptimised, others optimise it for its
# size: that takes two thirds of the compile time, and 40 % off the code. CALLED_OFTEN: but not where each call counts.
function(flyball_module folder)
  cmake_parse_arguments(PARSE_ARGV 1 arg "COLD;CALLED_OFTEN" "" "LIBRARIES;EXCLUDE")
  file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.cpp")
  foreach(name IN LISTS arg_EXCLUDE)
    list(REMOVE_ITEM sources "${CMAKE_CURRENT_SOURCE_DIR}/${name}")
  endforeach()
  set(below "${FLYBALL_BELOW_${folder}}")
  list(TRANSFORM below PREPEND "flyball_")

  set(target "flyball_${folder}")
  if(sources)
    add_library(${target} STATIC ${sources})
    set(scope PUBLIC)
    target_link_libraries(${target} PRIVATE flyball_options)
    if(arg_COLD AND FLYBALL_SANITIZE)
      target_compile_options(${target} PRIVATE -O0)
    elseif(arg_COLD AND NOT arg_CALLED_OFTEN)
      target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-Os>)
    endif()
    if(FLYBALL_FUZZ)
      # What a fuzzer finds its way by. Here, not globally: in tests it would cost a fifth of the compile time for nothing.
      target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link)
    endif()
    set_target_properties(${target} PROPERTIES FLYBALL_COLD "${arg_COLD}")
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(${target} ${scope} "${PROJECT_SOURCE_DIR}/src")
  target_link_libraries(${target} ${scope} ${below} ${arg_LIBRARIES})
endfunction()

# flyball_embed(<target> <function> <folder> <pattern>...)
#
# Compiles every file below <folder> whose name fits a pattern into <target>, as what <function> of src/base/embedded.h
# gives.
function(flyball_embed target function folder)
  list(TRANSFORM ARGN PREPEND "${folder}/" OUTPUT_VARIABLE patterns)
  file(GLOB_RECURSE files CONFIGURE_DEPENDS ${patterns})
  list(SORT files)
  set(output "${CMAKE_CURRENT_BINARY_DIR}/${function}.cpp")
  set(list_file "${CMAKE_CURRENT_BINARY_DIR}/${function}.txt")
  # Rewritten only when the list changes, so that a file that goes away is a reason to build again, too.
  string(JOIN "\n" listing ${files})
  file(CONFIGURE OUTPUT "${list_file}" CONTENT "${listing}\n" @ONLY)
  add_custom_command(OUTPUT "${output}"
    COMMAND "${CMAKE_COMMAND}" "-DROOT=${folder}" "-DLIST=${list_file}" "-DNAME=${function}" "-DOUTPUT=${output}"
      -P "${PROJECT_SOURCE_DIR}/cmake/embed_files.cmake"
    DEPENDS ${files} "${list_file}" "${PROJECT_SOURCE_DIR}/cmake/embed_files.cmake"
    COMMENT "Embedding ${function}" VERBATIM)
  target_sources(${target} PRIVATE "${output}")
  # Data, not code of ours: warnings have no business in it.
  set_source_files_properties("${output}" PROPERTIES COMPILE_OPTIONS "-w")
endfunction()
