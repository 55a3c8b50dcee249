// Finds the workers that see rank 0's output folder, and connects the others to rank 0.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/comm.h"
#include "common/ids.h"

namespace pfc {

/// Connects two workers. Rank 0 of the job also has rank 0 in `comm`; the other worker has rank 1.
/// Used by one thread at a time: the one that writes a checkpoint, or the training thread.
struct OutputLink {
  Rank rank = 0;     ///< rank of the other worker
  std::string host;  ///< host of the other worker
  std::unique_ptr<Comm> comm;
};

/// Created once at the start of a generation. If all hosts share the folder, there are no links,
/// and every worker reads and writes there itself. Otherwise only the folder on rank 0's host is
/// used: workers that do not see it write and read through rank 0.
struct OutputLinks {
  /// By rank: whether the worker sees the folder; empty: the job has one host.
  std::vector<bool> sees;
  std::string host;  ///< name of rank 0's host
  /// On rank 0: links to the workers that do not see the folder, by rank.
  std::vector<OutputLink> remote;
  std::unique_ptr<Comm> to_rank_zero;  ///< set on a worker that does not see the folder; else null

  /// Returns whether every worker sees the folder.
  [[nodiscard]] bool shared() const;
  /// Returns whether only workers on rank 0's host see the folder. `hosts`: by rank; empty: the
  /// job has one host, and visibility was not checked.
  [[nodiscard]] bool only_one_host_sees(std::span<const std::string> hosts) const;
  /// Returns the communicators of all links of this worker, borrowed.
  [[nodiscard]] std::vector<Comm*> comms() const;
};

/// Timeout of a worker's search for the file that rank 0 has created. An NFS client asks the server
/// at once for a name that it has never looked up. By default it caches what it has read of a
/// folder for 3 s (acregmin). A worker that finds the file too late only becomes slower: it writes
/// and reads through rank 0.
inline constexpr std::chrono::milliseconds kProbePatience{3'000};

/// Returns by rank whether the worker sees the folder that rank 0 has at `output`. Rank 0 creates
/// a file with a random name and content there, the others look for it, and rank 0 removes it.
/// `comm`: for host memory. Collective. Throws CommError. If rank 0 cannot write the file, throws
/// StorageError with the same text on all workers.
std::vector<bool> who_sees(Comm& comm, const std::filesystem::path& output,
                           std::chrono::milliseconds patience = kProbePatience);

/// Creates the links of worker `rank`. `make(other)` connects rank 0 and worker `other`, which
/// calls it too. `hosts`: by rank. Throws what `make` throws. REQUIRES: links.sees is set.
void connect_links(OutputLinks& links, Rank rank, std::span<const std::string> hosts,
                   const std::function<std::unique_ptr<Comm>(Rank other)>& make);

/// Returns a one-line message for the log if the folder is not shared.
std::string not_shared_message(const OutputLinks& links, std::span<const std::string> hosts,
                               const std::filesystem::path& output);

/// Returns the hosts, given by rank, of the workers for which `sees` is false: "b, c".
std::string hosts_without(const std::vector<bool>& sees, std::span<const std::string> hosts);

}  // namespace pfc
