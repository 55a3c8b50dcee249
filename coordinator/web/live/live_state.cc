#include "coordinator/web/live/live_state.h"

#include "common/clock.h"

namespace pfc {
namespace {

// Text from workers may not be valid UTF-8.
std::string live_text(const LiveJson& value) {
  return value.dump(-1, ' ', false, LiveJson::error_handler_t::replace);
}

void add_member(std::string& object, const std::string& name, const std::string& value) {
  object += (object.empty() ? "{\"" : ",\"") + name + "\":" + value;
}

}  // namespace

std::vector<LiveState::Part> LiveState::parts() const {
  const proto::StatusReply status = coordinator_.status();
  const History& history = coordinator_.history();
  return {{"status", live_text(live_status(status, to_ms(wall_now())))},
          {"plan", live_text(live_plan(coordinator_.job_json(), history.start_notes()))},
          {"hosts", live_text(live_hosts(status))},
          {"workers", live_text(live_workers(status))},
          {"phases", live_text(live_phases(history.phases()))},
          {"queue", live_text(live_queue(coordinator_.jobs().list()))}};
}

std::string LiveState::changes() {
  std::string object;
  std::vector<Part> now = parts();
  for (std::size_t i = 0; i < now.size(); ++i) {
    if (i >= told_.size() || told_[i].json != now[i].json)
      add_member(object, now[i].name, now[i].json);
  }
  told_ = std::move(now);
  const History& history = coordinator_.history();
  const Curve& curve = history.curve();
  const auto& points = curve.points();
  const bool is_other = std::exchange(curves_, curve.version()) != curve.version();
  if (is_other) points_ = 0;
  const std::int64_t reports = points.empty() ? 0 : points.back().reports;
  if (is_other || points_ != points.size() || reports_ != reports) {
    const std::size_t from = points_ == 0 ? 0 : points_ - 1;  // the last one may have grown
    add_member(object, "curves", live_text(live_curves(curve, from, history.is_cut())));
  }
  points_ = points.size();
  reports_ = reports;
  const EventLog& events = history.events();
  if (events_ != events.newest()) {
    add_member(object, "events", live_text(live_events(events, events_)));
  }
  events_ = events.newest();
  return object.empty() ? object : object + "}";
}

std::string LiveState::all() {
  const History& history = coordinator_.history();
  std::string object = R"({"whole":true)";
  for (const Part& part : parts()) add_member(object, part.name, part.json);
  add_member(object, "curves", live_text(live_curves(history.curve(), 0, history.is_cut())));
  add_member(object, "events", live_text(live_events(history.events(), 0)));
  return object + "}";
}

}  // namespace pfc
