// The file that write_text_file is writing, for a signal handler that ends the process.
#pragma once

namespace flyball {

// Returns the temporary file, which is to be removed; null while none is being written. Async-signal-safe.
[[nodiscard]] const char* partial_file() noexcept;

}  // namespace flyball
