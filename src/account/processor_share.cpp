// Jiffies of processors and tasks are differences between two samples. Segments are cut at the samples' times by
// binary search, and pieces wait in a heap until no later segment can begin before them.
#include "account/processor_share.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/text.h"

namespace flyball {
namespace {

bool later(const PowerSegment& a, const PowerSegment& b) { return a.begin > b.begin; }

std::uint64_t grown(std::uint64_t before, std::uint64_t after) { return after > before ? after - before : 0; }

}  // namespace

std::optional<int> socket_named(std::string_view device) {
  for (const std::string_view kind : {"CPU:", "DRAM:"}) {
    if (!device.starts_with(kind)) continue;
    const std::string_view digits = device.substr(kind.size());
    int socket = 0;
    const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), socket);
    if (failure == std::errc() && end == digits.data() + digits.size() && socket >= 0) return socket;
  }
  return std::nullopt;
}

std::vector<ShareInterval> processor_shares(const JiffiesTrace& trace) {
  int sockets = 1;
  for (const auto& entry : trace.socket_of) sockets = std::max(sockets, entry.second + 1);
  const auto socket_of = [&trace](int cpu) {
    const auto at = trace.socket_of.find(cpu);
    return static_cast<std::size_t>(at == trace.socket_of.end() ? 0 : at->second);
  };
  struct Busy {
    double all = 0.0, system = 0.0, program = 0.0, monitor = 0.0;
  };
  std::vector<ShareInterval> intervals;
  std::map<int, ProcessorJiffies> processors;
  std::map<std::int64_t, TaskJiffies> tasks;
  for (std::size_t i = 0; i < trace.samples.size(); ++i) {
    const JiffiesSample& sample = trace.samples[i];
    std::vector<Busy> busy(static_cast<std::size_t>(sockets));
    std::map<int, double> left;  // each processor's busy time that no task has been given yet
    for (const ProcessorJiffies& now : sample.processors) {
      const auto before = processors.find(now.cpu);
      if (before != processors.end()) {
        const auto processes = static_cast<double>(grown(before->second.busy, now.busy));
        const auto system = static_cast<double>(grown(before->second.system, now.system));
        Busy& socket = busy[socket_of(now.cpu)];
        socket.all += processes + system;
        socket.system += system;
        left[now.cpu] = processes;
      }
      processors[now.cpu] = now;
    }
    for (const TaskJiffies& now : sample.tasks) {
      // A new task has begun since the last sample, so that all of its time counts, except in the first sample.
      const auto before = tasks.find(now.task);
      const std::uint64_t had = before == tasks.end() ? 0 : before->second.busy;
      tasks[now.task] = now;
      if (i == 0) continue;
      double& room = left[now.cpu];
      const double ran = std::min(static_cast<double>(grown(had, now.busy)), room);
      room -= ran;
      Busy& socket = busy[socket_of(now.cpu)];
      (now.monitor ? socket.monitor : socket.program) += ran;
    }
    if (i == 0) continue;
    ShareInterval& interval = intervals.emplace_back();
    interval.begin = trace.samples[i - 1].time;
    interval.end = sample.time;
    for (const Busy& socket : busy) {
      ProcessorShares shares;
      if (socket.all <= 0.0) {
        shares.system = 1.0;
      } else {
        shares.program = socket.program / socket.all;
        shares.monitor = socket.monitor / socket.all;
        shares.system = socket.system / socket.all;
        shares.other = std::max(0.0, 1.0 - shares.program - shares.monitor - shares.system);
      }
      interval.sockets.push_back(shares);
    }
  }
  return intervals;
}

bool ProgramPower::next(PowerSegment& segment) {
  // A piece may be given out only when no later segment can begin before it.
  while (!at_end_ && (ready_.empty() || !has_pending_ || ready_.front().begin >= pending_.begin)) {
    if (has_pending_) take_apart(pending_);
    has_pending_ = source_.next(pending_);
    at_end_ = !has_pending_;
  }
  if (ready_.empty()) return false;
  std::pop_heap(ready_.begin(), ready_.end(), later);
  segment = ready_.back();
  ready_.pop_back();
  return true;
}

void ProgramPower::take_apart(const PowerSegment& segment) {
  const auto keep = [this](PowerSegment piece) {
    ready_.push_back(piece);
    std::push_heap(ready_.begin(), ready_.end(), later);
  };
  const std::optional<int> socket = socket_named(devices_.name(segment.device));
  if (!socket) return keep(segment);
  if (segment.device >= rest_.size()) rest_.resize(segment.device + 1);
  Rest& rest = rest_[segment.device];
  const auto keep_whole = [&](const PowerSegment& piece) {
    rest.uncovered += (piece.power * to_seconds(piece.end - piece.begin)).value();
    rest.uncovered_time += piece.end - piece.begin;
    keep(piece);
  };
  PowerSegment left = segment;
  auto at = std::partition_point(shares_.begin(), shares_.end(),
                                 [&left](const ShareInterval& interval) { return interval.end <= left.begin; });
  for (; at != shares_.end() && at->begin < left.end; ++at) {
    const auto index = static_cast<std::size_t>(*socket);
    if (at->begin > left.begin) {
      PowerSegment before = left;
      before.end = left.begin = at->begin;
      keep_whole(before);
    }
    PowerSegment piece = left;
    piece.end = std::min(left.end, at->end);
    left.begin = piece.end;
    if (index < at->sockets.size()) {
      const ProcessorShares& shares = at->sockets[index];
      const double joules = (piece.power * to_seconds(piece.end - piece.begin)).value();
      rest.other += joules * shares.other;
      rest.system += joules * shares.system;
      rest.monitor += joules * shares.monitor;
      piece.power = piece.power * (1.0 - shares.other - shares.system - shares.monitor);
      keep(piece);
    } else {
      keep_whole(piece);
    }
    if (left.begin == left.end) return;
  }
  keep_whole(left);
}

}  // namespace flyball
