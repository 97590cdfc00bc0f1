#include "account/host_events.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "support/memory_traces.h"

namespace flyball {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::MemoryEvents;

class HostEventsTest : public ::testing::Test {
 protected:
  DeviceTable devices_;
  const DeviceId cpu0_ = devices_.intern("CPU:0");
  const DeviceId gpu_ = devices_.intern("GPU:0");
  const DeviceId dram0_ = devices_.intern("DRAM:0");
  const DeviceId cpu1_ = devices_.intern("CPU:1");
  const DeviceId dram1_ = devices_.intern("DRAM:1");
  const std::vector<DeviceId> measured_ = {cpu0_, gpu_, dram0_, cpu1_, dram1_, gpu_};
};

TEST_F(HostEventsTest, WhatNoEventNamesTakesThoseOfTheProcessor) {
  const auto copies = host_copies({cpu0_, gpu_, cpu0_}, measured_, devices_);
  ASSERT_EQ(copies.size(), cpu0_ + 1u);
  EXPECT_THAT(copies[cpu0_], ElementsAre(dram0_, cpu1_, dram1_));
  EXPECT_EQ(note_on_copies(copies, devices_),
            "CPU:1, DRAM:0, DRAM:1: no event is on them; the program's part is that of what ran on CPU:0 at the time");
}

TEST_F(HostEventsTest, MemoryTakesThoseOfItsOwnSocket) {
  const auto copies = host_copies({cpu0_, cpu1_}, measured_, devices_);
  EXPECT_THAT(copies[cpu0_], ElementsAre(dram0_));
  EXPECT_THAT(copies[cpu1_], ElementsAre(dram1_));
}

TEST_F(HostEventsTest, WithoutEventsOfProcessorsThereIsNothingToTell) {
  EXPECT_THAT(host_copies({gpu_}, measured_, devices_), IsEmpty());
  EXPECT_THAT(host_copies({cpu0_}, {cpu0_, gpu_}, devices_), IsEmpty());
  EXPECT_EQ(note_on_copies({}, devices_), "");
}

TEST_F(HostEventsTest, EachEventIsToldInTheOrderOfTime) {
  MemoryEvents source({{0, 10, cpu0_, 0}, {2, 4, gpu_, 1}, {5, 9, cpu0_, 2}});
  const std::vector<std::vector<DeviceId>> copies = {{dram0_, cpu1_}};
  HostEvents events(source, copies);
  std::vector<std::vector<Nanoseconds>> told;
  for (TraceEvent event; events.next(event);) told.push_back({event.begin, event.end, event.device, event.operation});
  EXPECT_THAT(told, ElementsAre(ElementsAre(0, 10, cpu0_, 0), ElementsAre(0, 10, dram0_, 0),
                                ElementsAre(0, 10, cpu1_, 0), ElementsAre(2, 4, gpu_, 1), ElementsAre(5, 9, cpu0_, 2),
                                ElementsAre(5, 9, dram0_, 2), ElementsAre(5, 9, cpu1_, 2)));
  TraceEvent none;
  EXPECT_FALSE(events.next(none));
}

}  // namespace
}  // namespace flyball
