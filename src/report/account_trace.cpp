// Events come when they end. Each goes to the thread of its device that has been free for the shortest time, so that
// events of a thread never overlap; a new thread is begun where none was free when the event began.
#include "report/account_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <limits>
#include <string_view>
#include <nlohmann/json.hpp>

#include "base/counted.h"
#include "base/json_text.h"

namespace flyball {
namespace {

// Viewers take a thread with its process's number for the main thread, and some find a thread's name by its number
// alone, so that threads are numbered through all processes, from a number beyond those of these.
constexpr int kFirstAccountThread = 1 << 20;

constexpr std::size_t kWrittenAtOnce = 1 << 20;
constexpr std::string_view kPowerCounter = "power";

int process_of(DeviceId device) { return static_cast<int>(device) + 1; }

}  // namespace

AccountTrace::AccountTrace(std::ostream& out, std::uint64_t most_bytes)
    : out_(out), most_bytes_(most_bytes), next_thread_(kFirstAccountThread) {}

void AccountTrace::begin(Nanoseconds first, const OperationTable& operations, const DeviceTable& devices) {
  operations_ = &operations;
  device_names_ = &devices;
  base_ = first;
  text_ = ChromeTraceText(fmt::format("\"baseTimeNanoseconds\":{},", base_));
}

AccountTrace::Device& AccountTrace::device_at(DeviceId id) {
  if (id >= devices_.size()) devices_.resize(id + std::size_t{1});
  Device& device = devices_[id];
  if (!device.named) {
    device.named = true;
    text_.add_metadata(process_of(id), -1, "process_name", "name", dump_json(device_names_->name(id)));
    text_.add_metadata(process_of(id), -1, "process_sort_index", "sort_index", fmt::to_string(id));
  }
  return device;
}

const std::string& AccountTrace::json_of(OperationId id) {
  if (id >= operation_json_.size()) operation_json_.resize(id + std::size_t{1});
  std::string& json = operation_json_[id];
  if (json.empty()) {
    const std::string& name = operations_->name(id);
    const std::string_view pass = name_of(operations_->phase(id));
    const std::size_t slash = name.rfind('/');
    const std::string last = slash == std::string::npos || slash + 1 == name.size() ? name : name.substr(slash + 1);
    json = fmt::format("\"name\":{},\"cat\":\"{}\",\"args\":{{\"operation\":{},", dump_json(last),
                       pass.empty() ? "operation" : pass, dump_json(name));
    if (!pass.empty()) json += fmt::format("\"pass\":\"{}\",", pass);
  }
  return json;
}

bool AccountTrace::has_room() {
  if (text_.size() >= kWrittenAtOnce) {
    const std::string text = text_.taken();
    out_.write(text.data(), std::ssize(text));
    written_ += text.size();
  }
  full_ = full_ || written_ + text_.size() >= most_bytes_;
  return !full_;
}

int AccountTrace::thread_for(Device& device, const AccountedEvent& event) {
  const auto later = device.free.upper_bound({event.begin, std::numeric_limits<int>::max()});
  int thread = next_thread_;
  if (later != device.free.begin()) {
    const auto free = std::prev(later);
    thread = free->second;
    device.free.erase(free);
  } else {
    ++next_thread_;
    const std::string name = fmt::format("{} ({})", device_names_->name(event.device), ++device.threads);
    text_.add_metadata(process_of(event.device), thread, "thread_name", "name", dump_json(name));
    text_.add_metadata(process_of(event.device), thread, "thread_sort_index", "sort_index", fmt::to_string(thread));
  }
  device.free.emplace(event.end, thread);
  return thread;
}

void AccountTrace::on_event(const AccountedEvent& event) {
  if (!has_room()) {
    ++left_out_;
    left_out_joules_ += event.energy.value();
    return;
  }
  const int thread = thread_for(device_at(event.device), event);
  std::string& text = text_.next();
  fmt::format_to(std::back_inserter(text),
                 "{{\"ph\":\"X\",\"pid\":{},\"tid\":{},\"ts\":{},\"dur\":{},{}\"joules\":{}}}}}",
                 process_of(event.device), thread, trace_time(event.begin - base_), trace_time(event.end - event.begin),
                 json_of(event.operation), event.energy.value());
}

void AccountTrace::add_power(DeviceId id, Nanoseconds time, Watts power) {
  if (has_room()) text_.add_watts(process_of(id), time - base_, kPowerCounter, power);
}

void AccountTrace::on_power(DeviceId id, Nanoseconds begin, Nanoseconds end, Watts power) {
  Device& device = device_at(id);
  const bool gap = device.measured && begin > device.measured_until;
  if (gap) add_power(id, device.measured_until, Watts(0));
  if (!device.measured || gap || power != device.power) add_power(id, begin, power);
  device.measured = true;
  device.power = power;
  device.measured_until = end;
}

std::optional<std::string> AccountTrace::finish() {
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    if (devices_[i].measured) add_power(static_cast<DeviceId>(i), devices_[i].measured_until, Watts(0));
  }
  const std::string text = std::move(text_).finished();
  out_.write(text.data(), std::ssize(text));
  if (!full_) return std::nullopt;
  return fmt::format("the Chrome trace is full at {} MiB: {} with {:.3f} J left out, and the power beside them",
                     most_bytes_ >> 20, counted(static_cast<long>(left_out_), "event"), left_out_joules_);
}

}  // namespace flyball
