#pragma once

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <utility>

namespace trainyard {

/// Thrown by an algorithm that has no result when its time is up; make_placer() reports it to the user.
struct OutOfTime : std::runtime_error {
  OutOfTime() : std::runtime_error("out of time") {}
};

/// Regular check of the time limit in an algorithm without intermediate results: throws OutOfTime once `stop` returns
/// true.
class Checkpoint {
 public:
  explicit Checkpoint(std::function<bool()> stop = {}) : stop_(std::move(stop)) {}

  /// Counts `looks`, evaluations of one op on one device, since the last call. `stop`, which may read a clock, is
  /// called once every kLooks of them.
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
