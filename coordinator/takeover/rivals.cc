#include "coordinator/takeover/rivals.h"

#include <chrono>
#include <csignal>
#include <system_error>
#include <utility>

#include "common/error.h"
#include "coordinator/journal/journal_keys.h"
#include "coordinator/journal/saved_state.h"
#include "coordinator/takeover/inheritance.h"
#include "proto/journal.pb.h"

namespace pfc {
namespace {

namespace fs = std::filesystem;

// An agent gives its workers 30 s for a checkpoint, then kills them.
constexpr std::chrono::seconds kCheckpoint{45};
constexpr std::chrono::seconds kKilled{5};

/// Returns the job's output folder. Empty if there is no job yet, so no worker was started.
fs::path output_folder_of(const JournalValues& saved) {
  return job_from(journal_keys::value_at(saved, journal_keys::kJob)).output;
}

/// Returns a canonical path, even if the folder does not exist.
fs::path whole(const fs::path& folder, const fs::path& output) {
  std::error_code error;
  fs::path path = fs::weakly_canonical(folder / output, error);
  if (error) path = (folder / output).lexically_normal();
  return path.has_filename() ? path : path.parent_path();  // removes a trailing slash
}

struct Rival {
  FoundJournal journal;
  ForeignProcess agent;

  [[nodiscard]] std::string title() const { return "job " + journal.contents.identity.id(); }
};

/// Returns the jobs that still write to `output`. Releases the other journals, or deletes them.
std::vector<Rival> rivals_among(std::vector<FoundJournal> journals, const fs::path& output) {
  std::vector<Rival> rivals;
  for (FoundJournal& journal : journals) {
    const JournalValues& saved = journal.contents.values;
    auto agent =
        local_agent_of(journal_keys::read<proto::SavedCoordinator>(saved, journal_keys::kOwn));
    const fs::path theirs = output_folder_of(saved);
    if (agent && !theirs.empty() && whole(agent->working_folder(), theirs) == output) {
      rivals.push_back({std::move(journal), std::move(*agent)});
    } else if (journal.is_unwanted) {
      std::error_code ignored;
      fs::remove(journal.file, ignored);
    }
  }
  return rivals;
}

void end(const Rival& rival, const fs::path& output,
         const std::function<void(const std::string& line)>& tell) {
  tell(rival.title() + ", whose coordinator was killed, still writes to " + output.string() +
       ", which this job also uses. The old job is stopped after a checkpoint");
  rival.agent.send(SIGTERM);
  if (!rival.agent.wait(kCheckpoint)) {
    tell(rival.title() + " has not ended within " + std::to_string(kCheckpoint.count()) +
         " s, and is killed");
    rival.agent.send(SIGKILL);
    if (!rival.agent.wait(kKilled)) return;  // its journal is still needed
  }
  std::error_code ignored;
  fs::remove(rival.journal.file, ignored);
}

}  // namespace

void end_rivals(std::vector<FoundJournal> journals, const Job& job,
                const std::function<void(const std::string& line)>& tell) {
  const fs::path output = whole(fs::current_path(), job.output);
  const std::vector<Rival> rivals = rivals_among(std::move(journals), output);
  if (!rivals.empty() && !resumes(job.json)) {
    throw InputError("output: " + rivals.front().title() + " still trains into " + output.string() +
                     ", although its coordinator was killed. Start pfc-coordinator as before to "
                     "continue that job; or set \"resume\": true to continue from its checkpoint; "
                     "or choose another output");
  }
  for (const Rival& rival : rivals) end(rival, output, tell);
}

}  // namespace pfc
