// Ranks that run the iterations of their schedules without a GPU, and report what they took.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/record.h"
#include "server/test_server.h"
#include "wire/step_messages.h"

namespace flyball::testing {

// An operation that takes longer than by its profile.
struct DelayOfOne {
  int stage = -1;
  std::size_t computation = 0;  // by its place in the stage's schedule
  Seconds by;
};

// The stages of a job's first pipeline, which take what reports_of() says, by clocks that differ by minutes.
class Ranks {
 public:
  Ranks(Client& client, const JobRequest& job) : client_(&client), job_(job) {
    for (int rank = 0; rank < job.stages; ++rank) {
      for (const MeasurementReport& report : reports_of(job, rank)) {
        for (const InstructionMeasurement& one : report.measurements) {
          times_[{rank, one.instruction, static_cast<int>(one.clock.value())}] = to_nanoseconds(one.time);
        }
      }
    }
  }

  // Of the next server.
  void talk_to(Client& client) { client_ = &client; }

  // Waits for the schedules above the last ones; false where the ranks got different versions.
  bool fetch() {
    std::vector<RankSchedule> next;
    for (int rank = 0; rank < job_.stages; ++rank) {
      auto schedule = client_->schedule(job_.id, rank, version());
      if (!schedule) return false;
      next.push_back(std::move(*schedule));
    }
    schedules_ = std::move(next);
    return std::all_of(schedules_.begin(), schedules_.end(),
                       [&](const RankSchedule& one) { return one.version == version(); });
  }

  [[nodiscard]] std::int64_t version() const { return schedules_.empty() ? 0 : schedules_.front().version; }
  [[nodiscard]] const std::vector<RankSchedule>& schedules() const { return schedules_; }

  // One iteration as soon as possible.
  std::vector<StepReport> run(std::int64_t step, const DelayOfOne& delay = {}) {
    std::map<std::tuple<int, std::string, int>, Nanoseconds> done;
    std::vector<std::size_t> position(schedules_.size());
    std::vector<Nanoseconds> now(schedules_.size());
    std::vector<StepReport> reports(schedules_.size());
    for (bool moved = true; std::exchange(moved, false);) {
      for (std::size_t s = 0; s < schedules_.size(); ++s) {
        const int stage = static_cast<int>(s);
        while (position[s] < schedules_[s].computations.size()) {
          const ScheduledComputation& one = schedules_[s].computations[position[s]];
          const int before = one.instruction == "forward" ? stage - 1 : stage + 1;
          const bool waits = before >= 0 && before < job_.stages;
          const auto input = done.find({before, one.instruction, one.microbatch});
          if (waits && input == done.end()) break;
          const Nanoseconds begin = std::max(now[s], waits ? input->second : 0);
          now[s] = begin + times_.at({stage, one.instruction, one.clock_mhz});
          if (stage == delay.stage && position[s] == delay.computation) now[s] += to_nanoseconds(delay.by);
          done[{stage, one.instruction, one.microbatch}] = now[s];
          const Nanoseconds ahead = stage * 300'000'000'000;
          reports[s].begin.push_back(to_seconds(begin + ahead));
          reports[s].end.push_back(to_seconds(now[s] + ahead));
          ++position[s];
          moved = true;
        }
      }
    }
    for (std::size_t s = 0; s < reports.size(); ++s) {
      reports[s].rank = static_cast<int>(s);
      reports[s].version = version();
      reports[s].step = step;
    }
    return reports;
  }

  void report(const StepReport& report) {
    const Response response = client_->ask("POST", "/v1/jobs/" + job_.id + "/steps", to_json(report).dump());
    EXPECT_EQ(response.status, 204u) << response.body;
  }

 private:
  Client* client_;
  const JobRequest& job_;
  std::map<std::tuple<int, std::string, int>, Nanoseconds> times_;
  std::vector<RankSchedule> schedules_;
};

}  // namespace flyball::testing
