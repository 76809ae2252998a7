#pragma once

namespace trainyard::program {

/// Installs the signal handlers. A termination request (SIGINT, SIGTERM, SIGHUP) then ends the program at once with
/// exit code 128 + signal, except under an InterruptGuard. A write to a pipe without a reader fails (EPIPE), as does a
/// file beyond the size limit (EFBIG). If a mapped input is truncated while it is read (SIGBUS), the program ends with
/// exit code 3 and an error, as JSON if `json`.
void catch_signals(bool json);

/// While a guard exists, a termination request is only recorded, and interrupts a blocking system call. A second
/// request ends the program, unless it follows within 0.3 s: `timeout` sends two signals for one request. After 20 s
/// the program ends in any case, unless a guard with `to_the_end` exists. Destroying the last guard does not end the
/// program: its owner asks interrupted().
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

/// Whether a request came while a guard existed.
bool interrupted();

/// 128 + signal if a request came, else `code`.
int exit_code(int code);

}  // namespace trainyard::program
