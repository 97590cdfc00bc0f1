// Shows what was recorded of a run beside its forecast, line by line: as text, as JSON, and as a section of the
// forecast's page.
#pragma once

#include <string>
#include <nlohmann/json_fwd.hpp>

#include "forecast/bill.h"
#include "forecast/recorded_bill.h"

namespace flyball {

// CO2 and cost of both follow from the same tariff, each with its own duration.
[[nodiscard]] std::string recorded_bill_text(const RecordedBill& bill, const Tariff& tariff);
[[nodiscard]] nlohmann::ordered_json recorded_bill_json(const RecordedBill& bill, const Tariff& tariff);
[[nodiscard]] std::string recorded_bill_html(const RecordedBill& bill, const Tariff& tariff);

}  // namespace flyball
