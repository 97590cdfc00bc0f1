# Run at build time (cmake -P): writes OUTPUT, the function NAME of src/base/embedded.h that gives the files named in
# LIST, with paths relative to ROOT. The bytes go into raw string literals, split because compilers limit the length of
# one. For text only: a compiler reads CR LF in a raw string as LF.

file(STRINGS "${LIST}" files)
set(text "#include \"base/embedded.h\"\n\nnamespace flyball {\n\nnamespace {\n")
set(rows "")
set(index 0)
foreach(file IN LISTS files)
  file(RELATIVE_PATH name "${ROOT}" "${file}")
  file(READ "${file}" contents)
  string(FIND "${contents}" ")flyball_data\"" clash)
  if(NOT clash EQUAL -1)
    message(FATAL_ERROR "${file}: contains the end mark of the generated literal, )flyball_data\"")
  endif()
  string(LENGTH "${contents}" length)
  string(APPEND text "constexpr std::string_view kFile${index} =")
  set(offset 0)
  while(offset LESS length OR offset EQUAL 0)
    string(SUBSTRING "${contents}" ${offset} 8000 piece)
    string(APPEND text "\n    R\"flyball_data(${piece})flyball_data\"")
    math(EXPR offset "${offset} + 8000")
  endwhile()
  string(APPEND text ";\n")
  string(APPEND rows "    {\"${name}\", kFile${index}},\n")
  math(EXPR index "${index} + 1")
endforeach()
if(index EQUAL 0)
  message(FATAL_ERROR "no file to embed below ${ROOT}")
endif()
string(APPEND text
  "constexpr EmbeddedFile kFiles[] = {\n${rows}};\n}  // namespace\n\n"
  "std::span<const EmbeddedFile> ${NAME}() { return kFiles; }\n\n}  // namespace flyball\n")
file(WRITE "${OUTPUT}" "${text}")
