#include "agent/silence_notice.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace pfc {
namespace {

constexpr std::chrono::milliseconds kNoticeDelay{3'000};

}  // namespace

SilenceNotice::SilenceNotice(std::string coordinator, bool for_ever)
    : coordinator_(std::move(coordinator)), for_ever_(for_ever) {}

std::optional<std::string> SilenceNotice::attempt_failed(std::chrono::milliseconds silence,
                                                         std::chrono::milliseconds limit,
                                                         const std::string& why, bool refused) {
  if (silence < kNoticeDelay) told_ = false;
  if (refused) {
    if (std::exchange(refusal_, why) == why) return {};
    return "coordinator " + coordinator_ + " refuses this agent (" + why + "); trying again";
  }
  if (silence < kNoticeDelay || std::exchange(told_, true)) return {};
  const std::string failed = "coordinator " + coordinator_ + " cannot be reached (" + why + "); ";
  const auto seconds = [](std::chrono::milliseconds time) {
    return std::to_string(std::max<std::int64_t>(time.count() / 1000, 0)) + " s";
  };
  if (!for_ever_) return failed + "trying for " + seconds(limit - silence) + " more";
  return failed + "trying again; workers here write a checkpoint and end after " + seconds(limit) +
         " without a coordinator";
}

}  // namespace pfc
