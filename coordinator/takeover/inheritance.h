// State that a killed coordinator left for its successor.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/journal/journal.h"
#include "coordinator/takeover/find_journals.h"
#include "coordinator/takeover/foreign_process.h"
#include "proto/journal.pb.h"

namespace pfc {

/// Returns the local agent that the killed `coordinator` started, if it is alive.
std::optional<ForeignProcess> local_agent_of(const proto::SavedCoordinator& coordinator);

/// The state of a killed coordinator and its local agent. Empty if there is none.
class Inheritance {
 public:
  /// Searches the state folder for the journal of a coordinator with the same command. `choice`:
  /// --take-over. Throws as find_journals() does. Prints a warning while it waits.
  Inheritance(const std::filesystem::path& state_folder, const proto::JournalIdentity& identity,
              const std::string& choice);

  [[nodiscard]] bool exists() const { return journals_.found.has_value(); }
  /// Id of the job or service: the inherited one, or that of `identity`.
  [[nodiscard]] const std::string& id() const { return identity_.id(); }
  /// Returns the inherited port if any port is allowed, because agents and workers know it.
  [[nodiscard]] int port(int asked) const { return asked == 0 ? own_.port() : asked; }
  [[nodiscard]] int http_port(int asked) const { return asked == 0 ? own_.http_port() : asked; }

  /// Returns whether the agent started by the earlier coordinator is alive.
  [[nodiscard]] bool has_agent() const { return agent_.has_value(); }
  [[nodiscard]] const std::string& agent_id() const { return own_.local_agent_id(); }
  [[nodiscard]] const std::string& agent_serial() const { return own_.local_agent_serial(); }
  std::optional<ForeignProcess> take_agent() { return std::exchange(agent_, std::nullopt); }

  /// Returns the journals of other jobs, which are not resumed. They are locked.
  std::vector<FoundJournal> take_unused() { return std::exchange(journals_.unused, {}); }

  /// Returns lines to print.
  [[nodiscard]] std::vector<std::string> notes() const;

  /// Returns the saved values. REQUIRES: exists(), and open() was not called.
  [[nodiscard]] const JournalValues& values() const { return journals_.found->contents.values; }
  /// Opens this coordinator's journal with the inherited values. `tell`: see Journal::Options.
  std::unique_ptr<Journal> open(std::function<void(const std::string& line)> tell);

 private:
  const std::filesystem::path folder_;
  proto::JournalIdentity identity_;
  FoundJournals journals_;
  proto::SavedCoordinator own_;
  std::optional<ForeignProcess> agent_;
};

}  // namespace pfc
