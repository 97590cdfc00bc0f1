// The HTTP interface of zeusd 0.5.0, the daemon of the Zeus project, so that its clients run unmodified. Paths, query
// parameters and bodies are those of zeusd's public sources (crates.io, src/routes/); how long a setting lasts is ours:
// zeusd's stays for ever, ours as long as the process that made it.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <map>
#include <utility>
#include <nlohmann/json.hpp>

#include "agent/change_settings.h"
#include "agent/routes.h"
#include "base/text.h"
#include "net/json_response.h"

namespace flyball {
namespace {

constexpr Seconds kPollPeriod = kGlancePeriod;
constexpr Nanoseconds kMostPowerAge = 1'000'000'000;
const std::vector<std::string> kGroups = {"gpu-control", "gpu-read", "cpu-read"};

std::int64_t unix_milliseconds() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::int64_t thousandths(double value) { return std::llround(value * 1e3); }
std::int64_t millionths(double value) { return std::llround(value * 1e6); }

unsigned zeusd_status(const std::exception& error) {
  const unsigned status = agent_status_of(error);
  return status == 422 || status == 404 ? 400 : status;
}

// A refusal that zeusd says in plain text: its framework's when it cannot read a query, and its handlers' when the
// device to be set does not exist.
class PlainRefusal : public HttpError {
 public:
  explicit PlainRefusal(const std::string& words) : HttpError(400, words) {}
};

// The answer is {"error": "..."}, or plain text.
Response zeusd_error(const std::exception& error) {
  const bool plain = dynamic_cast<const PlainRefusal*>(&error) != nullptr;
  Response response =
      plain ? text_response("text/plain; charset=utf-8", error.what()) : json_response(200, {{"error", error.what()}});
  response.status = zeusd_status(error);
  if (const auto* http = dynamic_cast<const HttpError*>(&error)) response.headers = http->headers();
  return response;
}

// What several devices answered: {"0": ...}, or {"errors": {"0": "..."}} with the worst status.
class Answers {
 public:
  Answers(Reply reply, std::size_t count) : reply_(std::move(reply)), left_(count) {}

  // `build` makes the body from what all have answered.
  void arrived(std::size_t device, const std::exception_ptr& error, const std::function<Response()>& build) {
    try {
      if (error) std::rethrow_exception(error);
    } catch (const std::exception& caught) {
      errors_[fmt::to_string(device)] = caught.what();
      worst_ = std::max(worst_, zeusd_status(caught));
    }
    if (--left_ > 0) return;
    if (errors_.empty()) return reply_.send(build());
    reply_.send(json_response(worst_, {{"errors", errors_}}));
  }

 private:
  Reply reply_;
  std::size_t left_;
  nlohmann::ordered_json errors_ = nlohmann::ordered_json::object();
  unsigned worst_ = 400;
};

// --- Queries -------------------------------------------------------------------------------------------------------

[[noreturn]] void bad(const std::string& what) { throw HttpError(400, what); }
[[noreturn]] void bad_query(const std::string& what) { throw PlainRefusal("Query deserialize error: " + what); }

void check_names(const Request& request, const std::vector<std::string>& known) {
  for (const auto& [name, value] : request.query.pairs()) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      bad_query(fmt::format("unknown field `{}`, expected one of {}", name, fmt::join(known, ", ")));
    }
  }
}

std::string need(const Request& request, const std::string& name) {
  const auto value = request.query.find(name);
  if (!value) bad_query(fmt::format("missing field `{}`", name));
  return std::string(*value);
}

bool need_boolean(const Request& request, const std::string& name) {
  const std::string value = need(request, name);
  if (value != "true" && value != "false") bad_query(fmt::format("{} is '{}', not true or false", name, value));
  return value == "true";
}

double need_number(const Request& request, const std::string& name) {
  const std::string value = need(request, name);
  std::uint32_t number = 0;
  const auto [end, fault] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (fault != std::errc() || end != value.data() + value.size()) {
    bad_query(fmt::format("{} is '{}', not a whole number", name, value));
  }
  return number;
}

std::vector<std::size_t> parse_ids(std::string_view text, const std::string& kind, std::size_t count) {
  std::vector<std::size_t> ids;
  for (const std::string_view part : split_at(',', text)) {
    const long id = parse_integer(part).value_or(-1);
    if (id < 0) bad(fmt::format("Invalid {} index: '{}'", kind, part));
    if (static_cast<std::size_t>(id) >= count) bad(fmt::format("{} {} not found", kind, id));
    ids.push_back(static_cast<std::size_t>(id));
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

std::vector<std::size_t> optional_ids(const Request& request, const std::string& name, const std::string& kind,
                                      std::size_t count) {
  if (const auto text = request.query.find(name)) return parse_ids(*text, kind, count);
  std::vector<std::size_t> all(count);
  for (std::size_t i = 0; i < count; ++i) all[i] = i;
  return all;
}

// --- GPUs ----------------------------------------------------------------------------------------------------------

using ReadOne = std::function<nlohmann::ordered_json(const GpuDevice&)>;
using StartRead = std::function<void(const Request&, std::size_t gpu, const std::shared_ptr<nlohmann::ordered_json>&,
                                     GpuControl::Done)>;
using Wrap = std::function<nlohmann::ordered_json(nlohmann::ordered_json)>;

// Reads every GPU asked for in its own thread; `wrap` makes the answer from {"0": ...}.
AsyncHandler read_gpus_by(const AgentParts& parts, StartRead read, Wrap wrap) {
  return [parts, read = std::move(read), wrap = std::move(wrap)](const Request& request, const Reply& reply) {
    check_names(request, {"gpu_ids"});
    const auto ids = optional_ids(request, "gpu_ids", "GPU", parts.keeper.gpu_count());
    if (ids.empty()) return reply.send(json_response(200, wrap(nlohmann::ordered_json::object())));
    const auto answers = std::make_shared<Answers>(reply, ids.size());
    const auto all = std::make_shared<std::map<std::size_t, nlohmann::ordered_json>>();
    for (const std::size_t gpu : ids) {
      const auto one = std::make_shared<nlohmann::ordered_json>();
      read(request, gpu, one, [gpu, one, all, answers, wrap](const std::exception_ptr& error) {
        (*all)[gpu] = std::move(*one);
        answers->arrived(gpu, error, [all, wrap] {
          nlohmann::ordered_json body = nlohmann::ordered_json::object();
          for (auto& [id, value] : *all) body[fmt::to_string(id)] = std::move(value);
          return json_response(200, wrap(std::move(body)));
        });
      });
    }
  };
}

AsyncHandler read_gpus(const AgentParts& parts, ReadOne read, Wrap wrap) {
  const auto start = [parts, read = std::move(read)](const Request&, std::size_t gpu,
                                                     const std::shared_ptr<nlohmann::ordered_json>& one,
                                                     GpuControl::Done done) {
    parts.keeper.control(gpu).read([read, one](const GpuDevice& device) { *one = read(device); }, std::move(done));
  };
  return read_gpus_by(parts, start, std::move(wrap));
}

nlohmann::ordered_json as_is(nlohmann::ordered_json body) { return body; }

// The range that the caller may set: a program that went by the board's range alone would be refused.
void read_power_range(const AgentParts& parts, const Request& request, std::size_t gpu,
                      const std::shared_ptr<nlohmann::ordered_json>& one, GpuControl::Done done) {
  const GpuBounds bounds = parts.keeper.rules(gpu).bounds;
  const bool root = parts.claimants.of(request.peer).is_root();
  parts.keeper.control(gpu).read_before(
      [one, bounds, root](const GpuDevice& device, const GpuSettings& before) {
        const PowerLimitRange limits = power_limits_to_set(device, bounds, before, root);
        *one = {{"min_power_limit_mw", thousandths(limits.minimum.value())},
                {"max_power_limit_mw", thousandths(limits.maximum.value())}};
      },
      std::move(done));
}

nlohmann::ordered_json energy_of(const GpuDevice& device) {
  const auto energy = device.total_energy();
  if (!energy) {
    throw DeviceError(DeviceFault::kUnsupported, device.label(), "it has no energy counter", "read its power instead");
  }
  return {{"energy_mj", thousandths(energy->value())}};
}

// For every GPU asked for, `act` starts one write, whose outcome is gathered; without block=true the answer does not
// wait.
using WriteOne = std::function<void(std::size_t gpu, const Claimant& who, LeaseKeeper::Done done)>;

void write_gpus(const AgentParts& parts, const Request& request, const Reply& reply, const WriteOne& act) {
  const auto ids = parse_ids(need(request, "gpu_ids"), "GPU", SIZE_MAX);
  for (const std::size_t gpu : ids) {
    if (gpu >= parts.keeper.gpu_count()) throw PlainRefusal(fmt::format("GPU index {} does not exist.", gpu));
  }
  const bool block = need_boolean(request, "block");
  const Claimant who = parts.claimants.of(request.peer);
  const auto answers = std::make_shared<Answers>(reply, ids.size());
  for (const std::size_t gpu : ids) {
    const auto finish = [answers, gpu](const std::exception_ptr& error) {
      answers->arrived(gpu, error, [] { return Response{}; });
    };
    try {
      act(
          gpu, who, block ? LeaseKeeper::Done(finish) : [](const std::exception_ptr&) {});
      if (!block) finish(nullptr);  // a write that is refused at once is reported all the same
    } catch (const Error&) {
      finish(std::current_exception());
    }
  }
}

AsyncHandler change_gpus(const AgentParts& parts, std::vector<std::string> fields,
                         std::function<SettingsChange(const Request&)> read_change) {
  fields.insert(fields.end(), {"gpu_ids", "block"});
  return [parts, fields = std::move(fields), read_change = std::move(read_change)](const Request& request,
                                                                                   const Reply& reply) {
    check_names(request, fields);
    const SettingsChange change = read_change(request);
    write_gpus(parts, request, reply, [&](std::size_t gpu, const Claimant& who, LeaseKeeper::Done done) {
      parts.keeper.change_without_lease(gpu, change, who, parts.config.zeusd_remote_hold, parts.config.zeusd_shared,
                                        std::move(done));
    });
  };
}

ClockBounds need_bounds(const Request& request) {
  const double minimum = need_number(request, "min_clock_mhz");
  const double maximum = need_number(request, "max_clock_mhz");
  if (minimum < 1 || minimum > maximum) {
    bad_query(
        fmt::format("min_clock_mhz is {:g} and max_clock_mhz {:g}: the first must be 1 at least, and not above the "
                    "second",
                    minimum, maximum));
  }
  return {Megahertz(minimum), Megahertz(maximum)};
}

void set_persistence(const AgentParts& parts, const Request& request, const Reply& reply) {
  check_names(request, {"gpu_ids", "enabled", "block"});
  const bool enabled = need_boolean(request, "enabled");
  write_gpus(parts, request, reply, [&](std::size_t gpu, const Claimant& who, LeaseKeeper::Done done) {
    // Without persistence mode, a driver forgets an operator's limits when its last client goes.
    if (!enabled && !who.is_root()) {
      throw LeaseRefused(LeaseRefused::Reason::kForbidden, "only root switches persistence mode off");
    }
    parts.keeper.call_unleased(
        gpu, who, [enabled](GpuDevice& device) { device.set_persistence(enabled); }, std::move(done));
  });
}

// --- Streams -------------------------------------------------------------------------------------------------------

// Sends an event whenever a device's power has changed, which is looked at 20 times a second.
struct PollingStream {
  std::unique_ptr<PowerFeed::Listener> listener;
  EventLoop::Handle timer;
  std::shared_ptr<void> place;  // among the user's streams
  std::map<std::size_t, std::string> last;
};

using EventOf = std::function<std::string(std::size_t device)>;  // without the time; empty: nothing to say yet

void poll_into(const AgentParts& parts, const std::shared_ptr<EventStream>& stream, std::vector<std::size_t> devices,
               std::shared_ptr<void> place, EventOf event_of) {
  auto polling = std::make_shared<PollingStream>();
  polling->place = std::move(place);
  polling->listener = std::make_unique<PowerFeed::Listener>(parts.glances);
  polling->timer = parts.loop.every(kPollPeriod, [stream, devices = std::move(devices), event_of = std::move(event_of),
                                                  weak = std::weak_ptr(polling)] {
    const auto alive = weak.lock();
    if (!alive) return;
    for (const std::size_t device : devices) {
      std::string event = event_of(device);
      if (event.empty() || alive->last[device] == event) continue;
      stream->send("", fmt::format("{{\"timestamp_ms\":{},{}}}", unix_milliseconds(), event));
      alive->last[device] = std::move(event);
    }
  });
  stream->on_close([polling] {
    polling->timer.reset();
    polling->listener.reset();
    polling->place.reset();
  });
}

std::optional<std::int64_t> latest_milliwatts(const PowerFeed& feed, const std::string& device) {
  const auto found = std::find(feed.devices().begin(), feed.devices().end(), device);
  if (found == feed.devices().end()) return std::nullopt;
  const auto sample = feed.latest(static_cast<std::size_t>(found - feed.devices().begin()));
  // Nothing is said of a device that no longer answers.
  if (!sample || sample->time < Sampler::now() - kMostPowerAge) return std::nullopt;
  return thousandths(sample->power.value());
}

StreamHandler gpu_stream(const AgentParts& parts) {
  return [parts](const Request& request) {
    check_names(request, {"gpu_ids"});
    const auto ids = optional_ids(request, "gpu_ids", "GPU", parts.keeper.gpu_count());
    return [parts, ids, place = parts.budgets.open_stream(request.peer, kPollPeriod)](
               const std::shared_ptr<EventStream>& stream) mutable {
      poll_into(parts, stream, ids, std::move(place), [&feed = parts.glances](std::size_t gpu) -> std::string {
        const auto power = latest_milliwatts(feed, fmt::format("GPU:{}", gpu));
        return power ? fmt::format("\"gpu_id\":{},\"power_mw\":{}", gpu, *power) : "";
      });
    };
  };
}

StreamHandler cpu_stream(const AgentParts& parts) {
  return [parts](const Request& request) {
    check_names(request, {"cpu_ids"});
    const auto ids = optional_ids(request, "cpu_ids", "CPU", parts.monitor.cpus().size());
    return [parts, ids, place = parts.budgets.open_stream(request.peer, kPollPeriod)](
               const std::shared_ptr<EventStream>& stream) mutable {
      poll_into(parts, stream, ids, std::move(place), [&feed = parts.glances](std::size_t cpu) -> std::string {
        const auto package = latest_milliwatts(feed, fmt::format("CPU:{}", cpu));
        const auto dram = latest_milliwatts(feed, fmt::format("DRAM:{}", cpu));
        return package ? fmt::format("\"cpu_id\":{},\"cpu_mw\":{},\"dram_mw\":{}", cpu, *package,
                                     dram ? fmt::to_string(*dram) : "null")
                       : "";
      });
    };
  };
}

// --- Processors ----------------------------------------------------------------------------------------------------

Response cpu_energy(const AgentParts& parts, const Request& request) {
  check_names(request, {"cpu_ids", "cpu", "dram"});
  const bool cpu = need_boolean(request, "cpu");
  const bool dram = need_boolean(request, "dram");
  const auto& cpus = parts.monitor.cpus();
  nlohmann::ordered_json body = nlohmann::ordered_json::object();
  for (const std::size_t id : optional_ids(request, "cpu_ids", "CPU", cpus.size())) {
    nlohmann::ordered_json one = {{"cpu_energy_uj", nullptr}, {"dram_energy_uj", nullptr}};
    if (cpu) one["cpu_energy_uj"] = millionths(cpus[id]->package_energy().value());
    const auto memory = dram ? cpus[id]->dram_energy() : std::nullopt;
    if (memory) one["dram_energy_uj"] = millionths(memory->value());
    body[fmt::to_string(id)] = one;
  }
  return json_response(200, body);
}

// Takes two readings that are one poll period apart.
void cpu_power(const AgentParts& parts, const Request& request, const Reply& reply) {
  check_names(request, {"cpu_ids"});
  struct First {
    std::size_t id;
    Joules package;
    std::optional<Joules> dram;
  };
  struct Measuring {
    std::vector<First> first;
    Nanoseconds begin = 0;
    EventLoop::Handle timer;
  };
  const auto measuring = std::make_shared<Measuring>();
  for (const std::size_t id : optional_ids(request, "cpu_ids", "CPU", parts.monitor.cpus().size())) {
    const auto& cpu = parts.monitor.cpus()[id];
    measuring->first.push_back({id, cpu->package_energy(), cpu->dram_energy()});
  }
  measuring->begin = Sampler::now();
  measuring->timer = parts.loop.after(kPollPeriod, [parts, measuring, reply] {
    const auto keep = std::exchange(measuring->timer, {});
    try {
      nlohmann::ordered_json power = nlohmann::ordered_json::object();
      for (const First& first : measuring->first) {
        const auto& cpu = parts.monitor.cpus()[first.id];
        const Joules package = cpu->package_energy() - first.package;
        const auto dram = cpu->dram_energy();
        const Seconds elapsed = to_seconds(Sampler::now() - measuring->begin);
        nlohmann::ordered_json one = {{"cpu_mw", thousandths((package / elapsed).value())}, {"dram_mw", nullptr}};
        if (dram && first.dram) one["dram_mw"] = thousandths(((*dram - *first.dram) / elapsed).value());
        power[fmt::to_string(first.id)] = one;
      }
      reply.send(json_response(200, {{"timestamp_ms", unix_milliseconds()}, {"power_mw", power}}));
    } catch (const Error& error) {
      reply.fail(error);
    }
  });
}

// --- Server --------------------------------------------------------------------------------------------------------

Response discover(const AgentParts& parts, const Request& request) {
  nlohmann::ordered_json gpus = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < parts.keeper.gpu_count(); ++i) {
    gpus.push_back({{"id", i}, {"name", parts.keeper.device(i).identity().name}});
  }
  nlohmann::ordered_json cpus = nlohmann::ordered_json::array();
  const auto& streamed = parts.feed.devices();
  for (std::size_t i = 0; i < parts.monitor.cpus().size(); ++i) {
    const bool dram = std::find(streamed.begin(), streamed.end(), fmt::format("DRAM:{}", i)) != streamed.end();
    cpus.push_back({{"id", i}, {"dram_available", dram}});
  }
  return json_response(200, {{"gpus", gpus},
                             {"cpus", cpus},
                             {"enabled_api_groups", kGroups},
                             {"auth_required", !request.peer.local && !parts.config.token.empty()}});
}

// The guard has checked the token.
Response whoami(const AgentParts& parts, const Request& request) {
  if (request.peer.local || parts.config.token.empty()) {
    return json_response(404, {{"error", "Authentication is not enabled on this server."}});
  }
  return json_response(200, {{"sub", "token"}, {"scopes", kGroups}});
}

}  // namespace

void add_zeusd_routes(Router& router, const AgentParts& parts) {
  const auto add = [&](const char* method, const char* pattern, auto handler) {
    router.add({method, pattern, std::move(handler), Runs::kInLoop, zeusd_error});
  };
  add("GET", "/discover", Handler([parts](const Request& request) { return discover(parts, request); }));
  add("GET", "/time", Handler([](const Request&) {
        return json_response(200, {{"timestamp_ms", unix_milliseconds()}});
      }));
  add("GET", "/auth/whoami", Handler([parts](const Request& request) { return whoami(parts, request); }));

  add("GET", "/gpu/get_cumulative_energy", read_gpus(parts, energy_of, as_is));
  add("GET", "/gpu/get_power",
      read_gpus(
          parts, [](const GpuDevice& device) { return thousandths(device.power().value()); },
          [](nlohmann::ordered_json body) -> nlohmann::ordered_json {
            return {{"timestamp_ms", unix_milliseconds()}, {"power_mw", std::move(body)}};
          }));
  add("GET", "/gpu/get_power_limit",
      read_gpus(
          parts,
          [](const GpuDevice& device) -> nlohmann::ordered_json {
            return {{"power_limit_mw", thousandths(device.power_limit().value())}};
          },
          as_is));
  add("GET", "/gpu/get_power_limit_constraints",
      read_gpus_by(
          parts,
          [parts](const Request& request, std::size_t gpu, const std::shared_ptr<nlohmann::ordered_json>& one,
                  GpuControl::Done done) { read_power_range(parts, request, gpu, one, std::move(done)); },
          as_is));
  add("GET", "/gpu/get_persistence_mode",
      read_gpus(
          parts,
          [](const GpuDevice& device) -> nlohmann::ordered_json {
            return {{"enabled", device.persistence()}};
          },
          as_is));
  add("GET", "/gpu/stream_power", gpu_stream(parts));

  add("POST", "/gpu/set_gpu_locked_clocks",
      change_gpus(parts, {"min_clock_mhz", "max_clock_mhz"}, [](const Request& request) {
        SettingsChange change;
        change.sm_clocks = need_bounds(request);
        return change;
      }));
  add("POST", "/gpu/reset_gpu_locked_clocks", change_gpus(parts, {}, [](const Request&) {
        SettingsChange change;
        change.sm_clocks = std::optional<ClockBounds>();
        return change;
      }));
  add("POST", "/gpu/set_mem_locked_clocks",
      change_gpus(parts, {"min_clock_mhz", "max_clock_mhz"}, [](const Request& request) {
        SettingsChange change;
        change.memory_clocks = need_bounds(request);
        return change;
      }));
  add("POST", "/gpu/reset_mem_locked_clocks", change_gpus(parts, {}, [](const Request&) {
        SettingsChange change;
        change.memory_clocks = std::optional<ClockBounds>();
        return change;
      }));
  add("POST", "/gpu/set_power_limit", change_gpus(parts, {"power_limit_mw"}, [](const Request& request) {
        SettingsChange change;
        const double milliwatts = need_number(request, "power_limit_mw");
        if (milliwatts < 1000) bad_query(fmt::format("power_limit_mw is {:g}, below 1000", milliwatts));  // no limit
        change.power_limit = Watts(milliwatts / 1e3);
        return change;
      }));
  add("POST", "/gpu/set_persistence_mode",
      AsyncHandler([parts](const Request& request, const Reply& reply) { set_persistence(parts, request, reply); }));

  add("GET", "/cpu/get_cumulative_energy",
      Handler([parts](const Request& request) { return cpu_energy(parts, request); }));
  add("GET", "/cpu/get_power",
      AsyncHandler([parts](const Request& request, const Reply& reply) { cpu_power(parts, request, reply); }));
  add("GET", "/cpu/stream_power", cpu_stream(parts));
}

}  // namespace flyball
