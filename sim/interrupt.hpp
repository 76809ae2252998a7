#pragma once

namespace trainyard::program {

/// From now on an interrupt (SIGINT) ends the program at once with exit code 130, except under an InterruptGuard.
void catch_interrupts();

/// While one lives, an interrupt is only remembered; a second one ends the program. The outermost guard's end does not
/// end it either: whoever set it asks interrupted().
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
};

/// An interrupt came while a guard lived.
bool interrupted();

}  // namespace trainyard::program
