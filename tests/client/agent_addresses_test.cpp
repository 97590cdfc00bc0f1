// The file that names a fleet's agents.
#include "client/agent_addresses.h"

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

TEST(AgentAddresses, AreNamedLineByLine) {
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

}  // namespace
}  // namespace flyball
