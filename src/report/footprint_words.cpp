// Numbers have as many digits as tell something, by draw/scale.
#include "report/footprint_words.h"

#include <fmt/format.h>

#include "account/work_class.h"
#include "base/counted.h"
#include "draw/scale.h"

namespace flyball {

std::string steps_sentence(const StepEnergy& steps) {
  if (steps.steps == 0 && steps.left_out > 0) {
    return fmt::format("What a step takes is not known: during {} some device was not measured",
                       counted(static_cast<long>(steps.left_out), "step"));
  }
  if (steps.steps == 0) return {};
  std::string text = fmt::format("A step takes {} J", short_number(steps.energy.value()));
  if (steps.steps > 1) text += fmt::format(" +- {} J", short_number(steps.deviation.value()));
  text += fmt::format(" in {} s", short_number(steps.time.value()));
  if (steps.steps > 1) text += fmt::format(", mean of {} steps", steps.steps);
  if (steps.devices.size() > 1) {
    std::string devices;
    for (const StepEnergy::Device& device : steps.devices) {
      devices +=
          fmt::format("{}{} {} J", devices.empty() ? "" : ", ", device.device, short_number(device.energy.value()));
    }
    text += fmt::format(" ({})", devices);
  }
  if (steps.samples > 0) text += fmt::format("; {} J a sample", short_number(steps.of_sample().value()));
  if (steps.left_out > 0) {
    text += fmt::format("; {} left out, of which the power is not known",
                        counted(static_cast<long>(steps.left_out), "step"));
  }
  return text;
}

std::string classes_sentence(const Footprint& footprint) {
  const std::vector<ClassShare> shares = by_class(footprint);
  const Joules whole = footprint.attributed();
  if (shares.size() < 2 || whole <= Joules(0)) return {};
  std::string text;
  for (const ClassShare& share : shares) {
    text += fmt::format("{}{} {:.1f} %", text.empty() ? "Of what is attributed: " : ", ", name_of(share.work),
                        100.0 * (share.energy / whole));
  }
  return text;
}

std::string communication_sentence(const Footprint& footprint) {
  const CommunicationTime time = footprint.communication();
  const Seconds all = time.alone + time.beside;
  if (all <= Seconds(0)) return {};
  return fmt::format("Communication took {} s of devices' time, {} s of it beside other work; alone it drew {} J",
                     short_number(all.value()), short_number(time.beside.value()), short_number(time.energy.value()));
}

std::string static_sentence(const Footprint& footprint) {
  Joules attributed;
  Joules fixed;
  std::string powers;
  for (const FootprintDevice& device : footprint.devices) {
    if (!device.static_power) continue;
    attributed += device.attributed;
    fixed += device.static_energy;
    powers += fmt::format("{}{} draws {} W", powers.empty() ? "" : ", ", device.device,
                          short_number(device.static_power->value()));
  }
  if (powers.empty()) return {};
  return fmt::format("Of what is attributed, {} J are static and {} J dynamic ({} while nothing runs)",
                     short_number(fixed.value()), short_number((attributed - fixed).value()), powers);
}

}  // namespace flyball
