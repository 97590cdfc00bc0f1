#include "agent/journal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <fstream>

#include "support/temp_folder.h"

namespace flyball {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::TempFolder;

TEST(Journal, KeepsTheLatestEntryOfEachGpu) {
  const TempFolder folder;
  GpuSettings before;
  before.sm_clocks = ClockBounds{Megahertz(210), Megahertz(1200)};
  before.power_limit = Watts(199.5);
  {
    const Journal journal(folder / "state");
    journal.write({"GPU-1", {}, "alice", {}});
    journal.write({"GPU-1", {Knob::kSmClocks, Knob::kPowerLimit}, "alice \"a\"\n", before});
    journal.write({"GPU-2", {Knob::kMemoryClocks}, "bob", {}});
    journal.write({"GPU-3", {}, "", {}});
    journal.remove("GPU-3");
    journal.remove("GPU-4");  // was never there
  }
  const Journal journal(folder / "state");
  const Journal::Found found = journal.read();
  ASSERT_EQ(found.entries.size(), 2u);
  EXPECT_EQ(found.entries[0].uuid, "GPU-1");
  EXPECT_EQ(found.entries[0].holder, "alice \"a\"\n");
  EXPECT_THAT(found.entries[0].knobs, ElementsAre(Knob::kSmClocks, Knob::kPowerLimit));
  EXPECT_EQ(found.entries[0].before, before);
  EXPECT_EQ(found.entries[1].uuid, "GPU-2");
  EXPECT_THAT(found.unreadable, IsEmpty());
}

// As agents wrote them that brought back defaults.
TEST(Journal, AnEntryWithoutWhatHeldBeforeIsRead) {
  const TempFolder folder;
  const Journal journal(folder / "state");
  std::ofstream(folder / "state/GPU-1.gpu.json") << R"({"uuid":"GPU-1","knobs":["power_limit"],"holder":"alice"})";
  ASSERT_EQ(journal.read().entries.size(), 1u);
  EXPECT_THAT(journal.read().entries[0].knobs, ElementsAre(Knob::kPowerLimit));
  EXPECT_FALSE(journal.read().entries[0].before.has_value());
}

TEST(Journal, KeepsCapsAndWhatWouldBecomeOne) {
  const TempFolder folder;
  const Cap cap{Watts(180), "alice", Seconds(1'800'000'000.5)};
  const Journal journal(folder / "state");
  journal.write({"GPU-1", {Knob::kPowerLimit}, "bob", GpuSettings{}, std::vector{Watts(180)}, Watts(160), cap});
  ASSERT_EQ(journal.read().entries.size(), 1u);
  EXPECT_EQ(journal.read().entries[0].lost_limit, Watts(160));
  EXPECT_EQ(journal.read().entries[0].cap, cap);
  journal.remove("GPU-1", true);
  EXPECT_THAT(journal.read().entries, IsEmpty());
}

// An entry as docs/manual/agent-faults.md shows it, for agents to come.
TEST(Journal, TheWrittenFormOfACapIsRead) {
  const TempFolder folder;
  const Journal journal(folder / "state", MachineBoot{});
  std::ofstream(folder / "state/GPU-1.gpu.json")
      << R"({"uuid":"GPU-1","knobs":["power_limit"],"holder":"a","before":{"power_limit_w":250},)"
         R"("set_power_limits_w":[180],"cap":{"power_limit_w":180,"holder":"a","since_s":1795366995.25}})";
  ASSERT_EQ(journal.read().entries.size(), 1u);
  EXPECT_EQ(journal.read().entries[0].cap, (Cap{Watts(180), "a", Seconds(1795366995.25)}));
  EXPECT_FALSE(journal.read().entries[0].lost_limit.has_value());
}

TEST(Journal, TellsEntriesOfThisBootFromThoseOfAnother) {
  const TempFolder folder;
  {
    const Journal journal(folder / "state", MachineBoot{"boot 1"});
    journal.write({"GPU-1", {Knob::kPowerLimit}, "alice", GpuSettings{}, std::vector{Watts(150), Watts(160.5)}});
    ASSERT_EQ(journal.read().entries.size(), 1u);
    EXPECT_THAT(*journal.read().entries[0].set_limits, ElementsAre(Watts(150), Watts(160.5)));
    std::ofstream(folder / "state/GPU-2.gpu.json") << R"({"uuid":"GPU-2","knobs":[],"holder":""})";  // tells none
  }
  {
    const Journal journal(folder / "state", MachineBoot{"boot 2"});
    const Journal::Found found = journal.read();
    ASSERT_EQ(found.outlived.size(), 1u);
    EXPECT_EQ(found.outlived[0].uuid, "GPU-1");
    ASSERT_EQ(found.entries.size(), 1u);
    EXPECT_EQ(found.entries[0].uuid, "GPU-2");
    EXPECT_FALSE(found.entries[0].set_limits.has_value());
  }
  EXPECT_EQ(Journal(folder / "state", MachineBoot{}).read().entries.size(), 2u) << "a machine that does not tell";
}

// A container's id may be new at each of its starts; the kernel below it says when the machine was started, in whole
// seconds of a wall clock that may be set right meanwhile.
TEST(Journal, ABootIsAnotherOnlyWhereTheMachineWasStartedAnew) {
  const MachineBoot boot{"a", 1'700'000'000};
  EXPECT_FALSE(another_boot(boot, {"b", 1'700'000'000}));
  EXPECT_FALSE(another_boot(boot, {"b", 1'700'000'009}));
  EXPECT_FALSE(another_boot(boot, {"b", 1'699'999'991}));
  EXPECT_TRUE(another_boot(boot, {"b", 1'700'000'060}));
  EXPECT_TRUE(another_boot(boot, {"b", 1'699'999'940}));
  EXPECT_FALSE(another_boot(boot, {"a", 1'700'000'060})) << "the clock was set";
  EXPECT_TRUE(another_boot(boot, {"b"})) << "it does not tell when";
  EXPECT_TRUE(another_boot({"a"}, {"b"}));
  EXPECT_FALSE(another_boot({}, boot));
  EXPECT_FALSE(another_boot(boot, {}));
}

TEST(Journal, AnEntrySaysWhenItsMachineWasStarted) {
  const TempFolder folder;
  Journal(folder / "state", {"a", 1'700'000'000}).write({"GPU-1", {Knob::kPowerLimit}, "alice"});
  const Journal::Found found = Journal(folder / "state", {"b", 1'700'000'001}).read();
  ASSERT_EQ(found.entries.size(), 1u);
  EXPECT_EQ(found.entries[0].booted_at, 1'700'000'000);
  EXPECT_EQ(Journal(folder / "state", {"b", 1'700'000'100}).read().outlived.size(), 1u);
}

TEST(Journal, FileNamesOfEveryDriversUuidsNameOneGpu) {
  for (const char* uuid : {"GPU-5d0c19e2-8a3b-4c1d-9e2f-001122334455", "GPU-00112233445566ff", "PCI-0000:03:00.0",
                           "1eff74a0-0000-1000-80c5-3d2b1a000000"}) {
    EXPECT_TRUE(Journal::names_gpu(Journal::file_of(uuid))) << uuid;
  }
  for (const char* file : {".gpu.json", "GPU-.gpu.json", "gpu0.gpu.json", "GPU-1.gpu.json", "backup-of-it.gpu.json",
                           "GPU-00112233445566ff.json"}) {
    EXPECT_FALSE(Journal::names_gpu(file)) << file;
  }
}

TEST(Journal, AUuidCannotLeaveTheFolder) {
  const TempFolder folder;
  const Journal journal(folder / "state");
  journal.write({"../../etc/x", {}, "", {}});
  ASSERT_EQ(journal.read().entries.size(), 1u);
  EXPECT_EQ(journal.read().entries[0].uuid, "../../etc/x");
  journal.remove("../../etc/x");
  EXPECT_THAT(journal.read().entries, IsEmpty());
}

TEST(Journal, DamagedEntriesAreReported) {
  const TempFolder folder;
  const Journal journal(folder / "state");
  for (const char* text : {"", "{", "[]", "{\"uuid\": 7}", R"({"uuid": "a", "holder": "", "knobs": ["fan"]})",
                           R"({"uuid": "a", "holder": ""})", R"({"uuid": "a", "holder": "", "knobs": null})"}) {
    std::ofstream(folder / "state/GPU-1.gpu.json") << text;
    EXPECT_THAT(journal.read().unreadable, ElementsAre("GPU-1.gpu.json")) << text;
  }
  journal.remove_unreadable("GPU-1.gpu.json");
  EXPECT_THAT(journal.read().unreadable, IsEmpty());
}

TEST(Journal, HalfAFileIsNoEntry) {
  const TempFolder folder;
  const Journal journal(folder / "state");
  std::ofstream(folder / "state/GPU-1.gpu.json.tmp") << "{\"uu";
  std::ofstream(folder / "state/notes.txt") << "mine";
  const Journal::Found found = journal.read();
  EXPECT_THAT(found.entries, IsEmpty());
  EXPECT_THAT(found.unreadable, IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(folder / "state/GPU-1.gpu.json.tmp"));
  EXPECT_TRUE(std::filesystem::exists(folder / "state/notes.txt"));
}

TEST(Journal, AFullDiskThrowsAndKeepsTheOldEntry) {
  const TempFolder folder;
  const Journal journal(folder / "state");
  journal.write({"GPU-1", {Knob::kSmClocks}, "alice"});
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit nothing{0, before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &nothing);
  EXPECT_THROW(journal.write({"GPU-1", {Knob::kPowerLimit}, "alice"}), JournalError);
  EXPECT_THROW(journal.write({"GPU-2", {}, "alice"}), JournalError);
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  ASSERT_EQ(journal.read().entries.size(), 1u);
  EXPECT_THAT(journal.read().entries[0].knobs, ElementsAre(Knob::kSmClocks));
}

TEST(Journal, AFolderHasOneUser) {
  const TempFolder folder;
  const Journal journal(folder / "state");
  EXPECT_THROW(Journal(folder / "state"), SystemError);
  std::ofstream(folder / "file") << "";
  EXPECT_THROW(Journal(folder / "file"), SystemError);
}

}  // namespace
}  // namespace flyball
