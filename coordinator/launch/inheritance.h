// What a coordinator that was killed has left for the one that takes its place.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/journal/journal.h"
#include "coordinator/journal/takeover.h"
#include "coordinator/launch/foreign_process.h"
#include "proto/journal.pb.h"

namespace pfc {

/// The agent that a coordinator has started itself, where it lives.
std::optional<ForeignProcess> local_agent_of(const proto::SavedCoordinator& coordinator);

/// Its state, and its own agent where that lives. Empty where none was killed.
class Inheritance {
 public:
  /// Looks in the state folder for the journal of a coordinator that was the same command.
  /// `choice`: --take-over. Throws as find_takeover() does. Prints a warning while it waits.
  Inheritance(const std::filesystem::path& state_folder, const proto::JournalIdentity& identity,
              const std::string& choice);

  [[nodiscard]] bool exists() const { return takeover_.found.has_value(); }
  /// Of the job or service: the earlier one's, or that of the identity.
  [[nodiscard]] const std::string& id() const { return identity_.id(); }
  /// Agents and workers know the earlier one's port: so that is taken where any is asked for.
  [[nodiscard]] int port(int asked) const { return asked == 0 ? own_.port() : asked; }
  [[nodiscard]] int http_port(int asked) const { return asked == 0 ? own_.http_port() : asked; }

  /// Whether the agent that the earlier one has started still lives.
  [[nodiscard]] bool has_agent() const { return agent_.has_value(); }
  [[nodiscard]] const std::string& agent_id() const { return own_.local_agent_id(); }
  [[nodiscard]] const std::string& agent_serial() const { return own_.local_agent_serial(); }
  std::optional<ForeignProcess> take_agent() { return std::exchange(agent_, std::nullopt); }

  /// What other jobs have left, which this one does not go on with. Locked as long as it lives.
  std::vector<FoundJournal> take_unused() { return std::exchange(takeover_.unused, {}); }

  /// What a person should know, a line each.
  [[nodiscard]] std::vector<std::string> notes() const;

  /// The values that the earlier one has saved. REQUIRES: exists(), and open() was not called.
  [[nodiscard]] const JournalValues& values() const { return takeover_.found->contents.values; }
  /// The journal of this one, which begins with what was saved. `tell` as Journal::Options has it.
  std::unique_ptr<Journal> open(std::function<void(const std::string& line)> tell);

 private:
  const std::filesystem::path folder_;
  proto::JournalIdentity identity_;
  Takeover takeover_;
  proto::SavedCoordinator own_;
  std::optional<ForeignProcess> agent_;
};

}  // namespace pfc
