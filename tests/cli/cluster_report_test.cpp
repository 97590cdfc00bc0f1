// flyball cluster report, as a program: formats, files, dates. The sums are tested in tests/forecast/job_bill_test.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "cli/program.h"

namespace flyball::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kJobs =
    "job,user,account,partition,kind,node,gpus,begin_s,seconds,energy_j\n"
    "1041,ann,acme,gpus,toy,n1,0 1,1795219200,10,1800\n"
    "1041,ann,acme,gpus,toy,n2,0 1,1795219200,10,1800\n"
    "1042,bob,,gpus,,n1,2,1795219200,100,\n";

Ran cluster_report(std::vector<std::string> arguments, const std::string& input = kJobs) {
  arguments.insert(arguments.begin(), {"cluster", "report"});
  arguments.emplace_back("-");
  return run_flyball(arguments, input);
}

TEST(ClusterReport, HasThreeFormats) {
  const Ran text = cluster_report({"--by", "job", "--carbon", "500", "--price", "2000"});
  EXPECT_EQ(text.status, 0);
  EXPECT_EQ(text.out,  // 3600 J are 0.001 kWh: 0.5 g, and 2 of the currency
            "job    user  account  kind  ran s  node s  GPU s  energy J    kWh  mean W  CO2 kg  cost\n"
            "-----  ----  -------  ----  -----  ------  -----  --------  -----  ------  ------  ----\n"
            "1041   ann   acme     toy    10.0    20.0   40.0      3600  0.001     360   0.001  2.00\n"
            "1042   bob   -        -     100.0   100.0  100.0         -      -       -       -     -\n"
            "total                       110.0   120.0  140.0      3600  0.001     360   0.001  2.00\n");
  EXPECT_EQ(text.err, "flyball: warning: the energy of 1 of 3 lines is not known: the sums are without it\n");
  EXPECT_EQ(cluster_report({"--by", "account", "--format", "csv"}).out,
            "account,jobs,lines,unmetered_lines,run_s,node_s,gpu_s,energy_j,energy_kwh,mean_w,saved_j,co2_kg,cost\n"
            "acme,1,2,0,10.000,20.000,40.000,3600.0,0.001000,360.0,,,\n"
            ",1,1,1,100.000,100.000,100.000,,,,,,\n");
  const nlohmann::json told = cluster_report({"--by", "account", "--format", "json"}).json();
  EXPECT_EQ(told["by"], "account");
  EXPECT_EQ(told["rows"][0]["account"], "acme");
  EXPECT_EQ(told["rows"][0]["energy_j"], 3600.0);
  EXPECT_EQ(told["rows"][0]["saved_j"], nullptr);
  EXPECT_EQ(told["rows"][1]["account"], nullptr);
  EXPECT_EQ(told["rows"][1]["energy_j"], nullptr);
  EXPECT_EQ(told["total"]["jobs"], 2);
}

TEST(ClusterReport, ReadsManyFilesAndNamesWhatIsLeftOut) {
  const TempFolder folder;
  write_file(folder / "n1.csv", kJobs);
  write_file(folder / "n2.csv", kJobs);  // a copy
  std::string torn = kJobs;
  for (int line = 0; line < 12; ++line) torn += "1043,bob\n";
  write_file(folder / "n3.csv", torn);
  const Ran ran = run_flyball({"cluster", "report", "n1.csv", "n2.csv", "n3.csv"}, "", folder.path());
  EXPECT_EQ(ran.status, 0);
  EXPECT_THAT(ran.out, HasSubstr("ann       1   10.0    20.0   40.0      3600"));
  EXPECT_THAT(ran.err, AllOf(HasSubstr("n3.csv:5: the line has 2 fields, its header has 10; it is left out"),
                             HasSubstr("2 more lines like these"), HasSubstr("6 lines are copies of others")));
}

TEST(ClusterReport, DatesAreLocalTime) {
  ::setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3", 1);
  // One of 1 J ends at 2026-06-30T22:00:00Z, when July begins in summer time, and one of 2 J a second before; of 4 and
  // 8 J at 2026-10-31T23:00:00Z and a second before, for November.
  const std::string table =
      "job,user,node,gpus,begin_s,seconds,energy_j\n1,a,n,0,1782856790,10,1\n2,a,n,0,1782856789,10,2\n"
      "3,a,n,0,1793487590,10,4\n4,a,n,0,1793487589,10,8\n";
  const auto energy = [&](const std::vector<std::string>& arguments) {
    std::vector<std::string> all{"--format", "json"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    return cluster_report(all, table).json()["total"]["energy_j"].get<double>();
  };
  EXPECT_EQ(energy({"--from", "2026-07-01"}), 13.0);
  EXPECT_EQ(energy({"--from", "2026-07-01", "--until", "2026-11-01"}), 9.0);
  EXPECT_EQ(energy({"--from", "2026-11-01T00:00"}), 4.0);
  EXPECT_EQ(energy({"--from", "2026-10-31T22:59:59Z"}), 12.0);
  ::unsetenv("TZ");
  EXPECT_EQ(cluster_report({"--from", "2030-01-01"}).out, "no job ended in this time\n");
}

TEST(ClusterReport, RefusesWhatItCannotDo) {
  const auto refused = [](const Ran& ran, int status, const char* what) {
    EXPECT_EQ(ran.status, status);
    EXPECT_EQ(ran.out, "");
    EXPECT_THAT(ran.err, HasSubstr(what));
  };
  refused(cluster_report({"--from", "yesterday"}), 2, "--from takes a date such as 2026-11-01");
  refused(cluster_report({"--from", "2026-11-02", "--until", "2026-11-01"}), 2, "--until must be after --from");
  refused(cluster_report({"--by", "node"}), 2, "--by");
  refused(cluster_report({"--token-file", "x"}), 2, "are for --server");
  refused(cluster_report({}, "a,b\n1,2\n"), 3, "/dev/stdin:1:1: this is no table of jobs");
  refused(run_flyball({"cluster", "report"}), 2, "FILE");
}

}  // namespace
}  // namespace flyball::testing
