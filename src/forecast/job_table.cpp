// A line is split at its commas and read by the latest header. A line that cannot be read ends by an InputError of its
// own, which becomes a note.
#include "forecast/job_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "base/time_text.h"
#include "trace/power_reading.h"

namespace flyball {
namespace {

enum Column : std::size_t { kJob, kUser, kNode, kGpus, kBegin, kSeconds, kEnergy, kAccount, kPartition, kKind };
constexpr std::array<std::string_view, 10> kColumns{"job",     "user",     "node",    "gpus",      "begin_s",
                                                    "seconds", "energy_j", "account", "partition", "kind"};
constexpr std::size_t kNeeded = kEnergy + 1;
constexpr std::size_t kMissing = static_cast<std::size_t>(-1);
constexpr Nanoseconds kLongest = INT64_C(10) * 366 * 86400 * kSecond;
constexpr Joules kMostEnergy{1e15};
constexpr std::size_t kLinesBetweenProgress = 8192;

// What is wrong with a line.
class BadLine : public Error {
 public:
  using Error::Error;
};

class TableReader {
 public:
  TableReader(LineReader& lines, JobTable& table) : lines_(lines), table_(table) {
    file_ = static_cast<std::uint32_t>(table.files.size());
    table.files.push_back(lines.name());
  }

  void take(std::string_view line) {
    const std::string_view content = trim(line);
    if (content.empty() || content.front() == '#') return;
    split(content);
    if (fields_.front() == kColumns[kJob]) return take_header();
    if (columns_ == 0) {
      throw InputError({lines_.name(), lines_.line(), 1}, "this is no table of jobs: it does not begin with a header",
                       "give files that the epilog wrote; their first line is job,user,...");
    }
    try {
      if (!lines_.complete()) throw BadLine("the last line has no end, so that its numbers may be cut off");
      if (fields_.size() != columns_) {
        throw BadLine(fmt::format("the line has {} fields, its header has {}", fields_.size(), columns_));
      }
      table_.runs.push_back(run());
    } catch (const BadLine& bad) {
      note(fmt::format("{}; it is left out", bad.what()));
    }
  }

 private:
  void split(std::string_view line) {
    fields_.clear();
    for (std::size_t begin = 0; begin <= line.size();) {
      const std::size_t end = std::min(line.find(',', begin), line.size());
      fields_.push_back(trim(unquoted(trim(line.substr(begin, end - begin)))));
      begin = end + 1;
    }
  }

  void take_header() {
    columns_ = fields_.size();
    for (std::size_t c = 0; c < kColumns.size(); ++c) {
      const auto found = std::find(fields_.begin(), fields_.end(), kColumns[c]);
      at_[c] = found == fields_.end() ? kMissing : static_cast<std::size_t>(found - fields_.begin());
      if (c >= kNeeded || at_[c] != kMissing) continue;
      throw InputError({lines_.name(), lines_.line(), 1}, fmt::format("the header has no column '{}'", kColumns[c]),
                       fmt::format("the columns are {},{},...", kColumns[kJob], kColumns[kUser]));
    }
  }

  [[nodiscard]] std::string_view text(Column column) const {
    return at_[column] == kMissing ? std::string_view() : fields_[at_[column]];
  }

  [[nodiscard]] std::uint32_t name(Column column) { return table_.names.intern(text(column)); }

  [[nodiscard]] BadLine bad(Column column, std::string_view wanted) const {
    return BadLine(fmt::format("{} is '{}', not {}", kColumns[column], text(column).substr(0, 40), wanted));
  }

  JobRun run() {
    JobRun made;
    made.file = file_;
    made.line = static_cast<std::uint32_t>(lines_.line());
    const auto job = parse_integer(text(kJob));
    if (!job || *job < 1) throw bad(kJob, "the number of a job");
    made.job = *job;
    for (const std::string_view gpu : split_at(' ', text(kGpus))) {
      if (gpu.empty()) continue;
      const auto number = parse_integer(gpu);
      if (!number || *number < 0) throw bad(kGpus, "numbers of GPUs with blanks between");
      ++made.gpus;
    }
    const auto begin = parse_decimal(text(kBegin), 9);
    if (!begin || *begin < 0 || *begin > kFarthestTime) throw bad(kBegin, "seconds since 1970");
    made.begin = *begin;
    const auto length = parse_decimal(text(kSeconds), 9);
    if (!length || std::abs(*length) > kLongest) throw bad(kSeconds, "a number of seconds");
    made.length = length;
    if (!text(kEnergy).empty()) {
      const auto energy = parse_number(text(kEnergy));
      if (!energy || std::abs(*energy) > kMostEnergy.value()) throw bad(kEnergy, "an energy in joules");
      made.energy = Joules(*energy);
    }
    made.user = name(kUser);
    made.account = name(kAccount);
    made.partition = name(kPartition);
    made.kind = name(kKind);
    made.node = name(kNode);
    if (made.energy && *made.energy < Joules(0)) {
      note(fmt::format("{} J: a counter went back; the energy counts as unknown", made.energy->value()));
      made.energy.reset();
    }
    if (*made.length < 0) {
      note("it ends before it begins: the node's clock was set back; its time counts as unknown");
      made.length.reset();
    }
    return made;
  }

  void note(std::string what) {
    table_.notes.push_back({file_, static_cast<std::uint32_t>(lines_.line()), std::move(what)});
  }

  LineReader& lines_;
  JobTable& table_;
  std::uint32_t file_ = 0;
  std::vector<std::string_view> fields_;
  std::size_t columns_ = 0;
  std::array<std::size_t, kColumns.size()> at_{};
};

auto place(const JobRun& run) { return std::tuple(run.job, run.node, run.begin); }

// What is the same in a line and its copy.
auto all_of(const JobRun& run) { return std::tuple(place(run), run.gpus, run.length, run.energy, run.user); }

}  // namespace

void read_job_table(ByteSource& bytes, JobTable& table, const std::function<void(double)>& progress) {
  LineReader lines(bytes);
  TableReader reader(lines, table);
  std::string_view line;
  while (lines.next(line)) {
    reader.take(line);
    if (lines.line() % kLinesBetweenProgress == 0) progress(lines.share());
  }
  if (lines.cut_off()) {
    table.notes.push_back({static_cast<std::uint32_t>(table.files.size() - 1), static_cast<std::uint32_t>(lines.line()),
                           "the file is cut off here"});
  }
}

void tidy_job_table(JobTable& table) {
  std::vector<JobRun>& runs = table.runs;
  std::sort(runs.begin(), runs.end(), [](const JobRun& a, const JobRun& b) {
    return std::tuple(place(a), a.file, a.line) < std::tuple(place(b), b.file, b.line);
  });
  std::size_t kept = 0;
  for (const JobRun& run : runs) {
    // Those that begin at the same time are next to each other, in any order.
    std::size_t same = kept;
    while (same > 0 && place(runs[same - 1]) == place(run) && all_of(runs[same - 1]) != all_of(run)) --same;
    if (same > 0 && all_of(runs[same - 1]) == all_of(run)) {
      ++table.repeated;
      continue;
    }
    if (kept > 0) {
      const JobRun& before = runs[kept - 1];
      if (before.job == run.job && before.node == run.node && before.begin + before.length.value_or(0) > run.begin) {
        table.notes.push_back({run.file, run.line,
                               fmt::format("{}:{} has the job on this node at the same time; both count",
                                           table.files[before.file], before.line)});
      }
    }
    runs[kept++] = run;
  }
  runs.resize(kept);
}

}  // namespace flyball
