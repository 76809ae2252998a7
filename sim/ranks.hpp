#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "trainyard/place/kit/team.hpp"

namespace trainyard::program {

/// The processes that `mpirun` started; this process alone without MPI, or if it was started by itself. Create one
/// object per process. If a rank dies, MPI ends the others too.
class Ranks : public Team {
 public:
  Ranks();
  /// Waits for all ranks, unless the stack is unwinding.
  ~Ranks() override;
  /// Whether this build has MPI.
  static bool has_mpi();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  std::size_t rank() const override { return rank_; }
  std::size_t count() const override { return count_; }
  void share(std::vector<std::string>& parts) override;

  /// A shared counter 0, 1, 2, ...: each number goes to one caller among all ranks and threads.
  std::uint64_t next();
  /// Barrier: returns when all ranks have arrived.
  void meet();

 private:
  struct Job;
  Job* job_ = nullptr;
  std::size_t rank_ = 0, count_ = 1;
};

}  // namespace trainyard::program
