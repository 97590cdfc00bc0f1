// The extension module flyball._native: client/measurement.h for python/flyball/meter.py, which holds the interface
// that people use, session.cpp, accounting.cpp and elastic.cpp. flyball::Error becomes flyball.DeviceError,
// a RuntimeError, and InputError a kind of it; nanobind translates at the boundary of every call, which makes this the
// C API's place of catching.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "accounting.h"
#include "base/error.h"
#include "client/measurement.h"
#include "elastic.h"
#include "session.h"

namespace nb = nanobind;

namespace flyball {
namespace {

using Column = nb::ndarray<nb::numpy, double, nb::ndim<1>>;

Column column(std::vector<double> values) {
  auto owned = std::make_unique<std::vector<double>>(std::move(values));
  std::vector<double>* data = owned.get();
  const nb::capsule owner(owned.release(), [](void* p) noexcept { delete static_cast<std::vector<double>*>(p); });
  return Column(data->data(), {data->size()}, owner);
}

// One Measurement, which a forked child must not touch: its threads have stayed with the parent.
class OwnMeter {
 public:
  OwnMeter(const std::optional<std::vector<std::size_t>>& gpus, bool cpus, double period_s, double history_s)
      : process_(getpid()) {
    Sampler::Options sampling;
    sampling.period = Seconds(period_s);
    sampling.most_cost = most_cost_at(sampling.period);
    sampling.history = Seconds(history_s);
    MachineDevices machine = open_machine({gpus, cpus});
    if (machine.meters.empty()) {
      std::string problem = "there is nothing to measure on this machine";
      for (const DeviceError& missing : machine.unavailable) problem += std::string("\n  ") + missing.what();
      throw SystemError(problem);
    }
    measurement_ = std::make_unique<Measurement>(std::move(machine), sampling);
    measurement_->warm_up(Seconds(0.25));
  }
  OwnMeter(const OwnMeter&) = delete;
  OwnMeter& operator=(const OwnMeter&) = delete;
  ~OwnMeter() { close(); }

  void close() {
    if (getpid() == process_) {
      measurement_.reset();
    } else {
      static_cast<void>(measurement_.release());
    }
  }

  [[nodiscard]] Measurement& open() const {
    if (!measurement_) throw Error("this meter is closed; make a new flyball.EnergyMeter");
    if (getpid() != process_) {
      throw Error("this meter belongs to the process that forked; make a new flyball.EnergyMeter in the child");
    }
    return *measurement_;
  }

  [[nodiscard]] std::size_t index_of(const std::string& label) const {
    const std::vector<Meter>& meters = open().machine().meters;
    for (std::size_t i = 0; i < meters.size(); ++i) {
      if (meters[i].label == label) return i;
    }
    throw nb::key_error(label.c_str());
  }

 private:
  pid_t process_;
  std::unique_ptr<Measurement> measurement_;
};

std::vector<std::string> labels(const OwnMeter& meter) {
  std::vector<std::string> labels;
  for (const Meter& one : meter.open().machine().meters) labels.push_back(one.label);
  return labels;
}

std::vector<std::string> missing(const OwnMeter& meter) {
  std::vector<std::string> sentences;
  for (const DeviceError& error : meter.open().machine().unavailable) sentences.emplace_back(error.what());
  return sentences;
}

// [(label, (energy, mean, peak, source, sensor period, complete))]
using Reading = std::tuple<double, double, double, std::string, std::optional<double>, bool>;
using Readings = std::vector<std::tuple<std::string, Reading>>;

// (window, its begin on the monotonic clock in seconds)
std::tuple<std::uint64_t, double> open_window(const OwnMeter& meter) {
  const std::uint64_t window = meter.open().begin();
  return {window, to_seconds(Sampler::now()).value()};
}

Readings close_window(const OwnMeter& meter, std::uint64_t window) {
  Measurement& measurement = meter.open();
  const WindowEnergy energy = measurement.end(window, Seconds(0.25));
  Readings devices;
  for (const DeviceEnergy& device : energy.devices) {
    std::optional<double> sensor_period;
    if (device.sensor_period > Seconds(0)) sensor_period = device.sensor_period.value();
    devices.emplace_back(device.device, Reading(device.energy.value(), device.mean.value(), device.peak.value(),
                                                std::string(name_of(device.source)), sensor_period, device.complete));
  }
  return devices;
}

std::tuple<Column, Column, Column> samples(const OwnMeter& meter, const std::string& label, double after_s) {
  std::vector<PowerSample> samples;
  {
    const std::size_t index = meter.index_of(label);
    Sampler& sampler = meter.open().sampler();
    const nb::gil_scoped_release others_may_run;
    samples = sampler.samples_since(index, to_nanoseconds(Seconds(after_s)));
  }
  std::vector<double> time, power, energy;
  for (const PowerSample& sample : samples) {
    time.push_back(to_seconds(sample.time).value());
    power.push_back(sample.power.value());
    energy.push_back(sample.energy.value());
  }
  return {column(std::move(time)), column(std::move(power)), column(std::move(energy))};
}

}  // namespace
}  // namespace flyball

NB_MODULE(_native, module) {
  using flyball::OwnMeter;
  const auto released = nb::call_guard<nb::gil_scoped_release>();
  // The last one that fits translates: what is more special comes later.
  const auto device_error = nb::exception<flyball::Error>(module, "DeviceError", PyExc_RuntimeError);
  nb::exception<flyball::InputError>(module, "InputError", device_error);
  nb::exception<flyball::UsageError>(module, "UsageError", PyExc_ValueError);
  module.attr("VERSION") = FLYBALL_VERSION;
  module.attr("LEAST_PERIOD_S") = flyball::kLeastSamplingPeriod.value();
  nb::class_<OwnMeter>(module, "Meter")
      .def(nb::init<const std::optional<std::vector<std::size_t>>&, bool, double, double>(), nb::arg("gpus").none(),
           nb::arg("cpus"), nb::arg("period_s"), nb::arg("history_s"), released)
      .def("close", &OwnMeter::close, released)
      .def("labels", &flyball::labels)
      .def("missing", &flyball::missing)
      .def("open_window", &flyball::open_window, released)
      .def(
          "end_window", [](const OwnMeter& meter, std::uint64_t window) { return meter.open().stop(window).value(); },
          nb::arg("window"), released)
      .def("close_window", &flyball::close_window, nb::arg("window"), released)
      .def("samples", &flyball::samples, nb::arg("label"), nb::arg("after_s"));
  flyball::add_session(module);
  flyball::add_accounting(module);
  flyball::add_elastic(module);
}
