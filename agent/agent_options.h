// What an agent is asked to do.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include "agent/logs/rotating_log.h"
#include "agent/workers/binding.h"
#include "common/machine/gpu/gpus.h"
#include "security/credential.h"

namespace pfc {

struct AgentOptions {
  std::string coordinator;               ///< host:port
  std::string host;                      ///< this host's name in the coordinator's --hosts
  std::string id;                        ///< empty: drawn at random
  std::filesystem::path worker_program;  ///< the only program that it starts
  Credential credential = {};            ///< its own; none: plaintext
  GpuSearch gpus;                        ///< what its workers can compute on
  BindMode bind = BindMode::kNuma;       ///< which cores each worker may use
  /// It serves one job after another, and looks for the coordinator for ever. Otherwise it ends
  /// with the job, with the coordinator, and when that one refuses it.
  bool stays = false;
  bool allow_chaos = false;          ///< pfcctl chaos may break things on this host
  std::filesystem::path log_folder;  ///< of its workers' logs; empty: it keeps none
  LogLimits log_limits;
  /// How long it looks for a coordinator that it has not found yet, where it does not stay.
  std::chrono::milliseconds patience{30'000};
  /// How long its workers train on without the coordinator that it has had: another one may take
  /// that one's place. Then they end, and where it does not stay, so does it. Empty: as that
  /// coordinator says.
  std::optional<std::chrono::milliseconds> coordinator_grace = {};
  /// Likewise, before that coordinator has said it.
  std::chrono::milliseconds first_coordinator_grace{0};
  std::chrono::milliseconds grace{5'000};  ///< from SIGTERM to SIGKILL when it ends
  /// What it leaves the job for a checkpoint when its host must be free.
  std::chrono::milliseconds leave_grace{30'000};
  /// The same when the coordinator is lost: nobody waits, and a checkpoint may take its time.
  std::chrono::milliseconds lost_grace{30'000};
};

}  // namespace pfc
