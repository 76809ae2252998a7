#pragma once

#include <cstdint>

namespace trainyard::cpu {

/// Time in which other work kept the calling thread off its core: clock time minus the thread's CPU time. The thread
/// must not sleep meanwhile.
///
/// Asking the kernel for CPU time takes half a microsecond, too long around each op. Instead a mark is set that the
/// kernel clears when it takes the thread off its core (restartable sequences, Linux 4.18). The two clocks are read
/// only if the mark is gone; all time lost since their last reading then belongs to this interval. Without restartable
/// sequences they are read every time. Time that a host takes from a virtual machine is not visible.
class LostTime {
 public:
  LostTime();
  /// Begins an interval.
  void begin();
  /// Nanoseconds lost since the last call of this or of begin(); begins the next interval.
  std::int64_t take() { return marked() ? 0 : read(); }

 private:
  bool marked() const { return mark_ && *mark_ != 0; }
  std::int64_t read();

  volatile std::uint64_t* mark_ = nullptr;  // null: not available
  std::int64_t clock_ = 0, cpu_ = 0;
};

}  // namespace trainyard::cpu
