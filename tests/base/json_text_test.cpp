#include "base/json_text.h"

#include <gtest/gtest.h>

#include <string>
#include <nlohmann/json.hpp>

#include "base/json_object.h"
#include "support/expect_error.h"

namespace flyball {
namespace {

std::string nested(std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

TEST(JsonText, TakesWhatIsNestedUpToTheLimitAndNoDeeper) {
  EXPECT_TRUE(parse_json("it", nested(64)).is_array());
  // The 65th bracket stands in column 65.
  expect_input_error([] { (void)parse_json("it", nested(65)); }, 1, 65, "more than 64 deep");
  // Line 2, behind {"a":
  expect_input_error([] { (void)parse_json("it", "{\n\"a\":" + nested(64) + "}"); }, 2, 68, "more than 64 deep");
  // However many stand side by side.
  std::string many = "[" + nested(63);
  for (int i = 0; i < 100; ++i) many += "," + nested(63);
  EXPECT_EQ(parse_json("it", many + "]").size(), 101u);
}

// What ended server, agent and training process: each level took a piece of the stack where the value was shown.
TEST(JsonText, OneThatIsFarTooDeepIsRefusedAndEndsNothing) {
  for (const std::string& text : {nested(100'000), std::string(1'000'000, '['), [] {
                                    std::string objects;
                                    for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
                                    return objects;
                                  }()}) {
    EXPECT_THROW(JsonObject(parse_json("it", text), "it"), InputError);
  }
}

TEST(JsonText, BracketsInTextsAreNoDepth) {
  const std::string brackets(1000, '[');
  EXPECT_EQ(parse_json("it", "[\"" + brackets + "\"]")[0], brackets);
  EXPECT_EQ(parse_json("it", R"(["\\\"[{\\"])")[0], R"(\"[{\)");
  // The quote behind a backslash ends no text, the one behind two does.
  expect_input_error([&] { (void)parse_json("it", R"(["\\",)" + brackets); }, 1, 70, "more than 64 deep");
}

TEST(JsonText, RefusesWhatIsNoUtf8) {
  EXPECT_THROW((void)parse_json("it", "[\"\xE2\x82\"]"), InputError);
  EXPECT_THROW((void)parse_json("it", R"(["\ud800"])"), InputError);  // half a pair
}

}  // namespace
}  // namespace flyball
