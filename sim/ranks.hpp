#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "trainyard/place/kit/team.hpp"

namespace trainyard::program {

/// The processes that `mpirun` started this program as; in a build without MPI, or where nobody started several, this
/// one alone. One per process. When a rank dies, MPI ends the others too.
class Ranks : public Team {
 public:
  Ranks();
  /// Waits for all ranks, unless an exception ends this one.
  ~Ranks() override;
  /// Whether this build knows MPI.
  static bool has_mpi();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  std::size_t rank() const override { return rank_; }
  std::size_t count() const override { return count_; }
  void share(std::vector<std::string>& parts) override;

  /// 0, 1, 2, ...: each number goes to one caller of all ranks and threads.
  std::uint64_t next();
  /// Returns once all ranks are here.
  void meet();

 private:
  struct Job;
  Job* job_ = nullptr;
  std::size_t rank_ = 0, count_ = 1;
};

}  // namespace trainyard::program
