// base/embedded.h's functions, applied to the files of data/.
#include "profile/embedded_data.h"

#include "base/embedded.h"

namespace flyball {

std::string_view embedded_file(std::string_view path) { return embedded_file(data_files(), path); }

std::vector<std::string_view> embedded_files() {
  std::vector<std::string_view> paths;
  paths.reserve(data_files().size());
  for (const EmbeddedFile& file : data_files()) paths.push_back(file.path);
  return paths;
}

}  // namespace flyball
