#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "trainyard/core/checkpoint.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/place/placer.hpp"

namespace trainyard {

/// A budget that is being spent. Its seconds run from construction on, and the caller's `stop` ends it at any time. All
/// members may be called from any thread. Searches count their evaluations themselves.
class Effort {
 public:
  /// Number of evaluations that stands for no limit; twice as many do not overflow.
  static constexpr std::uint64_t kUnlimited = ~std::uint64_t{0} / 2;

  /// Throws InputError ("range") if the seconds are NaN.
  explicit Effort(const Budget& budget, std::function<bool()> stop = {}) : budget_(budget), stop_(std::move(stop)) {
    if (budget.seconds && std::isnan(*budget.seconds))
      refuse("range", "the seconds of a budget are not a number", "give 0 or more, or none for no limit");
  }

  /// Whether `stop` returns true, or this share of the seconds is used up.
  bool late(double share = 1) const {
    return (stop_ && stop_()) || (budget_.seconds && elapsed() >= share * *budget_.seconds);
  }
  /// Whether late(), or all evaluations are spent.
  bool over(std::uint64_t spent) const { return left(spent) == 0 || late(); }
  /// Evaluations that are left.
  std::uint64_t left(std::uint64_t spent = 0) const {
    return budget_.evaluations ? *budget_.evaluations - std::min(spent, *budget_.evaluations) : kUnlimited;
  }
  /// The share of the seconds that is used up, 0 without a limit; 1 if `stop` returns true.
  double used() const {
    if (late()) return 1;
    return budget_.seconds ? std::min(1.0, elapsed() / *budget_.seconds) : 0;
  }
  /// Seconds that are left, at least 0; none without a limit.
  std::optional<double> seconds_left() const {
    if (!budget_.seconds) return std::nullopt;
    return std::max(0.0, *budget_.seconds - elapsed());
  }

 private:
  using Clock = std::chrono::steady_clock;

  double elapsed() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  Budget budget_;
  std::function<bool()> stop_;
  Clock::time_point start_ = Clock::now();
};

}  // namespace trainyard
