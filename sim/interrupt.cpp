#include "interrupt.hpp"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <initializer_list>
#include <string_view>

#include "usage.hpp"

namespace trainyard::program {
namespace {

static_assert(std::atomic<std::int64_t>::is_always_lock_free);  // as a signal handler requires

volatile std::sig_atomic_t guards = 0, uncut = 0;  // uncut: guards with to_the_end
std::atomic<int> pending = 0;                      // signal of the request; 0: none
volatile std::sig_atomic_t speaks_json = 0;

/// Nanoseconds within which a second signal belongs to the first request. `timeout`, and most programs that start
/// process groups, signal both the program and its group.
constexpr std::int64_t kOneRequest = 300'000'000;
std::atomic<std::int64_t> asked_at = 0;

std::int64_t now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * std::int64_t{1'000'000'000} + time.tv_nsec;
}

/// Seconds until a request ends the program, even if no code asks interrupted().
constexpr unsigned kPatience = 20;

extern "C" void on_interrupt(int signal) {
  if (guards == 0 || (pending != 0 && now() - asked_at > kOneRequest)) _exit(128 + signal);
  if (pending != 0) return;
  asked_at = now();
  pending = signal;
  alarm(kPatience);
}

extern "C" void on_alarm(int) {
  if (uncut == 0) _exit(128 + pending);
  alarm(1);
}

extern "C" void on_bus_error(int) {
  constexpr std::string_view text =
      "error[file]: an input file became shorter while it was read\nhelp: run again when the file is complete\n";
  constexpr std::string_view json =
      "{\"errors\": [{\"code\": \"file\", \"file\": \"\", \"line\": 0, \"column\": 0, \"pointer\": \"\", \"message\": "
      "\"an input file became shorter while it was read\", \"help\": \"run again when the file is complete\"}]}\n";
  const std::string_view said = speaks_json != 0 ? json : text;
  [[maybe_unused]] const auto written =
      write(speaks_json != 0 ? STDOUT_FILENO : STDERR_FILENO, said.data(), said.size());
  _exit(kInput);
}

}  // namespace

void catch_signals(bool json) {
  speaks_json = json ? 1 : 0;
  struct sigaction request {};  // without SA_RESTART, so that blocking calls end
  request.sa_handler = on_interrupt;
  struct sigaction before {};
  sigaction(SIGHUP, nullptr, &before);
  for (const int signal : {SIGINT, SIGTERM}) sigaction(signal, &request, nullptr);
  if (before.sa_handler != SIG_IGN) sigaction(SIGHUP, &request, nullptr);  // under nohup it stays ignored
  std::signal(SIGALRM, on_alarm);
  for (const int signal : {SIGPIPE, SIGXFSZ}) std::signal(signal, SIG_IGN);  // writes fail instead
  std::signal(SIGBUS, on_bus_error);
}

InterruptGuard::InterruptGuard(Waits waits) : waits_(waits) {
  guards = guards + 1;
  if (waits_ == Waits::to_the_end) uncut = uncut + 1;
}
InterruptGuard::~InterruptGuard() {
  if (waits_ == Waits::to_the_end) uncut = uncut - 1;
  guards = guards - 1;
}

bool interrupted() { return pending != 0; }

int exit_code(int code) { return pending != 0 ? 128 + pending : code; }

}  // namespace trainyard::program
