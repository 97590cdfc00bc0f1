// The file is held as it is, and walked twice: for the names of compiled programs' operations, which may stand behind
// what uses them, and for the events.
#include "trace/xplane_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "trace/wire_fields.h"

namespace flyball {
namespace {

constexpr std::string_view kMend = "copy the file again from where the profiler wrote it";
constexpr std::size_t kTellingBytes = 16;  // among them control characters, which no text has
constexpr std::size_t kReadAtOnce = std::size_t{1} << 20;
constexpr std::size_t kLongest = std::numeric_limits<int>::max();  // what Protocol Buffers can read
constexpr std::string_view kPrograms = "/host:metadata";
constexpr std::string_view kEnvironment = "Task Environment";

enum SpaceField { kPlane = 1 };
enum PlaneField { kPlaneName = 2, kLine = 3, kEventNames = 4, kStatNames = 5, kPlaneStat = 6 };
enum MapField { kMapKey = 1, kMapValue = 2 };
enum LineField { kLineId = 1, kLineName = 2, kLineTime = 3, kLineEvent = 4, kLineShownId = 10, kLineShownName = 11 };
enum EventField { kEventName = 1, kEventOffset = 2, kEventDuration = 3, kEventStat = 4, kEventCount = 5 };
enum EventNameField { kNameText = 2, kNameStat = 5 };
enum StatNameField { kStatText = 2 };
enum StatField {
  kStatName = 1,
  kStatUnsigned = 3,
  kStatSigned = 4,
  kStatString = 5,
  kStatBytes = 6,
  kStatReference = 7
};
enum ProgramField { kProgramModule = 1 };  // HloProto
enum ModuleField { kComputation = 3 };     // HloModuleProto
enum ComputationField { kInstruction = 2 };
enum InstructionField { kInstructionName = 1, kInstructionOrigin = 7 };
enum OriginField { kOriginName = 2 };  // OpMetadata.op_name

// The statistics that are used, by their names.
constexpr std::string_view kFacts[] = {"hlo_op",     "hlo_module", "tf_op",     "name",
                                       "program_id", "step_num",   "Hlo Proto", "hlo_proto"};

struct Stat {
  std::string_view name;
  std::string_view text;
  std::uint64_t number = 0;
};

struct EventName {
  std::string_view text;
  std::vector<Stat> stats;  // those that are used, each once
};

class XPlaneFile {
 public:
  XPlaneFile(ByteSource& source, const std::function<void(const JsonEvent&)>& take,
             const std::function<void(double)>& progress)
      : source_(source), take_(take), progress_(progress) {}

  XPlaneStats read() {
    read_bytes();
    std::vector<std::string_view> planes;
    each(bytes_, [&](const WireFields& field) {
      if (field.field() == kPlane) planes.push_back(field.bytes());
    });
    if (planes.empty()) refuse("it has no planes");
    for (const std::string_view plane : planes) read_programs(plane);
    std::size_t done = 0;
    for (std::size_t i = 0; i < planes.size(); ++i) {
      read_plane(i, planes[i]);
      done += planes[i].size();
      progress_(static_cast<double>(done) / static_cast<double>(bytes_.size()));
    }
    return stats_;
  }

 private:
  using Names = std::unordered_map<std::uint64_t, std::string_view>;

  [[noreturn]] void refuse(std::string_view problem) const {
    throw InputError({source_.name()},
                     fmt::format("this is neither a Chrome trace nor an XSpace file (*.xplane.pb): {}", problem),
                     std::string(kMend));
  }

  void read_bytes() {
    std::size_t got = kReadAtOnce;
    while (got == kReadAtOnce) {
      const std::size_t have = bytes_.size();
      if (have + kReadAtOnce > kLongest) refuse("it is longer than 2 GiB; profile fewer steps");
      bytes_.resize(have + kReadAtOnce);
      got = source_.read(bytes_.data() + have, kReadAtOnce);
      bytes_.resize(have + got);
    }
    if (source_.cut_off()) refuse("its gzip stream is cut off");
    stats_.file_bytes = bytes_.size();
  }

  template <class Visit>
  void each(std::string_view message, Visit visit) const {
    WireFields fields(message);
    while (fields.next()) visit(fields);
    if (!fields.whole()) {
      refuse(fmt::format("byte {} begins a message that is damaged or cut off", message.data() - bytes_.data()));
    }
  }

  [[nodiscard]] std::string_view name_of(std::string_view plane) const {
    std::string_view name;
    each(plane, [&](const WireFields& field) {
      if (field.field() == kPlaneName) name = field.bytes();
    });
    return name;
  }

  // Calls `visit` with the number and the message of each entry of a map of the plane.
  template <class Visit>
  void each_entry(std::string_view plane, int map, Visit visit) const {
    each(plane, [&](const WireFields& field) {
      if (field.field() != map) return;
      std::uint64_t key = 0;
      std::string_view value;
      each(field.bytes(), [&](const WireFields& part) {
        if (part.field() == kMapKey) key = part.number();
        if (part.field() == kMapValue) value = part.bytes();
      });
      visit(key, value);
    });
  }

  [[nodiscard]] Names stat_names(std::string_view plane) const {
    Names names;
    each_entry(plane, kStatNames, [&](std::uint64_t key, std::string_view value) {
      each(value, [&](const WireFields& field) {
        if (field.field() == kStatText) names[key] = field.bytes();
      });
    });
    return names;
  }

  [[nodiscard]] EventName event_name(std::string_view message, const Names& names) const {
    EventName name;
    each(message, [&](const WireFields& field) {
      if (field.field() == kNameText) name.text = field.bytes();
      if (field.field() != kNameStat) return;
      const Stat fact = stat(field.bytes(), names);
      const auto same = std::find_if(name.stats.begin(), name.stats.end(),
                                     [&fact](const Stat& known) { return known.name == fact.name; });
      if (same != name.stats.end()) {
        *same = fact;
      } else if (std::find(std::begin(kFacts), std::end(kFacts), fact.name) != std::end(kFacts)) {
        name.stats.push_back(fact);
      }
    });
    return name;
  }

  [[nodiscard]] Stat stat(std::string_view message, const Names& names) const {
    Stat found;
    const auto named = [&names](std::uint64_t key) {
      const auto known = names.find(key);
      return known == names.end() ? std::string_view() : known->second;
    };
    each(message, [&](const WireFields& field) {
      switch (field.field()) {
        case kStatName: found.name = named(field.number()); break;
        case kStatUnsigned:
        case kStatSigned: found.number = field.number(); break;
        case kStatString:
        case kStatBytes: found.text = field.bytes(); break;
        case kStatReference: found.text = named(field.number()); break;
        default: break;
      }
    });
    return found;
  }

  // Learns under which names JAX knows the operations of compiled programs. The programs are called "jit_step(31)".
  void read_programs(std::string_view plane) {
    if (name_of(plane) != kPrograms) return;
    const Names names = stat_names(plane);
    each_entry(plane, kEventNames, [&](std::uint64_t /*key*/, std::string_view value) {
      const EventName program = event_name(value, names);
      for (const Stat& description : program.stats) {
        if (description.name == "Hlo Proto" || description.name == "hlo_proto") {
          read_program(program.text, description.text);
        }
      }
    });
  }

  void read_program(std::string_view program, std::string_view description) {
    auto& origins = origins_[program];
    const auto within = [this](std::string_view message, int wanted, const auto& visit) {
      each(message, [&](const WireFields& field) {
        if (field.field() == wanted) visit(field.bytes());
      });
    };
    within(description, kProgramModule, [&](std::string_view module) {
      within(module, kComputation, [&](std::string_view computation) {
        within(computation, kInstruction, [&](std::string_view instruction) {
          std::string_view name;
          std::string_view origin;
          each(instruction, [&](const WireFields& field) {
            if (field.field() == kInstructionName) name = field.bytes();
            if (field.field() == kInstructionOrigin) origin = field.bytes();
          });
          within(origin, kOriginName, [&](std::string_view given) { origins[name] = given; });
        });
      });
    });
  }

  void read_plane(std::size_t number, std::string_view plane) {
    const std::string_view plane_name = name_of(plane);
    const std::string process = fmt::format("{}", number);
    const Names names = stat_names(plane);
    name_it("process_name", process, {}, plane_name);
    std::vector<std::string_view> lines;
    each(plane, [&](const WireFields& field) {
      if (field.field() == kLine) lines.push_back(field.bytes());
      if (field.field() == kPlaneStat && plane_name == kEnvironment) read_environment(stat(field.bytes(), names));
    });
    if (plane_name == kPrograms || lines.empty()) return;
    std::unordered_map<std::uint64_t, EventName> event_names;
    each_entry(plane, kEventNames,
               [&](std::uint64_t key, std::string_view value) { event_names[key] = event_name(value, names); });
    for (std::size_t i = 0; i < lines.size(); ++i) {
      std::string_view name;
      std::string_view shown;
      each(lines[i], [&](const WireFields& field) {
        if (field.field() == kLineName) name = field.bytes();
        if (field.field() == kLineShownName) shown = field.bytes();
      });
      name_it("thread_name", process, fmt::format("{}", i), shown.empty() ? name : shown);
    }
    for (std::size_t i = 0; i < lines.size(); ++i)
      read_line(lines[i], process, fmt::format("{}", i), event_names, names);
  }

  void read_environment(const Stat& fact) {
    const bool possible = fact.number <= static_cast<std::uint64_t>(std::numeric_limits<Nanoseconds>::max() / 2);
    if (fact.name == "profile_start_time" && possible) stats_.base_time = static_cast<Nanoseconds>(fact.number);
  }

  void name_it(std::string_view what, std::string_view process, std::string_view thread, std::string_view name) {
    JsonEvent event;
    event.phase = 'M';
    event.name = what;
    event.process = process;
    event.thread = thread;
    event.argument_name = name;
    take_(event);
  }

  void read_line(std::string_view line, std::string_view process, std::string_view thread,
                 const std::unordered_map<std::uint64_t, EventName>& event_names, const Names& names) {
    std::int64_t begin = 0;
    each(line, [&](const WireFields& field) {
      if (field.field() == kLineTime) begin = field.integer();
    });
    each(line, [&](const WireFields& field) {
      if (field.field() != kLineEvent) return;
      ++stats_.entries;
      read_event(field.bytes(), begin, process, thread, event_names, names);
    });
  }

  void read_event(std::string_view message, std::int64_t line_begin, std::string_view process, std::string_view thread,
                  const std::unordered_map<std::uint64_t, EventName>& event_names, const Names& names) {
    std::uint64_t name = 0;
    std::int64_t offset_ps = 0;
    std::int64_t duration_ps = 0;
    bool aggregated = false;
    facts_.clear();
    each(message, [&](const WireFields& field) {
      switch (field.field()) {
        case kEventName: name = field.number(); break;
        case kEventOffset: offset_ps = field.integer(); break;
        case kEventDuration: duration_ps = field.integer(); break;
        case kEventStat: facts_.push_back(field.bytes()); break;
        case kEventCount: aggregated = true; break;
        default: break;
      }
    });
    if (aggregated) {
      ++stats_.aggregated;
      return;
    }
    JsonEvent& event = event_;
    event.clear();
    event.phase = 'X';
    event.process = process;
    event.thread = thread;
    program_ = 0;
    if (const auto known = event_names.find(name); known != event_names.end()) {
      event.name = known->second.text;
      for (const Stat& fact : known->second.stats) take_fact(event, fact);
    }
    for (const std::string_view fact : facts_) take_fact(event, stat(fact, names));
    if (!event.hlo_op.empty()) {
      const auto program = origins_.find(fmt::format("{}({})", event.hlo_module, program_));
      if (program != origins_.end()) {
        const auto origin = program->second.find(event.hlo_op);
        if (origin != program->second.end()) event.argument_name = origin->second;
      }
    }
    time_ = microseconds(line_begin, offset_ps);
    duration_ = microseconds(0, duration_ps);
    event.time = time_;
    event.duration = duration_;
    take_(event);
  }

  void take_fact(JsonEvent& event, const Stat& fact) {
    if (fact.name == "hlo_op") event.hlo_op = fact.text;
    if (fact.name == "hlo_module") event.hlo_module = fact.text;
    if (fact.name == "tf_op") event.tf_op = fact.text;
    if (fact.name == "name") event.argument_name = fact.text;
    if (fact.name == "program_id") program_ = fact.number;
    if (fact.name == "step_num") event.is_step = true;
  }

  // A time of nanoseconds and picoseconds as Chrome traces have it. Of times beyond all reason nothing is told, and the
  // recorder leaves the event out.
  static std::string microseconds(std::int64_t ns, std::int64_t ps) {
    constexpr std::int64_t kMost = std::int64_t{1} << 62;
    if (ns > kMost || ns < -kMost) return {};
    const std::int64_t all = ns + ps / 1000;
    return fmt::format("{}{}.{:03}", all < 0 ? "-" : "", std::abs(all) / 1000, std::abs(all) % 1000);
  }

  ByteSource& source_;
  const std::function<void(const JsonEvent&)>& take_;
  const std::function<void(double)>& progress_;
  std::string bytes_;
  XPlaneStats stats_;
  // What JAX called the operations, by "program(number)" and operation.
  std::unordered_map<std::string_view, std::unordered_map<std::string_view, std::string_view>> origins_;

  // Of the event that is being read.
  JsonEvent event_;
  std::vector<std::string_view> facts_;
  std::uint64_t program_ = 0;
  std::string time_;
  std::string duration_;
};

}  // namespace

bool is_xplane(ByteSource& bytes) {
  const std::string_view beginning = bytes.peek(kTellingBytes);
  return std::any_of(beginning.begin(), beginning.end(),
                     [](unsigned char c) { return c < 0x20 && c != '\t' && c != '\n' && c != '\r'; });
}

XPlaneStats read_xplane(ByteSource& bytes, const std::function<void(const JsonEvent&)>& take,
                        const std::function<void(double)>& progress) {
  return XPlaneFile(bytes, take, progress).read();
}

}  // namespace flyball
