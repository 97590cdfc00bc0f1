// The messages' schemas as YAML: JSON's scalars and empty lists are YAML's, too, so that only the nesting is laid out.
#include "wire/message_catalogue.h"

#include <algorithm>

#include "wire/agent_messages.h"
#include "wire/fleet_messages.h"
#include "wire/iteration_messages.h"
#include "wire/job_messages.h"
#include "wire/step_messages.h"
#include "wire/what_if_messages.h"

namespace flyball {
namespace {

using Json = nlohmann::ordered_json;

template <class... T>
std::vector<const RecordDescription*> descriptions() {
  return {&record_of<T>()...};
}

bool is_flat(const Json& json) {
  return std::none_of(json.begin(), json.end(), [](const Json& one) { return one.is_structured(); });
}

std::string scalar(const Json& json) {
  // 1e-09 is a text in YAML 1.1, which many readers still speak; 1.0e-09 is a number in both.
  std::string text = json.dump();
  const std::size_t exponent = text.find('e');
  if (json.is_number_float() && exponent != std::string::npos && text.find('.') == std::string::npos) {
    text.insert(exponent, ".0");
  }
  return text;
}

void write_yaml(const Json& json, std::size_t indent, std::string& out) {
  const auto write_member = [&](const std::string& head, const Json& value) {
    out += std::string(indent, ' ') + head;
    if (!value.is_structured()) {
      out += ' ' + scalar(value) + '\n';
    } else if (value.empty() || (value.is_array() && is_flat(value))) {
      out += ' ' + value.dump() + '\n';
    } else {
      out += '\n';
      write_yaml(value, indent + 2, out);
    }
  };
  if (json.is_object()) {
    for (const auto& [name, value] : json.items())
      write_member((name.front() == '$' ? "'" + name + "'" : name) + ':', value);
  } else {
    for (const Json& value : json) write_member("-", value);
  }
}

}  // namespace

const std::vector<const RecordDescription*>& messages_of(Interface interface) {
  static const auto kServer =
      descriptions<JobRequest, JobLimits, JobLimits::Period, JobRegistered, JobList, JobListing, JobStatus,
                   JobPowerStatus, PipelinePlan, FoundStraggler, SlowLink, UnprofiledRank, StragglerState,
                   StragglerState::Announced, RankRequest, RankRegistered, MeasurementReport, InstructionMeasurement,
                   MeasurementsTaken, RankSchedule, FrontierReport, FrontierPointReport, StepReport, StepTaken,
                   MeasuredIteration, IterationType, IterationType::Setting, IterationOperations, OrderReport,
                   PromiseReport, PaceReport, DriftedOperation, RemeasureOrder, StragglerNotice, StragglerTaken,
                   ClocksOrder, PlanningProgress, SchedulesReplaced, JobTrouble, JobDeleted, WatchedNodes, WatchedNode,
                   WatchedGpu, FleetStatus, PowerNow, PowerNow::OfNode, PowerNow::OfJob, JobRanks, JobRankStatus,
                   FleetAllocations, GpuAllocation, WatchedController, ClusterRunStatus, ClusterJobStatus,
                   ClusterKindStatus, ClusterNodeStatus, ClusterDecision, FleetHistory, FleetHistoryRow, FleetEnergy,
                   NodeHistory, NodeHistoryRow, JobHistory, JobHistoryRow, HistoryEvent, WhatIfRequest>();
  static const auto kAgent =
      descriptions<LeaseRequest, LeaseInfo, LeaseList, LeaseAlive, LeaseEnded, LeaseHolder, Cap, ClockBounds,
                   SettingsChange, GpuSettings, GpuClocks, PowerLimits, AccountSessionRequest, AccountSessionInfo,
                   AccountSessionList, AccountSessionDropped, NodeStatus, GpuStatus, CpuStatus, PowerEvent,
                   PowerPoint>();
  return interface == Interface::kServer ? kServer : kAgent;
}

std::string openapi_schemas(Interface interface, const KnownNames& known) {
  std::string text;
  for (const RecordDescription* message : messages_of(interface)) {
    write_yaml(Json{{message->name(), message->schema(known)}}, 4, text);
  }
  return text;
}

}  // namespace flyball
