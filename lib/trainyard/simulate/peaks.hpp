#pragma once

#include <cstdint>
#include <vector>

#include "trainyard/problem/schedule.hpp"
#include "trainyard/simulate/dense_problem.hpp"
#include "trainyard/simulate/simulation.hpp"
#include "trainyard/simulate/workspace.hpp"

namespace trainyard::detail {

/// The peak of every device, from what a run recorded: the rules of simulate/memory.hpp without the holdings
/// themselves.
///
/// Every holding becomes a taking and a letting-go, of which those at one op's start and those at one op's end count as
/// one each. The ops of a device run one after the other, so that theirs need no sorting; what is left, takings at a
/// transfer's start, letting-go at its end, and all of ops that take no time, is sorted by time and merged with them,
/// letting-go before taking at one instant: O(ops + edges) where times are spread evenly, with a logarithm more where
/// they are not.
class PeakFinder {
 public:
  void find(const DenseProblem& problem, const Placement& placement, const Workspace::Record& record,
            Nanoseconds makespan, MemoryPeaks& peaks);

 private:
  /// `when`: the time, doubled, and one more where bytes are taken.
  struct Change {
    std::uint64_t when;
    std::uint64_t where;  // device << kByteBits | bytes
  };
  static constexpr unsigned kByteBits = 44;  // 16 TiB in one piece; more is added in several

  void add(std::int64_t at, bool taken, std::size_t device, std::int64_t bytes);
  void find_changes(const DenseProblem& problem, const Placement& placement, const Workspace::Record& record,
                    Nanoseconds makespan);
  void sort(std::size_t devices);
  void line_up(const DenseProblem& problem, const Placement& placement, const Workspace::Record& record);

  struct LastUse {
    std::int64_t end;
    std::uint32_t tensor, op;
  };
  /// Of one op: bytes taken at its start, bytes let go at its end.
  struct OpChange {
    std::int64_t taken, freed;
  };
  /// What a device holds, as its time goes on.
  struct Line {
    std::uint64_t next;  // when the op at hand starts or ends
    std::int64_t held, peak;
    std::uint64_t peak_when;
    const std::uint32_t *op, *end;  // those to come, the first of them maybe running
    bool runs;

    void take(std::int64_t bytes, std::uint64_t when) {
      held += bytes;
      if (held <= peak) return;
      peak = held;
      peak_when = when;
    }
  };
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};
  void advance(Line& line, std::uint64_t when, const Span* spans) const;

  std::vector<LastUse> last_use_;     // by device, of the tensor at hand
  std::vector<OpChange> op_changes_;  // by op id
  std::vector<Change> changes_, sorted_;
  std::vector<std::uint32_t> first_;
  std::vector<std::size_t> ends_;       // by device, in changes_
  std::vector<Line> lines_;             // by device
  std::vector<std::uint32_t> started_;  // as the record's, where it has none
  std::vector<std::uint32_t> in_line_;  // ops that take time, by device, by start
};

}  // namespace trainyard::detail
