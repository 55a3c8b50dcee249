#include "coordinator/launch/local_agent.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "common/clock.h"

namespace pfc {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLook{100};
constexpr milliseconds kPatience{3'000};
constexpr milliseconds kFirstPause{500};
constexpr milliseconds kLongestPause{30'000};
constexpr int kCannotStart = 127;  // what a shell says when there is no such program

std::vector<std::string> arguments_of(const LocalAgentOptions& options) {
  std::vector<std::string> arguments{"--coordinator", options.coordinator, "--host", options.host};
  if (!options.credential.empty()) arguments.insert(arguments.end(), {"--credential", "-"});
  return arguments;
}

}  // namespace

LocalAgent::LocalAgent(boost::asio::io_context& loop, LocalAgentOptions options, Ended ended)
    : options_(std::move(options)), timer_(loop), ended_(std::move(ended)), pause_(kFirstPause) {
  start();
  watch();
}

LocalAgent::~LocalAgent() {
  timer_.cancel();
  for (const TimePoint deadline = Clock::now() + kPatience;
       process_ && !process_->poll() && Clock::now() < deadline;) {
    std::this_thread::sleep_for(milliseconds{10});
  }
}

void LocalAgent::start() {
  // When the coordinator dies the agent gets a signal, so that it can end its workers first.
  process_.emplace(SpawnOptions{.program = program_folder() / "pfc-agent",
                                .arguments = arguments_of(options_),
                                .environment = {{kAgentIdVariable, options_.id}},
                                .input = options_.credential,
                                .parent_death_signal = kParentDeathSignal});
}

void LocalAgent::watch() {
  timer_.expires_after(kLook);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    const auto exit = process_->poll();
    if (!exit) return watch();
    process_.reset();
    if (options_.starts_again) start_again();
    ended_(*exit);
  });
}

void LocalAgent::start_again() {
  timer_.expires_after(pause_);
  pause_ = std::min(2 * pause_, kLongestPause);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    try {
      start();
      watch();
    } catch (const std::exception&) {  // no process is left, for example: the next time perhaps
      start_again();
      ended_({.code = kCannotStart});
    }
  });
}

}  // namespace pfc
