// A constant intensity goes through the reader of files, too, so that one place knows what an intensity may be.
#include "cli/tariff_options.h"

#include <fmt/format.h>

#include <limits>
#include <string_view>

#include "base/error.h"
#include "base/text.h"
#include "cli/option_values.h"
#include "forecast/hardware_table.h"

namespace flyball {
namespace {

constexpr const char* kPriceWords = "price of a kWh, in any currency";

double parse_price(std::string_view option, std::string_view text) {
  return parse_number_within(option, text, 0.0, std::numeric_limits<double>::infinity(), "a price per kWh from 0");
}

double parse_grams(std::string_view option, std::string_view text) {
  return parse_number_within(option, text, 0.0, 1e5, "grams of CO2 per kWh from 0");
}

const RegionIntensity& region_of(const std::string& name) {
  if (const RegionIntensity* region = find_region(name)) return *region;
  std::string known;
  for (const RegionIntensity& region : region_intensities()) {
    known += fmt::format("{}{}", known.empty() ? "" : ", ", region.code);
  }
  throw UsageError(fmt::format("--region '{}' is not in the table; it has {}, or give --carbon GRAMS", name, known));
}

}  // namespace

void add_tariff_options(const Command& command, TariffOptions& options) {
  add_value(
      command, "--carbon", options.carbon, parse_path, "FILE|GRAMS",
      "carbon intensity, in g of CO2 per kWh: a number, or a CSV file of values over time, also as Electricity Maps "
      "and WattTime write it");
  add_value(command, "--region", options.region, parse_path, "COUNTRY",
            "country whose mean carbon intensity counts, in place of --carbon: FRA, Germany, WORLD, ...");
  add_value(command, "--price", options.price, parse_path, "PRICE|FILE",
            std::string(kPriceWords) + ", or a CSV file of prices over time");
}

void add_constant_tariff_options(const Command& command, std::optional<double>& price,
                                 std::optional<double>& carbon_g_per_kwh) {
  add_value(command, "--carbon", carbon_g_per_kwh, parse_grams, "GRAMS", "carbon intensity, in g of CO2 per kWh");
  add_value(command, "--price", price, parse_price, "PRICE", kPriceWords);
}

Tariff tariff_of(const TariffOptions& options) {
  Tariff tariff;
  if (options.price && parse_number(*options.price)) {
    tariff.price_per_kwh = parse_price("--price", *options.price);
  } else if (options.price) {
    tariff.prices = read_prices(*options.price, read_text_file(*options.price));
  }
  if (options.carbon && options.region) throw UsageError("--carbon and --region both say the intensity; give one");
  if (options.region) {
    tariff.carbon =
        read_carbon("--region", fmt::format("timestamp,g_per_kwh\n0,{}\n", region_of(*options.region).grams_per_kwh));
  }
  if (!options.carbon) return tariff;
  if (const auto constant = parse_number(*options.carbon)) {
    tariff.carbon = read_carbon("--carbon", fmt::format("timestamp,g_per_kwh\n0,{}\n", *constant));
  } else {
    tariff.carbon = read_carbon(*options.carbon, read_text_file(*options.carbon));
  }
  return tariff;
}

}  // namespace flyball
