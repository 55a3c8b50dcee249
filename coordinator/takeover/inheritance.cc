#include "coordinator/takeover/inheritance.h"

#include <utility>

#include "common/log.h"
#include "common/process/child_process.h"
#include "coordinator/journal/journal_keys.h"

namespace pfc {
namespace {

/// Prints directly, because the Terminal does not exist yet.
void print_warning(const std::string& line) {
  print_message("pfc-coordinator", Severity::kWarning, line);
}

}  // namespace

std::optional<ForeignProcess> local_agent_of(const proto::SavedCoordinator& coordinator) {
  return ForeignProcess::find(static_cast<pid_t>(coordinator.local_agent_pid()), kAgentIdVariable,
                              coordinator.local_agent_id());
}

Inheritance::Inheritance(const std::filesystem::path& state_folder,
                         const proto::JournalIdentity& identity, const std::string& choice)
    : folder_(state_folder),
      identity_(identity),
      journals_(find_journals(state_folder, identity, choice, {.tell = print_warning})) {
  if (!journals_.found) return;
  identity_.set_id(journals_.found->contents.identity.id());
  own_ = journal_keys::read<proto::SavedCoordinator>(values(), journal_keys::kOwn);
  agent_ = local_agent_of(own_);
}

std::vector<std::string> Inheritance::notes() const {
  std::vector<std::string> notes = journals_.notes;
  if (!exists()) return notes;
  notes.push_back("taking over " + id() + " from an earlier coordinator" +
                  (journals_.found->contents.torn_bytes > 0
                       ? "; the last record of its journal is incomplete, and is ignored"
                       : ""));
  return notes;
}

std::unique_ptr<Journal> Inheritance::open(std::function<void(const std::string& line)> tell) {
  JournalContents contents{.identity = identity_, .values = {}};
  Fd lock;
  if (journals_.found) {
    contents.values = std::move(journals_.found->contents.values);
    lock = std::move(journals_.found->lock);
  }
  return std::make_unique<Journal>(
      Journal::Options{.file = journal_file(folder_, identity_.id()), .tell = std::move(tell)},
      std::move(contents), std::move(lock));
}

}  // namespace pfc
