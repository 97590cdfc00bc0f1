// Real measurements that do not ship with Flyball: in the folder that FLYBALL_SHARED_DATA names, else in ../shared/data
// beside the checkout. A test of them begins with
//   const std::optional<std::filesystem::path> data = shared_data();
//   if (!data) GTEST_SKIP() << kNoSharedData;
#pragma once

#include <cstdlib>
#include <filesystem>
#include <optional>

namespace flyball::testing {

constexpr const char* kNoSharedData =
    "real measurements are not here; FLYBALL_SHARED_DATA may name their folder (it is ../shared/data otherwise)";

inline std::optional<std::filesystem::path> shared_data() {
  if (const char* named = std::getenv("FLYBALL_SHARED_DATA"); named != nullptr) return named;
  std::filesystem::path beside = std::filesystem::path(FLYBALL_SOURCE_DIR) / "../shared/data";
  if (std::filesystem::is_directory(beside)) return beside;
  return std::nullopt;
}

}  // namespace flyball::testing
