// Checks of what an error says and where.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <utility>

#include "base/error.h"

namespace flyball {

// `action` must throw InputError at line:column (0: does not apply) with `words` in its message, and say how to mend.
template <class Action>
void expect_input_error(Action&& action, std::size_t line, std::size_t column, const std::string& words) {
  try {
    std::forward<Action>(action)();
    ADD_FAILURE() << "no error; expected one with: " << words;
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr(words));
    EXPECT_THAT(error.what(), ::testing::HasSubstr("to mend: "));
    EXPECT_EQ(error.where().line, line) << error.what();
    EXPECT_EQ(error.where().column, column) << error.what();
  }
}

template <class Action>
void expect_usage_error(Action&& action, const std::string& words) {
  try {
    std::forward<Action>(action)();
    ADD_FAILURE() << "no error; expected one with: " << words;
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr(words));
  }
}

}  // namespace flyball
