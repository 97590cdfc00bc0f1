// Every trace fills a table of its own; an operation is given a number in the common table when its first event comes.
#include "trace/ranked_events.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "trace/byte_source.h"
#include "trace/json_events.h"
#include "trace/xplane_file.h"

namespace flyball {
namespace {

constexpr OperationId kNotYet = std::numeric_limits<OperationId>::max();

// The names that hold for a rank: those of all ranks, and its own, which say the rank before a slash.
std::map<std::string, std::string, std::less<>> names_of(const EventTraceOptions& options, int rank) {
  std::map<std::string, std::string, std::less<>> names;
  std::map<std::string, std::string, std::less<>> own;
  for (const auto& [name, device] : options.device_names) {
    const std::size_t slash = name.find('/');
    const std::optional<std::int64_t> given =
        slash == std::string::npos ? std::nullopt : parse_integer(std::string_view(name).substr(0, slash));
    if (!given) {
      names[name] = device;
    } else if (*given == rank) {
      own[name.substr(slash + 1)] = device;
    }
  }
  for (auto& [name, device] : own) names[name] = std::move(device);
  return names;
}

class RankedEvents final : public EventTrace {
 public:
  RankedEvents(const std::vector<RankFile>& files, const EventTraceOptions& options, OperationTable& operations,
               DeviceTable& devices)
      : operations_(operations) {
    for (std::size_t i = 0; i < files.size(); ++i) {
      auto part = std::make_unique<Part>();
      part->rank = files[i].rank;
      EventTraceOptions own = options;
      own.device_names = names_of(options, part->rank);
      own.progress = [&options, i, count = files.size()](double share) {
        if (options.progress) options.progress((static_cast<double>(i) + share) / static_cast<double>(count));
      };
      part->trace = open_event_trace(files[i].path, own, part->operations, devices);
      parts_.push_back(std::move(part));
    }
    check_together(files);
    rewind(options.shift);
  }

  [[nodiscard]] bool next(TraceEvent& event) override {
    Part* first = nullptr;
    for (const auto& part : parts_) {
      if (part->more && (first == nullptr || part->head.begin < first->head.begin)) first = part.get();
    }
    if (first == nullptr) {
      end();
      return false;
    }
    event = first->head;
    event.operation = common(*first, event.operation);
    first->more = first->trace->next(first->head);
    return true;
  }

  [[nodiscard]] const EventTraceStats& stats() const override { return stats_; }

  void rewind(Nanoseconds shift) override {
    for (const auto& part : parts_) {
      part->trace->rewind(shift);
      part->more = part->trace->next(part->head);
    }
    count();
  }

 private:
  struct Part {
    int rank = 0;
    OperationTable operations;
    std::vector<OperationId> common;  // by the part's own number
    std::unique_ptr<EventTrace> trace;
    TraceEvent head;
    bool more = false;
    std::size_t edges = 0;  // of its table that the common one has
  };

  OperationId common(Part& part, OperationId own) {
    if (part.common.size() <= own) part.common.resize(own + std::size_t{1}, kNotYet);
    OperationId& id = part.common[own];
    if (id == kNotYet) id = operations_.add_of_rank(part.operations.name(own), part.operations.phase(own), part.rank);
    return id;
  }

  // A trace of another clock would get no power, and the others all of it.
  void check_together(const std::vector<RankFile>& files) const {
    std::vector<std::size_t> order(parts_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const auto stats = [this](std::size_t part) -> const EventTraceStats& { return parts_[part]->trace->stats(); };
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return stats(a).first < stats(b).first; });
    Nanoseconds last = 0;
    for (std::size_t i = 0; i < order.size(); ++i) {
      const RankFile& file = files[order[i]];
      if (stats(order[i]).executions == 0) {
        throw InputError({file.path}, fmt::format("nothing ran in this trace, which is of rank {}", file.rank),
                         "see that the profiler was on while the rank worked, or leave the rank out");
      }
      if (i > 0 && stats(order[i]).first > last) {
        throw InputError({file.path},
                         fmt::format("the times of rank {} begin {:.3f} s after those of other ranks have ended",
                                     file.rank, to_seconds(stats(order[i]).first - last).value()),
                         "profile the ranks at the same time, with times of one clock");
      }
      last = i == 0 ? stats(order[i]).last : std::max(last, stats(order[i]).last);
    }
  }

  void end() {
    for (const auto& part : parts_) {
      const std::vector<OperationEdge>& edges = part->operations.edges();
      for (; part->edges < edges.size(); ++part->edges) {
        const OperationEdge& edge = edges[part->edges];
        operations_.add_edge(common(*part, edge.from), common(*part, edge.to), edge.kind);
      }
    }
    count();
  }

  void count() {
    stats_ = {};
    for (const auto& part : parts_) {
      const EventTraceStats& one = part->trace->stats();
      const bool fresh = part == parts_.front();
      stats_.format = one.format;
      stats_.file_bytes += one.file_bytes;
      stats_.entries += one.entries;
      stats_.executions += one.executions;
      stats_.untied_kernels += one.untied_kernels;
      stats_.untied_backward += one.untied_backward;
      stats_.too_deep += one.too_deep;
      stats_.unfinished += one.unfinished;
      if (stats_.steps.empty()) stats_.steps = one.steps;  // the other ranks' are the same steps
      if (one.truncated) stats_.truncated_at = one.truncated_at;
      stats_.truncated = stats_.truncated || one.truncated;
      stats_.first = fresh ? one.first : std::min(stats_.first, one.first);
      stats_.last = fresh ? one.last : std::max(stats_.last, one.last);
      for (const DroppedEvents& dropped : one.dropped) {
        const auto same = std::find_if(stats_.dropped.begin(), stats_.dropped.end(),
                                       [&](const DroppedEvents& known) { return known.reason == dropped.reason; });
        if (same == stats_.dropped.end()) {
          stats_.dropped.push_back(dropped);
        } else {
          same->count += dropped.count;
        }
      }
      for (const TracedDevice& device : one.devices) {
        stats_.devices.push_back(device);
        stats_.devices.push_back({fmt::format("{}/{}", part->rank, device.name), device.device});
      }
    }
  }

  OperationTable& operations_;
  std::vector<std::unique_ptr<Part>> parts_;
  EventTraceStats stats_;
};

}  // namespace

std::unique_ptr<EventTrace> open_ranked_traces(const std::vector<RankFile>& files, const EventTraceOptions& options,
                                               OperationTable& operations, DeviceTable& devices) {
  return std::make_unique<RankedEvents>(files, options, operations, devices);
}

int rank_in_trace(const std::string& path) {
  ByteSource bytes(path);
  if (is_xplane(bytes)) return kNoRank;
  return JsonEventReader(bytes).rank();
}

}  // namespace flyball
