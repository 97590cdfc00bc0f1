#include "profile/embedded_data.h"

#include <fmt/format.h>

#include "base/error.h"
#include "profile/embedded_table.h"

namespace flyball {

std::string_view embedded_file(std::string_view path) {
  for (const EmbeddedFile& file : embedded_table()) {
    if (file.path == path) return file.contents;
  }
  throw Error(fmt::format("no data file '{}' in this build of Flyball", path));
}

std::vector<std::string_view> embedded_files() {
  std::vector<std::string_view> paths;
  paths.reserve(embedded_table().size());
  for (const EmbeddedFile& file : embedded_table()) paths.push_back(file.path);
  return paths;
}

}  // namespace flyball
