#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "comm/rank_zero.h"
#include "common/error.h"
#include "common/files/mapped_file.h"
#include "common/files/safetensors.h"
#include "common/files/sha256.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/checkpoint_format.h"
#include "worker/checkpoint/kept_tables.h"
#include "worker/checkpoint/stored_centres.h"
#include "worker/checkpoint/transfer/centres_transfer.h"

namespace pfc {
namespace {

namespace format = checkpoint_format;

CheckpointInfo info_of(const std::filesystem::path& folder, const format::Identity& id) {
  return {.folder = folder,
          .trained = id.trained,
          .world_size = id.world_size,
          .global_batch = id.global_batch};
}

/// Returns the newest readable checkpoint under `output` with fewer images seen than `limit`.
std::optional<CheckpointInfo> newest_below(const std::filesystem::path& output,
                                           std::int64_t limit) {
  for (const format::Published& p : format::published(output)) {
    if (p.identity && p.identity->trained.images < limit) return info_of(p.folder, *p.identity);
  }
  return std::nullopt;
}

/// Checks that a file of the checkpoint exists, can be read, and has the manifest's size.
MappedFile open_sized(const std::filesystem::path& folder, const format::Manifest& manifest,
                      const std::string& name) {
  const format::File& expected = manifest.file(folder, name);
  const std::string path = (folder / name).string();
  std::error_code error;  // an unreadable path is reported when it is read
  if (!std::filesystem::exists(folder / name, error) && !error)
    throw InputError(path + ": missing");
  MappedFile file(folder / name);
  if (file.bytes().size() == expected.bytes) return file;
  throw InputError(path + ": " + std::to_string(file.bytes().size()) + " bytes, expected " +
                   std::to_string(expected.bytes));
}

/// Calls `read`. Adds to its errors how to continue without this checkpoint.
template <typename Read>
auto with_advice(const std::filesystem::path& folder, const format::Manifest& manifest, Read read) {
  try {
    return read();
  } catch (const InputError& error) {
    throw InputError(error.what() + advice_without(folder, manifest.identity.trained.images));
  }
}

void check_same(const std::filesystem::path& folder, const std::string& what,
                const std::string& found, const std::string& expected) {
  if (found == expected) return;
  throw InputError((folder / format::kManifest).string() + ": " + what + " is " + found +
                   ", but this job's is " + expected);
}

void check_fits(const std::filesystem::path& folder, const format::Identity& id,
                const CheckpointModel& model) {
  const auto job_value = [&](const char* key) {
    return id.job.is_object() && id.job.contains(key) && id.job[key].is_string()
               ? id.job[key].get<std::string>()
               : std::string("unknown");
  };
  if (!model.network.empty()) check_same(folder, "network", job_value("network"), model.network);
  check_same(folder, "feature_size", id.value_of("feature_size", 0).dump(),
             std::to_string(model.feature_size));
  check_same(folder, "sub_centres", id.value_of("sub_centres", 1).dump(),
             std::to_string(model.sub_centres));
  const auto numbers_of_centre = [&](std::int64_t row) {
    const bool divides = row % model.sub_centres == 0;
    return std::to_string(row / model.sub_centres) + (divides ? "" : " and a fraction");
  };
  check_same(folder, "embedding_size (plus 1 for a bias)", numbers_of_centre(id.embedding_size),
             numbers_of_centre(model.embedding_size));
  check_same(folder, "the number of classes", std::to_string(id.classes),
             std::to_string(model.classes));
  check_same(folder, "optimizer", job_value("optimizer"),
             model.optimizer == OptimizerKind::kAdamW ? "adamw" : "sgd");
  check_same(folder, "image_mean", id.value_of("image_mean", PixelScale{}.mean).dump(),
             nlohmann::json(model.pixels.mean).dump());
  check_same(folder, "image_std", id.value_of("image_std", PixelScale{}.std).dump(),
             nlohmann::json(model.pixels.std).dump());
}

/// The verified files that a worker reads from a checkpoint.
struct Opened {
  SafetensorsFile backbone;
  SafetensorsFile optimizer;
  std::optional<SafetensorsFile> average;  ///< if the state and the checkpoint have averages
  StoredCentres centres;
  SeenUpdates seen;                 ///< updates seen by this worker's rows
  ClassNeighbours neighbours = {};  ///< empty if the state or the checkpoint has none
};

/// Reads the neighbours of all classes, and numbers the classes by the state's positions.
ClassNeighbours read_neighbours(const SafetensorsFile& file, const ClassPositions& stored,
                                const ClassPositions& wanted) {
  const SafetensorsFile::Tensor& t = file.at(format::kNeighbours);
  const auto fail = [&](const std::string& found) {
    throw InputError(file.path().string() + ": " + format::kNeighbours + ": expected I32 [" +
                     std::to_string(wanted.classes) + ", k] with classes or -1, found " + found);
  };
  if (t.dtype != "I32" || t.shape.size() != 2 || t.shape[0] != wanted.classes || t.shape[1] < 1) {
    fail(t.dtype + " " + shape_text(t.shape));
  }
  ClassNeighbours neighbours{.degree = t.shape[1], .table = {}};
  neighbours.table.resize(t.bytes.size() / sizeof(std::int32_t));
  std::memcpy(neighbours.table.data(), t.bytes.data(), t.bytes.size());
  const auto wrong = std::ranges::find_if(neighbours.table, [&](std::int32_t position) {
    return position < -1 || position >= wanted.classes;
  });
  if (wrong != neighbours.table.end()) fail(std::to_string(*wrong));
  if (stored.same_order(wanted)) return neighbours;
  const std::vector<std::int32_t> before = neighbours.table;
  for (std::int64_t c = 0; c < wanted.classes; ++c) {
    const std::int64_t from = stored.position_of(wanted.label_at(c)) * neighbours.degree;
    std::transform(
        before.begin() + from, before.begin() + from + neighbours.degree,
        neighbours.table.begin() + c * neighbours.degree, [&](std::int32_t position) {
          return static_cast<std::int32_t>(wanted.position_of(stored.label_at(position)));
        });
  }
  return neighbours;
}

/// Opens and verifies all files before the state is changed. `rows`: rows of the centres to open;
/// they include this worker's shard.
Opened open_all(const std::filesystem::path& folder, const format::Manifest& manifest,
                RowRange rows, const TrainingState& state) {
  check_fits(folder, manifest.identity,
             {.network = state.network,
              .feature_size = state.feature_size,
              .sub_centres = state.sub_centres,
              .embedding_size = state.head.state().centres.shape[1],
              .classes = state.classes,
              .optimizer = state.optimizer.second() ? OptimizerKind::kAdamW : OptimizerKind::kSgd,
              .pixels = state.pixels});
  return with_advice(folder, manifest, [&] {
    const auto open = [&](const std::string& name) {
      return format::open_verified(folder, manifest, name);
    };
    SafetensorsFile backbone = open(format::kBackbone);
    SafetensorsFile moments = open(format::kBackboneOptimizer);
    std::optional<SafetensorsFile> average;
    if (state.average != nullptr && manifest.has(format::kBackboneAverage)) {
      average.emplace(open(format::kBackboneAverage));
    }
    const CentreFile file = state.head.centre_file();
    if (file.taken_over() && file.checkpoint != manifest.identity.tables.checkpoint) {
      throw InputError(folder.string() + ": changed while the job started; start the job again");
    }
    StoredCentres centres(manifest.identity, state.head.positions(), rows,
                          state.head.state().history->optimizer(), open,
                          file.taken_over() ? KeptRows::kInHead : KeptRows::kRead);
    SeenUpdates seen = centres.seen(state.head.shard());
    Opened opened{std::move(backbone), std::move(moments), std::move(average), std::move(centres),
                  std::move(seen)};
    if (state.head.state().neighbours != nullptr && manifest.has(format::kNeighboursFile)) {
      opened.neighbours = read_neighbours(open(format::kNeighboursFile),
                                          manifest.identity.positions(), state.head.positions());
    }
    return opened;
  });
}

void load_backbone(const Opened& opened, const TrainingState& state) {
  if (opened.average) {
    state.average->during([&] { import_state_dict(state.ops, state.backbone, *opened.average); });
  }
  import_state_dict(state.ops, state.backbone, opened.backbone);
  const Arena& weights = state.backbone.weights;
  import_flat(state.ops, weights, state.optimizer.momentum(), opened.optimizer,
              format::kMomentumPrefix);
  if (const Tensor second = state.optimizer.second()) {
    import_flat(state.ops, weights, second, opened.optimizer, format::kSecondPrefix);
  }
  if (state.average != nullptr && !opened.average) state.average->restart();
}

void load_neighbours(Opened& opened, const TrainingState& state) {
  ClassNeighbours* const neighbours = state.head.state().neighbours;
  if (neighbours != nullptr) *neighbours = std::move(opened.neighbours);
}

void load_centres(const Opened& opened, const TrainingState& state) {
  const StoredCentres& centres = opened.centres;
  if (state.head.centre_file().taken_over()) return fill_beside_tables(state, opened.seen, centres);
  fill_centres(state, opened.seen,
               [&](const std::string& tensor, std::int64_t begin, std::span<float> rows) {
                 centres.read(tensor, begin, rows);
               });
}

/// Returns `work` with the host of the files added to its InputErrors.
std::function<void()> named_by_host(const std::string& host, const std::function<void()>& work) {
  return [=] {
    try {
      work();
    } catch (const InputError& error) {
      throw InputError("host " + host + ": " + error.what());
    }
  };
}

/// Data that rank 0 sends to the workers, some of which cannot read the manifest.
struct Told {
  TrainedSoFar trained;
  std::int64_t world_size = 0;
  std::int64_t global_batch = 0;
  std::int64_t batches_tracked = 0;
  LossScale::State loss_scale;
  LossState loss_state;
};

/// Copies rank 0's backbone, which must be loaded, to all workers.
void share_backbone(const TrainingState& state, Comm& device) {
  state.backbone.operands_are_current = false;
  for (const Tensor& tensor : shared_tensors(state)) {
    if (tensor) device.broadcast(tensor, 0);
  }
}

void send_centres_to_all(const Opened& opened, const TrainingState& state, const LoadComms& comms) {
  std::vector<CentresWanted> wanted;
  for (const OutputLink& link : comms.links.remote) {
    wanted.push_back({&link, state.head.positions().shard(link.rank, comms.host.size())});
  }
  send_centres(opened.centres, state.head.state().history->optimizer(),
               state.head.state().centres.shape[1], wanted);
}

}  // namespace

std::array<Tensor, kSharedTensors> shared_tensors(const TrainingState& state) {
  const WeightAverage* const average = state.average;
  return {state.backbone.weights.flat(),
          state.backbone.state.flat(),
          state.optimizer.momentum(),
          state.optimizer.second(),
          average ? average->weights() : Tensor(),
          average ? average->state() : Tensor()};
}

SafetensorsFile checkpoint_format::open_verified(const std::filesystem::path& folder,
                                                 const Manifest& manifest,
                                                 const std::string& name) {
  const std::string found = sha256_hex(open_sized(folder, manifest, name).bytes());
  const std::string& expected = manifest.file(folder, name).sha256;
  if (found != expected) {
    throw InputError((folder / name).string() + ": sha256 is " + found + ", expected " + expected);
  }
  return SafetensorsFile(folder / name);
}

std::optional<CheckpointInfo> newest_checkpoint(const std::filesystem::path& output) {
  const std::vector<format::Published> all = format::published(output);
  if (all.empty()) return std::nullopt;
  const format::Published& newest = all.front();  // damaged ones are last
  if (!newest.identity) {
    throw InputError(newest.damage + "; no checkpoint in " + output.string() +
                     " can be read: repair one, or move them away to start from the beginning");
  }
  for (const format::Published& p : all) {
    if (!p.identity) spdlog::warn("{}; this checkpoint is skipped", p.damage);
  }
  return info_of(newest.folder, *newest.identity);
}

std::optional<CheckpointInfo> checkpoint_to_resume(const std::filesystem::path& output,
                                                   bool resume) {
  const std::optional<CheckpointInfo> newest = newest_checkpoint(output);
  if (!newest || resume) return newest;
  throw InputError("output: " + output.string() + " already holds " +
                   newest->folder.filename().string() +
                   "; set \"resume\": true to continue from it, or choose another folder");
}

std::string advice_without(const std::filesystem::path& folder, std::int64_t images) {
  const std::string text = "; the checkpoint cannot be used: ";
  const auto before = newest_below(std::filesystem::absolute(folder).parent_path(), images);
  if (!before) return text + "there is no checkpoint before it";
  return text + "move " + folder.string() + " away to resume from " + before->folder.string() +
         " instead";
}

CheckpointInfo read_manifest(const std::filesystem::path& folder) {
  return info_of(folder, format::load_manifest(folder).identity);
}

void check_checkpoint_fits(const std::filesystem::path& folder, const CheckpointModel& model) {
  const format::Manifest manifest = format::load_manifest(folder);
  check_fits(folder, manifest.identity, model);
  with_advice(folder, manifest, [&] {
    open_sized(folder, manifest, format::kBackbone);
    open_sized(folder, manifest, format::kBackboneOptimizer);
    if (manifest.has(format::kBackboneAverage)) {
      open_sized(folder, manifest, format::kBackboneAverage);
    }
    for (Rank rank = 0; rank < manifest.identity.world_size; ++rank) {
      open_sized(folder, manifest, format::centres_name(rank, manifest.identity.world_size));
      if (!manifest.identity.tables.kept()) continue;
      PagesOfCheckpoint::expect_there(kept_name(folder, manifest.identity, rank),
                                      manifest.identity.tables.checkpoint);
    }
  });
}

CheckpointInfo load_checkpoint(const std::filesystem::path& folder, const TrainingState& state) {
  const format::Manifest manifest = format::load_manifest(folder);
  Opened opened = open_all(folder, manifest, state.head.shard(), state);
  load_backbone(opened, state);
  load_centres(opened, state);
  load_neighbours(opened, state);
  state.loss_scale.restore(manifest.identity.loss_scale);
  *state.head.state().loss = manifest.identity.loss_state;
  return info_of(folder, manifest.identity);
}

CheckpointInfo load_checkpoint_of_rank_zero(const std::filesystem::path& folder,
                                            const TrainingState& state, const LoadComms& comms) {
  Comm& host = comms.host;
  std::optional<Opened> opened;
  Told told;
  on_rank_zero(host, named_by_host(comms.links.host, [&] {
                 const format::Manifest manifest = format::load_manifest(folder);
                 const format::Identity& id = manifest.identity;
                 opened.emplace(open_all(folder, manifest, {0, state.classes}, state));
                 // Check all rows before sending any.
                 (void)opened->centres.seen({0, state.classes});
                 load_backbone(*opened, state);
                 told = {.trained = id.trained,
                         .world_size = id.world_size,
                         .global_batch = id.global_batch,
                         .batches_tracked = state.backbone.batches_tracked,
                         .loss_scale = id.loss_scale,
                         .loss_state = id.loss_state};
               }));
  host.broadcast(Tensor(&told, DType::kUInt8, {sizeof told}), 0);

  if (opened) {
    send_centres_to_all(*opened, state, comms);
    load_centres(*opened, state);
    load_neighbours(*opened, state);
  } else if (comms.links.to_rank_zero) {
    receive_centres(*comms.links.to_rank_zero, state);
  } else {
    load_checkpoint(folder, state);
  }
  share_backbone(state, comms.device);
  if (state.head.state().neighbours != nullptr) {
    share_neighbours(*state.head.state().neighbours, host);
  }
  state.backbone.batches_tracked = told.batches_tracked;
  state.loss_scale.restore(told.loss_scale);
  *state.head.state().loss = told.loss_state;
  return {.folder = folder,
          .trained = told.trained,
          .world_size = static_cast<int>(told.world_size),
          .global_batch = told.global_batch};
}

}  // namespace pfc
