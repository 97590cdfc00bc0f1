// The files of data/ (devices, workloads), compiled into the library so that the program needs no installed files.
// Thread-safe; the views live as long as the program.
#pragma once

#include <string_view>
#include <vector>

namespace flyball {

// The contents of the file at `path`, relative to data/ ("devices/a100.toml"). Throws Error when there is none.
[[nodiscard]] std::string_view embedded_file(std::string_view path);

// The paths of all embedded files, sorted.
[[nodiscard]] std::vector<std::string_view> embedded_files();

}  // namespace flyball
