// Files that hold a token: a secret that a client shows and a server asks for.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace flyball {

// Returns the token in a file that a client shows: the first line, without blanks around it; of a file without one,
// nothing. Whether the token is good is for the server to say, and a group may share the file. Throws SystemError where
// the file cannot be read, and InputError where it is larger than 4 KiB.
[[nodiscard]] std::string read_token_file(const std::filesystem::path& path);

// Returns the token in a file that a server asks for. Also throws InputError where the token is shorter than `fewest`
// characters or others than the file's owner may read or change it.
[[nodiscard]] std::string read_own_token_file(const std::filesystem::path& path, std::size_t fewest);

}  // namespace flyball
