#include "agent/outbox.h"

#include <iterator>
#include <utility>

namespace pfc {

void Outbox::begin_job() {
  std::lock_guard lock(mutex_);
  pending_.clear();
  history_.clear();
  output_bytes_ = 0;
  dropped_lines_ = 0;
}

void Outbox::begin_incarnation(int slot) {
  std::lock_guard lock(mutex_);
  std::erase_if(history_, [&](const proto::AgentMessage& each) {
    return (each.has_started() ? each.started().slot() : each.exited().slot()) == slot;
  });
}

void Outbox::add_event(proto::AgentMessage message) {
  std::lock_guard lock(mutex_);
  history_.push_back(message);
  pending_.push_back(std::move(message));
}

void Outbox::add_output(proto::AgentMessage message) {
  std::lock_guard lock(mutex_);
  const std::size_t bytes = message.ByteSizeLong();
  if (output_bytes_ + bytes > kMaxOutputBytes) {
    dropped_lines_ += static_cast<std::size_t>(message.output().lines_size());
    return;
  }
  if (const std::size_t dropped = std::exchange(dropped_lines_, 0); dropped > 0) {
    proto::AgentMessage note = message;
    note.mutable_output()->clear_lines();
    note.mutable_output()->add_lines("(" + std::to_string(dropped) +
                                     " lines of output before this were dropped)");
    pending_.push_back(std::move(note));
  }
  output_bytes_ += bytes;
  pending_.push_back(std::move(message));
}

std::vector<proto::AgentMessage> Outbox::take() {
  std::lock_guard lock(mutex_);
  output_bytes_ = 0;
  const auto taken = std::exchange(pending_, {});
  return {taken.begin(), taken.end()};
}

std::vector<proto::AgentMessage> Outbox::events() const {
  std::lock_guard lock(mutex_);
  return history_;
}

}  // namespace pfc
