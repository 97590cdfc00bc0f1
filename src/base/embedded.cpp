// A linear search, since a library embeds a few dozen files at most.
#include "base/embedded.h"

#include <fmt/format.h>

#include "base/error.h"

namespace flyball {

std::string_view embedded_file(std::span<const EmbeddedFile> files, std::string_view path) {
  for (const EmbeddedFile& file : files) {
    if (file.path == path) return file.contents;
  }
  throw Error(fmt::format("no file '{}' in this build of Flyball", path));
}

}  // namespace flyball
