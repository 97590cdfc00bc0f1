// Where a Chrome trace's list can be cut between two entries without reading it from its beginning.
//
// A cut is the comma of "},{" before a quote. Such a place may lie inside an entry, in a nested list of objects or a
// freak of a name; whoever cuts there finds out by an array that does not close.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace flyball {

inline bool is_blank(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

// The comma between two entries of which the second begins with the brace at `brace`; npos where it does not look so.
[[nodiscard]] std::size_t comma_before(std::string_view text, std::size_t brace);

// Offsets of cuts in a plain file (byte_source.h), in order, at about equal distances: `parts` - 1 of them, fewer where a
// part would be less than a megabyte or no entry is seen to begin; none of gzip and pipes. After each an object stands
// that has the key "ph", as events have and what is nested in them has not. Throws SystemError.
[[nodiscard]] std::vector<std::uint64_t> find_list_cuts(const std::string& path, unsigned parts);

}  // namespace flyball
