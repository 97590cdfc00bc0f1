// One table holds name, kind, unit, labels and help text of every metric; exposition looks names up in it, so that
// none can be exposed that the documents do not have.
#include "agent/metrics.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <fstream>

#include "base/contain.h"

namespace flyball {
namespace {

constexpr MetricKind kGauge = MetricKind::kGauge;
constexpr MetricKind kCounter = MetricKind::kCounter;

constexpr MetricInfo kRegistry[] = {
    {"flyball_gpu_power_watts", kGauge, "W", "gpu, uuid, name", "Power that the GPU draws, as its driver averages it."},
    {"flyball_gpu_energy_joules_total", kCounter, "J", "gpu, uuid, name",
     "Energy of the GPU since its driver was loaded."},
    {"flyball_gpu_sm_clock_hertz", kGauge, "Hz", "gpu, uuid, name", "SM clock of the GPU."},
    {"flyball_gpu_memory_clock_hertz", kGauge, "Hz", "gpu, uuid, name", "Memory clock of the GPU."},
    {"flyball_gpu_power_limit_watts", kGauge, "W", "gpu, uuid, name", "Power limit of the GPU that is in force."},
    {"flyball_gpu_cap_watts", kGauge, "W", "gpu, uuid, name",
     "Power limit that the GPU keeps since the holder of a lease was lost; absent where there is no cap."},
    {"flyball_gpu_temperature_celsius", kGauge, "Cel", "gpu, uuid, name", "Temperature of the GPU."},
    {"flyball_gpu_utilisation_ratio", kGauge, "1", "gpu, uuid, name",
     "Share of the driver's last measuring period in which a kernel ran, from 0 to 1."},
    {"flyball_gpu_throttled", kGauge, "1", "gpu, uuid, name, reason",
     "1 for every reason for which the GPU's clocks are now below what was asked for."},
    {"flyball_gpu_health", kGauge, "1", "gpu, uuid, name, health",
     "1 for the state of the GPU: well, unwell (its driver hangs), lost (it fell off the bus), restoring (a lease's "
     "settings are being undone)."},
    {"flyball_gpu_leased", kGauge, "1", "gpu, uuid, name", "1 while somebody holds a lease of the GPU, else 0."},
    {"flyball_gpu_job_info", kGauge, "1", "uuid, job_id, uid",
     "1 while a session of the job holds a lease of the GPU; joins the GPU's metrics with the job's by uuid and "
     "job_id."},
    {"flyball_cpu_energy_joules_total", kCounter, "J", "package",
     "Energy of the processor package since the agent started."},
    {"flyball_dram_energy_joules_total", kCounter, "J", "package",
     "Energy of the package's memory since the agent started."},
    {"flyball_agent_leases", kGauge, "1", "", "Leases in force."},
    {"flyball_agent_leases_granted_total", kCounter, "1", "", "Leases granted."},
    {"flyball_agent_leases_refused_total", kCounter, "1", "", "Leases refused."},
    {"flyball_agent_leases_ended_total", kCounter, "1", "why", "Leases ended, by reason."},
    {"flyball_agent_changes_total", kCounter, "1", "", "Changes of settings made under leases."},
    {"flyball_agent_failed_changes_total", kCounter, "1", "", "Settings that the driver refused or did not answer."},
    {"flyball_agent_restores_total", kCounter, "1", "", "Times that a GPU was restored to what held before a lease."},
    {"flyball_agent_failed_restores_total", kCounter, "1", "",
     "Attempts to restore a GPU that failed; each is repeated."},
    {"flyball_agent_requests_total", kCounter, "1", "", "HTTP requests received."},
    {"flyball_agent_bad_requests_total", kCounter, "1", "", "Requests that were not valid HTTP."},
    {"flyball_agent_connections", kGauge, "1", "", "Open connections."},
    {"flyball_agent_connections_total", kCounter, "1", "", "Connections accepted."},
    {"flyball_agent_slow_readers_total", kCounter, "1", "", "Event streams closed because their reader was too slow."},
    {"flyball_agent_idle_closed_total", kCounter, "1", "", "Idle connections closed to make room for others."},
    {"flyball_agent_refused_connections_total", kCounter, "1", "",
     "Connections closed unanswered because there were too many, in all or of one user or address."},
    {"flyball_agent_abandoned_total", kCounter, "1", "", "Requests whose client was gone before the answer came."},
    {"flyball_agent_exceptions_total", kCounter, "1", "",
     "Unexpected exceptions; each ended one request or piece of work. The log has the causes."},
    {"flyball_agent_limited_total", kCounter, "1", "what",
     "Requests, streams and leases refused because their user has too many."},
    {"flyball_agent_sessions", kGauge, "1", "", "Account sessions in memory, recording and ended."},
    {"flyball_agent_power_listeners", kGauge, "1", "",
     "Open power streams and recording sessions; the sampler runs while there are any."},
    {"flyball_agent_late_samples_total", kCounter, "1", "", "Samples taken more than one period late."},
    {"flyball_agent_uptime_seconds", kGauge, "s", "", "Time since the agent started."},
    {"flyball_agent_cpu_seconds_total", kCounter, "s", "", "Processor time that the agent has used."},
    {"flyball_agent_resident_bytes", kGauge, "By", "", "Resident memory of the agent."},
};

const auto kStart = std::chrono::steady_clock::now();

void expose_gpu(MetricsText& out, const GpuStatus& gpu) {
  const std::string index = fmt::to_string(gpu.index);
  const auto add = [&](std::string_view name, std::optional<double> value) {
    if (value) out.add(name, {{"gpu", index}, {"uuid", gpu.uuid}, {"name", gpu.name}}, *value);
  };
  const auto value_of = [](const auto& quantity, double factor = 1.0) -> std::optional<double> {
    if (!quantity) return std::nullopt;
    return quantity->value() * factor;
  };
  add("flyball_gpu_power_watts", value_of(gpu.power));
  add("flyball_gpu_energy_joules_total", value_of(gpu.energy));
  add("flyball_gpu_sm_clock_hertz", value_of(gpu.sm_clock, 1e6));
  add("flyball_gpu_memory_clock_hertz", value_of(gpu.memory_clock, 1e6));
  add("flyball_gpu_power_limit_watts", value_of(gpu.power_limit));
  if (gpu.cap) add("flyball_gpu_cap_watts", gpu.cap->power_limit.value());
  add("flyball_gpu_temperature_celsius", gpu.temperature_celsius);
  add("flyball_gpu_utilisation_ratio", gpu.utilisation);
  add("flyball_gpu_leased", gpu.lease ? 1 : 0);
  if (gpu.lease && !gpu.lease->job.empty()) {
    const auto uid = gpu.lease->holder.uid;
    out.add("flyball_gpu_job_info",
            {{"uuid", gpu.uuid}, {"job_id", gpu.lease->job}, {"uid", uid ? fmt::to_string(*uid) : std::string()}}, 1);
  }
  for (const std::string& reason : gpu.throttle_reasons) {
    out.add("flyball_gpu_throttled", {{"gpu", index}, {"uuid", gpu.uuid}, {"name", gpu.name}, {"reason", reason}}, 1);
  }
  out.add("flyball_gpu_health",
          {{"gpu", index}, {"uuid", gpu.uuid}, {"name", gpu.name}, {"health", name_of(gpu.health)}}, 1);
}

}  // namespace

std::span<const MetricInfo> metric_registry() { return kRegistry; }

AgentVitals read_vitals() {
  AgentVitals vitals;
  vitals.uptime = Seconds(std::chrono::duration<double>(std::chrono::steady_clock::now() - kStart).count());
  rusage usage{};
  if (::getrusage(RUSAGE_SELF, &usage) == 0) {
    const auto seconds = [](const timeval& time) {
      return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
    };
    vitals.cpu_time = Seconds(seconds(usage.ru_utime) + seconds(usage.ru_stime));
  }
  std::ifstream statm("/proc/self/statm");
  double pages = 0;
  double resident = 0;
  if (statm >> pages >> resident) vitals.resident_bytes = resident * static_cast<double>(::sysconf(_SC_PAGESIZE));
  return vitals;
}

std::string expose_metrics(const NodeStatus& devices, const LeaseCounts& leases, const ServerCounts& server,
                           const AgentVitals& vitals) {
  MetricsText out(kRegistry);
  for (const GpuStatus& gpu : devices.gpus) expose_gpu(out, gpu);
  for (const CpuStatus& cpu : devices.cpus) {
    const std::string index = fmt::to_string(cpu.index);
    if (cpu.package_energy)
      out.add("flyball_cpu_energy_joules_total", {{"package", index}}, cpu.package_energy->value());
    if (cpu.dram_energy) out.add("flyball_dram_energy_joules_total", {{"package", index}}, cpu.dram_energy->value());
  }
  const auto count = [&](std::string_view name, auto value) { out.add(name, {}, static_cast<double>(value)); };
  count("flyball_agent_leases", vitals.leases);
  count("flyball_agent_leases_granted_total", leases.granted);
  count("flyball_agent_leases_refused_total", leases.refused);
  for (const LeaseEnd why : values_of<LeaseEnd>()) {
    const auto found = leases.ended.find(why);
    out.add("flyball_agent_leases_ended_total", {{"why", name_of(why)}},
            found == leases.ended.end() ? 0.0 : static_cast<double>(found->second));
  }
  count("flyball_agent_changes_total", leases.changes);
  count("flyball_agent_failed_changes_total", leases.failed_changes);
  count("flyball_agent_restores_total", leases.restores);
  count("flyball_agent_failed_restores_total", leases.failed_restores);
  count("flyball_agent_requests_total", server.requests);
  count("flyball_agent_bad_requests_total", server.bad_requests);
  count("flyball_agent_connections", server.open_connections);
  count("flyball_agent_connections_total", server.accepted);
  count("flyball_agent_slow_readers_total", server.dropped_slow);
  count("flyball_agent_idle_closed_total", server.dropped_idle);
  count("flyball_agent_refused_connections_total", server.refused);
  count("flyball_agent_abandoned_total", server.abandoned);
  count("flyball_agent_exceptions_total", contained_exceptions());
  const auto limited = [&](std::string_view what, std::uint64_t times) {
    out.add("flyball_agent_limited_total", {{"what", what}}, static_cast<double>(times));
  };
  limited("requests", vitals.limited.requests);
  limited("streams", vitals.limited.streams);
  limited("leases", vitals.limited.leases);
  count("flyball_agent_sessions", vitals.sessions);
  count("flyball_agent_power_listeners", vitals.power_listeners);
  count("flyball_agent_late_samples_total", vitals.late_samples);
  count("flyball_agent_uptime_seconds", vitals.uptime.value());
  count("flyball_agent_cpu_seconds_total", vitals.cpu_time.value());
  count("flyball_agent_resident_bytes", vitals.resident_bytes);
  return out.text();
}

}  // namespace flyball
