#include "worker/start/centre_file.h"

#include <spdlog/spdlog.h>

#include "comm/rank_zero.h"
#include "common/files/folder.h"
#include "worker/checkpoint/checkpoint_format.h"
#include "worker/checkpoint/kept_tables.h"
#include "worker/start/resume.h"

namespace pfc {
namespace {

namespace format = checkpoint_format;
namespace fs = std::filesystem;

/// Returns whether the head can continue in the tables that worker `me` of this checkpoint has.
/// False if the file of centres cannot be read: loading the checkpoint reports this.
bool has_tables_of(const fs::path& folder, const format::Identity& id, const HeadOptions& head,
                   const Membership& me) {
  const RowRange shard = head.positions().shard(me.rank, me.world_size);
  if (!id.tables.kept() || id.world_size != me.world_size ||
      !id.positions().same_order(head.positions()) ||
      id.positions().shard(me.rank, me.world_size) != shard) {
    return false;
  }
  try {
    const SafetensorsFile file(folder / format::centres_name(me.rank, me.world_size),
                               SafetensorsFile::Unaligned::kKeep);
    const auto tables = file.metadata().find(format::kTables);
    return tables != file.metadata().end() &&
           tables->second == tables_text(file_tables(shard.size(), head));
  } catch (const InputError&) {
    return false;
  }
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
  if (!file.on() || !o.shared) return file;
  const fs::path output = o.job.output;
  std::string newest;
  on_rank_zero(comm, [&] {
    if (const auto found = newest_checkpoint_of_job(o.job, o.job_id)) {
      newest = found->folder.filename().string();
    }
    if (o.lock != nullptr && o.lock->exclusive()) remove_unused_tables(output, {}, remove_tables);
  });
  newest = from_rank_zero(comm, newest);
  const format::Owner owner{.job_id = o.job_id, .generation = o.membership.generation};
  file.folder = output / format::tables_folder(owner);
  file.name = format::tables_name(o.membership.rank, o.membership.world_size);
  if (newest.empty()) return file;
  const format::Identity before = format::load_manifest(output / newest).identity;
  if (!has_tables_of(output / newest, before, head, o.membership)) return file;
  file.folder = output / before.tables.folder;
  file.checkpoint = before.tables.checkpoint;
  return file;
}

}  // namespace pfc
