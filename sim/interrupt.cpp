#include "interrupt.hpp"

#include <unistd.h>

#include <csignal>
#include <initializer_list>

namespace trainyard::program {
namespace {

volatile std::sig_atomic_t guards = 0;
volatile std::sig_atomic_t pending = 0;

extern "C" void on_interrupt(int signal) {
  if (guards == 0 || pending != 0) _exit(128 + signal);
  pending = 1;
}

}  // namespace

void catch_interrupts() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, on_interrupt);
}

InterruptGuard::InterruptGuard() { guards = guards + 1; }
InterruptGuard::~InterruptGuard() { guards = guards - 1; }

bool interrupted() { return pending != 0; }

}  // namespace trainyard::program
