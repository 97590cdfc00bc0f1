#include "draw/text_table.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace flyball {
namespace {

TEST(TextTable, AlignsAndNamesUnits) {
  TextTable table({"<planner", ">time (s)", "T\u2032 (s)"});
  table.add_row({"perseus", "24.476", "1"});
  table.add_row({"max", "5"});
  EXPECT_EQ(table.str(),
            "planner  time (s)  T\u2032 (s)\n"
            "-------  --------  ------\n"
            "perseus    24.476       1\n"
            "max             5\n");
}

// A foreign name is as wide as it is shown, and stays on its line.
TEST(TextTable, EscapesWhatATerminalWouldObey) {
  TextTable table({"<name", "energy (J)"});
  table.add_row({"\x1b[2Ja\nb", "1"});
  table.add_row({"c", "2"});
  EXPECT_EQ(table.str(),
            "name               energy (J)\n"
            "-----------------  ----------\n"
            "\\u001b[2Ja\\u000ab           1\n"
            "c                           2\n");
}

TEST(FormatFixed, HasNoNegativeZeroAndNoNan) {
  EXPECT_EQ(format_fixed(-0.0004, 2), "0.00");
  EXPECT_EQ(format_fixed(-0.0051, 2), "-0.01");
  EXPECT_EQ(format_fixed(std::numeric_limits<double>::quiet_NaN(), 2), "-");
  EXPECT_EQ(format_signed(0.001, 2), "0.00");
  EXPECT_EQ(format_signed(1.25, 1), "+1.2");
  EXPECT_EQ(format_signed(-1.25, 2), "-1.25");
}

}  // namespace
}  // namespace flyball
