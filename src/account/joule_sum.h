// A running sum that keeps what rounding takes away (Neumaier's variant of Kahan's), so that 10^9 terms stay exact to
// the last places and a small difference of two large sums does too.
#pragma once

namespace flyball {

class JouleSum {
 public:
  void add(double x) {
    const double sum = high_ + x;
    const double shifted = sum - high_;
    low_ += (high_ - (sum - shifted)) + (x - shifted);
    high_ = sum;
  }
  void add(const JouleSum& other) {
    add(other.high_);
    low_ += other.low_;
  }

  [[nodiscard]] double value() const { return high_ + low_; }
  // What was added since `earlier`, a copy of this sum.
  [[nodiscard]] double since(const JouleSum& earlier) const { return (high_ - earlier.high_) + (low_ - earlier.low_); }

 private:
  double high_ = 0.0;
  double low_ = 0.0;
};

}  // namespace flyball
