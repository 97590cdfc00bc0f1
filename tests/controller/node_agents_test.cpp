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

TEST(NodeAgents, AreNamedLineByLine) {
  const TempFolder folder;
  const std::string file =
      folder.file("agents", "# nodes of the first rack\nn1 https://n1:4938\n\nn2\t10.0.0.2:4938 # new\n");
  EXPECT_THAT(read_agent_addresses(file), ElementsAre(Pair("n1", "https://n1:4938"), Pair("n2", "10.0.0.2:4938")));
  for (const char* const wrong : {"n1 https://n1:4938\nn2\n", "\nn1 n1:4938 n2:4938\n"}) {
    try {
      (void)read_agent_addresses(folder.file("wrong", wrong));
      ADD_FAILURE() << wrong;
    } catch (const InputError& error) {
      EXPECT_EQ(error.where().line, 2u);
      EXPECT_THAT(error.what(), HasSubstr("expected a node and its agent's address"));
    }
  }
}

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
