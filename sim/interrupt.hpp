#pragma once

namespace trainyard::program {

/// From now on a request to end (SIGINT, SIGTERM, SIGHUP) ends the program at once with exit code 128 + signal, except
/// under an InterruptGuard. A pipe whose reader left is an error of the write (EPIPE), as is a file beyond the largest
/// that is allowed (EFBIG), and an input that is made shorter while it is read (SIGBUS, where it is mapped) ends the
/// program with exit code 3 and an error, in JSON where `json`.
void catch_signals(bool json);

/// While one lives, a request to end is only remembered, and ends a system call that waits; a second one ends the
/// program, unless it follows within 0.3 s, as the two do that `timeout` sends for one; and 20 s later it ends in any
/// case, unless one lives that must not be cut short. The outermost guard's end does not end it either: whoever set it
/// asks interrupted().
class InterruptGuard {
 public:
  enum class Waits : bool { some_seconds, to_the_end };
  explicit InterruptGuard(Waits waits = Waits::some_seconds);
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

 private:
  Waits waits_;
};

/// A request to end came while a guard lived.
bool interrupted();

/// 128 + the signal of the request where there was one, else `code`.
int exit_code(int code);

}  // namespace trainyard::program
