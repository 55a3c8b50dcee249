// The checkpoint folders of one job: their temporary and final names, and the removal of old ones.
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>

#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/checkpoint_format.h"
#include "worker/checkpoint/checkpoint_removal.h"

namespace pfc {

/// Removes and replaces only three things: what this job has started to write, incomplete
/// checkpoints of jobs that have ended, and readable checkpoints of this job's model. Everything
/// else under a checkpoint's name is kept: a damaged checkpoint, a link, another model's one, or
/// one with a file that pfc did not write. All members belong to rank 0's training thread, except
/// temporary() and wait_for_removals(), which are thread-safe.
class CheckpointFolders {
 public:
  explicit CheckpointFolders(const CheckpointOptions& options);

  /// Of the checkpoint of `step` until it is published.
  [[nodiscard]] std::filesystem::path temporary(std::int64_t step) const;

  /// Removes what jobs that have ended have left under temporary names, and logs what it cannot
  /// remove. Does nothing where another job may be at work in the folder. Throws StorageError when
  /// the folder cannot be listed.
  void remove_leftovers();

  /// Gives a finished temporary folder its final name, and begins to remove checkpoints beyond
  /// CheckpointOptions::keep. Throws StorageError, also when the output folder is no longer this
  /// job's.
  void publish(const checkpoint_format::Identity& identity);

  /// Removes what was written of a checkpoint that will not be published. Logs where it cannot.
  void give_up(std::int64_t step);

  void wait_for_removals() { removal_.wait(); }

 private:
  /// Whether `folder` is a checkpoint of the same model, which may be replaced and removed.
  static bool may_replace(const std::filesystem::path& folder,
                          const checkpoint_format::Identity& identity);
  void make_room(const std::filesystem::path& folder,
                 const checkpoint_format::Identity& identity) const;
  [[nodiscard]] std::filesystem::path name_to_remove(std::int64_t step);
  void prune(const checkpoint_format::Identity& newest);

  const CheckpointOptions options_;
  const checkpoint_format::Owner owner_;
  CheckpointRemoval removal_;
  int removed_ = 0;                                  ///< names given away so far
  std::set<std::filesystem::path> kept_for_others_;  ///< already warned about
};

}  // namespace pfc
