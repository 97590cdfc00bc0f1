#include "pipeline/layer_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "support/expect_error.h"

namespace flyball {
namespace {

using ::testing::ElementsAre;

LayerTimes layers_of(const std::string& rows) { return read_layer_times("layers.csv", "layer,time,note\n" + rows); }

void expect_no_layers(const std::string& rows, std::size_t line, std::size_t column, const std::string& words) {
  SCOPED_TRACE(rows);
  expect_input_error([&] { (void)layers_of(rows); }, line, column, words);
}

TEST(LayerTimes, HaveNamesAndTimesInTheOrderOfTheFile) {
  const LayerTimes layers = layers_of("embed,0.3,\n0,2e-1,an attention\n1,0.25,\nhead,0.1,\n");
  EXPECT_THAT(layers.names, ElementsAre("embed", "0", "1", "head"));
  EXPECT_THAT(layers.times, ElementsAre(Seconds(0.3), Seconds(0.2), Seconds(0.25), Seconds(0.1)));
}

// The greatest long is 9223372036854775807, the least -9223372036854775808: no number follows the one, and the other
// follows none.
TEST(LayerTimes, SaysWhereAndWhyATableIsNone) {
  expect_no_layers("", 0, 0, "the file has no layers");
  expect_no_layers("0,0,\n", 2, 3, "a layer's time must be above 0, not 0");
  expect_no_layers("0,-0.1,\n", 2, 3, "a layer's time must be above 0, not -0.1");
  expect_no_layers("0,soon,\n", 2, 3, "soon");
  expect_no_layers("0,0.1,\n1,0.1,\n3,0.1,\n", 4, 1, "layer 3 follows layer 1");
  expect_no_layers("1,0.1,\n1,0.1,\n", 3, 1, "layer 1 follows layer 1");
  expect_no_layers("9223372036854775807,0.1,\n-9223372036854775808,0.1,\n", 3, 1, "follows layer 9223372036854775807");
  expect_no_layers("-9223372036854775808,0.1,\n9223372036854775807,0.1,\n", 3, 1, "follows layer -9223372036854775808");
  expect_input_error([] { (void)read_layer_times("layers.csv", "layer\n0\n"); }, 1, 1, "time");
}

TEST(LayerTimes, AreReadFromTheirFile) {
  EXPECT_EQ(read_layer_times_file(FLYBALL_SOURCE_DIR "/examples/layers/gpt3-1.3b-a100.csv").names.front(), "0");
  EXPECT_THROW((void)read_layer_times_file(FLYBALL_SOURCE_DIR "/examples/layers/none.csv"), SystemError);
}

}  // namespace
}  // namespace flyball
