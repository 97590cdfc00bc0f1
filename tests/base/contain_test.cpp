#include "base/contain.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace flyball {
namespace {

TEST(Contain, AnExceptionEndsTheBodyAndNothingElse) {
  std::vector<std::string> told;
  tell_contained([&](std::string_view where, std::string_view what) {
    told.push_back(std::string(where) + ": " + std::string(what));
  });
  const std::uint64_t before = contained_exceptions();
  bool ran = false;
  std::thread([&] {
    EXPECT_FALSE(contained("a thread", [] { throw std::runtime_error("it broke"); }));
    EXPECT_TRUE(contained("a thread", [&] { ran = true; }));
  }).join();
  EXPECT_TRUE(ran);
  EXPECT_EQ(contained_exceptions(), before + 1);
  EXPECT_EQ(told, std::vector<std::string>{"a thread: it broke"});
  // Within the same second only counted; whatever was thrown, and whatever the telling throws.
  EXPECT_FALSE(contained("another", [] { throw 7; }));
  tell_contained([](std::string_view, std::string_view) { throw std::runtime_error("no log"); });
  EXPECT_FALSE(contained("another", [] { throw 7; }));
  EXPECT_EQ(contained_exceptions(), before + 3);
  EXPECT_EQ(told.size(), 1u);
  tell_contained({});
}

}  // namespace
}  // namespace flyball
