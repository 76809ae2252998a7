#pragma once

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <utility>

namespace trainyard {

/// Thrown out of an algorithm that has nothing to show when its time is up; make_placer() tells it to the user.
struct OutOfTime : std::runtime_error {
  OutOfTime() : std::runtime_error("out of time") {}
};

/// A point that an algorithm without intermediate results passes regularly: throws OutOfTime once `stop` says so.
class Checkpoint {
 public:
  explicit Checkpoint(std::function<bool()> stop = {}) : stop_(std::move(stop)) {}

  /// To be called after so many looks at an op on a device; `stop`, which may read a clock, is asked every kLooks of
  /// them.
  void operator()(std::uint64_t looks = kLooks) {
    looks_ += looks;
    if (!stop_ || looks_ < kLooks) return;
    looks_ = 0;
    if (stop_()) throw OutOfTime{};
  }
  static constexpr std::uint64_t kLooks = 512;

 private:
  std::function<bool()> stop_;
  std::uint64_t looks_ = 0;
};

}  // namespace trainyard
