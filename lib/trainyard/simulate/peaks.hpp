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
/// one each. All are sorted by time, letting-go before taking at one instant, and summed up in one sweep over all
/// devices: O(ops + edges) where times are spread evenly, with a logarithm more where they are not.
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
  void sort();

  struct LastUse {
    std::int64_t end;
    std::uint32_t tensor, op;
  };
  std::vector<LastUse> last_use_;    // by device, of the tensor at hand
  std::vector<std::int64_t> freed_;  // by op id: bytes let go at its end
  std::vector<Change> changes_, sorted_;
  std::vector<std::uint32_t> first_;
  std::vector<std::int64_t> held_;
};

}  // namespace trainyard::detail
