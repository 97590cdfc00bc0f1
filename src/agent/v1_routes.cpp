// The agent's own interface, as docs/openapi-agent.yaml describes it. Handlers run in the loop's thread; what asks a
// driver answers later, from the control's callback. A power stream is a timer that sends the samples since the last.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <nlohmann/json.hpp>

#include "agent/change_settings.h"
#include "agent/log.h"
#include "agent/metrics.h"
#include "agent/routes.h"
#include "base/embedded.h"
#include "base/json_object.h"
#include "base/record.h"
#include "base/text.h"
#include "net/json_response.h"

namespace flyball {
namespace {

constexpr Seconds kStreamInterval{0.1};  // boards renew their power as often; an event holds all samples since the last
constexpr Seconds kMostInterval{10.0};

std::size_t gpu_of(const Request& request, const LeaseKeeper& keeper) {
  const std::string& text = request.parameters.at("gpu");
  const long index = parse_integer(text).value_or(-1);
  if (index < 0 || static_cast<std::size_t>(index) >= keeper.gpu_count()) {
    throw HttpError(404, fmt::format("there is no GPU {}; this node has {}", text, keeper.gpu_count()));
  }
  return static_cast<std::size_t>(index);
}

// --- Power stream --------------------------------------------------------------------------------------------------

struct PowerSubscription {
  std::unique_ptr<PowerFeed::Listener> listener;
  std::vector<std::size_t> devices;
  std::vector<Nanoseconds> last;
  EventLoop::Handle timer;
  std::shared_ptr<void> place;  // among the user's streams
};

Seconds interval_of(const Request& request) {
  const auto text = request.query.find("interval");
  if (!text) return kStreamInterval;
  const auto seconds = parse_duration_seconds(*text);
  if (!seconds || *seconds < 0.001 || *seconds > kMostInterval.value()) {
    throw HttpError(400, fmt::format("interval is '{}'; give a duration from 1ms to 10s", *text));
  }
  return Seconds(*seconds);
}

std::vector<std::size_t> devices_of(const Request& request, const PowerFeed& feed) {
  std::vector<std::size_t> wanted;
  const auto text = request.query.find("devices");
  if (!text) {
    for (std::size_t i = 0; i < feed.devices().size(); ++i) wanted.push_back(i);
    return wanted;
  }
  std::string_view rest = *text;
  while (!rest.empty()) {
    const std::size_t comma = rest.find(',');
    const std::string_view name = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    const auto found = std::find(feed.devices().begin(), feed.devices().end(), name);
    if (found == feed.devices().end()) {
      throw HttpError(400,
                      fmt::format("there is no device '{}'; there are: {}", name, fmt::join(feed.devices(), ", ")));
    }
    wanted.push_back(static_cast<std::size_t>(found - feed.devices().begin()));
  }
  return wanted;
}

// Written by hand: this text is made for every sample, and its numbers need no more digits than their sensors have; so
// they are written as integers.
std::string samples_json(const PowerFeed& feed, PowerSubscription& subscription) {
  fmt::memory_buffer text;
  for (std::size_t i = 0; i < subscription.devices.size(); ++i) {
    const std::size_t device = subscription.devices[i];
    for (const PowerSample& sample : feed.since(device, subscription.last[i])) {
      subscription.last[i] = sample.time;
      const auto milliwatts = std::max(0ll, std::llround(sample.power.value() * 1e3));
      const auto microjoules = std::max(0ll, std::llround(sample.energy.value() * 1e6));
      fmt::format_to(std::back_inserter(text),
                     "{}{{\"device\":\"{}\",\"time_s\":{}.{:09},\"power_w\":{}.{:03},\"energy_j\":{}.{:06}}}",
                     text.size() == 0 ? "" : ",", feed.devices()[device], sample.time / 1'000'000'000,
                     sample.time % 1'000'000'000, milliwatts / 1'000, milliwatts % 1'000, microjoules / 1'000'000,
                     microjoules % 1'000'000);
    }
  }
  if (text.size() == 0) return {};
  return fmt::format("{{\"samples\":[{}]}}", std::string_view(text.data(), text.size()));
}

StreamHandler power_stream(const AgentParts& parts) {
  return [parts](const Request& request) -> std::function<void(std::shared_ptr<EventStream>)> {
    refuse_other_queries(request, {"devices", "interval"});
    const Seconds interval = interval_of(request);
    const auto devices = devices_of(request, parts.feed);
    return [parts, interval, devices, place = parts.budgets.open_stream(request.peer, interval)](
               const std::shared_ptr<EventStream>& stream) mutable {
      auto subscription = std::make_shared<PowerSubscription>();
      subscription->place = std::move(place);
      subscription->listener = std::make_unique<PowerFeed::Listener>(parts.feed);
      subscription->devices = devices;
      subscription->last.assign(devices.size(), 0);
      subscription->timer = parts.loop.every(interval, [parts, stream, weak = std::weak_ptr(subscription)] {
        const auto alive = weak.lock();
        if (!alive) return;
        const std::string text = samples_json(parts.feed, *alive);
        if (!text.empty()) stream->send("power", text);
      });
      stream->on_close([subscription] {
        subscription->timer.reset();
        subscription->listener.reset();
        subscription->place.reset();
      });
    };
  };
}

// --- Devices -------------------------------------------------------------------------------------------------------

// What a lease of the caller may set: without the clocks that the configuration keeps from all.
GpuClocks clocks_of(const GpuDevice& device, const GpuBounds& bounds, const PowerLimitRange& limits) {
  GpuClocks clocks{{}, {}, {limits.minimum, limits.maximum, limits.standard}};
  for (const Megahertz clock : device.sm_clocks()) {
    if (bounds.has_sm_clock(clock)) clocks.sm_clocks.push_back(clock);
  }
  for (const Megahertz clock : device.memory_clocks()) {
    if (bounds.has_memory_clock(clock)) clocks.memory_clocks.push_back(clock);
  }
  return clocks;
}

void answer_clocks(const AgentParts& parts, const Request& request, const Reply& reply) {
  const std::size_t gpu = gpu_of(request, parts.keeper);
  const auto clocks = std::make_shared<GpuClocks>();
  const GpuBounds bounds = parts.keeper.rules(gpu).bounds;
  const bool root = parts.claimants.of(request.peer).is_root();
  parts.keeper.control(gpu).read_before(
      [clocks, bounds, root](const GpuDevice& device, const GpuSettings& before) {
        *clocks = clocks_of(device, bounds, power_limits_to_set(device, bounds, before, root));
      },
      [clocks, reply](const std::exception_ptr& error) {
        if (error) return reply.fail(error);
        reply.send(json_response(200, to_json(*clocks)));
      });
}

void answer_metrics(const AgentParts& parts, const Reply& reply) {
  parts.monitor.report({}, [parts, reply](const NodeStatus& report) {
    AgentVitals vitals = read_vitals();
    vitals.leases = parts.keeper.lease_count();
    vitals.sessions = parts.sessions.count();
    vitals.power_listeners = parts.feed.listeners() + parts.glances.listeners();
    vitals.limited = parts.budgets.refused();
    vitals.late_samples = parts.feed.late_samples() + parts.glances.late_samples();
    reply.send(text_response(kMetricsContentType,
                             expose_metrics(report, parts.keeper.counts(), parts.server_counts(), vitals)));
  });
}

// --- Leases --------------------------------------------------------------------------------------------------------

LeaseInfo find_lease(const LeaseKeeper& keeper, const std::string& id) {
  if (auto lease = keeper.find(id)) return *std::move(lease);
  throw HttpError(404, fmt::format("there is no lease {}", id));
}

void grant_lease(const AgentParts& parts, const Request& request, const Reply& reply) {
  const LeaseRequest wanted = read_message<LeaseRequest>(json_body(request));
  const Claimant who = parts.claimants.of(request.peer);
  parts.budgets.check_lease(request.peer, parts.keeper.leases_of(who));
  parts.keeper.grant(wanted, who, [reply](const std::exception_ptr& error, const LeaseInfo& lease) {
    if (error) return reply.fail(error);
    Response response = json_response(201, to_json(lease));
    response.headers.push_back({"Location", "/v1/leases/" + lease.id});
    reply.send(std::move(response));
  });
}

void change_settings(const AgentParts& parts, const Request& request, const Reply& reply) {
  const std::size_t gpu = gpu_of(request, parts.keeper);
  const std::string id = request.parameters.at("lease");
  const SettingsChange change = read_message<SettingsChange>(json_body(request));
  parts.keeper.change(
      id, gpu, change, parts.claimants.of(request.peer), [parts, reply, id](const std::exception_ptr& error) {
        if (error) return reply.fail(error);
        if (const auto lease = parts.keeper.find(id)) return reply.send(json_response(200, to_json(*lease)));
        reply.fail(HttpError(410, fmt::format("lease {} ended while its setting was made; it is being undone", id)));
      });
}

void release_lease(const AgentParts& parts, const Request& request, const Reply& reply) {
  const std::string id = request.parameters.at("lease");
  parts.keeper.release(id, parts.claimants.of(request.peer), [reply, id](const std::exception_ptr& error) {
    if (error) return reply.fail(error);
    reply.send(json_response(200, to_json(LeaseEnded{id})));
  });
}

void lift_cap(const AgentParts& parts, const Request& request, const Reply& reply) {
  const std::size_t gpu = gpu_of(request, parts.keeper);
  const std::optional<Cap> cap = parts.keeper.control(gpu).cap();
  if (!cap) throw HttpError(404, fmt::format("GPU {} has no cap", gpu));
  parts.keeper.lift_cap(gpu, parts.claimants.of(request.peer), [reply, cap = *cap](const std::exception_ptr& error) {
    if (error) return reply.fail(error);
    reply.send(json_response(200, to_json(cap)));
  });
}

}  // namespace

void refuse_other_queries(const Request& request, std::initializer_list<std::string_view> known) {
  for (const auto& [name, value] : request.query.pairs()) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      throw HttpError(400, fmt::format("there is no query parameter '{}'", name));
    }
  }
}

void add_v1_routes(Router& router, const AgentParts& parts) {
  const auto add = [&](const char* method, const char* pattern, auto handler) {
    router.add({method, pattern, std::move(handler), Runs::kInLoop, agent_problem});
  };
  add("GET", "/healthz", Handler([](const Request&) { return text_response("text/plain", "ok\n"); }));
  add("GET", "/openapi.yaml", Handler([](const Request&) {
        return text_response("application/yaml", std::string(agent_openapi().front().contents));
      }));
  add("GET", "/metrics", AsyncHandler([parts](const Request&, const Reply& reply) { answer_metrics(parts, reply); }));
  add("GET", "/v1/devices", AsyncHandler([parts](const Request& request, const Reply& reply) {
        parts.monitor.report(parts.claimants.of(request.peer),
                             [reply](const NodeStatus& report) { reply.send(json_response(200, to_json(report))); });
      }));
  add("GET", "/v1/gpus/{gpu}/clocks",
      AsyncHandler([parts](const Request& request, const Reply& reply) { answer_clocks(parts, request, reply); }));
  add("DELETE", "/v1/gpus/{gpu}/cap",
      AsyncHandler([parts](const Request& request, const Reply& reply) { lift_cap(parts, request, reply); }));
  add("GET", "/v1/power", power_stream(parts));
  add("GET", "/v1/leases", Handler([parts](const Request& request) {
        return json_response(200, to_json(LeaseList{parts.keeper.leases(parts.claimants.of(request.peer))}));
      }));
  add("POST", "/v1/leases",
      AsyncHandler([parts](const Request& request, const Reply& reply) { grant_lease(parts, request, reply); }));
  add("GET", "/v1/leases/{lease}", Handler([parts](const Request& request) {
        return json_response(200, to_json(find_lease(parts.keeper, request.parameters.at("lease"))));
      }));
  add("DELETE", "/v1/leases/{lease}",
      AsyncHandler([parts](const Request& request, const Reply& reply) { release_lease(parts, request, reply); }));
  add("POST", "/v1/leases/{lease}/heartbeat", Handler([parts](const Request& request) {
        const LeaseInfo lease =
            parts.keeper.heartbeat(request.parameters.at("lease"), parts.claimants.of(request.peer));
        return json_response(200, to_json(LeaseAlive{lease.id, lease.age}));
      }));
  add("PATCH", "/v1/leases/{lease}/gpus/{gpu}",
      AsyncHandler([parts](const Request& request, const Reply& reply) { change_settings(parts, request, reply); }));
}

}  // namespace flyball
