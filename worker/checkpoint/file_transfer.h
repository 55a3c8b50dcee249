// Files that are written on rank 0's host for workers that do not see its output folder. They are
// sent in pieces of at most kPieceBytes over an OutputLink: no file is held in memory for it.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "common/files/atomic_file.h"
#include "common/files/safetensors.h"
#include "worker/checkpoint/output_links.h"

namespace pfc {

inline constexpr std::size_t kPieceBytes = 4 << 20;

/// Where a file that a worker sends is to be written.
struct Incoming {
  const OutputLink* link = nullptr;  ///< borrowed
  std::filesystem::path file;
};

/// Receives one file of each of these workers, in turn a piece of each, so that none waits for
/// another's whole file. Each file appears when it is whole, and is synced. Returns their sizes and
/// checksums, as written. Throws StorageError, which begins with the name of `host`, when one
/// cannot be written; the workers then throw the same. Throws CommError that names the worker and
/// its host when one is lost. REQUIRES: each of the workers calls send_file().
std::vector<WrittenFile> receive_files(std::span<const Incoming> files, const std::string& host);

/// Sends what `write` gives to its sink, and returns when rank 0 has the file on disk. Throws
/// StorageError in rank 0's words when it cannot be written there, and CommError.
void send_file(Comm& to_rank_zero, const std::function<void(const ByteSink&)>& write);

}  // namespace pfc
