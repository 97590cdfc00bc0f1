// Where the agents of a cluster's nodes are.
#include "controller/node_agents.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "support/temp_folder.h"

namespace flyball {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using testing::TempFolder;

TEST(NodeAgents, NeedAPlaceForTheNodesName) {
  NodeAgentsOptions options;
  options.pattern = "https://n1:4938";
  EXPECT_THROW(NodeAgents{options}, UsageError);
}

// At once, rather than when the cluster has been looked at.
TEST(NodeAgents, RefuseWhatIsNoAddress) {
  NodeAgentsOptions options;
  options.pattern = "{node}";
  EXPECT_THROW(NodeAgents{options}, UsageError);
  options.pattern.clear();
  options.addresses = {{"n1", "n1:port"}};
  EXPECT_THROW(NodeAgents{options}, UsageError);
}

// A node without an agent is not asked, and one that is not there has never answered.
TEST(NodeAgents, ThatAreNotThereHaveNeverAnswered) {
  const TempFolder folder;
  NodeAgentsOptions options;
  options.addresses = {{"n1", folder / "none.sock"}};
  NodeAgents agents(options);
  for (const char* const node : {"n1", "n2"}) agents.add(node);
  EXPECT_EQ(agents.reading("n1").address, folder / "none.sock");
  EXPECT_EQ(agents.reading("n2").address, "");
  for (const char* const node : {"n1", "n2"}) {
    EXPECT_FALSE(agents.reading(node).answers);
    EXPECT_FALSE(agents.reading(node).age.has_value());
  }
}

}  // namespace
}  // namespace flyball
