#include "base/printable.h"

#include <gmock/gmock.h>

#include <string>
#include <nlohmann/json.hpp>

namespace flyball {
namespace {

TEST(Printable, LeavesOrdinaryTextAsItIs) {
  for (const std::string text : {"", "bert/layer_0/MatMul:0", "Größe 5 µs ± 3 %, 層, 🔥", "back\\slash \"quoted\""}) {
    EXPECT_EQ(printable(text), text);
  }
}

// By the tables of Unicode: C0 and C1 controls, DEL, line and paragraph separators, marks and overrides of direction.
TEST(Printable, EscapesWhatTerminalsObey) {
  EXPECT_EQ(printable("a\x1b[31mred\x1b]0;title\x07"), "a\\u001b[31mred\\u001b]0;title\\u0007");
  EXPECT_EQ(printable("cut\rover\x08\x7f"), "cut\\u000dover\\u0008\\u007f");
  EXPECT_EQ(printable("\xC2\x9B"
                      "31m"),
            "\\u009b31m");                       // CSI as one character
  EXPECT_EQ(printable("\xC2\xA0"), "\xC2\xA0");  // the first that is none
  EXPECT_EQ(printable("\xE2\x80\xA8\xE2\x80\xAE\xE2\x81\xA6\xE2\x80\x8F\xD8\x9C"),
            "\\u2028\\u202e\\u2066\\u200f\\u061c");
  EXPECT_EQ(printable(std::string("a\0b", 3)), "a\\u0000b");
}

TEST(Printable, KeepsTheLinesOfATextButNotOfAName) {
  EXPECT_EQ(printable("a\n\tb\r\n"), "a\\u000a\\u0009b\\u000d\\u000a");
  EXPECT_EQ(printable("a\n\tb\r\n", LineEnds::kKept), "a\n\tb\\u000d\n");
}

// A lone byte, one too few, an overlong '/', a surrogate, beyond U+10FFFF; a C1 control as a byte.
TEST(Printable, ReplacesWhatIsNoUtf8) {
  const std::string replaced = "\xEF\xBF\xBD";
  EXPECT_EQ(printable("a\xFFz"), "a" + replaced + "z");
  EXPECT_EQ(printable("\xE2\x82"), replaced + replaced);
  EXPECT_EQ(printable("\xC0\xAF"), replaced + replaced);
  EXPECT_EQ(printable("\xED\xA0\x80"), replaced + replaced + replaced);
  EXPECT_EQ(printable("\xF4\x90\x80\x80"), replaced + replaced + replaced + replaced);
  EXPECT_EQ(printable("\x9B"
                      "1m"),
            replaced + "1m");
  EXPECT_EQ(printable("\xF0\x9F\x94\xA5"), "\xF0\x9F\x94\xA5");
}

TEST(Printable, JsonSaysTheSame) {
  const nlohmann::json json = {{"name", "a\x1b[2J\n\x7f\xC2\x9B\xE2\x80\xAE\"\\z"}, {"list", {1, 2}}};
  const std::string text = json.dump(2);
  const std::string shown = printable(text, LineEnds::kKept);
  EXPECT_NE(shown, text);
  EXPECT_EQ(nlohmann::json::parse(shown), json);
}

}  // namespace
}  // namespace flyball
