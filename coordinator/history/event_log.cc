#include "coordinator/history/event_log.h"

#include <algorithm>
#include <utility>

#include "common/one_line.h"

namespace pfc {

const char* name_of(ClusterEvent::Kind kind) {
  switch (kind) {
    case ClusterEvent::Kind::kHost:
      return "host";
    case ClusterEvent::Kind::kFailure:
      return "failure";
    case ClusterEvent::Kind::kGeneration:
      return "generation";
    case ClusterEvent::Kind::kCheckpoint:
      return "checkpoint";
    case ClusterEvent::Kind::kTakeover:
      return "takeover";
    case ClusterEvent::Kind::kStraggler:
      return "straggler";
    case ClusterEvent::Kind::kRequest:
      return "request";
    case ClusterEvent::Kind::kJob:
      break;
  }
  return "job";
}

void EventLog::add(ClusterEvent event) {
  const auto of_checkpoint = [](const ClusterEvent& each) {
    return each.kind == ClusterEvent::Kind::kCheckpoint;
  };
  if (of_checkpoint(event) && std::ranges::count_if(events_, of_checkpoint) >=
                                  static_cast<std::ptrdiff_t>(kMostCheckpoints)) {
    events_.erase(std::ranges::find_if(events_, of_checkpoint));
  }
  event.number = ++newest_;
  event.text = one_line(event.text, kLongestText);
  events_.push_back(std::move(event));
  if (events_.size() > kMost) events_.pop_front();
}

}  // namespace pfc
