// Files of the tree that the build compiles into a library (flyball_embed in cmake/FlyballModule.cmake), so that the
// program needs no installed files. Thread-safe; the views live as long as the program.
#pragma once

#include <span>
#include <string_view>

namespace flyball {

struct EmbeddedFile {
  std::string_view path;  // relative to the folder that was embedded
  std::string_view contents;
};

// The contents of the file at `path`. Throws Error when there is none.
[[nodiscard]] std::string_view embedded_file(std::span<const EmbeddedFile> files, std::string_view path);

// What the build embeds, each sorted by path and in the library of the folder that uses it.
[[nodiscard]] std::span<const EmbeddedFile> data_files();       // profile: data/
[[nodiscard]] std::span<const EmbeddedFile> server_openapi();   // server: docs/openapi.yaml
[[nodiscard]] std::span<const EmbeddedFile> agent_openapi();    // agent: docs/openapi-agent.yaml
[[nodiscard]] std::span<const EmbeddedFile> python_files();     // cli: what profiles a program, of python/
[[nodiscard]] std::span<const EmbeddedFile> manual_sections();  // cli: what manual pages say besides --help, docs/man/

}  // namespace flyball
