// "Did you mean": the known name that is most like a mistyped one, for error messages.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace flyball {

// Returns the candidate with the least edit distance (insert, delete, replace, swap of neighbours), the first among
// equals; empty when none is within a third of the longer length, since a wild guess helps nobody. Only names of up to
// 64 bytes and the first 100,000 candidates are looked at. Cost O(candidates * length^2).
[[nodiscard]] std::string nearest_name(std::string_view name, std::span<const std::string> candidates);

}  // namespace flyball
