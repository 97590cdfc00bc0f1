// A job's GPUs are in gres_detail, a text for each of its nodes in their order: "gpu:a100:2(IDX:0-1)".
#include "controller/slurm_lists.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <simdjson.h>

#include "base/error.h"
#include "base/printable.h"
#include "base/text.h"

namespace flyball {
namespace {

using simdjson::dom::object;

constexpr long kMostNodes = 1'000'000;  // of one list

[[noreturn]] void refuse(const std::string& source, const std::string& problem) {
  throw InputError({source}, problem, "use a Slurm that prints what 22.05 or a later version does");
}

bool flag_of(const object& json, const char* name, bool standard) {
  bool flag = standard;
  const auto error = json[name].get(flag);
  if (error == simdjson::INCORRECT_TYPE) refuse("Slurm", fmt::format("{} is neither true nor false", name));
  return error == simdjson::SUCCESS ? flag : standard;
}

// Later versions say {"set": true, "infinite": false, "number": 3} where 22.05 says 3.
std::int64_t number_of(const object& json, const char* name, std::int64_t standard) {
  std::int64_t number = standard;
  object parts;
  if (json[name].get(number) == simdjson::SUCCESS || json[name].get(parts) != simdjson::SUCCESS) return number;
  return flag_of(parts, "set", false) && parts["number"].get(number) == simdjson::SUCCESS ? number : standard;
}

// Terminals and logs show these texts, and JSON may have any character in them.
std::string showable(std::string_view text) { return printable(text, LineEnds::kKept); }

std::string text_of(const object& json, const char* name) {
  std::string_view text;
  return json[name].get(text) == simdjson::SUCCESS ? showable(text) : std::string();
}

// Later versions say ["RUNNING"] where 22.05 says "RUNNING".
std::vector<std::string> words_of(const object& json, const char* name) {
  std::string_view text;
  if (json[name].get(text) == simdjson::SUCCESS) return {showable(text)};
  std::vector<std::string> words;
  simdjson::dom::array list;
  if (json[name].get(list) != simdjson::SUCCESS) return {};
  for (const auto word : list) {
    if (word.get(text) == simdjson::SUCCESS) words.push_back(showable(text));
  }
  return words;
}

// "0-1,3": 0, 1, 3.
std::vector<std::size_t> indices_of(std::string_view text) {
  std::vector<std::size_t> indices;
  for (const std::string_view part : split_at(',', text)) {
    const std::size_t dash = part.find('-');
    const auto first = parse_integer(part.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : parse_integer(part.substr(dash + 1));
    if (!first || !last || *first < 0 || *last > 1023) return {};
    for (long index = *first; index <= *last; ++index) indices.push_back(static_cast<std::size_t>(index));
  }
  return indices;
}

// "gpu:a100:2(IDX:0-1)" is 2 GPUs, "gpu:4" is 4, "gpu:a100:1(IDX:0),gpu:h100:2(IDX:1-2)" is 3; other resources are
// passed over.
NodeGpus gpus_in(std::string_view text) {
  NodeGpus all;
  while (!text.empty()) {
    std::size_t end = 0;
    for (int depth = 0; end < text.size() && (text[end] != ',' || depth > 0); ++end) {
      depth += text[end] == '(' ? 1 : text[end] == ')' ? -1 : 0;
    }
    std::string_view one = text.substr(0, end);
    text.remove_prefix(std::min(text.size(), end + 1));
    if (one.starts_with("gres:") || one.starts_with("gres/")) one.remove_prefix(5);
    const std::size_t open = one.find('(');
    const std::string_view name = one.substr(0, open);
    if (name != "gpu" && !name.starts_with("gpu:")) continue;
    const auto count = name == "gpu" ? std::optional<long>(1) : parse_integer(name.substr(name.rfind(':') + 1));
    all.count += static_cast<int>(count.value_or(1));  // "gpu:a100" is one
    if (open == std::string_view::npos || !one.substr(open).starts_with("(IDX:")) continue;
    const std::string_view inside = one.substr(open + 5, one.size() - open - 6);
    for (const std::size_t index : indices_of(inside)) all.indices.push_back(index);
  }
  return all;
}

constexpr std::int64_t kAtOnce = 10;  // s from a job's start to its end

EngineJobState state_of(const std::vector<std::string>& words) {
  static const std::map<std::string, EngineJobState, std::less<>> kStates = {
      {"PENDING", EngineJobState::kPending},      {"RUNNING", EngineJobState::kRunning},
      {"COMPLETED", EngineJobState::kCompleted},  {"CANCELLED", EngineJobState::kCancelled},
      {"FAILED", EngineJobState::kFailed},        {"TIMEOUT", EngineJobState::kFailed},
      {"NODE_FAIL", EngineJobState::kFailed},     {"BOOT_FAIL", EngineJobState::kFailed},
      {"OUT_OF_MEMORY", EngineJobState::kFailed}, {"DEADLINE", EngineJobState::kFailed},
  };
  // A second word is a flag ("COMPLETING"), and a state that is not listed passes by.
  const auto known = words.size() == 1 ? kStates.find(words.front()) : kStates.end();
  return known == kStates.end() ? EngineJobState::kChanging : known->second;
}

// Slurm holds a job that it could not launch, and one that it has launched in vain five times.
bool is_failure_of_engine(const std::vector<std::string>& states, const std::string& reason,
                          const std::string& description) {
  if (description == "launch failed requeued held" || reason == "JobHoldMaxRequeue") return true;
  const auto is = [](const std::string& state) { return state == "NODE_FAIL" || state == "BOOT_FAIL"; };
  if (std::ranges::any_of(states, is)) return true;
  return state_of(states) == EngineJobState::kFailed &&
         (reason == "JobLaunchFailure" || reason == "NodeDown" || reason == "SystemFailure");
}

std::vector<std::string> allocated_nodes(const object& job) {
  const std::string list = text_of(job, "nodes");
  return list.empty() ? std::vector<std::string>() : expand_node_list(list);
}

EngineJob read_job(const object& json) {
  EngineJob job;
  job.id = number_of(json, "job_id", 0);
  if (job.id <= 0) refuse("squeue", "a job has no job_id");
  job.user = number_of(json, "user_id", -1);
  job.user_name = text_of(json, "user_name");
  job.name = text_of(json, "name");
  job.comment = text_of(json, "comment");
  job.partition = text_of(json, "partition");
  job.shown = text_of(json, "admin_comment");
  job.state = state_of(words_of(json, "job_state"));
  job.held = job.state == EngineJobState::kPending && number_of(json, "priority", 1) == 0;
  job.reason = text_of(json, "state_reason");
  const std::string description = text_of(json, "state_description");
  job.put_back = job.held && description == "job requeued in held state";
  job.engine_failed = is_failure_of_engine(words_of(json, "job_state"), job.reason, description);
  // Not the reason, which is another one where the job is held as well.
  const std::string dependency = text_of(json, "dependency");
  job.depends = !dependency.empty() && dependency != "(null)";
  static const std::vector<std::string> kForNodes = {"None", "Resources", "Priority", "ReqNodeNotAvail"};
  job.for_nodes = std::ranges::find(kForNodes, job.reason) != kForNodes.end();
  job.restarts = static_cast<int>(number_of(json, "restart_cnt", 0));
  for (const char* const other : {"tres_per_job", "tres_per_task", "tres_per_socket", "het_job_id_set"}) {
    job.resizable = job.resizable && text_of(json, other).empty();
  }
  job.resizable = job.resizable && number_of(json, "array_job_id", 0) == 0 && number_of(json, "het_job_id", 0) == 0;
  // Only batch jobs can be put back into the queue.
  job.resizable = job.resizable && flag_of(json, "requeue", true) && flag_of(json, "batch_flag", true);
  const auto tasks = std::max<std::int64_t>(number_of(json, "tasks", 1), 1);
  job.cpus_per_task = static_cast<int>(std::max<std::int64_t>(number_of(json, "cpus", 1) / tasks, 1));
  job.tasks_per_node = static_cast<int>(std::max<std::int64_t>(number_of(json, "tasks_per_node", 1), 1));
  // A job from which nodes were taken has fewer processors and as many tasks as before.
  const std::int64_t shrunk_at = number_of(json, "resize_time", 0);
  if (shrunk_at > 0) {
    const auto least = static_cast<int>(number_of(json, "minimum_cpus_per_node", 1)) / job.tasks_per_node;
    job.cpus_per_task = std::max(job.cpus_per_task, least);
  }
  // Not node_count: of a job that was put back into the queue, 22.05 shows how many nodes it had, whatever it asks for.
  job.wanted_nodes = static_cast<int>(tasks) / job.tasks_per_node;
  job.wanted.gpus_per_node = gpus_in(text_of(json, "tres_per_node")).count;
  const std::string required = text_of(json, "required_nodes");
  if (!required.empty()) job.wanted.nodes = expand_node_list(required);
  std::ranges::sort(job.wanted.nodes);
  const std::int64_t started = number_of(json, "start_time", 0);
  job.failed_at_once =
      job.state == EngineJobState::kFailed && started > 0 && number_of(json, "end_time", 0) - started <= kAtOnce;
  if (job.state != EngineJobState::kRunning && job.state != EngineJobState::kChanging) return job;
  job.first_node = text_of(json, "batch_host");
  job.changeable = shrunk_at == 0 || shrunk_at < started;
  const std::vector<std::string> nodes = allocated_nodes(json);
  const std::vector<std::string> details = words_of(json, "gres_detail");
  for (std::size_t i = 0; i < nodes.size() && i < details.size(); ++i) {
    NodeGpus gpus = gpus_in(details[i]);
    gpus.node = nodes[i];
    if (gpus.count > 0) job.gpus.push_back(std::move(gpus));
  }
  std::ranges::sort(job.gpus, {}, &NodeGpus::node);
  return job;
}

EngineNode read_node(const object& json) {
  EngineNode node;
  node.name = text_of(json, "name");
  if (node.name.empty()) refuse("sinfo", "a node has no name");
  // 22.05 has the state and its flags apart; later versions have one list.
  std::vector<std::string> words = words_of(json, "state");
  for (std::string& flag : words_of(json, "state_flags")) words.push_back(std::move(flag));
  for (std::string& word : words) {
    std::ranges::transform(word, word.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  }
  node.state = fmt::format("{}", fmt::join(words, "+"));
  const auto has = [&](std::string_view word) { return std::ranges::count(words, word) != 0; };
  // A node with jobs that is to go off after them is on.
  const bool is_idle = !words.empty() && words.front() == "idle";
  if (has("powering_up") || (has("powered_down") && has("power_up"))) {
    node.power = NodePower::kWaking;
  } else if (has("powered_down")) {
    node.power = NodePower::kOff;
  } else if (has("powering_down") || (has("power_down") && is_idle)) {
    node.power = NodePower::kGoingOff;
  }
  // Other words, such as "planned", say that a job is about to come.
  const auto idle_since = static_cast<double>(number_of(json, "last_busy", 0));
  if (is_idle && words.size() == 1 && idle_since > 0.0) node.idle_since = Seconds(idle_since);
  static const std::vector<std::string> kAway = {"down",    "drain",  "fail",          "maintenance",      "error",
                                                 "unknown", "future", "reboot_issued", "reboot_requested", "reserved"};
  auto away = std::ranges::count_if(
      words, [](const std::string& word) { return std::ranges::find(kAway, word) != kAway.end(); });
  if (node.power == NodePower::kOn && has("not_responding")) ++away;
  node.usable = away == 0;
  node.doubled = away == 1 && has("drain") && text_of(json, "reason") == "Duplicate jobid";
  node.gpus = gpus_in(text_of(json, "gres")).count;
  node.partitions = words_of(json, "partitions");
  return node;
}

template <class Read>
auto read_list(simdjson::dom::parser& parser, const std::string& text, const char* program, const char* name,
               std::vector<OddEntry>* odd, const Read& read) {
  auto document = parser.parse(text);
  // Bytes that are not UTF-8 are rare, and looked for only where they may be the cause.
  if (document.error() != simdjson::SUCCESS) document = parser.parse(printable(text, LineEnds::kKept));
  simdjson::dom::array entries;
  if (document[name].get(entries) != simdjson::SUCCESS) {
    refuse(program, fmt::format("printed no JSON with a list of {}", name));
  }
  std::vector<decltype(read(object()))> list;
  for (const auto one : entries) {
    OddEntry entry;
    try {
      object json;
      if (one.get(json) != simdjson::SUCCESS)
        refuse(program, fmt::format("has an entry of {} that is no object", name));
      entry.job = number_of(json, "job_id", 0);
      list.push_back(read(json));
      continue;
    } catch (const InputError& error) {
      if (odd == nullptr) throw;
      entry.words = error.what();
    }
    odd->push_back(std::move(entry));
  }
  return list;
}

}  // namespace

std::vector<std::string> expand_node_list(std::string_view text) {
  std::vector<std::string> names;
  const auto wrong = [&] {
    throw InputError({"Slurm"}, fmt::format("'{}' is no list of nodes", text), "it looks like n[1-3,7],m1");
  };
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::size_t open = rest.find_first_of("[,");
    if (open == std::string_view::npos || rest[open] == ',') {
      names.emplace_back(rest.substr(0, open));
      if (names.back().empty()) wrong();
      rest.remove_prefix(open == std::string_view::npos ? rest.size() : open + 1);
      continue;
    }
    const std::size_t close = rest.find(']', open);
    if (close == std::string_view::npos) wrong();
    const std::string_view head = rest.substr(0, open);
    for (const std::string_view part : split_at(',', rest.substr(open + 1, close - open - 1))) {
      const std::size_t dash = part.find('-');
      const std::string_view low = part.substr(0, dash);
      const auto first = parse_integer(low);
      const auto last = dash == std::string_view::npos ? first : parse_integer(part.substr(dash + 1));
      if (!first || !last || *first < 0 || *last - *first > kMostNodes) wrong();
      for (long number = *first; number <= *last; ++number) {
        names.push_back(fmt::format("{}{:0{}}", head, number, low.size()));
      }
    }
    rest.remove_prefix(close + 1);
    if (rest.starts_with('[')) wrong();  // a second dimension
    if (!rest.empty() && rest.front() != ',') wrong();
    if (!rest.empty()) rest.remove_prefix(1);
  }
  return names;
}

class SlurmLists::Parser : public simdjson::dom::parser {};

SlurmLists::SlurmLists() : parser_(std::make_unique<Parser>()) {}

SlurmLists::~SlurmLists() = default;

std::vector<EngineJob> SlurmLists::jobs(const std::string& text, std::vector<OddEntry>* odd) {
  std::vector<EngineJob> jobs = read_list(*parser_, text, "squeue", "jobs", odd, read_job);
  std::ranges::sort(jobs, {}, &EngineJob::id);
  return jobs;
}

std::vector<EngineNode> SlurmLists::nodes(const std::string& text, std::vector<OddEntry>* odd) {
  std::vector<EngineNode> nodes = read_list(*parser_, text, "sinfo", "nodes", odd, read_node);
  std::ranges::sort(nodes, {}, &EngineNode::name);
  return nodes;
}

}  // namespace flyball
