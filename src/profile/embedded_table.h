// The seam between embedded_data.cpp and the table that the build generates from data/.
#pragma once

#include <span>
#include <string_view>

namespace flyball {

struct EmbeddedFile {
  std::string_view path;  // relative to data/
  std::string_view contents;
};

// Sorted by path. Defined in the generated embedded_table.cpp (cmake/embed_files.cmake).
[[nodiscard]] std::span<const EmbeddedFile> embedded_table();

}  // namespace flyball
