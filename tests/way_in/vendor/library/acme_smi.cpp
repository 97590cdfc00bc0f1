// What Acme would ship, libacme_smi: one board, whose clock nobody may lock.
#include "driver/acme_smi_abi.h"

namespace flyball {

extern "C" {

AcmeStatus acme_count_boards(std::uint32_t* count) {
  *count = 1;
  return kAcmeSuccess;
}
AcmeStatus acme_power(std::uint32_t, std::uint64_t* milliwatts) {
  *milliwatts = 123'456;
  return kAcmeSuccess;
}
AcmeStatus acme_energy(std::uint32_t, std::uint64_t* millijoules) {
  *millijoules = 7'890'125;
  return kAcmeSuccess;
}
AcmeStatus acme_clock(std::uint32_t, std::uint32_t* megahertz) {
  *megahertz = 1205;
  return kAcmeSuccess;
}
AcmeStatus acme_clock_range(std::uint32_t, std::uint32_t* lowest, std::uint32_t* highest) {
  *lowest = 1203;
  *highest = 1206;
  return kAcmeSuccess;
}
AcmeStatus acme_lock_clock(std::uint32_t, std::uint32_t, std::uint32_t) { return kAcmeNoPermission; }
AcmeStatus acme_reset_clock(std::uint32_t) { return kAcmeNoPermission; }

}  // extern "C"

}  // namespace flyball
