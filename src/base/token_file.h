// Files that hold a token: a secret that a client shows and a server asks for.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace flyball {

// Fewest characters of a token that is asked for. Tokens are guessed over the network: 16 hexadecimal digits, the
// weakest that one draws, take some 10^19 tries.
inline constexpr std::size_t kShortestFileToken = 16;

enum class TokenUse {
  kAskFor,  // by a server: only the file's owner may be able to read it, and the token must be long enough
  kShow     // by a client: whether the token is good is for the server to say, and a group may share the file
};

// Returns the token in a file: the first line, without blanks around it; of a file without one, nothing. Throws
// SystemError where the file cannot be read, and InputError where it is larger than 4 KiB, or is not as `use` wants it.
[[nodiscard]] std::string read_token_file(const std::filesystem::path& path, TokenUse use);

}  // namespace flyball
