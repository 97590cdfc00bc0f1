#include "base/token_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <string>

#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace flyball {
namespace {

class TokenFile : public ::testing::Test {
 protected:
  void write(const std::string& text, mode_t mode = 0600) {
    std::ofstream(path_, std::ios::binary) << text;
    ASSERT_EQ(::chmod(path_.c_str(), mode), 0);
  }
  // As what a server asks for, of at least 16 characters.
  void refused(const std::string& words) {
    expect_input_error([&] { static_cast<void>(read_own_token_file(path_, 16)); }, 0, 0, words);
  }

  testing::TempFolder folder_;
  std::string path_ = folder_ / "token";
};

TEST_F(TokenFile, TheTokenIsTheFirstLine) {
  for (const char* text : {"0123456789abcdef", "0123456789abcdef\n", "0123456789abcdef\r\n", "0123456789abcdef  \n",
                           " 0123456789abcdef\t\r\n", "0123456789abcdef\n\n", "0123456789abcdef\nof node 7\n"}) {
    write(text);
    EXPECT_EQ(read_token_file(path_), "0123456789abcdef") << text;
    EXPECT_EQ(read_own_token_file(path_, 16), "0123456789abcdef") << text;
  }
}

TEST_F(TokenFile, WhatIsAskedForIsLongAndItsOwnersAlone) {
  write("0123456789abcde\n");
  refused("the token has 15 characters");
  write("");
  refused("the token has 0 characters");
  for (const mode_t mode : {0604u, 0640u, 0620u, 0601u}) {
    write("0123456789abcdef\n", mode);
    refused("others than its owner");
  }
  write("0123456789abcdef\n", 0400);
  EXPECT_EQ(read_own_token_file(path_, 16), "0123456789abcdef");
}

TEST_F(TokenFile, WhatIsShownMayBeShared) {
  write("0123456789abcdef\n", 0644);
  EXPECT_EQ(read_token_file(path_), "0123456789abcdef");
  write("\n");
  EXPECT_EQ(read_token_file(path_), "");
}

TEST_F(TokenFile, WhatIsNoTokenFileIsRefused) {
  EXPECT_THROW(static_cast<void>(read_token_file(folder_ / "none")), SystemError);
  EXPECT_THROW(static_cast<void>(read_own_token_file(folder_.path(), 16)), SystemError);
  write(std::string(5000, 'x'));
  expect_input_error([&] { static_cast<void>(read_token_file(path_)); }, 0, 0, "larger than");
}

}  // namespace
}  // namespace flyball
