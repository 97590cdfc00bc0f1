#include "net/query_string.h"

#include <gtest/gtest.h>

namespace flyball {
namespace {

TEST(QueryString, TakesATargetApart) {
  const auto target = parse_target("/gpu/get%20power?gpu_ids=0%2C1&a=b+c&flag&a=2");
  ASSERT_TRUE(target.has_value());
  EXPECT_EQ(target->path, "/gpu/get power");
  EXPECT_EQ(target->query.find("gpu_ids"), "0,1");
  EXPECT_EQ(target->query.find("a"), "b c");
  EXPECT_EQ(target->query.find("flag"), "");
  EXPECT_EQ(target->query.find("b"), std::nullopt);
  EXPECT_EQ(target->query.pairs().size(), 4u);
}

TEST(QueryString, RefusesWhatIsNoTarget) {
  for (const char* wrong : {"", "v1", "http://x/", "*", "/%", "/%2", "/%zz", "/%00", "/%0a", "/a?b=%", "/\x7f",
                            "/\xE2\x82", "/%E2%82", "/%FF", "/a?b=%C3"}) {
    EXPECT_FALSE(parse_target(wrong).has_value()) << wrong;
  }
}

TEST(QueryString, EncodingAndDecodingUndoEachOther) {
  const std::string text = "GPU:0,DRAM:0 & 100 % ü/?=+";
  EXPECT_EQ(percent_decode(percent_encode(text)), text);
  EXPECT_EQ(percent_encode("a b+"), "a%20b%2B");
  EXPECT_EQ(percent_decode("a+b"), "a+b");
}

TEST(QueryString, EmptyPairsAreSkipped) { EXPECT_TRUE(parse_target("/a?&&")->query.pairs().empty()); }

}  // namespace
}  // namespace flyball
