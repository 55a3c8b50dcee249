#include "agent/outbox.h"

#include <algorithm>
#include <utility>

#include "common/counted.h"

namespace pfc {

void Outbox::begin_job() {
  std::lock_guard lock(mutex_);
  pending_.clear();
  history_.clear();
  output_bytes_ = 0;
  dropped_.clear();
}

void Outbox::begin_incarnation(int slot) {
  std::lock_guard lock(mutex_);
  std::erase_if(history_, [&](const proto::AgentMessage& each) {
    return (each.has_started() && each.started().slot() == slot) ||
           (each.has_exited() && each.exited().slot() == slot);
  });
}

void Outbox::add_event(proto::AgentMessage message) {
  std::lock_guard lock(mutex_);
  history_.push_back(message);
  pending_.push_back(std::move(message));
}

void Outbox::add_report(proto::AgentMessage message) {
  std::lock_guard lock(mutex_);
  pending_.push_back(std::move(message));
}

void Outbox::add_output(proto::AgentMessage message) {
  std::lock_guard lock(mutex_);
  const std::size_t bytes = message.ByteSizeLong();
  output_bytes_ += bytes;
  pending_.push_back(std::move(message));
  while (output_bytes_ > kMaxOutputBytes) drop_oldest_output();
}

// REQUIRES: pending_ contains output.
void Outbox::drop_oldest_output() {
  const auto oldest = std::ranges::find_if(pending_, &proto::AgentMessage::has_output);
  output_bytes_ -= oldest->ByteSizeLong();
  Dropped& dropped = dropped_[{oldest->output().slot(), oldest->output().is_stderr()}];
  dropped.lines += oldest->output().lines_size();
  dropped.about = std::move(*oldest);
  dropped.about.mutable_output()->clear_lines();
  pending_.erase(oldest);
}

void Outbox::add_log(proto::AgentMessage message) {
  std::lock_guard lock(mutex_);
  const std::size_t bytes = message.ByteSizeLong();
  if (log_bytes_ + bytes > kMaxLogBytes) return;
  log_bytes_ += bytes;
  logs_.push_back(std::move(message));
}

std::vector<proto::AgentMessage> Outbox::take() {
  std::lock_guard lock(mutex_);
  output_bytes_ = log_bytes_ = 0;
  const auto taken = std::exchange(pending_, {});
  std::vector<proto::AgentMessage> messages = std::exchange(logs_, {});
  for (auto& [stream, dropped] : std::exchange(dropped_, {})) {
    dropped.about.mutable_output()->add_lines("(dropped here: " + counted(dropped.lines, "line") +
                                              " of output, which could not be sent in time)");
    messages.push_back(std::move(dropped.about));
  }
  messages.insert(messages.end(), taken.begin(), taken.end());
  return messages;
}

std::vector<proto::AgentMessage> Outbox::events() const {
  std::lock_guard lock(mutex_);
  return history_;
}

}  // namespace pfc
