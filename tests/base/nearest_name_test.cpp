#include "base/nearest_name.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace flyball {
namespace {

const std::vector<std::string> kNames = {"schedule", "stages", "microbatches", "p2p"};

TEST(NearestName, FindsOneSlipOfThePen) {
  EXPECT_EQ(nearest_name("scedule", kNames), "schedule");  // a letter left out
  EXPECT_EQ(nearest_name("stagess", kNames), "stages");    // one too many
  EXPECT_EQ(nearest_name("microbatchez", kNames), "microbatches");
  EXPECT_EQ(nearest_name("sategs", kNames), "stages");  // two swaps: distance 2 of 6 letters
}

TEST(NearestName, SwappedNeighboursAreOneSlip) {
  // One slip in three letters is a third and just tolerated; as two replacements it would not be.
  EXPECT_EQ(nearest_name("ppp", std::vector<std::string>{"p2p"}), "p2p");
  EXPECT_EQ(nearest_name("2pp", std::vector<std::string>{"p2p"}), "p2p");
  EXPECT_EQ(nearest_name("22p", std::vector<std::string>{"pp2"}), "");
}

TEST(NearestName, GuessesNothingWild) {
  EXPECT_EQ(nearest_name("colour", kNames), "");
  EXPECT_EQ(nearest_name("", kNames), "");
  EXPECT_EQ(nearest_name("stages", std::vector<std::string>{}), "");
  EXPECT_EQ(nearest_name(std::string(65, 'a'), std::vector<std::string>{std::string(65, 'a')}), "");
}

TEST(NearestName, TakesTheFirstAmongEquals) {
  EXPECT_EQ(nearest_name("F2", std::vector<std::string>{"F0", "F1"}), "F0");
}

}  // namespace
}  // namespace flyball
