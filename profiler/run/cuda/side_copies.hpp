#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "profiler/run/cuda/owned.hpp"
#include "trainyard/core/quantity.hpp"

namespace trainyard::cuda {

/// Background copies during a step, between pinned memory of the host and a GPU, in both directions at once. If the GPU
/// is split, an otherwise idle part also copies within the GPU, to load its memory as neighbouring parts would. The
/// number of copies follows from the length of the last step.
class SideCopies {
 public:
  /// `neighbour`: makes a stream of another part; may be empty. Throws MissingError if memory is too small.
  SideCopies(const Tables& tables, int gpu, const std::function<Owned()>& neighbour = {});
  SideCopies(SideCopies&&) = delete;

  /// Issues the copies, to start after `begin`, an event of the GPU that was recorded.
  void issue(Event begin);
  /// Call after the step, with its length. Returns whether copies ran until its end, and chooses number and size of
  /// the copies for the next step.
  bool outlasted(double step_ns);
  /// Traffic of the last step's copies in the GPU's memory, read and written, in all directions together.
  BytesPerSecond rate() const { return rate_; }

 private:
  struct Way {
    Owned host, device, start, end, stream;
    int kind;
    std::size_t size = 0;  // of each copy: enough for full speed, as memory allows
    std::size_t count = 4;
  };
  /// Allocates buffers of this size, or of the previous size if memory is too small.
  void make_room(Way& way, std::size_t size) const;

  const Runtime& cuda_;
  const int gpu_;
  std::vector<Way> ways_;
  BytesPerSecond rate_{};
};

}  // namespace trainyard::cuda
