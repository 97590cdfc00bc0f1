// Clusters of several partitions: what a controller has of these, and that it leaves the rest to others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "controller/controller_site.h"

namespace flyball {
namespace {

using testing::a100_cluster;
using testing::elastic;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using testing::Site;

// Nodes n1 and n2 are in partition train, n2 to n4 in partition test.
struct TwoPartitions : Site {
  explicit TwoPartitions(ControllerOptions how = a100_cluster()) : Site(4, std::move(how)) {
    engine.node("n1").partitions = {"train"};
    engine.node("n2").partitions = {"train", "test"};
    for (const char* const name : {"n3", "n4"}) engine.node(name).partitions = {"test"};
  }
};

ControllerOptions of_partition(const std::string& name) {
  ControllerOptions made = a100_cluster();
  made.partition = name;
  return made;
}

std::vector<std::string> nodes_of(const Site& site) {
  std::vector<std::string> names;
  for (const ClusterNodeStatus& one : site.controller->status().nodes) names.push_back(one.node);
  return names;
}

TEST(Partitions, AControllerHasTheNodesAndJobsOfOne) {
  TwoPartitions site(of_partition("train"));
  site.engine.submit(1, elastic("bert")).partition = "train";
  site.engine.submit(2, elastic("bert")).partition = "test";
  site.cycles(10);
  EXPECT_THAT(nodes_of(site), ElementsAre("n1", "n2"));
  EXPECT_EQ(site.controller->status().partition, "train");
  EXPECT_EQ(site.gpus(1), 8);
  // Its hold is another controller's.
  EXPECT_TRUE(site.engine.job(2).held);
  EXPECT_THAT(site.why(2), HasSubstr("no such job"));
  for (const std::string& act : site.engine.acts) EXPECT_THAT(act, EndsWith(" 1"));
}

TEST(Partitions, JobsOfOthersTakeTheirNodesAway) {
  TwoPartitions site(of_partition("train"));
  site.engine.run(2, elastic("bert"), "n2", 1).partition = "test";
  site.engine.submit(1, elastic("bert")).partition = "train";
  site.cycles(10);
  EXPECT_EQ(site.gpus(1), 4);
  EXPECT_EQ(site.gpus(2), 1);
  EXPECT_EQ(site.engine.used("n2"), 1);
}

// The engine would choose, and another controller may have it as well: whoever sees it lets it go.
TEST(Partitions, AJobThatNamesSeveralIsLeftAlone) {
  TwoPartitions site(of_partition("train"));
  site.engine.submit(1, elastic("bert")).partition = "train,test";
  site.cycles(3);
  EXPECT_FALSE(site.engine.job(1).held);
  EXPECT_THAT(site.why(1), HasSubstr("it names several partitions (train,test)"));
}

TEST(Partitions, WithoutOneJobsThatMayNotHaveEachNodeAreLeftAlone) {
  TwoPartitions site;
  site.engine.submit(1, elastic("bert")).partition = "train";
  site.cycles(3);
  EXPECT_THAT(nodes_of(site), ElementsAre("n1", "n2", "n3", "n4"));
  EXPECT_FALSE(site.engine.job(1).held);
  EXPECT_THAT(site.why(1), HasSubstr("its partition, train, does not have node n3"));
  // Nor is it moved where it runs.
  site.engine.job(1).wanted = {{"n1"}, 2};
  site.cycles(5);
  EXPECT_EQ(site.gpus(1), 2);
  EXPECT_EQ(site.requeues(1), 0);
  EXPECT_THAT(site.why(1), HasSubstr("left alone: its partition, train,"));
}

TEST(Partitions, OneThatHasEachNodeIsEnough) {
  Site site(2);
  for (const char* const name : {"n1", "n2"}) site.engine.node(name).partitions = {"train", "all"};
  site.engine.submit(1, elastic("bert")).partition = "all";
  site.cycles(10);
  EXPECT_EQ(site.gpus(1), 8);
}

TEST(Partitions, OneWithoutNodesIsRefused) {
  TwoPartitions site(of_partition("trian"));
  try {
    site.controller->cycle(site.now);
    FAIL() << "nothing was wrong";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("partition trian has no node with"));
  }
}

}  // namespace
}  // namespace flyball
