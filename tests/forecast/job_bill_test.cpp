// Tables of jobs, and what they add up to. All sums are done by hand in the comments.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "forecast/job_bill.h"

namespace flyball::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kOld = "job,user,node,gpus,begin_s,seconds,energy_j\n";
constexpr const char* kNew = "job,user,account,partition,kind,node,gpus,begin_s,seconds,energy_j\n";

JobTable table_of(const std::vector<std::string>& files) {
  JobTable table;
  for (std::size_t i = 0; i < files.size(); ++i) {
    ByteSource bytes("n" + std::to_string(i + 1) + ".csv", files[i]);
    read_job_table(bytes, table, [](double) {});
  }
  tidy_job_table(table);
  return table;
}

JobBill bill_of(const JobTable& table, JobGrouping by, const JobPeriod& period = {}, const Tariff& tariff = {}) {
  return bill_of_jobs(table, by, period, tariff);
}

// "n1.csv:4: what"
std::vector<std::string> notes_of(const JobTable& table) {
  std::vector<std::string> notes;
  for (const JobTableNote& note : table.notes) {
    notes.push_back(table.files[note.file] + ":" + std::to_string(note.line) + ": " + note.what);
  }
  return notes;
}

TEST(JobBill, AddsUpNodesAndRuns) {
  const JobTable table = table_of({std::string(kNew) + "1,ann,acme,gpus,toy,n1,0 1,1000.0,10.00,2000.0\n" +
                                       "1,ann,acme,gpus,toy,n1,3,1100.5,5,250\n",
                                   std::string(kNew) + "1,ann,acme,gpus,toy,n2,0 1,1001,10,3000\n"});
  EXPECT_THAT(table.notes, IsEmpty());
  const JobBill bill = bill_of(table, JobGrouping::kJob);
  ASSERT_EQ(bill.rows.size(), 1u);
  const JobBillRow& row = bill.rows[0];
  EXPECT_EQ(row.name, "1");
  EXPECT_EQ(row.user + row.account + row.partition + row.kind, "annacmegpustoy");
  EXPECT_EQ(row.jobs, 1);
  EXPECT_EQ(row.lines, 3);
  // On n1 from 1000 to 1010 and on n2 from 1001 to 1011: 11 s; then 5 s.
  EXPECT_DOUBLE_EQ(row.time.value(), 16.0);
  EXPECT_DOUBLE_EQ(row.node_time.value(), 10.0 + 10.0 + 5.0);
  EXPECT_DOUBLE_EQ(row.gpu_time.value(), 20.0 + 20.0 + 5.0);
  EXPECT_DOUBLE_EQ(row.energy.value(), 5250.0);
  EXPECT_DOUBLE_EQ(row.power->value(), 5250.0 / 16.0);
  EXPECT_FALSE(row.saved);
  EXPECT_FALSE(row.co2_kg);
  EXPECT_FALSE(row.cost);
}

TEST(JobBill, GroupsAndSorts) {
  const JobTable table =
      table_of({std::string(kNew) + "1,ann,a,gpus,,n1,0,1000,10,100\n" + "2,bob,b,gpus,toy,n1,1,1000,20,900\n" +
                "3,ann,b,fast,toy,n1,2,1000,30,300\n" + kOld + "4,bob,n1,3,1000,40,50\n"});
  const auto rows = [&](JobGrouping by) {
    std::vector<std::string> text;
    for (const JobBillRow& row : bill_of(table, by).rows) {
      text.push_back(row.name + " " + std::to_string(row.jobs) + " " +
                     std::to_string(static_cast<long>(row.energy.value())));
    }
    return text;
  };
  EXPECT_THAT(rows(JobGrouping::kUser), ElementsAre("bob 2 950", "ann 2 400"));
  EXPECT_THAT(rows(JobGrouping::kAccount), ElementsAre("b 2 1200", "a 1 100", " 1 50"));
  EXPECT_THAT(rows(JobGrouping::kPartition), ElementsAre("gpus 2 1000", "fast 1 300", " 1 50"));
  EXPECT_THAT(rows(JobGrouping::kKind), ElementsAre("toy 2 1200", " 2 150"));
  EXPECT_THAT(rows(JobGrouping::kJob), ElementsAre("2 1 900", "3 1 300", "1 1 100", "4 1 50"));
  const JobBillRow total = bill_of(table, JobGrouping::kUser).total;
  EXPECT_EQ(total.jobs, 4);
  EXPECT_DOUBLE_EQ(total.energy.value(), 1350.0);
  EXPECT_DOUBLE_EQ(total.time.value(), 100.0);   // jobs that run at once count with their own times
  EXPECT_DOUBLE_EQ(total.power->value(), 13.5);  // 1350 J / 100 s
}

TEST(JobBill, AJobOfTwoAccountsCountsOnceInAll) {
  const JobTable table =
      table_of({std::string(kNew) + "1,ann,a,gpus,,n1,0,1000,10,100\n" + "1,ann,b,gpus,,n1,0,2000,20,600\n"});
  const JobBill bill = bill_of(table, JobGrouping::kAccount);
  ASSERT_EQ(bill.rows.size(), 2u);
  EXPECT_EQ(bill.rows[0].name, "b");
  EXPECT_DOUBLE_EQ(bill.rows[0].power->value(), 30.0);
  EXPECT_EQ(bill.rows[0].jobs + bill.rows[1].jobs, 2);
  EXPECT_EQ(bill.total.jobs, 1);
  EXPECT_EQ(bill_of(table, JobGrouping::kJob).rows[0].account, "b");  // where it ran last
}

TEST(JobBill, WhatIsNotKnownIsNoZero) {
  const JobTable table = table_of({std::string(kNew) + "1,ann,a,gpus,,n1,0,1000,10,\n" +  // no counter
                                   "2,bob,a,gpus,,n1,0,1000,10,-7.5\n" +                  // one that went back
                                   "2,bob,a,gpus,,n2,0,1000,10,500\n" +                   //
                                   "3,cid,a,gpus,,n1,0,2000,-3600,80\n"});                // a clock that was set
  EXPECT_THAT(notes_of(table), ElementsAre(HasSubstr("n1.csv:3: -7.5 J: a counter went back"),
                                           HasSubstr("n1.csv:5: it ends before it begins")));
  const JobBill bill = bill_of(table, JobGrouping::kUser, {}, {{}, {}, 0.25, {}});
  ASSERT_EQ(bill.rows.size(), 3u);
  EXPECT_EQ(bill.rows[0].name, "bob");
  EXPECT_EQ(bill.rows[0].unmetered, 1);
  EXPECT_DOUBLE_EQ(bill.rows[0].power->value(), 50.0);  // of the line that has an energy
  EXPECT_DOUBLE_EQ(bill.rows[0].node_time.value(), 20.0);
  EXPECT_EQ(bill.rows[1].name, "cid");
  EXPECT_DOUBLE_EQ(bill.rows[1].energy.value(), 80.0);
  EXPECT_DOUBLE_EQ(bill.rows[1].time.value(), 0.0);
  EXPECT_FALSE(bill.rows[1].power);
  EXPECT_EQ(bill.rows[2].name, "ann");
  EXPECT_EQ(bill.rows[2].unmetered, 1);
  EXPECT_FALSE(bill.rows[2].power);
  EXPECT_FALSE(bill.rows[2].cost);
  EXPECT_EQ(bill.total.unmetered, 2);
  EXPECT_DOUBLE_EQ(bill.total.power->value(), 50.0);
}

// Two runs of 3.6 MJ, 1 kWh, in an hour at 0.1 and in one at 0.3; 1795240800 is 2026-11-21T06:00Z.
TEST(JobBill, PricesAreThoseOfTheTimeOfARun) {
  Tariff tariff;
  tariff.prices = read_prices("p.csv", "timestamp,price_per_kwh\n2026-11-21T06:00Z,0.1\n2026-11-21T07:00Z,0.3\n");
  const JobTable table = table_of({std::string(kOld) + "1,ann,n1,0,1795240800,3600,3600000\n" +
                                   "2,bob,n1,0,1795244400,3600,3600000\n3,bob,n1,0,1795248000,3600,\n"});
  const JobBill bill = bill_of(table, JobGrouping::kJob, {}, tariff);
  EXPECT_NEAR(*bill.total.cost, 0.4, 1e-12);
  for (const JobBillRow& row : bill.rows) {
    if (row.job == 3) {
      EXPECT_FALSE(row.cost);
    } else {
      EXPECT_NEAR(*row.cost, row.job == 1 ? 0.1 : 0.3, 1e-12);
    }
  }
}

// The sum of nothing known is not 0 either.
TEST(JobBill, ATotalWithoutAnyEnergyHasNoCost) {
  Tariff tariff;
  tariff.carbon = read_carbon("c.csv", "timestamp,g_per_kwh\n2026-11-21T00:00Z,100\n");
  tariff.price_per_kwh = 0.25;
  const JobTable table = table_of({std::string(kOld) + "1,ann,n1,0,1795240800,10,\n" + "2,bob,n1,0,1795240800,10,\n"});
  const JobBill bill = bill_of(table, JobGrouping::kUser, {}, tariff);
  for (const JobBillRow* row : {&bill.rows.at(0), &bill.rows.at(1), &bill.total}) {
    EXPECT_EQ(row->unmetered, row->lines);
    EXPECT_FALSE(row->co2_kg);
    EXPECT_FALSE(row->cost);
    EXPECT_FALSE(row->power);
  }
}

TEST(JobBill, CopiesCountOnce) {
  const std::string run = "1,ann,n1,0 1,1000.936470960,10,2000.0\n";
  const std::string again = "1,ann,n1,0 1,1500,10,2000.0\n";  // queued again, with the same figures otherwise
  const JobTable table = table_of({kOld + run + again + run, kOld + run + "1,ann,n2,0 1,1000.936470960,10,2000.0\n"});
  EXPECT_EQ(table.repeated, 2u);
  EXPECT_THAT(table.notes, IsEmpty());
  EXPECT_DOUBLE_EQ(bill_of(table, JobGrouping::kUser).total.energy.value(), 6000.0);
}

TEST(JobBill, AJobThatIsTwiceOnANodeAtOnceIsNoted) {
  const JobTable table = table_of({std::string(kOld) + "1,ann,n1,0,1000,10,100\n" + "1,ann,n1,0,1009,10,200\n" +
                                   "1,ann,n1,0,1019,10,300\n" + "1,ann,n1,0,1000,10,150\n"});
  EXPECT_THAT(notes_of(table), ElementsAre("n1.csv:5: n1.csv:2 has the job on this node at the same time; both count",
                                           "n1.csv:3: n1.csv:5 has the job on this node at the same time; both count"));
  const JobBill bill = bill_of(table, JobGrouping::kUser);
  EXPECT_DOUBLE_EQ(bill.total.energy.value(), 750.0);
  EXPECT_DOUBLE_EQ(bill.total.time.value(), 29.0);  // from 1000 to 1029
}

TEST(JobBill, LinesThatCannotBeReadAreLeftOut) {
  const JobTable table = table_of({std::string("# of node n1\n\n") + kNew + "1,ann,a,gpus,,n1,0,1000,10,100\r\n" +
                                   "x,ann,a,gpus,,n1,0,1000,10,1\n" + "2,ann,a,gpus,,n1,0;1,1000,10,1\n" +
                                   "2,ann,a,gpus,,n1,0,yesterday,10,1\n" + "2,ann,a,gpus,,n1,0,1000,ten,1\n" +
                                   "2,ann,a,gpus,,n1,0,1000,10,1 kJ\n" + "2,ann,a,gp2,ann,a,gpus,,n1,0,1000,10,1\n" +
                                   "3,ann,a,gpus,,n1,0,1000,10,99"});
  EXPECT_THAT(notes_of(table),
              ElementsAre("n1.csv:5: job is 'x', not the number of a job; it is left out",
                          "n1.csv:6: gpus is '0;1', not numbers of GPUs with blanks between; it is left out",
                          "n1.csv:7: begin_s is 'yesterday', not seconds since 1970; it is left out",
                          "n1.csv:8: seconds is 'ten', not a number of seconds; it is left out",
                          "n1.csv:9: energy_j is '1 kJ', not an energy in joules; it is left out",
                          "n1.csv:10: the line has 13 fields, its header has 10; it is left out",
                          "n1.csv:11: the last line has no end, so that its numbers may be cut off; it is left out"));
  EXPECT_DOUBLE_EQ(bill_of(table, JobGrouping::kUser).total.energy.value(), 100.0);
}

TEST(JobBill, OtherFilesAreRefused) {
  const auto problem = [](const std::string& text) {
    try {
      (void)table_of({text});
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(problem("1,ann,n1,0,1000,10,100\n"), HasSubstr("n1.csv:1:1: this is no table of jobs"));
  EXPECT_THAT(problem("\njob,user,node,gpus,begin_s,seconds\n"), HasSubstr("n1.csv:2:1: the header has no column "
                                                                           "'energy_j'"));
  EXPECT_EQ(problem(""), "");  // a node that has had no job
}

TEST(JobBill, APeriodHasWhatEndedInIt) {
  const JobTable table =
      table_of({std::string(kOld) + "1,ann,n1,0,1000,10,1\n" + "2,ann,n1,0,1010,10,2\n" + "3,ann,n1,0,1020,10,4\n"});
  const auto energy = [&](const JobPeriod& period) {
    return bill_of(table, JobGrouping::kUser, period).total.energy.value();
  };
  EXPECT_DOUBLE_EQ(energy({1020 * kSecond, {}}), 6.0);  // ended at 1020 and 1030
  EXPECT_DOUBLE_EQ(energy({{}, 1020 * kSecond}), 1.0);
  EXPECT_DOUBLE_EQ(energy({1011 * kSecond, 1030 * kSecond}), 2.0);
  EXPECT_THAT(bill_of(table, JobGrouping::kUser, {2000 * kSecond, {}}).rows, IsEmpty());
}

TEST(JobBill, CarbonDioxideIsThatOfTheHoursInWhichAJobRan) {
  Tariff tariff;
  tariff.carbon = read_carbon("c.csv", "timestamp,g_per_kwh\n2026-11-21T00:00Z,100\n2026-11-21T12:00Z,300\n");
  tariff.price_per_kwh = 0.25;
  // 2026-11-21T00:00Z is 1795219200. A kWh from 06:00 to 18:00: half at 100, half at 300 g. Another one a day before,
  // which the file's day stands for, too, from 00:00 to 12:00: 100 g.
  const JobTable table =
      table_of({std::string(kOld) + "1,ann,n1,0,1795240800,43200,3600000\n" + "2,bob,n1,0,1795132800,43200,3600000\n"});
  const JobBill bill = bill_of(table, JobGrouping::kJob, {}, tariff);
  ASSERT_EQ(bill.rows.size(), 2u);
  EXPECT_NEAR(*bill.rows[0].co2_kg, 0.2, 1e-9);
  EXPECT_NEAR(*bill.rows[1].co2_kg, 0.1, 1e-9);
  EXPECT_NEAR(*bill.total.co2_kg, 0.3, 1e-9);
  EXPECT_NEAR(*bill.rows[0].cost, 0.25, 1e-12);
  EXPECT_NEAR(*bill.total.cost, 0.5, 1e-12);
}

}  // namespace
}  // namespace flyball::testing
