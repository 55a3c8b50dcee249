#include "worker/checkpoint/arcface/arcface_checkpoint.h"

#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "comm/shard.h"
#include "common/counted.h"
#include "common/error.h"
#include "common/files/file_error.h"
#include "common/files/folder.h"
#include "common/files/safetensors.h"
#include "model/files/model_file.h"
#include "model/files/torch_file.h"
#include "model/files/weights_file.h"

namespace pfc {
namespace {

namespace format = checkpoint_format;
using Shape64 = std::vector<std::int64_t>;

constexpr std::string_view kBackbonePrefix = "state_dict_backbone/";
constexpr std::string_view kModulePrefix = "module.";   // of PyTorch's data-parallel wrappers
constexpr std::int64_t kMostSteps = 1'000'000'000'000;  // more mean a damaged file
/// Names of the centres in checkpoint_gpu_*.pt, softmax_fc_gpu_*.pt and rank_*.pt.
constexpr std::array<const char*, 3> kHeadWeights = {"state_dict_softmax_fc/weight", "weight", ""};

/// Names of the files of a version of arcface_torch. The GPU's number follows `begin`.
struct FileNames {
  std::string_view begin, end;
  const char* momentum_end;  ///< of files with the centres' momentum; null: no such files
  const char* backbone;      ///< null: in the first of the centres' files
};
constexpr std::array<FileNames, 4> kFileNames = {
    {{"checkpoint_gpu_", ".pt", nullptr, nullptr},
     {"rank_", "_softmax_weight.pt", "_softmax_weight_mom.pt", "backbone.pth"},
     {"rank:", "_softmax_weight.pt", "_softmax_weight_mom.pt", "backbone.pth"},
     {"softmax_fc_gpu_", ".pt", nullptr, "backbone.pth"}}};

/// An optimizer's moment: PyTorch's name of it, and the prefix that pfc puts before a parameter.
struct Moment {
  const char* theirs;
  const char* prefix;  ///< prefix of the backbone's tensors
  const char* centres;
};
std::vector<Moment> moments_of(OptimizerKind optimizer) {
  if (optimizer == OptimizerKind::kSgd) {
    return {{"momentum_buffer", format::kMomentumPrefix, format::kMomentum}};
  }
  return {{"exp_avg", format::kMomentumPrefix, format::kMomentum},
          {"exp_avg_sq", format::kSecondPrefix, format::kSecond}};
}

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& what) {
  throw InputError(path.string() + ": " + what);
}

bool is_buffer(std::string_view name) {
  return name.ends_with(".running_mean") || name.ends_with(".running_var") ||
         name.ends_with(".num_batches_tracked");
}

/// PyTorch numbers a module's parameters in the order of its state dict.
std::vector<std::string> backbone_parameter_names(const TorchFile& file) {
  std::vector<std::string> names;
  for (const std::string& name : file.order) {
    if (!name.starts_with(kBackbonePrefix) || is_buffer(name)) continue;
    const std::string_view own = std::string_view(name).substr(kBackbonePrefix.size());
    names.emplace_back(own.starts_with(kModulePrefix) ? own.substr(kModulePrefix.size()) : own);
  }
  return names;
}

std::int64_t number_in(const TorchFile& file, const std::string& name) {
  const auto found = file.numbers.find(name);
  if (found == file.numbers.end() || found->second < 0 || found->second > kMostSteps) {
    fail(file.tensors.path(),
         quoted_name(name) + ": expected a number from 0 to 10^12, as arcface_torch writes it");
  }
  return found->second;
}

/// Returns the moment of the parameter with this number; zeros if the optimizer has none yet.
SafetensorsEntry moment(const TorchFile& file, std::size_t parameter, const Moment& moment,
                        const std::string& name, const Shape64& shape,
                        std::vector<std::vector<std::byte>>& zeros) {
  const std::string theirs =
      "state_optimizer/state/" + std::to_string(parameter) + "/" + moment.theirs;
  SafetensorsEntry entry{.name = name, .dtype = "F32", .shape = shape};
  if (file.tensors.tensors().contains(theirs)) {
    entry.bytes = std::as_bytes(file.tensors.float32(theirs, shape));
    return entry;
  }
  std::size_t bytes = sizeof(float);
  for (const std::int64_t d : shape) bytes *= static_cast<std::size_t>(d);
  entry.bytes = zeros.emplace_back(bytes);
  return entry;
}

RowRange expected_rows(const ArcfaceCheckpoint& from, std::size_t rank,
                       const CheckpointModel& model) {
  return shard_of(model.classes, static_cast<Rank>(rank), static_cast<int>(from.centres.size()));
}

const NamedTensors::Tensor& head_of(const TorchFile& file, std::string& name) {
  for (const char* each : kHeadWeights) {
    const auto found = file.tensors.tensors().find(name = each);
    if (found == file.tensors.tensors().end()) continue;
    const Shape64& shape = found->second.shape;
    if (shape.size() == 2 && shape[1] > 0) return found->second;
  }
  fail(file.tensors.path(), "has no class centres, expected a tensor [classes, embedding_size]");
}

std::span<const float> centres_of(const TorchFile& file) {
  std::string name;
  const Shape64& shape = head_of(file, name).shape;
  return file.tensors.float32(name, shape);
}

/// Checks the shapes of the centres in all files.
void check_shapes(const ArcfaceCheckpoint& from, std::span<const Shape64> shapes,
                  const CheckpointModel& model) {
  if (model.sub_centres != 1) {
    fail(from.centres[0],
         "arcface_torch has one centre for each class, but this job's sub_centres is " +
             std::to_string(model.sub_centres) +
             "; set it to 1, or use another output and init_from");
  }
  std::int64_t classes = 0;
  for (const Shape64& shape : shapes) classes += shape[0];
  for (std::size_t rank = 0; rank < shapes.size() && classes == model.classes; ++rank) {
    const Shape64 expected{expected_rows(from, rank, model).size(), model.embedding_size};
    if (shapes[rank] == expected) continue;
    fail(from.centres[rank], "has centres " + shape_text(shapes[rank]) + ", expected " +
                                 shape_text(expected) + ", which is its share of " +
                                 std::to_string(model.classes) + " classes on " +
                                 counted(static_cast<std::int64_t>(shapes.size()), "GPU"));
  }
  if (classes == model.classes) return;
  fail(from.centres[0].parent_path(),
       "its " + counted(static_cast<std::int64_t>(from.centres.size()), "file") + " " +
           from.centres[0].filename().string() + " and so on hold " + std::to_string(classes) +
           " classes, expected num_classes, " + std::to_string(model.classes) +
           "; add missing files, set num_classes, or use another output and init_from to begin "
           "with new centres");
}

/// Checks that the first of the checkpoint_gpu_*.pt holds a network and the optimizer's moments.
void check_trained(const TorchFile& first, OptimizerKind optimizer) {
  const std::size_t parameters = backbone_parameter_names(first).size();
  if (parameters == 0) fail(first.tensors.path(), "has no state_dict_backbone; save it again");
  for (const Moment& m : moments_of(optimizer)) {
    bool any = false;
    for (std::size_t i = 0; i < parameters; ++i) {
      any = any || first.tensors.tensors().contains("state_optimizer/state/" + std::to_string(i) +
                                                    "/" + m.theirs);
    }
    if (any) continue;
    fail(first.tensors.path(),
         std::string("has no ") + m.theirs + " in state_optimizer, expected that of optimizer " +
             (optimizer == OptimizerKind::kSgd ? "sgd" : "adamw") +
             "; set \"optimizer\" to that of the file, or begin from its weights with init_from");
  }
}

/// Checks that the files of all GPUs were saved at the same time.
void check_same_step(const TorchFile& file, const TorchFile& first) {
  for (const char* const name : {"epoch", "global_step"}) {
    const std::int64_t found = number_in(file, name), expected = number_in(first, name);
    if (found == expected) continue;
    fail(file.tensors.path(), quoted_name(name) + " is " + std::to_string(found) + ", but " +
                                  std::to_string(expected) + " in " +
                                  first.tensors.path().filename().string() +
                                  "; copy files that were saved together");
  }
}

format::File written(const std::filesystem::path& folder, const std::string& name,
                     const std::vector<SafetensorsEntry>& entries,
                     const std::map<std::string, std::string>& metadata = {}) {
  const WrittenFile file = write_safetensors(folder / name, entries, metadata);
  return {.name = name, .bytes = file.bytes, .sha256 = file.sha256};
}

format::File write_backbone(const std::filesystem::path& folder, const ArcfaceCheckpoint& from,
                            const BackboneParameters& parameters, const CheckpointModel& model) {
  const WeightsFile weights = read_weights(from.backbone);
  check_state_dict(parameters, weights.state_dict);
  std::vector<SafetensorsEntry> entries;
  for (const auto& [name, t] : weights.state_dict.tensors()) {
    entries.push_back({.name = name, .dtype = t.dtype, .shape = t.shape, .bytes = t.bytes});
  }
  return written(folder, format::kBackbone, entries,
                 metadata_of({.network = model.network, .pixels = model.pixels}));
}

format::File write_backbone_moments(const std::filesystem::path& folder, const TorchFile& first,
                                    const BackboneParameters& parameters, OptimizerKind optimizer) {
  const std::vector<std::string> names = backbone_parameter_names(first);
  std::map<std::string, std::size_t> numbers;
  for (const std::string& name : names) numbers.emplace(name, numbers.size());
  const auto number_of = [&](const std::string& name) {  // older files have no moments
    const auto found = numbers.find(name);
    return found == numbers.end() ? names.size() : found->second;
  };
  std::vector<SafetensorsEntry> entries;
  std::vector<std::vector<std::byte>> zeros;
  for (const Moment& m : moments_of(optimizer)) {
    for (const Parameter& p : parameters.weights) {
      entries.push_back(
          moment(first, number_of(p.name), m, m.prefix + p.name, p.torch_shape, zeros));
    }
  }
  return written(folder, format::kBackboneOptimizer, entries);
}

format::File write_centres(const std::filesystem::path& folder, const ArcfaceCheckpoint& from,
                           std::size_t rank, const CheckpointModel& model) {
  const TorchFile file = read_torch_file(from.centres[rank]);
  const Shape64 shape{expected_rows(from, rank, model).size(), model.embedding_size};
  // The centres follow the backbone's parameters.
  const std::size_t number = backbone_parameter_names(file).size();
  std::vector<std::vector<std::byte>> zeros;
  std::vector<SafetensorsEntry> entries{{.name = format::kWeight,
                                         .dtype = "F32",
                                         .shape = shape,
                                         .bytes = std::as_bytes(centres_of(file))}};
  std::optional<TorchFile> momentum;
  for (const Moment& m : moments_of(model.optimizer)) {
    entries.push_back(moment(file, number, m, m.centres, shape, zeros));
  }
  if (!from.momentum.empty() && model.optimizer == OptimizerKind::kSgd) {
    momentum = read_torch_file(from.momentum[rank]);
    entries.back().bytes = std::as_bytes(momentum->tensors.float32("", shape));
  }
  return written(
      folder, format::centres_name(static_cast<Rank>(rank), static_cast<int>(from.centres.size())),
      entries);
}

/// Returns the number of updates that AdamW's moments have seen.
std::int64_t updates_in(const TorchFile& file, std::int64_t steps) {
  const std::string name = "state_optimizer/state/0/step";
  if (const auto found = file.numbers.find(name); found != file.numbers.end()) return found->second;
  if (!file.tensors.tensors().contains(name)) return steps;
  return std::llround(file.tensors.float32(name, Shape64{})[0]);
}

/// Guesses the batch of these GPUs, which the files do not record: the first of this job's
/// batch_size per GPU, this job's batch over all GPUs, and the largest possible that gives
/// `per_epoch` micro-batches.
StepBatch their_batch(const StepBatch& ours, std::int64_t gpus, std::int64_t per_epoch,
                      std::int64_t images) {
  StepBatch theirs{.world_size = gpus, .gradient_acc = ours.gradient_acc};
  for (const std::int64_t size : {ours.batch_size, ours.micro_batch() / gpus,
                                  images / (gpus * std::max<std::int64_t>(per_epoch, 1))}) {
    theirs.batch_size = size;
    if (size > 0 && images / theirs.micro_batch() == per_epoch) return theirs;
  }
  theirs.batch_size = ours.batch_size;
  return theirs;
}

/// Returns the files of the folder named `begin` NUMBER `end`, from number 0 on.
std::vector<std::filesystem::path> numbered_files(const std::filesystem::path& folder,
                                                  std::string_view begin, std::string_view end) {
  std::map<std::size_t, std::filesystem::path> by_number;
  for (const std::filesystem::path& path : entries_of(folder)) {
    const std::string name = path.filename().string();
    if (name.size() < begin.size() + end.size() || !name.starts_with(begin) ||
        !name.ends_with(end)) {
      continue;
    }
    const char* const last = name.data() + name.size() - end.size();
    std::size_t number = 0;
    const auto [stop, error] = std::from_chars(name.data() + begin.size(), last, number);
    if (error == std::errc() && stop == last) by_number.emplace(number, path);
  }
  std::vector<std::filesystem::path> files;
  for (const auto& [number, path] : by_number) {
    if (number != files.size()) {
      fail(folder / (std::string(begin) + std::to_string(files.size()) + std::string(end)),
           "missing, but " + path.filename().string() +
               " is there; copy the files of all GPUs into this folder");
    }
    files.push_back(path);
  }
  return files;
}

}  // namespace

std::optional<ArcfaceCheckpoint> find_arcface_checkpoint(const std::filesystem::path& folder) {
  for (const FileNames& names : kFileNames) {
    ArcfaceCheckpoint found{.centres = numbered_files(folder, names.begin, names.end)};
    if (found.centres.empty()) continue;
    found.backbone = names.backbone == nullptr ? found.centres[0] : folder / names.backbone;
    if (names.momentum_end != nullptr) {
      found.momentum = numbered_files(folder, names.begin, names.momentum_end);
    }
    if (!found.momentum.empty() && found.momentum.size() != found.centres.size()) {
      fail(folder, counted(static_cast<std::int64_t>(found.momentum.size()), "file") + " of " +
                       "momentum for " +
                       counted(static_cast<std::int64_t>(found.centres.size()), "file") +
                       " of class centres, expected as many; copy those of all GPUs, or none");
    }
    return found;
  }
  return std::nullopt;
}

void read_arcface_centres(const ArcfaceCheckpoint& from, const TakeArcfaceCentres& take) {
  std::int64_t first = 0;
  for (const std::filesystem::path& path : from.centres) {
    const TorchFile file = read_torch_file(path);
    std::string name;
    const Shape64& shape = head_of(file, name).shape;
    take(first, shape[1], centres_of(file));
    first += shape[0];
  }
}

void check_arcface_checkpoint(const ArcfaceCheckpoint& from, const BackboneParameters& parameters,
                              const CheckpointModel& model) {
  if (model.pixels != PixelScale{}) {
    fail(from.centres[0],
         "found image_mean or image_std in the job, expected their default, 0.5, because "
         "arcface_torch trains with pixels of x / 127.5 - 1; remove the two keys");
  }
  const TorchFile first = read_torch_file(from.centres[0]);
  const bool whole = from.backbone == from.centres[0];
  if (whole) check_trained(first, model.optimizer);
  check_state_dict(parameters, read_weights(from.backbone).state_dict);
  std::vector<Shape64> shapes;
  for (const std::filesystem::path& path : from.centres) {
    const TorchFile file = read_torch_file(path);
    if (whole) check_same_step(file, first);
    std::string name;
    shapes.push_back(head_of(file, name).shape);
    (void)centres_of(file);  // throws unless they are float32
  }
  check_shapes(from, shapes, model);
}

std::filesystem::path convert_arcface_checkpoint(const ArcfaceCheckpoint& from,
                                                 const BackboneParameters& parameters,
                                                 const CheckpointModel& model,
                                                 format::Identity identity, std::int64_t images,
                                                 const std::filesystem::path& output) {
  check_arcface_checkpoint(from, parameters, model);
  const TorchFile first = read_torch_file(from.centres[0]);
  TrainedSoFar& trained = identity.trained;
  if (from.backbone == from.centres[0]) {  // other files do not record the progress
    const std::int64_t batches = number_in(first, "global_step");  // counts micro-batches
    const std::int64_t epochs = number_in(first, "epoch");         // saved at the end of an epoch
    trained.planned = their_batch(trained.planned, static_cast<std::int64_t>(from.centres.size()),
                                  epochs > 0 ? batches / epochs : 0, images);
    trained.step = batches / trained.planned.gradient_acc;
    trained.images = batches * trained.planned.micro_batch();
    trained.next = {.epoch = epochs, .position = 0};
    identity.loss_scale.updates = updates_in(first, trained.step);
  }
  identity.world_size = static_cast<int>(from.centres.size());
  identity.global_batch =
      identity.world_size * trained.planned.batch_size * trained.planned.gradient_acc;
  identity.job["batch_size"] = trained.planned.batch_size;

  const std::filesystem::path folder =
      output / format::temporary_name(trained.step, {.job_id = identity.job_id});
  const std::filesystem::path final_name = output / format::folder_name(trained.step);
  as_storage_error([&] { std::filesystem::create_directories(folder); });
  format::Manifest manifest{.identity = std::move(identity), .files = {}};
  manifest.files.push_back(write_backbone(folder, from, parameters, model));
  manifest.files.push_back(write_backbone_moments(folder, first, parameters, model.optimizer));
  for (std::size_t rank = 0; rank < from.centres.size(); ++rank) {
    manifest.files.push_back(write_centres(folder, from, rank, model));
  }
  format::write_manifest(folder, manifest);
  as_storage_error([&] { std::filesystem::rename(folder, final_name); });
  sync_folder(output);
  return final_name;
}

}  // namespace pfc
