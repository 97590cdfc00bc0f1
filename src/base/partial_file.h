// What write_text_file has under way, for a signal handler that ends the process.
#pragma once

namespace flyball {

// The temporary file, to be removed; null while none is being written. Async-signal-safe.
[[nodiscard]] const char* partial_file() noexcept;

}  // namespace flyball
