#include "pfcctl/chaos/watched_job.h"

#include <chrono>
#include <exception>
#include <thread>
#include <utility>

#include "common/error.h"
#include "pfcctl/chaos/event_line.h"

namespace pfc {
namespace {

using Stub = proto::CoordinatorService::Stub;

// Interval between attempts to find the coordinator.
constexpr std::chrono::milliseconds kReconnectPause{100};
constexpr std::chrono::seconds kLongestAway{60};

}  // namespace

WatchedJob::WatchedJob(const Target& target)
    : target_(target),
      call_(std::in_place, target.endpoint()),
      status_((*call_)(&Stub::Status, proto::StatusRequest())),
      id_(status_.job_id()) {
  if (id_.empty()) throw InputError("coordinator " + call_->address() + ": no job runs");
}

bool WatchedJob::look() {
  try {
    proto::StatusReply status = (*call_)(&Stub::Status, proto::StatusRequest());
    away_ = false;
    const bool has_ended = status.job_id() != id_ || status.state() == "completed" ||
                           status.state() == "stopped" || status.state() == "failed";
    if (has_ended) {
      tell("ended", "the job has ended");
      is_lost_ = true;
      return false;
    }
    status_ = std::move(status);
    return true;
  } catch (const CommError&) {
    return find_again();
  }
}

/// Reads the address again, because a restarted coordinator may have another port.
bool WatchedJob::find_again() {
  if (!std::exchange(away_, true)) {
    away_since_ = Clock::now();
    tell("waits", "the coordinator cannot be reached; trying again");
  }
  if (Clock::now() - away_since_ > kLongestAway) {
    tell("ended", "the coordinator has not been reachable for " +
                      std::to_string(kLongestAway.count()) + " s");
    is_lost_ = true;
    return false;
  }
  try {
    call_.emplace(target_.endpoint());
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): no coordinator yet
  }
  std::this_thread::sleep_for(kReconnectPause);
  return true;
}

proto::InjectFaultReply WatchedJob::inject(const PlannedFault& fault, const FaultVictim& victim,
                                           bool only_ask) {
  proto::InjectFaultRequest request;
  request.set_job_id(id_);
  request.set_kind(fault.kind);
  if (victim.rank >= 0) {
    request.set_rank(victim.rank);
  } else {
    request.set_host(victim.host);
  }
  request.set_lasts_ms(fault.lasts.count());
  request.set_only_ask(only_ask);
  return (*call_)(&Stub::InjectFault, request);
}

}  // namespace pfc
