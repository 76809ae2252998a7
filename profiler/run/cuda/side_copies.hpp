#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "profiler/run/cuda/owned.hpp"
#include "trainyard/core/quantity.hpp"

namespace trainyard::cuda {

/// Copies between pinned memory of the host and a GPU, both ways at once, beside what else it does in a step; where the
/// GPU is split, also within it, by a part that does nothing else, as fast as its neighbours could read and write. As
/// many are issued as the last step said are enough.
class SideCopies {
 public:
  /// `neighbour`: makes a stream of another part; may be empty. Throws MissingError where memory is too little.
  SideCopies(const Tables& tables, int gpu, const std::function<Owned()>& neighbour = {});
  SideCopies(SideCopies&&) = delete;

  /// Once `begin` is over, an event of the GPU that was recorded.
  void issue(Event begin);
  /// After the step, of this length: whether copies ran until its end. Chooses the numbers and sizes of the next ones.
  bool outlasted(double step_ns);
  /// The rate in the last step, read and written in the GPU's memory, all ways together.
  BytesPerSecond rate() const { return rate_; }

 private:
  struct Way {
    Owned host, device, start, end, stream;
    int kind;
    std::size_t size = 0;  // of each, large enough for full speed where memory allows it
    std::size_t count = 4;
  };
  /// Where memory is too little, of the size before.
  void make_room(Way& way, std::size_t size) const;

  const Runtime& cuda_;
  const int gpu_;
  std::vector<Way> ways_;
  BytesPerSecond rate_{};
};

}  // namespace trainyard::cuda
