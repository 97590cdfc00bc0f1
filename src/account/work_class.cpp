// Looks for words in the parts of a name, the last of which says what ran.
#include "account/work_class.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <iterator>
#include <string>

#include "base/text.h"

namespace flyball {
namespace {

// Of the last part of a name: kernels and calls of libraries for collectives, XLA's operations and JAX's names of them.
constexpr std::string_view kCommunication[] = {
    "nccl",           "rccl",           "gloo",       "mpi_",       "collective", "allreduce",  "all_reduce",
    "all-reduce",     "allgather",      "all_gather", "all-gather", "alltoall",   "all_to_all", "all-to-all",
    "reduce_scatter", "reduce-scatter", "psum",       "pmean",      "ppermute",   "c10d::"};
// Of any part: what runs within such a call serves it.
constexpr std::string_view kCommunicationCalls[] = {"c10d::", "nccl:", "gloo:"};
constexpr std::string_view kCopies[] = {"memcpy", "memset", "aten::copy_", "copydevice"};

template <std::size_t Size>
bool holds(std::string_view text, const std::string_view (&words)[Size]) {
  return std::any_of(std::begin(words), std::end(words),
                     [text](std::string_view word) { return contains(text, word); });
}

}  // namespace

WorkClass work_class(std::string_view name, Phase phase) {
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const std::size_t slash = lower.rfind('/');
  const std::string_view last = std::string_view(lower).substr(slash == std::string::npos ? 0 : slash + 1);
  if (holds(last, kCommunication) || holds(lower, kCommunicationCalls)) return WorkClass::kCommunicate;
  if (holds(last, kCopies)) return WorkClass::kCopy;
  return phase == Phase::kOptimizer ? WorkClass::kOptimize : WorkClass::kCompute;
}

std::vector<ClassShare> by_class(const Footprint& footprint) {
  std::array<ClassShare, kNamesOf<WorkClass>.size()> sums;
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i].work = static_cast<WorkClass>(i);
  std::array<bool, sums.size()> there{};
  for (const FootprintRow& row : footprint.rows) {
    const auto at = static_cast<std::size_t>(work_class(row.name, row.phase));
    there[at] = true;
    sums[at].energy += row.energy;
    sums[at].busy += row.busy;
  }
  std::vector<ClassShare> shares;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    if (there[i]) shares.push_back(sums[i]);
  }
  return shares;
}

}  // namespace flyball
