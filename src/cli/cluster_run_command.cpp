// flyball cluster run, status and budget: the scheduler on a real cluster. run has a thread that looks at the
// cluster and acts, which blocks, with agents another one that keeps clocks, and the main one answers HTTP.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <csignal>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <vector>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "base/monotonic_time.h"
#include "base/periodic_thread.h"
#include "base/record.h"
#include "base/token_file.h"
#include "base/wall_clock.h"
#include "cli/cluster_options.h"
#include "cli/console.h"
#include "cli/option_values.h"
#include "cli/tls_options.h"
#include "client/agent_addresses.h"
#include "controller/clock_thread.h"
#include "controller/controller.h"
#include "controller/controller_server.h"
#include "controller/job_paces.h"
#include "controller/job_token.h"
#include "controller/node_agents.h"
#include "controller/slurm_engine.h"
#include "draw/text_table.h"
#include "net/client.h"
#include "net/json_response.h"
#include "plan/power_budget.h"
#include "wire/cluster_messages.h"

namespace flyball {
namespace {

constexpr Seconds kActWithin{0.5};
constexpr Seconds kClocksSettle{4.0};  // until meters have shown lower ones
constexpr std::string_view kWithNodesOff = "; it is for --nodes-off";
constexpr Seconds kDay{86'400.0};
constexpr std::size_t kShortestClusterToken = 16;

// "12kW", "1.5 MW", "900" (watts).
Watts parse_watts(std::string_view option, std::string_view text) {
  std::string_view number = trim(text);
  double factor = 1.0;
  for (const auto& [unit, times] : {std::pair<std::string_view, double>{"kW", 1e3}, {"MW", 1e6}, {"W", 1.0}}) {
    if (!number.ends_with(unit)) continue;
    number.remove_suffix(unit.size());
    factor = times;
    break;
  }
  const auto value = parse_number(number);
  if (value && *value * factor >= 1.0 && *value * factor <= 1e9) return Watts(*value * factor);
  throw UsageError(fmt::format("{} takes a power such as 900W or 12kW, not '{}'", option, text));
}

int parse_nodes(std::string_view option, std::string_view text) {
  return static_cast<int>(parse_integer_within(option, text, 0, 1'000'000, "a number of nodes"));
}

// "18:00": when this is next, in local time. "90min" and the like: from now on.
Seconds parse_until(std::string_view option, std::string_view text) {
  const auto parts = split_at(':', text);
  const auto hour = parts.size() == 2 ? parse_integer(parts[0]) : std::nullopt;
  const auto minute = parts.size() == 2 ? parse_integer(parts[1]) : std::nullopt;
  if (hour && minute && *hour >= 0 && *hour < 24 && *minute >= 0 && *minute < 60) {
    const std::time_t now = std::time(nullptr);
    std::tm local{};
    ::localtime_r(&now, &local);
    local.tm_hour = static_cast<int>(*hour);
    local.tm_min = static_cast<int>(*minute);
    local.tm_sec = 0;
    local.tm_isdst = -1;
    std::time_t at = std::mktime(&local);
    if (at <= now) {
      ++local.tm_mday;
      at = std::mktime(&local);
    }
    return Seconds(static_cast<double>(at));
  }
  if (const auto length = parse_duration_seconds(text); length && *length > 0.0)
    return Seconds(now_seconds()) + Seconds(*length);
  throw UsageError(
      fmt::format("{} takes a time of day such as 18:00 or a duration such as 3600s, not '{}'", option, text));
}

// ---- run

struct ClusterRunOptions {
  std::optional<Watts> budget;
  std::optional<std::string> policy;
  std::optional<double> clock;
  std::optional<std::string> gpu;
  std::optional<std::string> listen;
  std::optional<std::string> socket;
  std::optional<std::string> token_file;
  std::optional<std::string> job_secret_file;
  TlsOptions tls;
  std::optional<std::string> database;
  std::optional<std::string> agent;
  std::optional<std::string> agents;
  std::optional<std::string> agent_token_file;
  std::optional<std::string> agent_ca_file;
  std::optional<std::string> plan_server;
  std::optional<std::string> plan_server_token_file;
  std::optional<std::string> plan_server_ca_file;
  std::optional<Seconds> pace_lasts;
  std::optional<std::string> partition;
  Seconds period{1.0};
  Seconds engine_limit{10.0};
  Seconds restart{30.0};
  Seconds stop_within{30.0};
  std::optional<Seconds> nodes_off;
  std::optional<int> nodes_kept;
  std::optional<Seconds> wake;
  bool dry_run = false;
  bool observe = false;
};

// None where no agent is to be asked.
std::unique_ptr<NodeAgents> open_agents(const ClusterRunOptions& options) {
  if (!options.agent && !options.agents) {
    if (!options.agent_token_file && !options.agent_ca_file) return nullptr;
    throw UsageError("where the agents are is missing; give --agent or --agents");
  }
  NodeAgentsOptions made;
  made.pattern = options.agent.value_or("");
  if (options.agents) made.addresses = read_agent_addresses(*options.agents);
  if (options.agent_token_file) made.token = read_token_file(*options.agent_token_file);
  made.ca_file = options.agent_ca_file.value_or("");
  made.period = options.period;
  made.silent_after = std::max(made.silent_after, options.period * 3.0);
  return std::make_unique<NodeAgents>(made);
}

// None where pipeline jobs are left alone.
std::unique_ptr<JobPaces> open_plans(const ClusterRunOptions& options) {
  if (!options.plan_server) {
    if (!options.plan_server_token_file && !options.plan_server_ca_file && !options.pace_lasts) return nullptr;
    throw UsageError("where the planning server is is missing; give --plan-server");
  }
  JobPacesOptions made;
  made.server = *options.plan_server;
  if (options.plan_server_token_file) made.token = read_token_file(*options.plan_server_token_file);
  made.ca_file = options.plan_server_ca_file.value_or("");
  made.period = options.period;
  made.silent_after = std::max(made.silent_after, options.period * 3.0);
  made.lasts = options.pace_lasts.value_or(made.lasts);
  return std::make_unique<JobPaces>(made);
}

ControllerOptions controller_options(const ClusterRunOptions& options, NodeAgents* agents, JobPaces* plans) {
  ControllerOptions made;
  made.spec.gpu = options.gpu.value_or("a100");
  const GroundTruth typical = load_ground_truth(made.spec.gpu);
  complete_spec(made.spec, typical);
  if (options.clock) made.clock = Megahertz(*options.clock);
  if (made.clock) check_clock(made.spec, *made.clock);
  made.agents = agents;
  made.plans = plans;
  if (agents == nullptr) made.spec.clocks = {made.spec.clocks.back()};  // nobody sets another
  made.spec.restart = options.restart;
  made.policy = options.policy.value_or(std::string(kDefaultPolicy));
  const bool heeds_clock = find_policy(made.policy).setting == PolicySetting::kClock;
  warn_if_ignored("--clock", options.clock.has_value(), heeds_clock, kForOneClock);
  made.budget = *options.budget;
  made.stop_within = options.stop_within;
  made.act_within = kActWithin;
  made.lower_before = std::max(made.lower_before, kClocksSettle + options.period);
  made.partition = options.partition;
  made.nodes_off_after = options.nodes_off;
  made.nodes_kept_on = options.nodes_kept.value_or(made.nodes_kept_on);
  made.spec.wake = options.wake.value_or(made.spec.wake);
  warn_if_ignored("--nodes-kept", options.nodes_kept.has_value(), options.nodes_off.has_value(), kWithNodesOff);
  warn_if_ignored("--wake", options.wake.has_value(), options.nodes_off.has_value(), kWithNodesOff);
  if (options.observe) made.mode = ControllerMode::kObserves;
  if (options.dry_run) made.mode = ControllerMode::kDryRun;
  return made;
}

void log_line(const std::string& words) { print_report(fmt::format("flyball cluster run: {}\n", words)); }

void run_dry(const ClusterRunOptions& options) {
  SlurmEngine engine(options.engine_limit);
  ControllerStore store("");
  const auto agents = open_agents(options);
  const auto plans = open_plans(options);
  Controller controller(engine, store, controller_options(options, agents.get(), plans.get()),
                        [](const std::string&) {});
  controller.cycle(Seconds(now_seconds()));
  std::string text;
  for (const std::string& line : controller.decided()) text += line + "\n";
  print_result(text.empty() ? "nothing is to be changed\n" : text);
}

// Looks at the cluster once, and tells when that begins and ceases to fail.
void run_cycle(Controller& controller, Seconds now, std::string& trouble) {
  std::string now_wrong;
  try {
    controller.cycle(now);
  } catch (const Error& error) {
    now_wrong = error.what();
  }
  if (now_wrong != trouble) log_line(now_wrong.empty() ? "the cluster answers again" : now_wrong);
  trouble = now_wrong;
}

void run_cluster(const ClusterRunOptions& options) {
  if (!options.budget) throw UsageError("--budget is missing; give the watts of all GPUs, such as --budget 12kW");
  if (options.dry_run && options.observe) throw UsageError("--dry-run and --observe exclude each other");
  if (options.dry_run) return run_dry(options);
  ControllerServerOptions where;
  where.socket_path = options.socket.value_or("");
  if (options.socket && !options.listen) {
    where.listen_host.clear();
  } else {
    const HostPort address = parse_host_port("--listen", options.listen.value_or(kClusterAddress));
    where.listen_host = address.host;
    where.listen_port = address.port;
  }
  if (options.token_file) where.administrator_token = read_own_token_file(*options.token_file, kShortestClusterToken);
  if (options.job_secret_file) where.job_secret = read_own_token_file(*options.job_secret_file, kShortestJobSecret);
  where.tls = tls_files(options.tls, !where.listen_host.empty());
  EventLoop loop;
  SlurmEngine engine(options.engine_limit);
  const std::string database = options.database ? *options.database : default_database("cluster.db");
  ControllerStore store(database);
  const auto agents = open_agents(options);
  const auto plans = open_plans(options);
  Controller controller(engine, store, controller_options(options, agents.get(), plans.get()), log_line);
  ControllerServer server(loop, controller, where);
  std::string text;
  if (server.port() != 0) {
    text += fmt::format("listening on {}\n", url_of(where.listen_host, server.port(), where.tls.has_value()));
  }
  if (!where.socket_path.empty()) text += fmt::format("listening on {}\n", where.socket_path);
  print_result(text + fmt::format("what is wanted is kept in {}\n", database));
  bool stopping = false;
  const auto signals = loop.on_signals({SIGINT, SIGTERM}, [&](int) {
    if (stopping) return loop.stop();
    stopping = true;
    server.stop([&loop] { loop.stop(); });
  });
  // The wall clock at the start, and the monotonic clock from there on.
  const auto now = [begin = Seconds(now_seconds()) - to_seconds(monotonic_now())] {
    return begin + to_seconds(monotonic_now());
  };
  std::optional<ClockThread> clocks;  // first, since an order may come at once
  if (agents) clocks.emplace(controller, options.period, now);
  std::string trouble;
  const PeriodicThread cycles("a cycle", options.period, [&] {
    run_cycle(controller, now(), trouble);
    return options.period;
  });
  loop.run();
}

void add_run(const Command& parent) {
  const Command command = parent.add_subcommand("run", "the controller of a real cluster: Slurm's elastic jobs");
  const auto options = std::make_shared<ClusterRunOptions>();
  add_value(command, "--budget", options->budget, parse_watts, "POWER",
            "power budget of all GPUs of the cluster: 900W, 12kW; an order of flyball cluster budget counts instead");
  add_choice(command, "--policy", options->policy, {"joule-price", "powerflow", "afs"}, "NAME",
             "scheduling policy: joule-price (default), powerflow, or afs, which takes --clock and --agent");
  add_value(command, "--clock", options->clock, parse_positive, "MHZ",
            "clock of all jobs under a policy that chooses none; it should keep all GPUs within the budget");
  add_value(command, "--gpu", options->gpu, parse_path, "NAME", "GPU model of the nodes: a100 (default) or v100")
      .suggests({"a100", "v100"});
  add_value(command, "--partition", options->partition, parse_path, "NAME",
            "Slurm's partition whose nodes and jobs this controller has, and whose GPUs the budget is of (default: all "
            "nodes, and the elastic jobs of partitions that have all of these)");
  command.add_flag("--dry-run", options->dry_run, "look once, print what would be decided, and do nothing");
  command.add_flag("--observe", options->observe, "learn what running jobs cost, and touch none");
  add_value(command, "--listen", options->listen, parse_path, "HOST:PORT",
            fmt::format("where jobs report and operators ask, port 0 for a free one (default {})", kClusterAddress));
  add_value(command, "--socket", options->socket, parse_path, "PATH",
            "listen on this Unix socket, where a report must come from the job's own user (and on TCP only if --listen "
            "is given)");
  add_tls_options(command, options->tls);
  add_value(command, "--job-secret-file", options->job_secret_file, parse_path, "FILE",
            "file with the secret, readable by its owner only, from which Slurm's plugin makes each job's token: jobs "
            "that show theirs may report over TCP; without it they report over the Unix socket only");
  add_value(command, "--token-file", options->token_file, parse_path, "FILE",
            "file with a token, readable by its owner only: whoever shows it may order a budget, and report for any "
            "job; this or --job-secret-file is needed to listen beyond this machine");
  add_value(command, "--database", options->database, parse_path, "FILE",
            "SQLite file in which is kept what is wanted (default ~/.local/state/flyball/cluster.db)");
  add_value(command, "--agent", options->agent, parse_path, "ADDRESS",
            "address of the nodes' agents, with {node} for a node's name, such as https://{node}:4938: set clocks and "
            "read watts there (default: no clock is set)");
  add_value(command, "--agents", options->agents, parse_path, "FILE",
            "file with lines of a node and its agent's address, in place of --agent or for some of the nodes");
  add_value(command, "--agent-token-file", options->agent_token_file, parse_path, "FILE",
            "file with the agents' token");
  add_value(command, "--agent-ca-file", options->agent_ca_file, parse_path, "FILE",
            "PEM file of the authorities that issued the agents' certificates (default: the system's)");
  add_value(command, "--plan-server", options->plan_server, parse_path, "ADDRESS",
            "HOST:PORT, https://HOST:PORT or unix:PATH of the planning server (flyball serve): pipeline jobs are moved "
            "along their frontiers there (default: they are left alone)");
  add_value(command, "--plan-server-token-file", options->plan_server_token_file, parse_path, "FILE",
            "file with the planning server's administrator's token");
  add_value(command, "--plan-server-ca-file", options->plan_server_ca_file, parse_path, "FILE",
            "PEM file of the authorities that issued the planning server's certificate (default: the system's)");
  add_value(
      command, "--pace-lasts", options->pace_lasts, parse_duration, "TIME",
      "how long pipeline jobs keep the pace that they were given when this program has ended; then they go back to "
      "their own (default 300s)");
  add_value(command, "--period", options->period, parse_duration, "TIME",
            "how often to look at the cluster (default 1s)");
  add_value(command, "--engine-limit", options->engine_limit, parse_duration, "TIME",
            "longest time that a command of Slurm may take (default 10s)");
  add_value(
      command, "--restart", options->restart, parse_duration_or_zero, "TIME",
      "time that a job loses when its GPUs change, for decisions, until it was measured for its kind (default 30s)");
  add_value(command, "--stop-within", options->stop_within, parse_duration_or_zero, "TIME",
            "how long a job may take to end when it was asked to, before it is put back into the queue (default 30s)");
  add_value(command, "--nodes-off", options->nodes_off, parse_duration_or_zero, "AFTER",
            "switch nodes off by Slurm's power saving that have idled so long, and as long as they take to wake; on "
            "again when a job is to run there (default: never)");
  add_value(command, "--nodes-kept", options->nodes_kept, parse_nodes, "N",
            "so many nodes without jobs stay on (default 1)");
  add_value(command, "--wake", options->wake, parse_duration_or_zero, "TIME",
            "time that a node takes from off to usable, for decisions, until it was measured (default 60s)");
  command.footer(
      "Elastic jobs are those whose comment has flyball:elastic,kind=NAME,iterations=N,\n"
      "min=1,max=8; with --plan-server, those with flyball:pipeline,kind=NAME,\n"
      "iterations=N, whose sessions plan as job slurm-NUMBER, are slowed down and sped up;\n"
      "all others are left alone. Needs the rights of a Slurm operator.\n"
      "It may be killed at any time, and goes on where it was when it is started again.\n\n"
      "Examples:\n"
      "  flyball cluster run --budget 12kW --dry-run\n"
      "  flyball cluster run --budget 12kW --observe\n"
      "  flyball cluster run --budget 12kW --socket /run/flyball-cluster/cluster.sock\n"
      "  flyball cluster run --budget 12kW --listen 10.0.0.1:4942 --tls-cert cert.pem \\\n"
      "    --tls-key key.pem --job-secret-file /etc/flyball/cluster.secret\n"
      "  flyball cluster run --budget 12kW --agent https://{node}:4938 \\\n"
      "    --agent-token-file /etc/flyball/token\n"
      "  flyball cluster run --budget 12kW --agent https://{node}:4938 \\\n"
      "    --plan-server https://plan:4940 --plan-server-token-file /etc/flyball/plan-token\n"
      "  flyball cluster run --budget 12kW --nodes-off 10min --dry-run");
  command.callback([options] { run_cluster(*options); });
}

// ---- status and budget

struct AskOptions {
  std::optional<std::string> controller;
  std::optional<std::string> token_file;
  std::optional<std::string> ca_file;
  std::optional<std::string> format;
};

void add_ask_options(const Command& command, AskOptions& options) {
  add_value(command, "--controller", options.controller, parse_path, "ADDRESS",
            fmt::format("HOST:PORT, https://HOST:PORT or unix:PATH of the controller (default: what {} names, else {})",
                        kClusterVariable, kClusterAddress));
  add_value(command, "--token-file", options.token_file, parse_path, "FILE", "file with the controller's token");
  add_value(command, "--ca-file", options.ca_file, parse_path, "FILE",
            "authorities (PEM) that may have issued the certificate of an https:// controller (default: the system's)");
}

Response ask(const AskOptions& options, std::string_view method, std::string_view target,
             const std::string& body = {}) {
  HttpClient::Options how;
  if (options.token_file) how.token = read_token_file(*options.token_file);
  how.ca_file = options.ca_file.value_or("");
  HttpClient client(parse_endpoint(controller_address(options.controller)), how);
  Response response = client.request(method, target, body);
  if (response.status < 300) return response;
  throw SystemError(fmt::format("the controller answers {} {}: {}", response.status, reason_phrase(response.status),
                                detail_of_problem(response.body)));
}

std::string clock_time(Seconds at) {
  const auto time = static_cast<std::time_t>(at.value());
  std::tm local{};
  ::localtime_r(&time, &local);
  const std::string day =
      std::abs(at.value() - now_seconds()) < kDay.value()
          ? ""
          : fmt::format("{:04}-{:02}-{:02} ", local.tm_year + 1900, local.tm_mon + 1, local.tm_mday);
  return fmt::format("{}{:02}:{:02}", day, local.tm_hour, local.tm_min);
}

std::string until_text(std::optional<Seconds> until, Watts next) {
  if (!until) return "";
  return fmt::format(" until {}", clock_time(*until)) +
         (next.value() > 0.0 ? fmt::format(", then {:.0f} W", next.value()) : "");
}

std::string agent_text(const ClusterNodeStatus& node) {
  if (node.off) return "off";
  if (node.agent.empty()) return "none";
  const std::string last = node.age ? fmt::format("answered {:.1f} s ago", node.age->value()) : "has never answered";
  const std::string text = node.power ? last : fmt::format("silent, {}; its GPUs count in full", last);
  return node.agent_trouble.empty() ? text : fmt::format("{}: {}", text, node.agent_trouble);
}

std::string wake_text(const ClusterNodeStatus& node) {
  std::string text = node.wakes > 0 ? fmt::format("{:.1f} (of {})", node.wake.value(), node.wakes) : "-";
  if (node.wakes_failed > 0) text += fmt::format(", failed {}", node.wakes_failed);
  return text;
}

std::string status_text(const ClusterRunStatus& status) {
  std::string text = status.partition.empty() ? "" : fmt::format("partition {}: ", status.partition);
  text += fmt::format(
      "{} {}; budget {:.0f} W{}, {:.0f} W of it for GPUs without elastic jobs; elastic jobs "
      "count {:.0f} of {:.0f} W\n",
      status.policy, status.mode, status.budget.value(), until_text(status.until, status.next), status.others.value(),
      status.power.value(), status.limit.value());
  if (!status.trouble.empty()) text += fmt::format("Slurm does not answer: {}\n", status.trouble);
  if (!status.jobs.empty()) {
    TextTable jobs({"job", "<user", "<kind", "<state", "GPUs", "<on", "clock (MHz)", "counts (W)", "measured (W)",
                    "energy (kJ)", "done (%)", "step (s)", "<why"});
    for (const ClusterJobStatus& one : status.jobs) {
      const std::string gpus =
          one.to_gpus == one.gpus ? fmt::to_string(one.gpus) : fmt::format("{} to {}", one.gpus, one.to_gpus);
      jobs.add_row({fmt::to_string(one.job), one.user, one.kind, one.state, gpus,
                    fmt::format("{}", fmt::join(one.nodes, ",")),
                    one.pipeline              ? "by plan"
                    : one.clock.value() > 0.0 ? format_fixed(one.clock.value(), 0)
                                              : "default",
                    format_fixed(one.power.value(), 0), one.measured ? format_fixed(one.measured->value(), 0) : "-",
                    one.energy.value() > 0.0 ? format_fixed(one.energy.value() / 1e3, 1) : "-",
                    one.iterations > 0.0 ? format_fixed(100.0 * one.iteration / one.iterations, 1) : "-",
                    one.step.value() > 0.0 ? fmt::format("{:.4g}", one.step.value()) : "-", one.why});
    }
    text += "\n" + jobs.str();
  }
  if (!status.kinds.empty()) {
    TextTable kinds({"<kind", "restart (s)", "<", "shrink (s)", "changeover (s)"});
    const auto mean = [](Seconds value, int measured) {
      return measured > 0 ? format_fixed(value.value(), 1) : std::string("-");
    };
    for (const ClusterKindStatus& one : status.kinds) {
      kinds.add_row({one.kind, format_fixed(one.restart.value(), 1),
                     one.measured > 0 ? fmt::format("mean of {} measured", one.measured) : "not measured",
                     mean(one.shrink, one.shrinks), mean(one.changeover, one.changeovers)});
    }
    text += "\n" + kinds.str();
  }
  TextTable nodes({"<node", "<state", "GPUs used", "of", "<for elastic jobs", "power (W)", "wakes in (s)", "<agent"});
  for (const ClusterNodeStatus& one : status.nodes) {
    nodes.add_row({one.node, one.state, fmt::to_string(one.gpus_used), fmt::to_string(one.gpus),
                   one.ours ? "yes" : "no", one.power ? format_fixed(one.power->value(), 0) : "-", wake_text(one),
                   agent_text(one)});
  }
  return text + "\n" + nodes.str();
}

void run_status(const AskOptions& options) {
  const Response response = ask(options, "GET", "/v1/cluster/status");
  const auto json = parse_json("the controller's answer", response.body);
  if (options.format == "json") return print_result(dump_json(nlohmann::ordered_json(json), 2) + "\n");
  print_result(status_text(read_message<ClusterRunStatus>(json)));
}

void add_status(const Command& parent) {
  const Command command = parent.add_subcommand("status", "what a controller's jobs have, and why");
  const auto options = std::make_shared<AskOptions>();
  add_ask_options(command, *options);
  add_format(command, options->format);
  command.footer(
      "Examples:\n"
      "  flyball cluster status\n"
      "  flyball cluster status --controller unix:/run/cluster.sock --format json");
  command.callback([options] { run_status(*options); });
}

struct BudgetOptions {
  AskOptions ask;
  std::string budget;
  std::optional<std::string> file;
  std::optional<Seconds> until;
};

BudgetOrder order_of(const BudgetOptions& options) {
  if (options.budget.empty() != options.file.has_value()) {
    throw UsageError("give either a power such as 12kW, or a file of budgets (--file)");
  }
  if (!options.budget.empty()) return {parse_watts("POWER", options.budget), options.until};
  if (options.until) throw UsageError("--until is for a power; the periods of --file have ends of their own");
  BudgetOrder order;
  for (const BudgetPeriod& one : read_power_budget_file(*options.file)) {
    if (!one.begin) {
      throw InputError({*options.file}, "has seconds since any moment", "write dates, such as 2026-11-24T18:00:00Z");
    }
    order.periods.push_back({*one.begin, *one.begin + one.length, one.power});
  }
  if (order.periods.back().until <= Seconds(now_seconds())) {
    throw InputError({*options.file}, "all its periods are over", "write one that has not ended");
  }
  return order;
}

void add_budget(const Command& parent) {
  const Command command = parent.add_subcommand("budget", "order another power budget of a controller");
  const auto options = std::make_shared<BudgetOptions>();
  command.add_option("POWER", options->budget, "of all GPUs of the cluster: 900W, 12kW");
  add_value(command, "--file", options->file, parse_path, "FILE",
            "budgets for periods of time, as CSV with from,until,power_w and dates, in place of POWER");
  add_value(command, "--until", options->until, parse_until, "TIME",
            "time of day (18:00) or duration (3600s) after which the budget before counts again");
  add_ask_options(command, options->ask);
  add_format(command, options->ask.format);
  command.footer(
      "Examples:\n"
      "  flyball cluster budget 12kW\n"
      "  flyball cluster budget 9kW --until 18:00 --controller unix:/run/cluster.sock\n"
      "  flyball cluster budget --file tomorrow.csv");
  command.callback([options] {
    const BudgetOrder order = order_of(*options);
    (void)ask(options->ask, "PUT", "/v1/cluster/budget", to_json(order).dump());
    if (options->ask.format == "json") return print_result(to_json(order).dump() + "\n");
    if (!order.periods.empty()) {
      return print_result(
          fmt::format("{} periods, until {}\n", order.periods.size(), clock_time(order.periods.back().until)));
    }
    print_result(fmt::format("{:g} W{}\n", order.budget.value(),
                             order.until ? " until " + clock_time(*order.until) : " from now on"));
  });
}

}  // namespace

void add_cluster_run_commands(const Command& parent) {
  add_run(parent);
  add_status(parent);
  add_cluster_submit_command(parent);
  add_cluster_keeps_command(parent);
  add_budget(parent);
}

}  // namespace flyball
