// The scripts and styles that pages are made of, as the build embeds them. Thread-safe; the views live as long as the
// program.
#pragma once

#include "base/embedded.h"

namespace flyball {

[[nodiscard]] std::span<const EmbeddedFile> web_files();  // web/, sorted by path
// dygraphs, which draws what changes in time: dygraph.min.js and dygraph.min.css.
[[nodiscard]] std::span<const EmbeddedFile> chart_library();

}  // namespace flyball
