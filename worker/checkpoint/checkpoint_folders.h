// The checkpoint folders of one job: their temporary and final names, and the removal of old ones.
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>

#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/checkpoint_format.h"
#include "worker/checkpoint/checkpoint_removal.h"

namespace pfc {

/// Removes and replaces only four things: files that this job has started to write, incomplete
/// checkpoints of jobs that have ended, readable checkpoints of this job's model, and tables of
/// class centres that no checkpoint needs (kept_tables.h). Keeps everything else under a
/// checkpoint's name: a damaged checkpoint, a link, another model's checkpoint, or one with a file
/// that pfc did not write. All members belong to rank 0's training thread, except temporary() and
/// wait_for_removals(), which are thread-safe.
class CheckpointFolders {
 public:
  explicit CheckpointFolders(const CheckpointOptions& options);

  /// Returns the folder of the checkpoint of `step` before it is published.
  [[nodiscard]] std::filesystem::path temporary(std::int64_t step) const;

  /// Removes what ended jobs have left under temporary names, and logs what it cannot remove.
  /// Does nothing if another job may be using the folder. Throws StorageError if the folder
  /// cannot be listed.
  void remove_leftovers();

  /// Gives a finished temporary folder its final name, and begins to remove checkpoints beyond
  /// CheckpointOptions::keep. Throws StorageError, also if the output folder no longer belongs to
  /// this job.
  void publish(const checkpoint_format::Identity& identity);

  /// Removes the files of a checkpoint that will not be published. Logs a failure.
  void give_up(std::int64_t step);

  void wait_for_removals() { removal_.wait(); }

 private:
  /// Returns whether `folder` is a checkpoint of the same model, which may be removed.
  static bool may_replace(const std::filesystem::path& folder,
                          const checkpoint_format::Identity& identity);
  void make_room(const std::filesystem::path& folder,
                 const checkpoint_format::Identity& identity) const;
  [[nodiscard]] std::filesystem::path name_to_remove(std::int64_t step);
  void prune(const checkpoint_format::Identity& newest);

  const CheckpointOptions options_;
  const checkpoint_format::Owner owner_;
  CheckpointRemoval removal_;
  int removed_ = 0;  ///< number of names handed out by name_to_remove()
  std::set<std::filesystem::path> kept_for_others_;  ///< already warned about
};

}  // namespace pfc
