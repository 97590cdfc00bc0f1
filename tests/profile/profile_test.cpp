#include "profile/profile.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "support/expect_error.h"

namespace flyball {
namespace {

const std::string kHeader = "stage,instruction,frequency,time,energy\n";

Profile read(const std::string& text) { return read_profile("p.csv", text); }

TEST(Profile, ReadsOperationsByStageHighestClockFirst) {
  const Profile profile = read("# a comment\n" + kHeader +
                               "1,forward,1410,0.02,6\n"
                               "0,forward,1000,0.03,5\n"
                               "0,forward,1410,0.02,7\n"
                               "0,backward,1410,0.04,14\n");
  EXPECT_EQ(profile.stages, 2);
  ASSERT_EQ(profile.operations.size(), 3u);
  EXPECT_EQ(profile.operations[0].instruction, "forward");
  EXPECT_EQ(profile.operations[1].instruction, "backward");
  EXPECT_EQ(profile.operations[2].stage, 1);
  EXPECT_EQ(profile.operations[0].line, 4u);
  ASSERT_EQ(profile.operations[0].options.size(), 2u);
  EXPECT_EQ(profile.operations[0].options[0].frequency, Megahertz(1410));
  EXPECT_EQ(profile.operations[0].options[1].time, Seconds(0.03));
  EXPECT_FALSE(profile.operations[0].constant_time());
  EXPECT_TRUE(profile.operations[1].constant_time());
  EXPECT_EQ(profile.find(0, "backward"), &profile.operations[1]);
  EXPECT_EQ(profile.find(1, "backward"), nullptr);
}

TEST(Profile, ColumnsMayStandInAnyOrder) {
  const Profile profile = read("energy,time_sd,time,stage,,frequency,instruction\n7,0.1,0.02,0,index,1410,forward\n");
  EXPECT_EQ(profile.operations.at(0).options.at(0).energy, Joules(7));
  // A column without a name, as pandas writes one for the index, and deviations are no labels.
  EXPECT_TRUE(profile.label_columns.empty());
  EXPECT_TRUE(profile.operations.at(0).labels.empty());
}

const std::string kLabelHeader = "stage,instruction,frequency,recompute,sm,time,energy\n";

// Rows may stand in any order. Options are kept by falling clock, and at one clock by rising time.
TEST(Profile, RowsOfOneClockThatDifferInALabelAreDifferentOptions) {
  const Profile profile = read(kLabelHeader +
                               "0,backward,1200,no,6,0.05,11\n"
                               "0,backward,1410,,12,0.041,13\n"
                               "0,backward,1410,no,6,0.040,14\n"
                               "0,forward,1410,,,0.02,7\n"
                               "0,forward,1200,,,0.03,5\n");
  EXPECT_EQ(profile.label_columns, (std::vector<std::string>{"recompute", "sm"}));
  const OperationProfile& backward = profile.operations.at(0);
  ASSERT_EQ(backward.options.size(), 3u);
  EXPECT_EQ(backward.options[0].time, Seconds(0.040));
  EXPECT_EQ(backward.options[1].time, Seconds(0.041));
  EXPECT_EQ(backward.options[2].frequency, Megahertz(1200));
  EXPECT_EQ(label_text(backward.labels.of(0)), "recompute=no, sm=6");
  EXPECT_EQ(backward.labels.of(1), (OptionLabels{{"sm", "12"}}));
  EXPECT_TRUE(backward.labels.alike(0, 2));
  EXPECT_FALSE(backward.labels.alike(0, 1));
  EXPECT_TRUE(profile.operations.at(1).labels.empty());
  EXPECT_TRUE(profile.operations.at(1).labels.of(1).empty());
  const std::string written = write_profile(profile, {});
  EXPECT_EQ(written, kLabelHeader +
                         "0,backward,1410,no,6,0.04,14\n"
                         "0,backward,1410,,12,0.041,13\n"
                         "0,backward,1200,no,6,0.05,11\n"
                         "0,forward,1410,,,0.02,7\n"
                         "0,forward,1200,,,0.03,5\n");
  EXPECT_EQ(write_profile(read(written), {}), written);
}

// As for clocks: max(0.020, 0.022) and (6 + 7) / 2 for sm=6, and what one rank alone measured falls away.
TEST(Profile, RanksAreMergedByClockAndLabels) {
  const Profile profile = read(
      "stage,instruction,frequency,time,energy,rank,sm\n"
      "0,forward,1410,0.020,6,0,6\n"
      "0,forward,1410,0.019,9,0,12\n"
      "0,forward,1410,0.022,7,1,6\n"
      "0,forward,1200,0.030,5,1,6\n");
  const OperationProfile& forward = profile.operations.at(0);
  ASSERT_EQ(forward.options.size(), 1u);
  EXPECT_EQ(forward.options[0].time, Seconds(0.022));
  EXPECT_EQ(forward.options[0].energy, Joules(6.5));
  EXPECT_EQ(label_text(forward.labels.of(0)), "sm=6");
}

TEST(Profile, PowerLimitsMayStandInPlaceOfClocks) {
  const Profile profile = read(
      "stage,instruction,power_limit,time,energy\n0,forward,250,0.02,5\n0,forward,300,0.018,5.3\n0,p2p,,0.001,0.1\n");
  const OperationProfile& forward = profile.operations.at(0);
  ASSERT_EQ(forward.options.size(), 2u);
  EXPECT_EQ(forward.options[0].frequency, Megahertz(0));
  EXPECT_EQ(label_text(forward.labels.of(0)), "power_limit=300");
  EXPECT_EQ(write_profile(profile, {}),
            "stage,instruction,frequency,power_limit,time,energy\n"
            "0,forward,0,300,0.018,5.3\n0,forward,0,250,0.02,5\n0,p2p,0,,0.001,0.1\n");
}

TEST(Profile, RanksOfAStageAreMerged) {
  // At 1410 MHz the slower rank sets the time, max(0.020, 0.022), and the energies average to (6 + 7) / 2. The clock
  // 1000 MHz was measured on one rank alone and falls away.
  const Profile profile = read(
      "stage,instruction,frequency,time,energy,rank,dp_rank,pp_rank,tp_rank\n"
      "0,forward,1410,0.020,6,0,0,0,0\n"
      "0,forward,1200,0.025,5,0,0,0,0\n"
      "0,forward,1410,0.022,7,1,0,0,1\n"
      "0,forward,1200,0.024,6,1,0,0,1\n"
      "0,forward,1000,0.030,4,1,0,0,1\n");
  const auto& options = profile.operations.at(0).options;
  ASSERT_EQ(options.size(), 2u);
  EXPECT_EQ(options[0].time, Seconds(0.022));
  EXPECT_EQ(options[0].energy, Joules(6.5));
  EXPECT_EQ(options[1].time, Seconds(0.025));
  EXPECT_EQ(options[1].energy, Joules(5.5));
}

TEST(Profile, PipelineRankStandsInForStage) {
  const Profile profile = read("pp_rank,instruction,frequency,time,energy\n0,forward,1,1,1\n1,forward,1,1,1\n");
  EXPECT_EQ(profile.stages, 2);
}

TEST(Profile, IsReadBackAsWritten) {
  const std::string text = kHeader + "0,forward,1410,0.02,7\n0,forward,1395.5,0.021,6.5\n1,forward,1410,0.03,9\n";
  const Profile profile = read(text);
  EXPECT_EQ(write_profile(profile, {}), text);
  const std::string commented = write_profile(profile, {"synthetic", "", "made by a test"});
  EXPECT_EQ(commented, "# synthetic\n#\n# made by a test\n" + text);
  EXPECT_EQ(write_profile(read(commented), {}), text);
}

TEST(Profile, AcceptsWindowsFiles) {
  const Profile profile = read("\xEF\xBB\xBFstage,instruction,frequency,time,energy\r\n0,\"forward\",1410,0.02,7\r\n");
  EXPECT_EQ(profile.operations.at(0).instruction, "forward");
}

struct WrongProfile {
  const char* name;
  std::string text;
  std::size_t line;
  std::size_t column;
  const char* words;
};

class WrongProfiles : public testing::TestWithParam<WrongProfile> {};

TEST_P(WrongProfiles, AreRefusedWithPlaceAndMend) {
  const WrongProfile& wrong = GetParam();
  expect_input_error([&] { static_cast<void>(read(wrong.text)); }, wrong.line, wrong.column, wrong.words);
}

// Columns of the row "0,forward,1410,0.02,7": stage 1, instruction 3, frequency 11, time 16, energy 21.
INSTANTIATE_TEST_SUITE_P(
    Profile, WrongProfiles,
    testing::Values(
        WrongProfile{"EmptyFile", "", 0, 0, "no header"}, WrongProfile{"HeaderOnly", kHeader, 1, 1, "no rows"},
        WrongProfile{"NoHeader", "0,forward,1410,0.02,7\n", 1, 1, "no column 'instruction'"},
        WrongProfile{"NoTimeColumn", "stage,instruction,frequency,energy\n", 1, 1, "no column 'time'"},
        WrongProfile{"NoStageColumn", "instruction,frequency,time,energy\n", 1, 1, "no column 'stage'"},
        WrongProfile{"ColumnTwice", "stage,instruction,frequency,time,time,energy\n", 1, 34, "'time' stands twice"},
        WrongProfile{"Nan", kHeader + "0,forward,1410,nan,7\n", 2, 16, "time is 'nan'"},
        WrongProfile{"Infinity", kHeader + "0,forward,1410,0.02,inf\n", 2, 21, "energy is 'inf'"},
        WrongProfile{"Overflow", kHeader + "0,forward,1410,1e999,7\n", 2, 16, "not a finite number"},
        WrongProfile{"NegativeTime", kHeader + "0,forward,1410,-0.02,7\n", 2, 16, "must be above zero"},
        WrongProfile{"ZeroTime", kHeader + "0,forward,1410,0,7\n", 2, 16, "must be above zero"},
        WrongProfile{"NegativeEnergy", kHeader + "0,forward,1410,0.02,-7\n", 2, 21, "must be above zero"},
        WrongProfile{"TimeInMicroseconds", kHeader + "0,forward,1410,2e7,7\n", 2, 16, "from 1e-09 to 1000000"},
        WrongProfile{"TimeBelowANanosecond", kHeader + "0,forward,1410,1e-12,7\n", 2, 16, "write the time in s"},
        WrongProfile{"HugeEnergy", kHeader + "0,forward,1410,0.02,7e12\n", 2, 21, "write the energy in J"},
        WrongProfile{"NegativeClock", kHeader + "0,forward,-1410,0.02,7\n", 2, 11, "frequency is -1410 MHz"},
        WrongProfile{"ClockInHertz", kHeader + "0,forward,1410000000,0.02,7\n", 2, 11, "from 0 to 1000000"},
        WrongProfile{"UnitInField", kHeader + "0,forward,1410 MHz,0.02,7\n", 2, 11, "'1410 MHz'"},
        WrongProfile{"FractionalStage", kHeader + "0.5,forward,1410,0.02,7\n", 2, 1, "not a whole number"},
        WrongProfile{"NegativeStage", kHeader + "-1,forward,1410,0.02,7\n", 2, 1, "from 0 to 99999"},
        WrongProfile{"HugeStage", kHeader + "100000,forward,1410,0.02,7\n", 2, 1, "from 0 to 99999"},
        WrongProfile{"NamelessInstruction", kHeader + "0,,1410,0.02,7\n", 2, 3, "no name"},
        WrongProfile{"MissingStage", kHeader + "0,forward,1410,0.02,7\n2,forward,1410,0.02,7\n", 3, 1,
                     "stage 2 has rows but stage 1 has none"},
        WrongProfile{"StagesFromOne", kHeader + "1,forward,1410,0.02,7\n", 2, 1, "stage 0 has none"},
        WrongProfile{"DuplicateClock", kHeader + "0,forward,1410,0.02,7\n0,forward,1410,0.03,6\n", 3, 11,
                     "1410 MHz stands twice"},
        WrongProfile{"Unsorted", kHeader + "0,f,1410,0.02,7\n0,f,1200,0.03,6\n0,f,1300,0.025,6.5\n", 4, 5,
                     "1300 MHz follows 1200 MHz in a falling list"},
        WrongProfile{"UnsortedRising", kHeader + "0,f,1200,0.03,6\n0,f,1410,0.02,7\n0,f,1300,0.025,6.5\n", 4, 5,
                     "in a rising list"},
        WrongProfile{"ShortRow", kHeader + "0,forward,1410,0.02\n", 2, 16, "4 fields, the header has 5"},
        WrongProfile{"LongRow", kHeader + "0,forward,1410,0.02,7,8\n", 2, 23, "6 fields, the header has 5"},
        WrongProfile{"CommaForPoint", kHeader + "0,forward,1410,0,02,7\n", 2, 21, "6 fields"},
        WrongProfile{"NoCommonClock",
                     "stage,instruction,frequency,time,energy,rank\n0,f,1410,0.02,7,0\n0,f,1400,0.02,7,1\n", 2, 1,
                     "no clock in common"},
        WrongProfile{"OptionTwice", kLabelHeader + "0,f,1410,,6,0.02,7\n0,f,1200,,6,0.03,6\n0,f,1410,,6,0.021,6\n", 4,
                     5, "clock 1410 MHz with sm=6 stands twice for stage 0 f"},
        WrongProfile{"UnsortedWithoutLabels",
                     kLabelHeader + "0,f,1410,,,0.02,7\n0,f,1200,,,0.03,6\n0,f,1300,,,0.025,6.5\n", 4, 5,
                     "1300 MHz follows 1200 MHz in a falling list"},
        WrongProfile{"NoCommonOption",
                     "stage,instruction,frequency,time,energy,rank,temperature\n"
                     "0,f,1410,0.02,7,0,61\n0,f,1410,0.02,7,1,63\n",
                     2, 1, "no option in common"},
        WrongProfile{"LimitNoNumber", "stage,instruction,power_limit,time,energy\n0,f,250 W,0.02,5\n", 2, 5,
                     "power_limit is '250 W'"},
        WrongProfile{"LimitOfNothing", "stage,instruction,power_limit,time,energy\n0,f,0,0.02,5\n", 2, 5,
                     "must be above 0"},
        WrongProfile{"RankNoNumber", "stage,instruction,frequency,time,energy,rank\n0,f,1410,0.02,7,x\n", 2, 17,
                     "rank is 'x'"}),
    [](const auto& tested) { return tested.param.name; });

// Two ranks of one stage at 1410 MHz: the slower time, max(0.020, 0.022), and the mean energy, (6 + 7) / 2. Only one of
// them measured 1000 MHz.
TEST(Profile, RowsNeedNoText) {
  const auto row = [](long stage, long rank, double clock, double time, double energy) {
    return ProfileRow{stage, "forward", rank, {Megahertz(clock), Seconds(time), Joules(energy)}};
  };
  const auto profile = [](const std::vector<ProfileRow>& rows) { return profile_of_rows("rows", rows); };
  const Profile merged =
      profile({row(0, 0, 1410, 0.020, 6), row(0, 70'000, 1410, 0.022, 7), row(0, 0, 1000, 0.030, 4)});
  const auto& options = merged.operations.at(0).options;
  ASSERT_EQ(options.size(), 1u);
  EXPECT_EQ(options[0].time, Seconds(0.022));
  EXPECT_EQ(options[0].energy, Joules(6.5));
  const auto expect_refused = [&](const std::vector<ProfileRow>& rows, const std::string& words) {
    expect_input_error([&] { static_cast<void>(profile(rows)); }, 0, 0, words);
  };
  expect_refused({}, "rows: the profile has no rows");
  expect_refused({row(-1, 0, 1410, 0.02, 7)}, "rows: stage is -1");
  expect_refused({row(0, 0, std::nan(""), 0.02, 7)}, "rows: frequency is nan MHz");
  expect_refused({row(0, 0, 1410, std::nan(""), 7)}, "rows: time is nan");
  expect_refused({row(0, 0, 1410, 0.02, 7e12)}, "rows: energy is 7000000000000 J");
  expect_refused({row(0, 0, 1410, 0.02, 7), row(0, 1, 1400, 0.02, 7)}, "rows: the ranks of stage 0 forward");
  expect_refused({row(1, 0, 1410, 0.02, 7)}, "rows: stage 1 has rows but stage 0 has none");
}

TEST(Profile, MoreClocksThanAnyGpuHasAreRefused) {
  std::string text = kHeader;
  for (int clock = 0; clock <= 10'000; ++clock) text += "0,f," + std::to_string(20'000 - clock) + ",0.02,7\n";
  expect_input_error([&] { static_cast<void>(read(text)); }, 10'002, 5, "more than 10000 clocks");
}

TEST(Profile, ShippedProfilesAreReadable) {
  int read_files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(FLYBALL_SOURCE_DIR "/examples/profiles")) {
    const Profile profile = read_profile_file(entry.path());
    EXPECT_GE(profile.stages, 4) << entry.path();
    for (int stage = 0; stage < profile.stages; ++stage) {
      for (const char* instruction : {"forward", "backward"}) {
        const OperationProfile* operation = profile.find(stage, instruction);
        ASSERT_NE(operation, nullptr) << entry.path();
        EXPECT_GT(operation->options.size(), 10u) << entry.path();
      }
    }
    ++read_files;
  }
  EXPECT_GT(read_files, 0);
}

}  // namespace
}  // namespace flyball
