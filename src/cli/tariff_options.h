// The options --carbon, --region and --price, by which a command turns energy into carbon dioxide and money.
#pragma once

#include <optional>
#include <string>

#include "cli/command.h"
#include "forecast/bill.h"

namespace flyball {

struct TariffOptions {
  std::optional<std::string> carbon;
  std::optional<std::string> region;
  std::optional<std::string> price;
};

void add_tariff_options(const Command& command, TariffOptions& options);

// The same where neither changes over time.
void add_constant_tariff_options(const Command& command, std::optional<double>& price,
                                 std::optional<double>& carbon_g_per_kwh);

// Reads the files of --carbon and --price, if there are any. Throws what read_carbon() does, UsageError and
// SystemError.
[[nodiscard]] Tariff tariff_of(const TariffOptions& options);

}  // namespace flyball
