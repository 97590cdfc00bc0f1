#include "base/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace flyball {
namespace {

TEST(Utf8, KnowsWhatItIs) {
  for (const char* text : {"", "plain", "Größe 層 🔥", "\xF4\x8F\xBF\xBF"}) EXPECT_TRUE(is_utf8(text)) << text;
  // A lone byte, one too few, an overlong '/', a surrogate, beyond U+10FFFF, a continuation without its lead.
  for (const char* text : {"a\xFFz", "\xE2\x82", "\xC0\xAF", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\x80"}) {
    EXPECT_FALSE(is_utf8(text));
  }
}

TEST(Utf8, CutsBetweenCharacters) {
  EXPECT_EQ(cut_between_characters("abc", 3), "abc");
  EXPECT_EQ(cut_between_characters("abc", 2), "ab");
  // 'a' is one byte, 層 three, 🔥 four: 8 in all.
  const std::string text = "a層🔥";
  const std::size_t whole[] = {0, 1, 1, 1, 4, 4, 4, 4, 8, 8};
  for (std::size_t bytes = 0; bytes < 10; ++bytes) {
    EXPECT_EQ(cut_between_characters(text, bytes), text.substr(0, whole[bytes])) << bytes;
  }
}

}  // namespace
}  // namespace flyball
