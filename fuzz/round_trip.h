// For the targets that read messages: what is read and written again must read as the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_object.h"
#include "base/record.h"

namespace flyball {

template <class Read>
void round_trip(const nlohmann::json& json, Read read) {
  try {
    const auto value = read(json);
    const std::string text = to_json(value).dump();
    if (to_json(read(nlohmann::json::parse(text))).dump() != text) std::abort();
  } catch (const Error&) {
  }
}

// The input as JSON, through every one of `reads`.
template <class... Read>
int round_trip_all(const std::uint8_t* data, std::size_t size, Read... reads) {
  try {
    const nlohmann::json json = parse_json("fuzz", std::string_view(reinterpret_cast<const char*>(data), size));
    (round_trip(json, reads), ...);
  } catch (const Error&) {
  }
  return 0;
}

}  // namespace flyball
