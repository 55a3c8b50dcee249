#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <system_error>
#include <vector>

#include "common/error.h"
#include "common/files/mapped_file.h"
#include "common/files/safetensors.h"
#include "common/files/sha256.h"
#include "kernels/math/bfloat16.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/checkpoint_format.h"
#include "worker/comm/shard.h"
#include "worker/head/row_copy.h"

namespace pfc {
namespace {

namespace format = checkpoint_format;

CheckpointInfo info_of(const std::filesystem::path& folder, const format::Identity& id) {
  return {.folder = folder,
          .step = id.step,
          .world_size = id.world_size,
          .global_batch = id.global_batch};
}

/// The newest whole checkpoint under `output` with fewer images seen than `limit`.
std::optional<CheckpointInfo> newest_below(const std::filesystem::path& output,
                                           std::int64_t limit) {
  for (const format::Published& p : format::published(output)) {
    if (p.identity && p.identity->images_seen() < limit) return info_of(p.folder, *p.identity);
  }
  return std::nullopt;
}

std::string advice(const std::filesystem::path& folder, const format::Identity& damaged) {
  const auto before =
      newest_below(std::filesystem::absolute(folder).parent_path(), damaged.images_seen());
  if (!before) return "there is no checkpoint before it";
  return "move " + folder.string() + " away to resume from " + before->folder.string() + " instead";
}

/// Opens a file of the checkpoint, after checking that its size and checksum are the manifest's.
SafetensorsFile open_verified(const std::filesystem::path& folder, const format::Manifest& manifest,
                              const std::string& name) {
  const format::File& expected = manifest.file(folder, name);
  const auto damaged = [&](const std::string& what) {
    throw InputError((folder / name).string() + ": " + what +
                     "; the checkpoint is damaged: " + advice(folder, manifest.identity));
  };
  std::error_code error;  // a path that cannot be looked at is told with its reason when it is read
  if (!std::filesystem::exists(folder / name, error) && !error) damaged("missing");
  const MappedFile file(folder / name);
  if (file.bytes().size() != expected.bytes) {
    damaged(std::to_string(file.bytes().size()) + " bytes, expected " +
            std::to_string(expected.bytes));
  }
  const std::string found = sha256_hex(file.bytes());
  if (found != expected.sha256) damaged("sha256 is " + found + ", expected " + expected.sha256);
  return SafetensorsFile(folder / name);
}

void check_same(const std::filesystem::path& folder, const std::string& what,
                const std::string& found, const std::string& expected) {
  if (found == expected) return;
  throw InputError((folder / format::kManifest).string() + ": " + what + " is " + found +
                   ", but this job's is " + expected);
}

void check_fits(const std::filesystem::path& folder, const format::Identity& id,
                const TrainingState& state) {
  const auto job_value = [&](const char* key) {
    return id.job.is_object() && id.job.contains(key) && id.job[key].is_string()
               ? id.job[key].get<std::string>()
               : std::string("unknown");
  };
  if (!state.network.empty()) {
    check_same(folder, "network", job_value("network"), state.network);
  }
  check_same(folder, "embedding_size", std::to_string(id.embedding_size),
             std::to_string(state.head.state().centres.shape[1]));
  check_same(folder, "the number of classes", std::to_string(id.classes),
             std::to_string(state.classes));
  check_same(folder, "optimizer", job_value("optimizer"),
             state.optimizer.second() ? "adamw" : "sgd");
}

/// The rows that one file of the checkpoint and this worker's shard have in common.
struct Overlap {
  SafetensorsFile file;
  RowRange file_rows;
  RowRange rows;
};

std::vector<Overlap> open_overlaps(const std::filesystem::path& folder,
                                   const format::Manifest& manifest, RowRange mine) {
  std::vector<Overlap> overlaps;
  const format::Identity& id = manifest.identity;
  for (Rank rank = 0; rank < id.world_size; ++rank) {
    const RowRange rows = shard_of(id.classes, rank, id.world_size);
    const RowRange common{std::max(rows.begin, mine.begin), std::min(rows.end, mine.end)};
    if (common.size() <= 0) continue;
    overlaps.push_back(
        {open_verified(folder, manifest, format::centres_name(rank, id.world_size)), rows, common});
  }
  return overlaps;
}

/// A copy of rows [begin, begin + count) of a stored [rows, dimension] tensor, as float32. They are
/// stored as float32 or bfloat16, because a job may go on with another centre_precision.
std::vector<float> stored_rows(const SafetensorsFile::Tensor& stored, std::int64_t begin,
                               std::int64_t count, std::int64_t dimension) {
  std::vector<float> rows(static_cast<std::size_t>(count * dimension));
  const auto first = static_cast<std::size_t>(begin * dimension);
  if (stored.dtype == "F32") {
    std::memcpy(rows.data(), stored.bytes.data() + first * sizeof(float),
                rows.size() * sizeof(float));
    return rows;
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    BFloat16 half;
    std::memcpy(&half, stored.bytes.data() + (first + i) * sizeof(half), sizeof(half));
    rows[i] = float_of(half);
  }
  return rows;
}

const SafetensorsFile::Tensor& checked_rows(const Overlap& overlap, const std::string& name,
                                            std::int64_t dimension) {
  const SafetensorsFile::Tensor& stored = overlap.file.at(name);
  const std::vector<std::int64_t> shape{overlap.file_rows.size(), dimension};
  if (stored.shape == shape && (stored.dtype == "F32" || stored.dtype == "BF16")) return stored;
  throw InputError(overlap.file.path().string() + ": " + name + " has dtype " + stored.dtype +
                   " and not the shape expected, F32 or BF16 [" + std::to_string(shape[0]) + ", " +
                   std::to_string(dimension) + "]");
}

void load_rows(Ops& ops, const Overlap& overlap, const std::string& name, const Tensor& shard,
               std::int64_t first_row) {
  constexpr std::int64_t kRowsAtOnce = 4096;
  const std::int64_t dimension = shard.shape[1];
  const SafetensorsFile::Tensor& stored = checked_rows(overlap, name, dimension);
  const RowRange& rows = overlap.rows;
  for (std::int64_t begin = rows.begin; begin < rows.end; begin += kRowsAtOnce) {
    const std::int64_t count = std::min(kRowsAtOnce, rows.end - begin);
    copy_rows_to_device(
        ops, row_range(shard, begin - first_row, count),
        stored_rows(stored, begin - overlap.file_rows.begin, count, dimension).data());
  }
}

/// The updates that the rows of this file have seen or have yet to see; empty when it has none.
std::vector<PastUpdate> read_updates(const SafetensorsFile& file, OptimizerKind optimizer) {
  if (!file.tensors().contains(format::kUpdates)) return {};
  const SafetensorsFile::Tensor& stored = file.at(format::kUpdates);
  const bool fits = stored.dtype == "F32" && stored.shape.size() == 2 && stored.shape[1] == 3 &&
                    stored.shape[0] <= std::numeric_limits<std::int32_t>::max();
  if (!fits) {
    throw InputError(file.path().string() + ": updates is not as expected, F32 [updates, 3]");
  }
  std::vector<PastUpdate> updates(static_cast<std::size_t>(stored.shape[0]));
  std::memcpy(updates.data(), stored.bytes.data(), stored.bytes.size());
  const auto possible = [optimizer](const PastUpdate& u) {
    return std::isfinite(u.lr) && std::isfinite(u.momentum_or_number) &&
           std::isfinite(u.weight_decay) &&
           (optimizer == OptimizerKind::kSgd || u.momentum_or_number >= 1);
  };
  const auto wrong = std::ranges::find_if_not(updates, possible);
  if (wrong == updates.end()) return updates;
  throw InputError(file.path().string() + ": updates[" + std::to_string(wrong - updates.begin()) +
                   "] is not as expected, finite numbers" +
                   (optimizer == OptimizerKind::kSgd ? "" : " of which the second counts from 1"));
}

/// How many of the `count` updates each row of the file has seen.
std::vector<std::int32_t> read_updated(const Overlap& overlap, std::size_t count) {
  std::vector<std::int32_t> updated(static_cast<std::size_t>(overlap.file_rows.size()));
  if (count == 0) return updated;
  const SafetensorsFile::Tensor& stored = overlap.file.at(format::kUpdated);
  const bool fits =
      stored.dtype == "I32" && stored.shape == std::vector<std::int64_t>{overlap.file_rows.size()};
  if (fits) std::memcpy(updated.data(), stored.bytes.data(), stored.bytes.size());
  const auto seen = [count](std::int32_t u) {
    return u >= 0 && static_cast<std::size_t>(u) <= count;
  };
  if (fits && std::ranges::all_of(updated, seen)) return updated;
  throw InputError(overlap.file.path().string() + ": updated is not as expected, I32 [" +
                   std::to_string(overlap.file_rows.size()) + "] of numbers from 0 to " +
                   std::to_string(count));
}

/// The updates so far, and how many of them each row of this worker has seen.
struct SeenUpdates {
  std::vector<PastUpdate> updates;
  std::vector<std::int32_t> updated;  // [shard]
};

SeenUpdates read_history(const std::vector<Overlap>& overlaps, RowRange shard,
                         OptimizerKind optimizer) {
  SeenUpdates seen;
  seen.updated.resize(static_cast<std::size_t>(shard.size()));
  for (const Overlap& overlap : overlaps) {
    std::vector<PastUpdate> updates = read_updates(overlap.file, optimizer);
    if (&overlap != &overlaps.front() && updates.size() != seen.updates.size()) {
      throw InputError(overlap.file.path().string() + ": has " + std::to_string(updates.size()) +
                       " updates, " + overlaps.front().file.path().string() + " has " +
                       std::to_string(seen.updates.size()));
    }
    seen.updates = std::move(updates);
    const std::vector<std::int32_t> updated = read_updated(overlap, seen.updates.size());
    const auto* const first = updated.data() + (overlap.rows.begin - overlap.file_rows.begin);
    std::copy_n(first, overlap.rows.size(),
                seen.updated.data() + (overlap.rows.begin - shard.begin));
  }
  return seen;
}

void load_centres(const std::vector<Overlap>& overlaps, const SeenUpdates& seen,
                  const TrainingState& state) {
  const Head::State head = state.head.state();
  const std::int64_t first = state.head.shard().begin;
  for (const Overlap& overlap : overlaps) {
    load_rows(state.ops, overlap, format::kWeight, head.centres, first);
    load_rows(state.ops, overlap, format::kMomentum, head.momentum, first);
    if (head.second) load_rows(state.ops, overlap, format::kSecond, head.second, first);
  }
  std::ranges::copy(seen.updated, head.updated.begin());
  head.history->restore(seen.updates);
  state.head.state_changed();
}

}  // namespace

std::optional<CheckpointInfo> newest_checkpoint(const std::filesystem::path& output) {
  const std::vector<format::Published> all = format::published(output);
  if (all.empty()) return std::nullopt;
  const format::Published& newest = all.front();  // damaged ones are at the end
  if (!newest.identity) {
    throw InputError(newest.damage + "; no checkpoint in " + output.string() +
                     " can be read: repair one, or move them away to start from the beginning");
  }
  for (const format::Published& p : all) {
    if (!p.identity) spdlog::warn("{}; this checkpoint is skipped", p.damage);
  }
  return info_of(newest.folder, *newest.identity);
}

CheckpointInfo read_manifest(const std::filesystem::path& folder) {
  return info_of(folder, format::load_manifest(folder).identity);
}

CheckpointInfo load_checkpoint(const std::filesystem::path& folder, const TrainingState& state) {
  const format::Manifest manifest = format::load_manifest(folder);
  check_fits(folder, manifest.identity, state);

  // All files are opened and verified before anything of the state is touched.
  const SafetensorsFile backbone = open_verified(folder, manifest, format::kBackbone);
  const SafetensorsFile optimizer = open_verified(folder, manifest, format::kBackboneOptimizer);
  const std::vector<Overlap> overlaps = open_overlaps(folder, manifest, state.head.shard());
  const SeenUpdates seen =
      read_history(overlaps, state.head.shard(), state.head.state().history->optimizer());

  import_state_dict(state.ops, state.backbone, backbone);
  const Arena& weights = state.backbone.weights;
  import_flat(state.ops, weights, state.optimizer.momentum(), optimizer, format::kMomentumPrefix);
  if (const Tensor second = state.optimizer.second()) {
    import_flat(state.ops, weights, second, optimizer, format::kSecondPrefix);
  }
  load_centres(overlaps, seen, state);
  state.loss_scale.restore(manifest.identity.loss_scale);
  return info_of(folder, manifest.identity);
}

}  // namespace pfc
