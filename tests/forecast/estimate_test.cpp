// Estimates before measuring: products worked out by hand, ranges by another program.
#include "forecast/estimate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "forecast/estimate_bill.h"
#include "forecast/forecast.h"
#include "forecast/run_description.h"

namespace flyball {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

EstimateRequest request_for(const char* gpu, double parameters, double tokens) {
  EstimateRequest request;
  request.gpu = find_gpu_model(gpu);
  request.gpus = 512;
  request.parameters = parameters;
  request.tokens = tokens;
  return request;
}

EstimateRequest all_stated() {
  EstimateRequest request = request_for("h100", 1e9, 1e12);
  request.utilization = 0.5;
  request.power = Watts(500);
  request.node_factor = 1.5;
  request.pue = 1.2;
  return request;
}

TEST(Estimate, MultipliesWhatIsStated) {
  const Estimate estimate = estimate_run(all_stated());
  // 6 x 1e9 x 1e12 operations at 0.5 x 989e12 a second: 12,133,468.15 s of one GPU, 3370.4078 h
  EXPECT_DOUBLE_EQ(estimate.operations, 6e21);
  EXPECT_NEAR(estimate.gpu_hours.middle, 3370.4078, 1e-4);
  EXPECT_NEAR(estimate.seconds.middle, 12133468.15 / 512, 1e-2);
  EXPECT_NEAR(estimate.gpu_kwh.middle, 1685.2039, 1e-4);
  EXPECT_NEAR(estimate.node_kwh.middle, 2527.8059, 1e-4);
  EXPECT_NEAR(estimate.site_kwh.middle, 3033.3670, 1e-4);
  EXPECT_NEAR(estimate.site_kwh.low, estimate.site_kwh.high, 1e-9);
  EXPECT_EQ(estimate.pue.from, "stated");
}

TEST(Estimate, CountsTheSecondForwardAndTheActiveParameters) {
  EstimateRequest request = all_stated();
  request.recompute = true;
  EXPECT_DOUBLE_EQ(estimate_run(request).operations, 8e21);
  request.recompute = false;
  request.active_parameters = 2.5e8;
  EXPECT_DOUBLE_EQ(estimate_run(request).operations, 1.5e21);
}

TEST(Estimate, RangesAreThoseOfTheNextFigure) {
  const Estimate estimate = estimate_run(request_for("h100", 70e9, 2e12));
  // Python, from the figures of hardware_table.cpp: geometric means of the seven families' 6 N D / (hours x peak), and
  // exp(mean -+ t sqrt(1 + 1/n) s) of their logarithms with t(6) = 1.943180 and t(4) = 2.131847 of a printed table.
  EXPECT_NEAR(estimate.utilization.range.low, 0.191922, 1e-6);
  EXPECT_NEAR(estimate.utilization.range.middle, 0.312167, 1e-6);
  EXPECT_NEAR(estimate.utilization.range.high, 0.507750, 1e-6);
  EXPECT_NEAR(estimate.power_w.range.low, 700 * 0.611687, 1e-3);
  EXPECT_NEAR(estimate.power_w.range.middle, 700 * 0.849874, 1e-3);
  EXPECT_NEAR(estimate.power_w.range.high, 700 * 1.180808, 1e-3);
  EXPECT_NEAR(estimate.pue.range.low, 1.014744, 1e-6);
  EXPECT_NEAR(estimate.pue.range.middle, 1.138884, 1e-6);
  EXPECT_NEAR(estimate.node_factor.range.middle, 1.465112, 1e-6);
  // Half widths of the logarithms, 0.486451, 0.328866, 0.115413 and 1.644854 x 0.1, are 0.620615 together.
  EXPECT_NEAR(estimate.site_kwh.high / estimate.site_kwh.middle, std::exp(0.620615), 1e-5);
  EXPECT_NEAR(estimate.site_kwh.middle / estimate.site_kwh.low, std::exp(0.620615), 1e-5);
}

TEST(Estimate, EveryStatedFactorNarrowsTheRange) {
  const auto width = [](const EstimateRequest& request) {
    const ValueRange range = estimate_run(request).site_kwh;
    return range.high / range.low;
  };
  EstimateRequest request = request_for("h100", 70e9, 2e12);
  double before = width(request);
  const auto narrows = [&] {
    const double now = width(request);
    EXPECT_LT(now, before);
    before = now;
  };
  request.utilization = 0.4;
  narrows();
  request.power = Watts(600);
  narrows();
  request.node_factor = 1.4;
  narrows();
  request.pue = 1.1;
  narrows();
  EXPECT_NEAR(before, 1.0, 1e-12);
  request = request_for("h100", 70e9, 2e12);
  request.confidence = 0.5;
  EXPECT_LT(width(request), width(request_for("h100", 70e9, 2e12)));
}

TEST(Estimate, ItsRunDescriptionTakesItsEnergy) {
  for (const int gpus : {1, 6, 512, 509}) {
    EstimateRequest request = request_for("b200", 7e9, 1e12);
    request.gpus = gpus;
    const Estimate estimate = estimate_run(request);
    const RunDescription run = read_run("run.toml", estimated_run_text(estimate, 4096, 1024));
    check_complete(run);
    EXPECT_THAT(doubts_of(run), ElementsAre(HasSubstr("usual spreads")));
    const RunForecast forecast = forecast_run(run);
    EXPECT_NEAR(kilowatt_hours(forecast.energy), estimate.node_kwh.middle, 1e-9 * estimate.node_kwh.middle) << gpus;
    EXPECT_NEAR(forecast.duration.value(), estimate.seconds.middle, 1e-9 * estimate.seconds.middle);
    EXPECT_NEAR(kilowatt_hours(forecast.of(Component::kAccelerator)), estimate.gpu_kwh.middle,
                1e-9 * estimate.gpu_kwh.middle);
  }
}

// Luccioni et al. 2022, section 4.1: 1.08 million GPU-hours of BLOOM stand for 7.57 + 3.64 = 11.2 tonnes.
TEST(Estimate, HardwareOfBloomIsAsPrinted) {
  EXPECT_NEAR(published_embodied_carbon().kg_per_gpu_hour() * 1082990, 11.2e3, 50.0);
}

TEST(Estimate, FindsModelsAndCountriesInAnyCase) {
  EXPECT_EQ(find_gpu_model("H100"), find_gpu_model("h100"));
  EXPECT_EQ(find_gpu_model("h"), nullptr);
  ASSERT_NE(find_region("france"), nullptr);
  EXPECT_EQ(find_region("fra"), find_region("France"));
  EXPECT_EQ(find_region(""), nullptr);
}

TEST(EstimateBill, ChargesEachEndWithItsOwnDuration) {
  EstimateRequest request = all_stated();
  request.gpus = 1;
  request.utilization.reset();
  const Estimate estimate = estimate_run(request);
  EstimateCharges charges;
  charges.tariff.carbon = read_carbon("c.csv", "timestamp,g_per_kwh\n0,100\n");
  charges.tariff.price_per_kwh = 0.2;
  charges.price_per_gpu_hour = 2.0;
  charges.embodied = true;
  const EstimateBill bill = bill_of_estimate(estimate, charges);
  EXPECT_NEAR(bill.co2_kg->low, estimate.site_kwh.low * 0.1, 1e-9);
  EXPECT_NEAR(bill.co2_kg->high, estimate.site_kwh.high * 0.1, 1e-9);
  EXPECT_NEAR(bill.energy_cost->middle, estimate.site_kwh.middle * 0.2, 1e-9);
  EXPECT_NEAR(bill.gpu_cost->middle, estimate.gpu_hours.middle * 2.0, 1e-9);
  EXPECT_NEAR(bill.cost->middle, bill.gpu_cost->middle + bill.energy_cost->middle, 1e-9);
  // A GPU-hour at 500 W, a node of 1.5 and a site of 1.2 times that takes 0.9 kWh: 0.18 and 2 of money, 2.18.
  charges.budget = 2.18 * estimate.gpu_hours.middle / 4.0;
  EXPECT_NEAR(bill_of_estimate(estimate, charges).budget_tokens->middle, 1e12 / 4.0, 1.0);
  charges.price_per_gpu_hour.reset();
  charges.tariff.price_per_kwh = 0.0;
  EXPECT_THROW((void)bill_of_estimate(estimate, charges), UsageError);
}

}  // namespace
}  // namespace flyball
