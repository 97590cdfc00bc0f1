// Blanks and what stands after the first line are what editors and people add; they are no part of a token.
#include "base/token_file.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/text.h"

namespace flyball {
namespace {

constexpr std::size_t kMostBytes = 4096;

}  // namespace

std::string read_token_file(const std::filesystem::path& path) {
  const std::string text = read_text_file(path, kMostBytes);
  return std::string(trim(std::string_view(text).substr(0, text.find_first_of("\r\n"))));
}

std::string read_own_token_file(const std::filesystem::path& path, std::size_t fewest) {
  std::string token = read_token_file(path);
  const std::string& file = path.string();
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0 && (status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    throw InputError({file}, "others than its owner may read or change the token", "chmod 600 " + file);
  }
  if (token.size() < fewest) {
    throw InputError({file}, fmt::format("the token has {} characters", token.size()),
                     fmt::format("draw one of at least {}, in one line: openssl rand -hex 32 > {}", fewest, file));
  }
  return token;
}

}  // namespace flyball
