#include "interrupt.hpp"

#include <unistd.h>

#include <csignal>
#include <initializer_list>
#include <string_view>

#include "usage.hpp"

namespace trainyard::program {
namespace {

volatile std::sig_atomic_t guards = 0;
volatile std::sig_atomic_t pending = 0;  // the signal
volatile std::sig_atomic_t speaks_json = 0;

extern "C" void on_interrupt(int signal) {
  if (guards == 0 || pending != 0) _exit(128 + signal);
  pending = signal;
}

extern "C" void on_bus_error(int) {
  constexpr std::string_view text =
      "error[file]: an input was made shorter while it was read\nhelp: read it again once it is whole\n";
  constexpr std::string_view json =
      "{\"errors\": [{\"code\": \"file\", \"file\": \"\", \"line\": 0, \"column\": 0, \"pointer\": \"\", \"message\": "
      "\"an input was made shorter while it was read\", \"help\": \"read it again once it is whole\"}]}\n";
  const std::string_view said = speaks_json != 0 ? json : text;
  [[maybe_unused]] const auto written =
      write(speaks_json != 0 ? STDOUT_FILENO : STDERR_FILENO, said.data(), said.size());
  _exit(kInput);
}

}  // namespace

void catch_signals(bool json) {
  speaks_json = json ? 1 : 0;
  struct sigaction request {};  // without SA_RESTART: a run that waits for the reader of a pipe ends
  request.sa_handler = on_interrupt;
  struct sigaction before {};
  sigaction(SIGHUP, nullptr, &before);
  for (const int signal : {SIGINT, SIGTERM}) sigaction(signal, &request, nullptr);
  if (before.sa_handler != SIG_IGN) sigaction(SIGHUP, &request, nullptr);  // nohup ignores it
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGBUS, on_bus_error);
}

InterruptGuard::InterruptGuard() { guards = guards + 1; }
InterruptGuard::~InterruptGuard() { guards = guards - 1; }

bool interrupted() { return pending != 0; }

int exit_code(int code) { return pending != 0 ? 128 + pending : code; }

}  // namespace trainyard::program
