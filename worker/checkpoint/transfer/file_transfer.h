// Writes files on rank 0's host for workers that do not see its output folder. Files are sent in
// pieces of at most kPieceBytes over an OutputLink, so no file is held in memory.
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

/// The source and destination of a file that a worker sends.
struct Incoming {
  const OutputLink* link = nullptr;  ///< borrowed
  std::filesystem::path file;
};

/// Receives one file from each of these workers, one piece per worker in turn, so that no worker
/// waits for another's whole file. Each file appears when it is complete, and is synced. Returns
/// the sizes and checksums as written. If a file cannot be written, throws StorageError that
/// begins with the name of `host`; the workers then throw the same. If a worker is lost, throws
/// CommError that names the worker and its host. REQUIRES: each of the workers calls send_file().
std::vector<WrittenFile> receive_files(std::span<const Incoming> files, const std::string& host);

/// Sends the bytes that `write` passes to its sink, and returns when rank 0 has the file on disk.
/// Throws StorageError with rank 0's text if the file cannot be written there, and CommError.
void send_file(Comm& to_rank_zero, const std::function<void(const ByteSink&)>& write);

}  // namespace pfc
