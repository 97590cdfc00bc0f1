#include "base/error.h"

#include <gtest/gtest.h>

namespace flyball {
namespace {

TEST(InputError, SaysWhereWhatAndHowToMend) {
  const InputError error({"a.csv", 3, 7}, "time is 'x', not a number", "write a number");
  EXPECT_STREQ(error.what(), "a.csv:3:7: time is 'x', not a number\n  to mend: write a number");
  EXPECT_EQ(error.where().line, 3u);
}

TEST(InputError, LeavesOutWhatDoesNotApply) {
  EXPECT_STREQ(InputError({"a.csv", 3, 0}, "p", "m").what(), "a.csv:3: p\n  to mend: m");
  EXPECT_STREQ(InputError({"a.csv", 0, 7}, "p", "m").what(), "a.csv: p\n  to mend: m");
  EXPECT_STREQ(InputError({"a.csv"}, "p, so do q", "").what(), "a.csv: p, so do q");
}

}  // namespace
}  // namespace flyball
