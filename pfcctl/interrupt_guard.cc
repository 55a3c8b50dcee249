#include "pfcctl/interrupt_guard.h"

#include <array>
#include <csignal>

#include "pfcctl/verbs.h"

namespace pfc {
namespace {

volatile std::sig_atomic_t signal_seen = 0;

constexpr std::array<int, 2> kSignals{SIGINT, SIGTERM};
std::array<struct sigaction, kSignals.size()> before;

void note_signal(int number) { signal_seen = number; }

}  // namespace

InterruptGuard::InterruptGuard() {
  signal_seen = 0;
  struct sigaction action {};
  action.sa_handler = note_signal;
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &action, &before[i]);
}

InterruptGuard::~InterruptGuard() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before[i], nullptr);
  signal_seen = 0;
}

void InterruptGuard::expect_none() {
  if (signal_seen != 0) throw ExitStatus{128 + signal_seen};
}

}  // namespace pfc
