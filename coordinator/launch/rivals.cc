#include "coordinator/launch/rivals.h"

#include <chrono>
#include <csignal>
#include <optional>
#include <system_error>

#include "common/machine/child_process.h"
#include "coordinator/jobs/job.h"
#include "coordinator/launch/foreign_process.h"
#include "proto/journal.pb.h"

namespace pfc {
namespace {

namespace fs = std::filesystem;

// An agent leaves its workers 30 s for a checkpoint, and kills them then.
constexpr std::chrono::seconds kCheckpoint{45};
constexpr std::chrono::seconds kKilled{5};

/// The agent that the coordinator has started itself, where it lives.
std::optional<ForeignProcess> agent_of(const JournalValues& saved) {
  const auto found = saved.find("coordinator");
  proto::SavedCoordinator own;
  if (found == saved.end() || !own.ParseFromString(found->second)) return {};
  return ForeignProcess::find(static_cast<pid_t>(own.local_agent_pid()), kAgentIdVariable,
                              own.local_agent_id());
}

/// Empty: it has no job yet, so that no worker was started.
fs::path output_folder_of(const JournalValues& saved) {
  const auto found = saved.find("job");
  proto::SavedJob job;
  if (found == saved.end() || !job.ParseFromString(found->second)) return {};
  return output_of(job.json());
}

/// The same text for the same folder, whether it is there or not.
fs::path whole(const fs::path& folder, const fs::path& output) {
  std::error_code error;
  fs::path path = fs::weakly_canonical(folder / output, error);
  if (error) path = (folder / output).lexically_normal();
  return path.has_filename() ? path : path.parent_path();  // without a slash at its end
}

}  // namespace

void end_rivals(std::vector<FoundJournal> journals, const fs::path& output,
                const std::function<void(const std::string& line)>& tell) {
  const fs::path own = whole(fs::current_path(), output);
  for (const FoundJournal& journal : journals) {
    const JournalValues& saved = journal.contents.values;
    const auto agent = agent_of(saved);
    const fs::path theirs = output_folder_of(saved);
    if (!agent || theirs.empty() || whole(agent->working_folder(), theirs) != own) continue;
    const std::string job = "job " + journal.contents.identity.id();
    tell(job + ", whose coordinator was killed, still trains into " + own.string() +
         ", as this job will: first it writes a checkpoint and ends");
    agent->send(SIGTERM);
    if (!agent->wait(kCheckpoint)) {
      tell(job + " has not ended for " + std::to_string(kCheckpoint.count()) + " s, and is killed");
      agent->send(SIGKILL);
      static_cast<void>(agent->wait(kKilled));
    }
    std::error_code ignored;
    fs::remove(journal.file, ignored);
  }
}

}  // namespace pfc
