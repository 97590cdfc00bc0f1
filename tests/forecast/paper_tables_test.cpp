// The paper's own cases: eq. 42 on its tables, and where its printed figures come from. docs/forecast-tables.md has the
// whole comparison.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/text.h"
#include "forecast/forecast.h"

namespace flyball {
namespace {

std::string example(const std::string& name) {
  return read_text_file(std::string(FLYBALL_SOURCE_DIR) + "/examples/forecast/" + name + ".toml");
}

RunForecast forecast_of_epochs(const std::string& text, int epochs = 1) {
  RunDescription run = read_run("RUN.toml", text);
  run.epochs = epochs;
  check_complete(run);
  return forecast_run(run);
}

double kwh(Joules energy) { return kilowatt_hours(energy); }

// Eq. 42 for N nodes: N (P_ca (pre + f + b + update + comm) + P_ci (set + load + model + wait) +
// P_ma (all but wait) + P_mi wait) / 3.6e6.
TEST(PaperTables, Vgg16OnMt128) {
  const RunForecast forecast = forecast_of_epochs(example("vgg16-mt128"));
  // 128 (60 x 53.1234 + 15 x 7.1598 + 75 x 58.4364 + 18.75 x 1.8468) = 128 x 7712.160 J = 987156 J
  EXPECT_NEAR(kwh(forecast.energy), 0.27421, 5e-6);
  // the printed groups (table 7); its preprocessing includes the model's way in and out
  EXPECT_NEAR(kwh(forecast.of(StageGroup::kPreprocess) + forecast.of(TrainingStage::kModelInOut)), 0.0205, 5e-5);
  EXPECT_NEAR(kwh(forecast.of(TrainingStage::kForward) + forecast.of(TrainingStage::kBackward)), 0.2399, 5e-5);
  EXPECT_NEAR(kwh(forecast.of(StageGroup::kCommunicate)), 0.0139, 5e-5);
  EXPECT_NEAR(kwh(forecast_of_epochs(example("vgg16-mt128"), 100).energy), 25.39, 5e-3);
}

TEST(PaperTables, Vgg16OnFt32) {
  EXPECT_NEAR(kwh(forecast_of_epochs(example("vgg16-ft32")).energy), 0.1600, 5e-5);
  EXPECT_NEAR(kwh(forecast_of_epochs(example("vgg16-ft32"), 100).energy), 15.77, 5e-3);
}

TEST(PaperTables, VitIsPrintedWithAnActiveProcessorInSetUp) {
  std::string text = example("vit-mt128");
  const RunForecast by_equation = forecast_of_epochs(text);
  EXPECT_NEAR(kwh(by_equation.energy), 2.490, 5e-4);
  // 13.6556 s x 90 W x 128 = 0.0437 kWh by eq. 42; x 135 W = 0.0655 kWh in table 8
  EXPECT_NEAR(kwh(by_equation.of(TrainingStage::kSetDataset)), 0.0437, 5e-5);
  const std::string marked = "# active = [\"processor\", \"memory\"]";
  ASSERT_THAT(text, ::testing::HasSubstr(marked));
  text.replace(text.find(marked), 2, "");
  const RunForecast as_printed = forecast_of_epochs(text);
  EXPECT_NEAR(kwh(as_printed.of(TrainingStage::kSetDataset)), 0.065546674, 5e-7);
  EXPECT_NEAR(kwh(as_printed.of(TrainingStage::kForward)), 0.672223157, 1e-6);
  EXPECT_NEAR(kwh(as_printed.of(TrainingStage::kCommunication)), 0.10202448, 1e-7);
  EXPECT_NEAR(kwh(as_printed.energy), 2.512, 5e-4);
}

TEST(PaperTables, ResNet50AgreesInCommunicationOnly) {
  const RunForecast forecast = forecast_of_epochs(example("resnet50-mt128"));
  EXPECT_NEAR(kwh(forecast.energy), 95.69, 5e-3);  // printed: 77.44
  EXPECT_NEAR(kwh(forecast.of(StageGroup::kCommunicate)), 6.47, 5e-3);
}

TEST(PaperTables, ComponentsAndStagesAddUp) {
  for (const char* name : {"vgg16-mt128", "vgg16-ft32", "vit-mt128", "resnet50-mt128"}) {
    const RunForecast forecast = forecast_of_epochs(example(name), 7);
    Joules stages(0);
    for (std::size_t g = 0; g < kStageGroups; ++g) stages += forecast.of(static_cast<StageGroup>(g));
    Joules components(0);
    for (std::size_t c = 0; c < kComponents; ++c) components += forecast.of(static_cast<Component>(c));
    EXPECT_NEAR(stages / forecast.energy, 1.0, 1e-12) << name;
    EXPECT_NEAR(components / forecast.energy, 1.0, 1e-12) << name;
  }
}

}  // namespace
}  // namespace flyball
