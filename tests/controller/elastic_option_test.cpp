// The text that makes a job elastic.
#include "controller/elastic_option.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

namespace flyball {
namespace {

using ::testing::HasSubstr;

TEST(ElasticOption, IsFoundInAComment) {
  const ElasticOption wanted{"resnet-50", 20'000, 1, 8};
  const std::string text = "flyball:elastic,kind=resnet-50,iterations=20000,min=1,max=8";
  EXPECT_EQ(parse_elastic_option(text), wanted);
  EXPECT_EQ(parse_elastic_option("for the paper; flyball:elastic,max=8,kind=resnet-50,iterations=20000 by me"), wanted);
  EXPECT_EQ(wanted.text(), text);
  EXPECT_EQ(parse_elastic_option(""), std::nullopt);
  EXPECT_EQ(parse_elastic_option("flyball is nice"), std::nullopt);
}

TEST(ElasticOption, SaysThatAJobShrinks) {
  ElasticOption wanted{"a", 500, 4, 16};
  wanted.shrinks = true;
  const std::string text = "flyball:elastic,kind=a,iterations=500,min=4,max=16,shrinks";
  EXPECT_EQ(parse_elastic_option(text + ";flyball:held"), wanted);
  EXPECT_EQ(wanted.text(), text);
  const std::string pipeline = "flyball:pipeline,kind=a,iterations=1,shrinks";
  for (const std::string& wrong : {text + ",shrinks", text + "=1", pipeline}) {
    EXPECT_THROW((void)parse_elastic_option(wrong), InputError) << wrong;
  }
}

TEST(ElasticOption, OfAPipelineHasNoSizes) {
  ElasticOption wanted{"gpt3", 500};
  wanted.pipeline = true;
  const std::string text = "flyball:pipeline,kind=gpt3,iterations=500";
  EXPECT_EQ(parse_elastic_option("by me; " + text), wanted);
  EXPECT_EQ(wanted.text(), text);
  try {
    (void)parse_elastic_option(text + ",max=8");
    ADD_FAILURE() << "a pipeline with max=8";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("'max=8' is no part of a pipeline's"));
  }
}

TEST(ElasticOption, SaysWhatIsWrong) {
  const auto problem = [](const std::string& text) -> std::string {
    try {
      (void)parse_elastic_option("flyball:elastic" + text);
    } catch (const InputError& error) {
      return error.what();
    }
    return {};
  };
  EXPECT_THAT(problem(""), HasSubstr("kind is missing"));
  EXPECT_THAT(problem(",kind=a"), HasSubstr("iterations is missing"));
  EXPECT_THAT(problem(",kind=a,iterations=1,min=4,max=2"), HasSubstr("max=2 is below min=4"));
  EXPECT_THAT(problem(",kind=a,iterations=many"), HasSubstr("iterations=many is no number"));
  EXPECT_THAT(problem(",kind=a,iterations=1,gpus=3"), HasSubstr("'gpus=3' is no part of it"));
  EXPECT_THAT(problem(",kind=a,kind=b,iterations=1"), HasSubstr("kind is given twice"));
  EXPECT_THAT(problem(",kind=a%s,iterations=1"), HasSubstr("kind=a%s is no name"));
  EXPECT_THAT(problem("ly"), HasSubstr("'ly' follows"));
  EXPECT_THAT(problem(",kind=a,iterations=1"), "");
}

}  // namespace
}  // namespace flyball
