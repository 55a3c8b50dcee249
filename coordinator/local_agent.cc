#include "coordinator/local_agent.h"

#include <thread>

#include "common/clock.h"

namespace pfc {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLook{100};
constexpr milliseconds kPatience{3'000};

}  // namespace

LocalAgent::LocalAgent(boost::asio::io_context& loop, const std::string& coordinator,
                       const std::string& host, Ended ended)
    // When the coordinator dies the agent gets SIGTERM, so that it can end its workers first.
    : process_({.program = program_folder() / "pfc-agent",
                .arguments = {"--coordinator", coordinator, "--host", host},
                .environment = {},
                .parent_death_signal = SIGTERM}),
      timer_(loop),
      ended_(std::move(ended)) {
  watch();
}

LocalAgent::~LocalAgent() {
  timer_.cancel();
  for (const TimePoint deadline = Clock::now() + kPatience;
       !process_.poll() && Clock::now() < deadline;) {
    std::this_thread::sleep_for(milliseconds{10});
  }
}

void LocalAgent::watch() {
  timer_.expires_after(kLook);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    if (const auto exit = process_.poll()) return ended_(*exit);
    watch();
  });
}

}  // namespace pfc
