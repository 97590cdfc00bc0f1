// Checks of what a device's error says.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "driver/device_error.h"

namespace flyball::testing {

// `action` must throw a DeviceError about `device` with `words` in its message.
template <class Action>
void expect_fault(Action&& action, DeviceFault fault, const std::string& device, const std::string& words) {
  try {
    std::forward<Action>(action)();
    ADD_FAILURE() << "no error; expected one with: " << words;
  } catch (const DeviceError& error) {
    EXPECT_EQ(error.fault(), fault) << error.what();
    EXPECT_EQ(error.device(), device);
    EXPECT_THAT(error.what(), ::testing::HasSubstr(words));
  }
}

}  // namespace flyball::testing
