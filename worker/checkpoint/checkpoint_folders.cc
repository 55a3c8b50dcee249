#include "worker/checkpoint/checkpoint_folders.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <stdio.h>

#include <cerrno>
#include <exception>
#include <system_error>

#include "common/error.h"
#include "common/files/atomic_file.h"
#include "common/files/file_error.h"
#include "common/files/folder.h"
#include "worker/checkpoint/kept_tables.h"
#include "worker/checkpoint/output_lock.h"

namespace pfc {
namespace {

namespace format = checkpoint_format;
namespace fs = std::filesystem;

/// Returns whether anything has this name, even a link that points nowhere.
bool is_there(const fs::path& path) { return fs::exists(fs::symlink_status(path)); }

/// Removes a folder of a checkpoint or of tables.
void remove_checkpoint(const fs::path& folder) {
  const bool has_tables = format::is_tables_folder(folder.filename().string());
  remove_own_folder(folder, has_tables ? format::is_tables_file : format::is_file_name);
}

/// Removes a temporary folder or a probe's file. If that fails, it does no harm, because its name
/// belongs to one job only.
void remove_or_log(const fs::path& temporary) {
  try {
    if (fs::is_regular_file(fs::symlink_status(temporary))) {
      fs::remove(temporary);
    } else {
      remove_checkpoint(temporary);
    }
  } catch (const std::exception& error) {
    spdlog::warn(
        "{}; the next job in this output folder tries again to remove this incomplete checkpoint",
        error.what());
  }
}

/// Returns why an old checkpoint must not be removed; empty: it may be removed.
std::string why_to_keep(const fs::path& folder) {
  try {
    const std::string foreign = foreign_entry(folder, format::is_file_name);
    return foreign.empty() ? "" : "contains " + foreign + ", which pfc did not make";
  } catch (const StorageError& error) {  // another process may be removing it
    return error.what();
  }
}

/// Gives a finished folder its final name. An existing entry of that name is renamed to `old`.
void move_folder(const fs::path& from, const fs::path& to, const fs::path& old) {
  const bool replaces = is_there(to);
  const unsigned flags = replaces ? RENAME_EXCHANGE : RENAME_NOREPLACE;
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), flags) == 0) {
    if (replaces) fs::rename(from, old);
  } else if (errno == EINVAL || errno == ENOSYS) {
    // NFS lacks these flags. The replacement is then not atomic, but older checkpoints exist.
    if (replaces) fs::rename(to, old);
    fs::rename(from, to);
  } else {
    throw StorageError(to.string() +
                       ": cannot move the checkpoint here: " + file_error_text(errno));
  }
  sync_folder(to.parent_path());
}

}  // namespace

CheckpointFolders::CheckpointFolders(const CheckpointOptions& options)
    : options_(options),
      owner_{.job_id = options.job_id, .generation = options.membership.generation},
      removal_(options.remove ? options.remove : remove_checkpoint) {}

fs::path CheckpointFolders::temporary(std::int64_t step) const {
  return options_.output / format::temporary_name(step, owner_);
}

void CheckpointFolders::remove_leftovers() {
  if (options_.lock != nullptr && !options_.lock->exclusive()) return;
  for (const fs::path& entry : entries_of(options_.output)) {
    const std::string name = entry.filename().string();
    if (!format::is_temporary(name)) continue;
    if (format::is_removed(name)) {  // an old checkpoint is removed in the background
      removal_.start(entry);
    } else {
      remove_or_log(entry);
    }
  }
}

bool CheckpointFolders::may_replace(const fs::path& folder, const format::Identity& identity) {
  try {
    return !fs::is_symlink(folder) && format::load_manifest(folder).identity.same_model(identity) &&
           foreign_entry(folder, format::is_file_name).empty();
  } catch (const InputError&) {  // damaged, or not a checkpoint
    return false;
  }
}

void CheckpointFolders::make_room(const fs::path& folder, const format::Identity& identity) const {
  if (!is_there(folder) || may_replace(folder, identity)) return;
  fs::path aside;
  for (int number = 1; aside.empty() || is_there(aside); ++number) {
    aside = options_.output / format::set_aside_name(identity.trained.step, number);
  }
  fs::rename(folder, aside);
  spdlog::warn(
      "{}: damaged, another model's, or contains files that pfc did not write; renamed to {}",
      folder.string(), aside.filename().string());
}

fs::path CheckpointFolders::name_to_remove(std::int64_t step) {
  fs::path name;
  do {  // an earlier job may have left a folder of this name
    name = options_.output / format::removed_name(step, owner_, ++removed_);
  } while (is_there(name));
  return name;
}

void CheckpointFolders::publish(const format::Identity& identity) {
  if (options_.lock != nullptr) options_.lock->expect_held();
  as_storage_error([&] {
    const fs::path final_name = options_.output / format::folder_name(identity.trained.step);
    make_room(final_name, identity);
    const fs::path replaced = name_to_remove(identity.trained.step);
    move_folder(temporary(identity.trained.step), final_name, replaced);
    if (is_there(replaced)) removal_.start(replaced);
  });
  as_storage_error([&] {
    prune(identity);
    if (options_.lock != nullptr && !options_.lock->exclusive()) return;
    const std::string damage =
        remove_unused_tables(options_.output, format::tables_folder(owner_),
                             [&](const fs::path& folder) { removal_.start(folder); });
    if (damage.empty() || !kept_for_others_.insert(damage).second) return;
    spdlog::warn("{}; unused tables and logs of class centres are not removed", damage);
  });
}

// Keeps the checkpoint just published even if a longer job has left newer ones.
void CheckpointFolders::prune(const format::Identity& newest) {
  const fs::path published = options_.output / format::folder_name(newest.trained.step);
  std::int64_t kept = 1;
  for (const format::Published& p : format::published(options_.output)) {
    const bool ours = p.identity && p.identity->same_model(newest) && !fs::is_symlink(p.folder);
    if (!ours || p.folder == published || kept++ < options_.keep) continue;
    if (const std::string why = why_to_keep(p.folder); !why.empty()) {
      if (kept_for_others_.insert(p.folder).second) {
        spdlog::warn("{}: old checkpoint not removed: {}", p.folder.string(), why);
      }
      continue;
    }
    // Rename it first: a crash must not leave half of it under a checkpoint's name.
    const fs::path hidden = name_to_remove(p.identity->trained.step);
    std::error_code error;
    fs::rename(p.folder, hidden, error);
    if (error) {
      spdlog::warn("{}: cannot remove an old checkpoint: {}", p.folder.string(), error.message());
    } else {
      removal_.start(hidden);
    }
  }
}

void CheckpointFolders::give_up(std::int64_t step) { remove_or_log(temporary(step)); }

}  // namespace pfc
