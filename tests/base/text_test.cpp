#include "base/text.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "support/expect_error.h"

namespace flyball {
namespace {

namespace fs = std::filesystem;

class TextFile : public testing::Test {
 protected:
  TextFile() { fs::create_directories(folder_); }
  ~TextFile() override { fs::remove_all(folder_); }

  fs::path folder_ = fs::path(testing::TempDir()) / ("flyball_text_" + std::to_string(::getpid()) + "_" +
                                                     testing::UnitTest::GetInstance()->current_test_info()->name());
};

TEST_F(TextFile, WritesAndReadsTheSameBytes) {
  const std::string text("a\r\n\0b\xff", 6);
  write_text_file(folder_ / "new" / "folder" / "file", text);
  EXPECT_EQ(read_text_file(folder_ / "new" / "folder" / "file"), text);
}

TEST_F(TextFile, WritingLeavesNothingElseBehind) {
  write_text_file(folder_ / "file", "old");
  write_text_file(folder_ / "file", "new");
  EXPECT_EQ(read_text_file(folder_ / "file"), "new");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1);
}

// As root a rename onto a device would replace it by a plain file.
TEST_F(TextFile, WritesIntoWhatIsNoPlainFileAndReplacesNone) {
  write_text_file(folder_ / "file", "old");
  std::filesystem::permissions(folder_ / "file", std::filesystem::perms::owner_all);
  write_text_file(folder_ / "file", "new");
  EXPECT_EQ(std::filesystem::status(folder_ / "file").permissions(), std::filesystem::perms::owner_all);
  std::filesystem::create_symlink("file", folder_ / "link");
  write_text_file(folder_ / "link", "through the link");
  EXPECT_TRUE(std::filesystem::is_symlink(folder_ / "link"));
  EXPECT_EQ(read_text_file(folder_ / "file"), "through the link");
  EXPECT_THROW(write_text_file("/dev/full", "x"), SystemError);
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/full"));
}

TEST_F(TextFile, RefusesWhatIsNoFile) {
  EXPECT_THROW(static_cast<void>(read_text_file(folder_ / "absent")), SystemError);
  EXPECT_THROW(static_cast<void>(read_text_file(folder_)), SystemError);
  EXPECT_THROW(write_text_file(folder_, "x"), SystemError);  // a folder is in the way
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 0);
}

TEST_F(TextFile, RefusesAGigabyteUnread) {
  const fs::path path = folder_ / "huge.csv";
  std::ofstream(path).put('x');
  fs::resize_file(path, std::uintmax_t{1} << 30);  // sparse
  expect_input_error([&] { static_cast<void>(read_text_file(path)); }, 0, 0, "larger than 256 MiB");
}

TEST_F(TextFile, TheLimitItselfIsAllowed) {
  write_text_file(folder_ / "file", std::string(10, 'x'));
  EXPECT_EQ(read_text_file(folder_ / "file", 10).size(), 10u);
  EXPECT_THROW(static_cast<void>(read_text_file(folder_ / "file", 9)), InputError);
}

TEST(ParseNumber, TakesPlainFiniteNumbersOnly) {
  EXPECT_EQ(parse_number("1.5"), 1.5);
  EXPECT_EQ(parse_number(" -2e-3 "), -2e-3);
  EXPECT_EQ(parse_number("+7"), 7.0);
  for (const char* wrong : {"", " ", "nan", "inf", "-inf", "1e999", "1,5", "1.5s", "0x10", "+-5", "++5", "1 2", "-"}) {
    EXPECT_EQ(parse_number(wrong), std::nullopt) << wrong;
  }
}

TEST(ParseInteger, TakesWholeNumbersOnly) {
  EXPECT_EQ(parse_integer("12"), 12);
  EXPECT_EQ(parse_integer("-3"), -3);
  for (const char* wrong : {"", "1.0", "1e3", "99999999999999999999", "abc", "+-1"}) {
    EXPECT_EQ(parse_integer(wrong), std::nullopt) << wrong;
  }
}

TEST(ParseDuration, KnowsFourUnitsAndBareSeconds) {
  EXPECT_EQ(parse_duration_seconds("1.5"), 1.5);
  EXPECT_EQ(parse_duration_seconds("1.5s"), 1.5);
  EXPECT_EQ(parse_duration_seconds("10ms"), 10e-3);
  EXPECT_EQ(parse_duration_seconds(" 250 us "), 250e-6);
  EXPECT_EQ(parse_duration_seconds("3ns"), 3e-9);
  EXPECT_EQ(parse_duration_seconds("1e-3"), 1e-3);
  for (const char* wrong : {"", "ms", "10 min", "10 m s", "x10ms", "nan", "inf s"}) {
    EXPECT_EQ(parse_duration_seconds(wrong), std::nullopt) << wrong;
  }
}

TEST(ParseBytes, KnowsDecimalAndBinaryUnits) {
  EXPECT_EQ(parse_bytes("40 GB"), 40e9);
  EXPECT_EQ(parse_bytes("11.5GiB"), 11.5 * 1024 * 1024 * 1024);
  EXPECT_EQ(parse_bytes(" 512 MiB "), 512.0 * 1024 * 1024);
  EXPECT_EQ(parse_bytes("1.5kB"), 1500.0);
  EXPECT_EQ(parse_bytes("7B"), 7.0);
  for (const char* wrong : {"", "GB", "40", "40 gb", "40 Gb", "4e GB", "nan GB", "40GB/2GB"}) {
    EXPECT_EQ(parse_bytes(wrong), std::nullopt) << wrong;
  }
}

TEST(CsvReader, SkipsCommentsAndBlankLinesButCountsThem) {
  CsvReader csv("t.csv", "# made by hand\n\na,b\n1,2\n  \n# more\n3,4", {"a", "b"});
  ASSERT_TRUE(csv.next());
  EXPECT_EQ(csv.number("b"), 2.0);
  EXPECT_EQ(csv.line(), 4u);
  ASSERT_TRUE(csv.next());
  EXPECT_EQ(csv.integer("a"), 3);
  EXPECT_EQ(csv.line(), 7u);
  EXPECT_FALSE(csv.next());
  EXPECT_FALSE(csv.next());
}

TEST(CsvReader, AcceptsByteOrderMarkCarriageReturnsBlanksAndQuotes) {
  CsvReader csv("t.csv", "\xEF\xBB\xBF\"a\" , b\r\n\"1\" , x y \r\n", {"a", "b"});
  ASSERT_TRUE(csv.next());
  EXPECT_EQ(csv.integer("a"), 1);
  EXPECT_EQ(csv.text("b"), "x y");
  EXPECT_FALSE(csv.next());
}

TEST(CsvReader, TakesCommasInQuotesAndRefusesQuotesInsideFields) {
  CsvReader csv("t.csv", "a,b\n1,\"x\n1,\"x,y\"\n1,x\"\"y\n1,\" x \"\n", {"a", "b"});
  expect_input_error([&] { csv.next(); }, 2, 3, "a quote stands inside a field");
  ASSERT_TRUE(csv.next());
  EXPECT_EQ(csv.text("b"), "x,y");
  expect_input_error([&] { csv.next(); }, 4, 3, "a quote stands inside a field");
  ASSERT_TRUE(csv.next());
  EXPECT_EQ(csv.text("b"), "x");
  expect_input_error([] { CsvReader("t.csv", "a,\"b\n", {"a"}); }, 1, 3, "a quote stands inside a field");
}

TEST(CsvReader, KnowsWhichColumnsThereAre) {
  CsvReader csv("t.csv", "a,extra\n", {"a"});
  EXPECT_TRUE(csv.has_column("extra"));
  EXPECT_FALSE(csv.has_column("b"));
  EXPECT_FALSE(csv.next());
}

TEST(CsvReader, RefusesWrongHeaders) {
  const auto open = [](std::string_view text) { CsvReader("t.csv", text, {"a", "b"}); };
  expect_input_error([&] { open(""); }, 0, 0, "no header");
  expect_input_error([&] { open("# only a comment\n\n"); }, 0, 0, "no header");
  expect_input_error([&] { open("# c\na,c\n"); }, 2, 1, "no column 'b'");
  expect_input_error([&] { open("a,b,a\n"); }, 1, 5, "'a' stands twice");
}

TEST(CsvReader, PointsAtTheWrongField) {
  CsvReader csv("t.csv", "a,b\n10,xyz\n1,2,3\n1\n", {"a", "b"});
  ASSERT_TRUE(csv.next());
  expect_input_error([&] { static_cast<void>(csv.number("b")); }, 2, 4, "b is 'xyz', not a finite number");
  expect_input_error([&] { static_cast<void>(csv.integer("b")); }, 2, 4, "not a whole number");
  // Rows of another length are told at their last field.
  expect_input_error([&] { csv.next(); }, 3, 5, "3 fields, the header has 2");
  expect_input_error([&] { csv.next(); }, 4, 1, "1 fields, the header has 2");
}

}  // namespace
}  // namespace flyball
