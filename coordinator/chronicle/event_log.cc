#include "coordinator/chronicle/event_log.h"

#include <algorithm>
#include <utility>

#include "common/one_line.h"

namespace pfc {

const char* name_of(Event::Kind kind) {
  switch (kind) {
    case Event::Kind::kHost:
      return "host";
    case Event::Kind::kFailure:
      return "failure";
    case Event::Kind::kGeneration:
      return "generation";
    case Event::Kind::kCheckpoint:
      return "checkpoint";
    case Event::Kind::kTakeover:
      return "takeover";
    case Event::Kind::kStraggler:
      return "straggler";
    case Event::Kind::kRequest:
      return "request";
    case Event::Kind::kJob:
      break;
  }
  return "job";
}

void EventLog::add(Event event) {
  const auto of_checkpoint = [](const Event& each) {
    return each.kind == Event::Kind::kCheckpoint;
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
