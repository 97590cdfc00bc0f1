// The sweep with the error of its energies, and what tells whether a regression would know more.
//
// Let t_j be the time of operation j and p_j its mean power; a reading k of length T_k holds the shares x_kj. What the
// sweep takes from one operation and gives to another is exactly
//
//   e_j = t_j p_j - sum_i A_ji p_i,     A_ji = sum_k T_k x_kj x_ki
//
// so that only time in mixed readings counts, m_j = t_j - A_jj, and only the difference of powers. With powers of
// variance s^2 the variance of e_j is s^2 (m_j^2 + sum_{i != j} A_ji^2), where the second sum is taken as m_j^2 divided
// by the number of other operations in a reading. s^2 is the variance of the readings over that of their composition
// (of each operation's share, summed), held by the prior of power_posterior.h where compositions hardly differ. A
// reading of power that holds until the next one, as a sensor's does, mixes two readings: m_j counts twice, up to t_j.
//
// Cost: the sweep's, and a visit of each operation of each reading.
#pragma once

#include <cstddef>
#include <vector>

#include "account/attribution.h"
#include "trace/trace.h"

namespace flyball {

struct DeviceSurvey {
  DeviceId device = 0;
  std::size_t readings = 0;  // inside the profile
  Seconds period;            // mean length of these
  std::size_t unknowns = 0;  // operations, and idle power where there is any
  double pairs = 0.0;        // sum over the readings of the square of the number of operations: the work of a fit
  double mixed = 0.0;        // share of the operations' time that lies in mixed readings, sum m_j / sum t_j
  // Correlation between two halves of the readings of the operations' mean readings, by their time. About 0 where power
  // does not depend on what ran; only then could a fit tell nothing.
  double repeated = 0.0;
  // By how many per cent a reading's power changes where it is longer by one. 0 where stamps are right; -1 where they
  // are late by lot and the counter knows nothing of it.
  double by_length = 0.0;
  double uneven = 0.0;  // standard deviation of the readings' lengths over their mean
};

struct SurveyedAttribution {
  Attribution attribution;            // attribute()'s numbers, with errors
  std::vector<DeviceSurvey> devices;  // in order of device
};

// `means[device]`: whether its readings are means over their segments, as a counter's are; devices beyond its end are.
[[nodiscard]] SurveyedAttribution survey_attribution(EventSource& events, PowerSource& power,
                                                     const AttributionOptions& options,
                                                     const std::vector<bool>& means = {});

}  // namespace flyball
