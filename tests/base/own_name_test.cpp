#include "base/own_name.h"

#include <gtest/gtest.h>

namespace flyball {
namespace {

// Names of DAG files are anybody's: those that only end like first or last microbatches are whole names.
TEST(OwnName, IsThatOfAComputationOrOfAChunks) {
  for (const std::string common : {"forward", "backward.1", "recompute.12", "backward_input", "backward_weight"}) {
    for (const Microbatches of : {Microbatches::kAll, Microbatches::kFirst, Microbatches::kLast}) {
      const std::string name = own_name(common, of);
      EXPECT_EQ(microbatches_of(name), of) << name;
      EXPECT_EQ(common_name(name), common);
    }
  }
  for (const char* name : {"block.first", "p2p.last", "forward.x.first", "forward..first", ".first", "first", "",
                           "forward.first.last", "forward.firsts", "forward.1.2.last"}) {
    EXPECT_FALSE(is_own_name(name)) << name;
    EXPECT_EQ(common_name(name), name);
  }
}

}  // namespace
}  // namespace flyball
