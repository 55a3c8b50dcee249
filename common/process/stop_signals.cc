#include "common/process/stop_signals.h"

#include <csignal>
#include <utility>

namespace pfc {
namespace {

bool is_ignored(int number) {
  struct sigaction now {};
  return sigaction(number, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

}  // namespace

StopSignals::StopSignals(boost::asio::io_context& loop, Handler handler)
    : signals_(loop, SIGINT, SIGTERM), handler_(std::move(handler)) {
  if (!is_ignored(SIGHUP)) signals_.add(SIGHUP);
  wait();
}

void StopSignals::wait() {
  signals_.async_wait([this](const boost::system::error_code& error, int number) {
    if (error) return;
    const bool again = first_.has_value();
    if (!again) first_ = number;
    wait();
    handler_(number, again);
  });
}

}  // namespace pfc
