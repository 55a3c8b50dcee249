#include "worker/start/centre_file.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "comm/rank_zero.h"
#include "common/error.h"
#include "common/files/folder.h"
#include "common/files/regular_file.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/checkpoint_format.h"
#include "worker/checkpoint/kept_tables.h"
#include "worker/start/resume.h"

namespace pfc {
namespace {

namespace format = checkpoint_format;
namespace fs = std::filesystem;

/// Returns whether the head of each worker can continue in the tables that it has in this
/// checkpoint.
bool has_tables_of(const fs::path& folder, const format::Identity& id, const HeadOptions& head,
                   int workers) {
  if (!id.tables.kept() || id.world_size != workers ||
      !id.positions().same_order(head.positions())) {
    return false;
  }
  for (Rank rank = 0; rank < workers; ++rank) {
    const RowRange shard = head.positions().shard(rank, workers);
    if (id.positions().shard(rank, workers) != shard) return false;
    const SafetensorsFile file(folder / format::centres_name(rank, workers),
                               SafetensorsFile::Unaligned::kKeep);
    const auto tables = file.metadata().find(format::kTables);
    if (tables == file.metadata().end() ||
        tables->second != tables_text(file_tables(shard.size(), head))) {
      return false;
    }
  }
  return true;
}

/// Returns whether the folder of a checkpoint is one whose manifest cannot be read, or that uses
/// these tables.
bool may_use(const fs::path& folder, const format::Tables& tables) {
  if (!something_at(folder)) return false;
  try {
    const format::Tables found = format::load_manifest(folder).identity.tables;
    return found.folder == tables.folder && found.checkpoint == tables.checkpoint;
  } catch (const InputError&) {
    return true;
  }
}

/// Returns the folder of a later checkpoint of the same tables; empty: there is none.
fs::path later_than(const fs::path& folder, const format::Identity& id) {
  const std::vector<std::string> all = KeptPages::checkpoints_of(kept_name(folder, id, 0));
  for (auto each = all.rbegin(); each != all.rend() && *each != id.tables.checkpoint; ++each) {
    const auto step = format::step_of_log(KeptName::kLog + *each);
    if (!step) continue;
    const fs::path later = folder.parent_path() / format::folder_name(*step);
    if (may_use(later, {.folder = id.tables.folder, .checkpoint = *each})) return later;
  }
  return {};
}

struct TakenOver {
  format::Tables tables;
  std::string advice;  ///< CentreFile::advice
};

/// Returns nothing if the head needs new tables. Taking over gives up later checkpoints, so their
/// folders must not be there.
TakenOver tables_to_take_over(const CheckpointInfo& newest, const HeadOptions& head, int workers) {
  const format::Identity id = format::load_manifest(newest.folder).identity;
  const std::string advice = advice_without(newest.folder, newest.trained.images);
  fs::path later;
  try {
    if (!has_tables_of(newest.folder, id, head, workers)) return {};
    later = later_than(newest.folder, id);
  } catch (const InputError& error) {
    throw InputError(error.what() + advice);
  }
  if (later.empty()) return {id.tables, advice};
  throw InputError(later.string() + " is newer than " + newest.folder.string() +
                   ", from which the job would continue, but cannot be used; repair it, or move it "
                   "away to give it up");
}

void remove_tables(const fs::path& folder) {
  try {
    remove_own_folder(folder, format::is_tables_file);
  } catch (const InputError& error) {
    spdlog::warn("{}", error.what());
  }
}

}  // namespace

CentreFile choose_centre_file(Comm& comm, const HeadOptions& head, const CentreFileOptions& o) {
  CentreFile file = head.centre_file;
  if (!file.on() || from_rank_zero(comm, o.one_host && o.exclusive ? 1 : 0) == 0) return file;
  const fs::path output = o.job.output;
  std::int64_t step = 0;
  std::optional<CheckpointInfo> newest;
  on_rank_zero(comm, [&] {
    newest = newest_checkpoint_of_job(o.job, o.job_id);
    if (newest) step = newest->trained.step;
  });
  if (o.expect_step) o.expect_step(from_rank_zero(comm, step));
  TakenOver before;
  on_rank_zero(comm, [&] {
    if (newest) before = tables_to_take_over(*newest, head, comm.size());
    const std::string damage = remove_unused_tables(output, {}, remove_tables);
    if (!damage.empty()) {
      spdlog::warn("{}; unused tables and logs of class centres are not removed", damage);
    }
  });
  file.name = format::tables_name(o.membership.rank, o.membership.world_size);
  file.checkpoint = from_rank_zero(comm, before.tables.checkpoint);
  file.advice = from_rank_zero(comm, before.advice);
  const std::string new_folder =
      format::tables_folder({.job_id = o.job_id, .generation = o.membership.generation});
  file.folder =
      output / from_rank_zero(comm, before.tables.kept() ? before.tables.folder : new_folder);
  return file;
}

}  // namespace pfc
