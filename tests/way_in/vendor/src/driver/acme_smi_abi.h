// The C interface of libacme_smi, a maker of GPUs that there is not, in our own words. Vendor units: milliwatts,
// millijoules, MHz.
#pragma once

#include <cstdint>

namespace flyball {

using AcmeStatus = std::uint32_t;
inline constexpr AcmeStatus kAcmeSuccess = 0;
inline constexpr AcmeStatus kAcmeUnsupported = 1;
inline constexpr AcmeStatus kAcmeNoPermission = 2;

extern "C" {
AcmeStatus acme_count_boards(std::uint32_t* count);
AcmeStatus acme_power(std::uint32_t board, std::uint64_t* milliwatts);
AcmeStatus acme_energy(std::uint32_t board, std::uint64_t* millijoules);
AcmeStatus acme_clock(std::uint32_t board, std::uint32_t* megahertz);
// The lowest and the highest; any whole number between them can be set.
AcmeStatus acme_clock_range(std::uint32_t board, std::uint32_t* lowest, std::uint32_t* highest);
AcmeStatus acme_lock_clock(std::uint32_t board, std::uint32_t lowest, std::uint32_t highest);
AcmeStatus acme_reset_clock(std::uint32_t board);
}  // extern "C"

}  // namespace flyball
