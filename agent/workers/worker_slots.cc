#include "agent/workers/worker_slots.h"

#include <algorithm>
#include <csignal>
#include <exception>
#include <utility>

#include "common/error_text.h"

namespace pfc {
namespace {

/// Returns null if this process is not wanted.
const WorkerSlots::Wanted* find_wish(const proto::DesiredSlots& desired, int slot,
                                     std::int64_t incarnation) {
  const auto& slots = desired.slots();
  const auto wanted = std::find_if(slots.begin(), slots.end(), [&](const auto& each) {
    return each.slot() == slot && each.incarnation() == incarnation;
  });
  return wanted == slots.end() ? nullptr : &*wanted;
}

/// Returns the signal to send for this wish; 0: none.
int signal_for(const WorkerSlots::Wanted* wanted) {
  return wanted == nullptr                                  ? SIGKILL
         : wanted->wish() == proto::DesiredSlots::KILL      ? SIGKILL
         : wanted->wish() == proto::DesiredSlots::TERMINATE ? SIGTERM
                                                            : 0;
}

}  // namespace

WorkerSlots::WorkerSlots(boost::asio::io_context& loop, GroupGuard& guard, Handler handler)
    : loop_(loop),
      guard_(guard),
      handler_(std::move(handler)),
      children_(loop, SIGCHLD),
      grace_(loop) {
  watch_children();
}

WorkerSlots::~WorkerSlots() { abandon(); }

void WorkerSlots::abandon() {
  for (const auto& [number, slot] : slots_) {
    if (slot.process) slot.process->abandon();
  }
}

void WorkerSlots::begin_job(const std::string& job_id) {
  job_id_ = job_id;
  for (auto& [number, slot] : slots_) slot.incarnation = 0;
}

void WorkerSlots::reconcile(const proto::DesiredSlots& desired, bool may_start) {
  for (auto& [number, slot] : slots_) {
    if (!slot.process) continue;
    const int signal = signal_for(find_wish(desired, number, slot.incarnation));
    if (signal != 0 && signal != slot.sent) slot.process->send(slot.sent = signal);
  }
  if (has_workers_of_last_job()) return;  // their GPUs and output are still in use
  if (!may_start) return;
  for (const Wanted& wanted : desired.slots()) {
    Slot& slot = slots_[wanted.slot()];
    if (!slot.process && slot.incarnation < wanted.incarnation()) begin_incarnation(slot, wanted);
  }
}

void WorkerSlots::end_all(std::chrono::milliseconds grace, bool lost) {
  for (auto& [number, slot] : slots_) {
    if (!slot.process || slot.sent != 0) continue;
    slot.process->send(slot.sent = SIGTERM);
    slot.lost = lost;
  }
  grace_.expires_after(grace);
  grace_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    for (auto& [number, slot] : slots_) {
      if (slot.process && slot.sent == SIGTERM) slot.process->send(slot.sent = SIGKILL);
    }
  });
}

void WorkerSlots::send(int signal) {
  for (const auto& [number, slot] : slots_) {
    if (slot.process) slot.process->send(signal);
  }
}

bool WorkerSlots::empty() const {
  return std::ranges::none_of(slots_,
                              [](const auto& each) { return each.second.process != nullptr; });
}

std::shared_ptr<WorkerProcess> WorkerSlots::process_of(int slot, std::int64_t incarnation) const {
  const auto found = slots_.find(slot);
  return found != slots_.end() && found->second.incarnation == incarnation ? found->second.process
                                                                           : nullptr;
}

bool WorkerSlots::has_workers_of_last_job() const {
  return std::ranges::any_of(slots_, [](const auto& each) {
    return each.second.process != nullptr && each.second.incarnation == 0;
  });
}

void WorkerSlots::begin_incarnation(Slot& slot, const Wanted& wanted) {
  slot = {.incarnation = wanted.incarnation(), .process = nullptr};
  handler_.begins(wanted.slot());
  if (wanted.wish() == proto::DesiredSlots::RUN) return start(slot, wanted);
  // The process is no longer wanted and was never started, so its exit is reported at once.
  proto::AgentMessage event = message();
  event.mutable_exited()->set_slot(wanted.slot());
  event.mutable_exited()->set_incarnation(wanted.incarnation());
  event.mutable_exited()->set_signal(SIGTERM);
  handler_.event(std::move(event));
}

void WorkerSlots::start(Slot& slot, const Wanted& wanted) {
  const auto about = [&wanted](auto* event) {
    event->set_slot(wanted.slot());
    event->set_incarnation(wanted.incarnation());
  };
  proto::AgentMessage output = message(), exited = message(), event = message();
  about(output.mutable_output());
  about(exited.mutable_exited());
  try {
    WorkerProcess::Handler handler;
    handler.output = [this, output, rank = wanted.rank()](bool is_stderr,
                                                          std::vector<std::string> lines) {
      proto::AgentMessage said = output;
      said.mutable_output()->set_is_stderr(is_stderr);
      for (std::string& line : lines) said.mutable_output()->add_lines(std::move(line));
      handler_.output(std::move(said), rank);
    };
    handler.ended = [this, exited](const ProcessExit& exit, const auto& last_stderr) {
      worker_ended(exited, exit, last_stderr);
    };
    slot.process = WorkerProcess::start(loop_, handler_.command(wanted), std::move(handler));
    guard_.watch(slot.process->pid());
    handler_.runs(wanted);
    about(event.mutable_started());
    event.mutable_started()->set_pid(slot.process->pid());
  } catch (const std::exception& error) {  // also if no process or file descriptor is available
    event = exited;
    event.mutable_exited()->set_not_started(text_of(error));
  }
  handler_.event(std::move(event));
}

void WorkerSlots::watch_children() {
  children_.async_wait([this](const boost::system::error_code& error, int) {
    if (error) return;
    watch_children();
    const auto slots = slots_;  // copy: a handler may free or reuse a slot
    for (const auto& [number, slot] : slots) {
      if (slot.process) slot.process->look();
    }
  });
}

void WorkerSlots::worker_ended(const proto::AgentMessage& about, const ProcessExit& exit,
                               const std::vector<std::string>& last_stderr) {
  proto::AgentMessage event = about;
  proto::WorkerExited* exited = event.mutable_exited();
  Slot& slot = slots_.at(exited->slot());
  guard_.forget(slot.process->pid());
  exited->set_pid(slot.process->pid());
  exited->set_code(exit.code);
  exited->set_signal(exit.signal);
  exited->set_coordinator_lost(slot.lost);
  for (const std::string& line : last_stderr) exited->add_last_stderr(line);
  slot.process.reset();
  if (event.job_id() == job_id_) handler_.event(std::move(event));
  handler_.ended();
}

proto::AgentMessage WorkerSlots::message() const {
  proto::AgentMessage event;
  event.set_job_id(job_id_);
  return event;
}

}  // namespace pfc
