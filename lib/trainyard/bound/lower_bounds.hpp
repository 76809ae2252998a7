#pragma once

#include <string>
#include <vector>

#include "trainyard/core/quantity.hpp"
#include "trainyard/problem/problem.hpp"

namespace trainyard {

/// Times that no schedule of the problem can beat under the rules of simulate(), whatever its placement, order and
/// policy. None looks at how links are shared; bound/memory.hpp has those that look at memory.
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

/// The longest chain where joins and forks cost a transfer or share a device: the proof is in bound/chains.hpp. At
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
/// where a colocation group counts as one op with the sum of its durations. Solved for T, rounded up, in 128-bit whole
/// numbers. The best weights are the dual solution of the linear program that splits ops among classes; they are
/// searched for by bisection where there are two classes and by multiplicative updates where there are more, and any
/// that the search ends at give a bound. With one class this is ceil(sum p / D), but for the gaps.
Nanoseconds work_bound(const Problem& problem);

/// Heads, work and tails (Fernandez and Bussell 1973; Carlier 1982).
/// Proof: let h(i) be what passes before op i at least and q(i) after it (chains_with_transfers). For any a and b the
/// ops of S = {i: h(i) >= a, q(i) >= b} start at a or later and end at T - b or earlier, so that T - a - b is at least
/// the work bound of S alone. Tried: up to 64 quantiles of h for a, with each every q for b.
Nanoseconds head_tail_bound(const Problem& problem);

/// All bounds by name: "critical-path", "colocation", "work", "head-tail", "transfer-path", "memory-work",
/// "linear-program", "forced-transfer"; the last three hold for schedules that fit in memory, and are left out unless
/// `fits`.
std::vector<LowerBound> lower_bounds(const Problem& problem, bool fits = true);
/// The largest; the first of equals.
LowerBound best_lower_bound(const Problem& problem, bool fits = true);

/// The relative gap, as integer programming defines it: (time - bound) / time, the largest share of the time that any
/// schedule could save. 0 where the time is the bound, below 1 always.
double relative_gap(Nanoseconds time, Nanoseconds bound);

}  // namespace trainyard
