#include "coordinator/cluster/links.h"

#include <utility>

namespace pfc {

bool Links::remove_agent(const std::string& host, const AgentLink& link) {
  const auto found = agents_.find(host);
  if (found == agents_.end() || found->second != &link) return false;
  agents_.erase(found);
  return true;
}

void Links::send(const std::string& host, proto::AgentCommand command) const {
  const auto link = agents_.find(host);
  if (link == agents_.end()) return;
  command.set_job_id(state_.job.id);
  link->second->send(std::move(command));
}

void Links::close_agent(const std::string& host, const Refusal& why) const {
  if (const auto link = agents_.find(host); link != agents_.end()) link->second->close(why);
}

void Links::end_agent(const std::string& host) const {
  proto::AgentCommand command;
  command.mutable_shut_down();
  send(host, std::move(command));
  close_agent(host, going_away());
}

void Links::add_worker(Rank rank, WorkerLink& link) {
  if (const auto old = workers_.find(rank); old != workers_.end()) {
    old->second->close({.kind = Refusal::Kind::kUnavailable, .message = "replaced"});
  }
  workers_[rank] = &link;
}

void Links::remove_worker(Rank rank, const WorkerLink& link) {
  const auto found = workers_.find(rank);
  if (found != workers_.end() && found->second == &link) workers_.erase(found);
}

void Links::send(Rank rank, const proto::WorkerCommand& command) const {
  if (const auto link = workers_.find(rank); link != workers_.end()) link->second->send(command);
}

void Links::send_to_workers(const proto::WorkerCommand& command) const {
  for (const auto& [rank, link] : workers_) link->send(command);
}

void Links::close_workers(const Refusal& why) {
  for (const auto& [rank, link] : std::exchange(workers_, {})) link->close(why);
}

void Links::close() {
  for (const auto& [host, link] : std::map(agents_)) end_agent(host);
  agents_.clear();
  close_workers(going_away());
}

}  // namespace pfc
