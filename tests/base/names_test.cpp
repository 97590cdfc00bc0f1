#include "base/names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace flyball {
namespace {

using ::testing::ElementsAre;

enum class Side { kLeft, kRight };
enum class Unnamed { kOne };

}  // namespace

template <>
inline constexpr auto kNamesOf<Side> = name_list("left", "right");

namespace {

static_assert(Named<Side> && !Named<Unnamed> && !Named<int>);

TEST(Names, AreThoseOfTheValuesInTheirOrder) {
  EXPECT_EQ(name_of(Side::kLeft), "left");
  EXPECT_EQ(name_of(Side::kRight), "right");
  EXPECT_THAT(names_of<Side>(), ElementsAre("left", "right"));
  EXPECT_THAT(values_of<Side>(), ElementsAre(Side::kLeft, Side::kRight));
  EXPECT_EQ(value_named<Side>("right"), Side::kRight);
  EXPECT_EQ(value_named<Side>("Right"), std::nullopt);
}

}  // namespace
}  // namespace flyball
