#pragma once

#include <cstddef>
#include <vector>

#include "profiler/run/cuda/owned.hpp"
#include "trainyard/core/quantity.hpp"

namespace trainyard::cuda {

/// Copies between pinned memory of the host and a GPU, both ways at once, beside what else it does in a step. As many
/// are issued as the last step said are enough.
class SideCopies {
 public:
  /// Throws CudaError.
  SideCopies(const Tables& tables, int gpu);
  SideCopies(SideCopies&&) = delete;

  /// Once `begin` is over, an event of the GPU that was recorded: as many copies each way as one stream holds at most.
  void issue(Event begin, std::size_t most);
  /// After the step, of this length: whether copies ran until its end. Chooses the number of the next ones.
  bool outlasted(double step_ns);
  /// Of the last step, through the GPU's memory, both ways together.
  BytesPerSecond rate() const { return rate_; }

 private:
  struct Way {
    Owned host, device, start, end, stream;
    int kind;
  };
  const Runtime& cuda_;
  const int gpu_;
  std::vector<Way> ways_;
  std::size_t count_ = 4;
  BytesPerSecond rate_{};
};

}  // namespace trainyard::cuda
