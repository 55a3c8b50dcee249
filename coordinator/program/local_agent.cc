#include "coordinator/program/local_agent.h"

#include <algorithm>
#include <csignal>
#include <thread>
#include <utility>

#include "common/clock.h"

namespace pfc {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kAgentPollInterval{100};
constexpr milliseconds kAgentExitTimeout{3'000};
constexpr milliseconds kFirstRestartPause{500};
constexpr milliseconds kLongestRestartPause{30'000};

std::vector<std::string> arguments_of(const LocalAgentOptions& options) {
  std::vector<std::string> arguments{"--coordinator", options.coordinator, "--host", options.host};
  if (options.credential) arguments.insert(arguments.end(), {"--credential", "-"});
  if (options.allow_chaos) arguments.emplace_back("--allow-chaos");
  return arguments;
}

}  // namespace

LocalAgent::LocalAgent(boost::asio::io_context& loop, LocalAgentOptions options, Handler handler,
                       std::optional<ForeignProcess> living)
    : options_(std::move(options)),
      living_(std::move(living)),
      timer_(loop),
      handler_(std::move(handler)),
      pause_(kFirstRestartPause) {
  if (!living_) start();
  watch();
}

LocalAgent::~LocalAgent() {
  timer_.cancel();
  for (const TimePoint deadline = Clock::now() + kAgentExitTimeout;
       !has_ended() && Clock::now() < deadline;) {
    std::this_thread::sleep_for(milliseconds{10});
  }
  if (living_ && !living_->has_ended()) living_->send(SIGKILL);
}

bool LocalAgent::has_ended() {
  return living_ ? living_->has_ended() : !process_ || process_->poll();
}

void LocalAgent::start() {
  const auto grace = options_.coordinator_grace.count();
  // The agent receives this signal when the coordinator dies.
  process_.emplace(SpawnOptions{.program = program_folder() / "pfc-agent",
                                .arguments = arguments_of(options_),
                                .environment = {{kAgentIdVariable, options_.id},
                                                {kAgentGraceVariable, std::to_string(grace)}},
                                .input = options_.credential ? options_.credential() : "",
                                .parent_death_signal = kParentDeathSignal});
  handler_.started(process_->pid());
}

void LocalAgent::watch() {
  timer_.expires_after(kAgentPollInterval);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    if (!has_ended()) return watch();
    const auto exit = process_ ? process_->poll() : std::nullopt;
    process_.reset();
    living_.reset();
    const bool is_missed = handler_.ended(exit);
    if (options_.starts_again || is_missed) start_again();
  });
}

void LocalAgent::start_again() {
  timer_.expires_after(pause_);
  pause_ = std::min(2 * pause_, kLongestRestartPause);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    try {
      start();
      watch();
    } catch (const std::exception&) {  // such as no process available; retry later
      start_again();
      handler_.ended(ProcessExit{.code = kCannotStartCode});
    }
  });
}

}  // namespace pfc
