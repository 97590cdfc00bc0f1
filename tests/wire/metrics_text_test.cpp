// Prometheus' text from a table of metrics.
#include "wire/metrics_text.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

namespace flyball {
namespace {

constexpr MetricInfo kRegistry[] = {
    {"power_watts", MetricKind::kGauge, "W", "gpu, name", "Power."},
    {"waited_seconds", MetricKind::kHistogram, "s", "", "Time waited."},
    {"leases", MetricKind::kGauge, "1", "", "Leases in force."},
};

TEST(MetricsText, HasHelpTypeAndEscapedLabelsInTheOrderOfTheTable) {
  MetricsText out(kRegistry);
  out.add("leases", {}, 2);
  out.add("power_watts", {{"gpu", "0"}, {"name", "a \"b\" \\ \n"}}, 71.25);
  out.add("power_watts", {{"gpu", "1"}}, std::nan(""));
  EXPECT_EQ(out.text(),
            "# HELP power_watts Power.\n"
            "# TYPE power_watts gauge\n"
            "power_watts{gpu=\"0\",name=\"a \\\"b\\\" \\\\ \\n\"} 71.25\n"
            "power_watts{gpu=\"1\"} NaN\n"
            "# HELP leases Leases in force.\n"
            "# TYPE leases gauge\n"
            "leases 2\n");
}

TEST(MetricsText, LabelsAreUtf8) {
  MetricsText out(kRegistry);
  out.add("power_watts", {{"gpu", "ü\xFF\xE2\x82z"}}, 1);
  EXPECT_TRUE(out.text().ends_with("{gpu=\"ü\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBDz\"} 1\n")) << out.text();
}

TEST(MetricsText, AddsUpTheBucketsOfAHistogram) {
  MetricsText out(kRegistry);
  // 3 observations up to 10 us, none up to 1 ms, 4 above: 7 in all.
  out.add_histogram("waited_seconds", std::array{1e-05, 0.001}, std::array<std::uint64_t, 3>{3, 0, 4}, 12.5);
  EXPECT_EQ(out.text(),
            "# HELP waited_seconds Time waited.\n"
            "# TYPE waited_seconds histogram\n"
            "waited_seconds_bucket{le=\"1e-05\"} 3\n"
            "waited_seconds_bucket{le=\"0.001\"} 3\n"
            "waited_seconds_bucket{le=\"+Inf\"} 7\n"
            "waited_seconds_sum 12.5\n"
            "waited_seconds_count 7\n");
}

}  // namespace
}  // namespace flyball
