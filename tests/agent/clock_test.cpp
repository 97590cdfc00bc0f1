// A jump of the wall clock must change nothing: the agent, its network code and its client may only tell it to others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/text.h"

namespace flyball {
namespace {

TEST(Clock, OnlyZeusdsTimestampsReadTheWallClock) {
  int files = 0;
  for (const char* folder : {"agent", "net", "client", "wire"}) {
    for (const auto& file :
         std::filesystem::directory_iterator(std::filesystem::path(FLYBALL_SOURCE_DIR "/src") / folder)) {
      if (file.path().filename() == "zeusd_routes.cpp" || !file.is_regular_file()) continue;
      ++files;
      const std::string text = read_text_file(file.path());
      for (const char* word : {"system_clock", "CLOCK_REALTIME", "gettimeofday", "time(nullptr)", "system_timer"}) {
        EXPECT_THAT(text, ::testing::Not(::testing::HasSubstr(word))) << file.path();
      }
    }
  }
  EXPECT_GT(files, 30);
}

}  // namespace
}  // namespace flyball
