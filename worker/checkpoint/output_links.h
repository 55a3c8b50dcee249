// Which workers see the output folder of rank 0's host, and how the others reach it.
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

/// A connection of two: rank 0 of the job is its rank 0, and the other worker its rank 1. Used by
/// one thread at a time: the one that writes a checkpoint, or the training thread.
struct OutputLink {
  Rank rank = 0;     ///< of the other worker
  std::string host;  ///< of the other worker
  std::unique_ptr<Comm> comm;
};

/// Chosen once at the start of a generation. Where all hosts share the folder there are no links,
/// and every worker reads and writes there itself. Otherwise the folder of rank 0's host alone
/// counts: what workers without it write goes through rank 0, and what they read comes from there.
struct OutputLinks {
  std::vector<bool> sees;              ///< by rank; empty: the job has one host
  std::string host;                    ///< rank 0's
  std::vector<OutputLink> remote;      ///< rank 0's: those that do not see the folder, by rank
  std::unique_ptr<Comm> to_rank_zero;  ///< of a worker that does not see the folder; else null

  /// Whether every worker sees the folder.
  [[nodiscard]] bool shared() const;
  /// Whether no worker of another host than rank 0's sees the folder. `hosts`: by rank; none: the
  /// job has one host, so that nobody knows.
  [[nodiscard]] bool only_one_host_sees(std::span<const std::string> hosts) const;
  /// Those of all links of this worker, borrowed.
  [[nodiscard]] std::vector<Comm*> comms() const;
};

/// How long a worker looks for the file that rank 0 has made. A name that an NFS client has never
/// looked up is asked of the server at once; a folder that it has read is asked about again after 3
/// s, by default (acregmin). A worker that finds the file later than that is only slower: it goes
/// through rank 0.
inline constexpr std::chrono::milliseconds kProbePatience{3'000};

/// By rank, whether it sees the folder that rank 0 has at `output`: rank 0 makes a file with a
/// random name and content there, the others look for it, and rank 0 removes it. `comm` is of host
/// memory. Collective. Throws CommError, and StorageError, on all workers in the same words, when
/// rank 0 cannot write the file.
std::vector<bool> who_sees(Comm& comm, const std::filesystem::path& output,
                           std::chrono::milliseconds patience = kProbePatience);

/// Makes the links of worker `rank`, over which `make(other)` connects rank 0 and worker `other`,
/// which calls it too. `hosts`: by rank. Throws what `make` throws. REQUIRES: links.sees is set.
void connect_links(OutputLinks& links, Rank rank, std::span<const std::string> hosts,
                   const std::function<std::unique_ptr<Comm>(Rank other)>& make);

/// One line for a person, where the folder is not shared.
std::string not_shared_message(const OutputLinks& links, std::span<const std::string> hosts,
                               const std::filesystem::path& output);

/// The hosts, given by rank, of the workers for which `sees` is false: "b, c".
std::string hosts_without(const std::vector<bool>& sees, std::span<const std::string> hosts);

}  // namespace pfc
