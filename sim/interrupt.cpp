#include "interrupt.hpp"

#include <unistd.h>

#include <csignal>

namespace trainyard::program {
namespace {

volatile std::sig_atomic_t guards = 0;
volatile std::sig_atomic_t pending = 0;

extern "C" void on_interrupt(int) {
  if (guards == 0 || pending != 0) _exit(130);
  pending = 1;
}

}  // namespace

void catch_interrupts() { std::signal(SIGINT, on_interrupt); }

InterruptGuard::InterruptGuard() { guards = guards + 1; }
InterruptGuard::~InterruptGuard() { guards = guards - 1; }

bool interrupted() { return pending != 0; }

}  // namespace trainyard::program
