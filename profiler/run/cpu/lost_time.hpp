#pragma once

#include <cstdint>

namespace trainyard::cpu {

/// Time for which other work kept the calling thread from its core: clock time minus its own CPU time. It must not
/// sleep meanwhile.
///
/// To ask the kernel for CPU time takes half a microsecond, too long to do it around each op. So a mark is left where
/// the kernel clears it when it takes the thread off its core (restartable sequences, Linux 4.18), and only where the
/// mark is gone are the two clocks read: all that was lost since they were last read was lost in this interval. Where
/// there are no restartable sequences they are read every time. What a host takes from a virtual machine is not seen.
class LostTime {
 public:
  LostTime();
  /// The interval begins.
  void begin();
  /// Nanoseconds lost since the last call of this or of begin(); the next interval begins.
  std::int64_t take() { return marked() ? 0 : read(); }

 private:
  bool marked() const { return mark_ && *mark_ != 0; }
  std::int64_t read();

  volatile std::uint64_t* mark_ = nullptr;  // null: there is none
  std::int64_t clock_ = 0, cpu_ = 0;
};

}  // namespace trainyard::cpu
