#pragma once

#include <string>
#include <vector>

#include "trainyard/core/quantity.hpp"
#include "trainyard/problem/problem.hpp"

namespace trainyard {

/// Lower bound on the makespan of every schedule of the problem under the rules of simulate(), whatever its placement,
/// order and policy. The bounds ignore contention on links; bound/memory.hpp has those that use memory.
///
/// Symbols: T the makespan of any schedule; p(i, d) the duration of op i on device d; p(i) its least; g(d) the gap of
/// device d; a class is a set of devices with the same durations (Problem::column), D(c) devices of class c, g(c) the
/// least gap among them.
struct LowerBound {
  std::string name;
  Nanoseconds value;

  friend bool operator==(const LowerBound&, const LowerBound&) = default;
};

/// The longest chain of ops, each with its shortest duration.
/// Proof: an op starts after all that it depends on have ended, and lasts p(i) or more.
Nanoseconds critical_path_bound(const Problem& problem);

/// The longest chain whose joins and forks either cost a transfer or share a device (proof in bound/chains.hpp). At
/// least critical_path_bound.
Nanoseconds transfer_path_bound(const Problem& problem);

/// The longest colocation group, on the device that runs it fastest.
/// Proof: its ops share a device, which runs one at a time, with a gap between any two of non-zero duration.
Nanoseconds colocation_bound(const Problem& problem);

/// All work over all devices.
/// Proof: device d with n ops of non-zero duration is busy or in a gap for sum p(i, d) + (n - 1) g(d) <= T. So with
/// p'(i, c) = p(i, d) + g(c), or 0 where p(i, d) = 0, the load of class c is sum p'(i, c) <= D(c) (T + g(c)). For any
/// weights w(c) >= 0 the sum over classes gives
///
///     sum over groups of min over c of w(c) p'(group, c)  <=  sum w(c) load(c)  <=  sum w(c) D(c) (T + g(c)),
///
/// where a colocation group counts as one op with the sum of its durations. Solved for T, rounded up, in 128-bit
/// integers. The best weights are the dual solution of the linear program that splits ops among classes. They are
/// searched by bisection for two classes and by multiplicative updates for more; any weights give a bound. With one
/// class and no gaps, the bound is ceil(sum p / D).
Nanoseconds work_bound(const Problem& problem);

/// Heads, work and tails (Fernandez and Bussell 1973; Carlier 1982).
/// Proof: let h(i) and q(i) be the head and the tail of op i (chains_with_transfers). For any a and b, the ops of
/// S = {i: h(i) >= a, q(i) >= b} start at a or later and end at T - b or earlier, so T - a - b is at least the work
/// bound of S alone. Tries up to 64 quantiles of h as a, each with every q as b.
Nanoseconds head_tail_bound(const Problem& problem);

/// All bounds by name: "critical-path", "colocation", "work", "head-tail", "transfer-path", "memory-work",
/// "linear-program", "forced-transfer". The last three hold for schedules that fit in memory; only with `fits`.
std::vector<LowerBound> lower_bounds(const Problem& problem, bool fits = true);
/// The largest of lower_bounds(); the first of equals.
LowerBound best_lower_bound(const Problem& problem, bool fits = true);

/// The relative gap, as in integer programming: (time - bound) / time, an upper bound on the share of the time that any
/// schedule could save. 0 if the time is 0 or equals the bound; at most 1.
double relative_gap(Nanoseconds time, Nanoseconds bound);

}  // namespace trainyard
