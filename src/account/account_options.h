// The options of an account, described once for all interfaces: the options of `flyball account`, the JSON object of
// flyball_footprint_open (C), and the arguments of flyball.account (Python).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "account/account_run.h"
#include "base/described.h"
#include "base/names.h"
#include "base/units.h"

namespace flyball {

template <>
inline constexpr auto kNamesOf<Multiplicity> = name_list("operations", "events");
template <>
inline constexpr auto kNamesOf<ChromeDevice> = name_list("process", "thread", "none");

struct AccountOptions {
  std::vector<std::string> events;
  std::vector<std::string> power;    // as many as events; of ranks also one for all
  std::vector<std::string> jiffies;  // as many as power, or none
  AccountMethod method = AccountMethod::kAuto;
  std::optional<Seconds> sensor_window;
  Multiplicity share = Multiplicity::kOperations;
  std::optional<Seconds> clock_offset;
  bool estimate_clock_offset = false;
  std::map<std::string, std::string, std::less<>> event_devices;
  std::map<std::string, std::string, std::less<>> power_devices;
  std::map<std::string, Joules, std::less<>> counter_ranges;
  StaticPowers static_powers;
  ChromeDevice chrome_device = ChromeDevice::kProcess;
  Seconds utc_offset;
  Seconds row_period{1.0};
  std::string similar;
  bool summary = false;
  bool kernels = false;
  bool frames = false;
  bool ranks = false;
  std::optional<int> batch;
};

[[nodiscard]] Record<AccountOptions> description_of(const AccountOptions*);

// Reads the JSON object of a C or Python program; `source` names it in errors. Throws UsageError.
[[nodiscard]] AccountRequest read_account_options(const std::string& source, std::string_view json);

// Throws UsageError where options contradict each other or pass their bounds, a device's name is empty, or `similar` is
// no pattern. `names` must outlive the request.
[[nodiscard]] AccountRequest account_request(const AccountOptions& options, const AccountNames& names = {});

}  // namespace flyball
