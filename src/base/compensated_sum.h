// A running sum that keeps what rounding takes away (Neumaier's variant of Kahan's sum). With it, 10^9 terms are exact
// to the last places, and so is a small difference of two large sums. It is two doubles, and may lie in shared memory.
// Header only.
#pragma once

namespace flyball {

class CompensatedSum {
 public:
  void add(double term) {
    const double sum = high_ + term;
    const double shifted = sum - high_;
    low_ += (high_ - (sum - shifted)) + (term - shifted);
    high_ = sum;
  }
  void add(const CompensatedSum& other) {
    add(other.high_);
    low_ += other.low_;
  }

  [[nodiscard]] double value() const { return high_ + low_; }
  // Returns what was added since `earlier`, a copy of this sum.
  [[nodiscard]] double since(const CompensatedSum& earlier) const {
    return (high_ - earlier.high_) + (low_ - earlier.low_);
  }

 private:
  double high_ = 0.0;
  double low_ = 0.0;
};

}  // namespace flyball
