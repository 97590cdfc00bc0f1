// The profiles that planners are tried on.
#pragma once

#include <filesystem>
#include <vector>

namespace flyball::testing {

// Those that ship with Flyball.
inline std::vector<std::filesystem::path> shipped_profiles() {
  std::vector<std::filesystem::path> profiles;
  for (const auto& file : std::filesystem::directory_iterator(FLYBALL_SOURCE_DIR "/examples/profiles")) {
    if (file.path().extension() == ".csv") profiles.push_back(file.path());
  }
  return profiles;
}

// Stages that the authors of Perseus measured (shared_data.h).
inline std::vector<std::filesystem::path> measured_profiles(const std::filesystem::path& shared_data) {
  const std::filesystem::path folder = shared_data / "perseus-sosp24/emulation";
  return {folder / "gpt3-175b+a40_bf16.csv", folder / "bloom+a100_sxm_bf16.csv"};
}

}  // namespace flyball::testing
