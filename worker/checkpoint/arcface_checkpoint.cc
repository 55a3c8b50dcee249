#include "worker/checkpoint/arcface_checkpoint.h"

#include <algorithm>
#include <charconv>
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
#include "model/files/torch_file.h"
#include "model/files/weights_file.h"

namespace pfc {
namespace {

namespace format = checkpoint_format;
using Files = std::vector<std::filesystem::path>;
using Shape64 = std::vector<std::int64_t>;

constexpr std::string_view kBackbonePrefix = "state_dict_backbone/";
constexpr const char* kHeadWeight = "state_dict_softmax_fc/weight";

/// A moment of the optimizers as PyTorch names it, and what we put before a parameter's name.
struct Moment {
  const char* theirs;
  const char* prefix;  ///< of the backbone's
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
    names.push_back(name.substr(kBackbonePrefix.size()));
  }
  return names;
}

std::int64_t number_in(const TorchFile& file, const std::string& name) {
  const auto found = file.numbers.find(name);
  if (found == file.numbers.end() || found->second < 0) {
    fail(file.tensors.path(),
         "has no number " + quoted_name(name) + ", as a checkpoint of arcface_torch has");
  }
  return found->second;
}

/// The moment of the parameter with this number; zeros where the optimizer has none yet.
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

RowRange expected_rows(const Files& files, std::size_t rank, const CheckpointModel& model) {
  return shard_of(model.classes, static_cast<Rank>(rank), static_cast<int>(files.size()));
}

/// The centres of one file, after checking their shape.
std::span<const float> centres_of(const TorchFile& file, RowRange rows,
                                  const CheckpointModel& model, std::size_t files) {
  const Shape64 shape{rows.size(), model.embedding_size};
  const Shape64& found = file.tensors.at(kHeadWeight).shape;
  if (found != shape) {
    fail(
        file.tensors.path(),
        "has centres " + shape_text(found) + ", expected " + shape_text(shape) +
            ", which is its share of " + std::to_string(model.classes) + " classes on " +
            counted(static_cast<std::int64_t>(files), "GPU") +
            "; set num_classes and embedding_size to those of the file, or take another output and "
            "init_from to begin with new centres");
  }
  return file.tensors.float32(kHeadWeight, shape);
}

format::File written(const std::filesystem::path& folder, const std::string& name,
                     const std::vector<SafetensorsEntry>& entries) {
  const WrittenFile file = write_safetensors(folder / name, entries);
  return {.name = name, .bytes = file.bytes, .sha256 = file.sha256};
}

format::File write_backbone(const std::filesystem::path& folder, const Files& files,
                            const BackboneParameters& parameters) {
  const WeightsFile weights = read_weights(files[0]);
  check_state_dict(parameters, weights.state_dict);
  std::vector<SafetensorsEntry> entries;
  for (const auto& [name, t] : weights.state_dict.tensors()) {
    entries.push_back({.name = name, .dtype = t.dtype, .shape = t.shape, .bytes = t.bytes});
  }
  return written(folder, format::kBackbone, entries);
}

format::File write_backbone_moments(const std::filesystem::path& folder, const TorchFile& first,
                                    const BackboneParameters& parameters, OptimizerKind optimizer) {
  const std::vector<std::string> names = backbone_parameter_names(first);
  std::map<std::string, std::size_t> numbers;
  for (const std::string& name : names) numbers.emplace(name, numbers.size());
  std::vector<SafetensorsEntry> entries;
  std::vector<std::vector<std::byte>> zeros;
  for (const Moment& m : moments_of(optimizer)) {
    for (const Parameter& p : parameters.weights) {
      entries.push_back(
          moment(first, numbers.at(p.name), m, m.prefix + p.name, p.torch_shape, zeros));
    }
  }
  return written(folder, format::kBackboneOptimizer, entries);
}

format::File write_centres(const std::filesystem::path& folder, const Files& files,
                           std::size_t rank, const CheckpointModel& model) {
  const TorchFile file = read_torch_file(files[rank]);
  const RowRange rows = expected_rows(files, rank, model);
  const Shape64 shape{rows.size(), model.embedding_size};
  const std::size_t number = backbone_parameter_names(file).size();  // behind the backbone's
  std::vector<std::vector<std::byte>> zeros;
  std::vector<SafetensorsEntry> entries{
      {.name = format::kWeight,
       .dtype = "F32",
       .shape = shape,
       .bytes = std::as_bytes(centres_of(file, rows, model, files.size()))}};
  for (const Moment& m : moments_of(model.optimizer)) {
    entries.push_back(moment(file, number, m, m.centres, shape, zeros));
  }
  return written(folder,
                 format::centres_name(static_cast<Rank>(rank), static_cast<int>(files.size())),
                 entries);
}

/// The batch of these GPUs, which the files do not say: this job's for each GPU, or for all
/// together, or the largest one that makes so many micro-batches of the images.
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

}  // namespace

Files arcface_checkpoint_files(const std::filesystem::path& folder) {
  constexpr std::string_view kBegin = "checkpoint_gpu_", kEnd = ".pt";
  std::map<int, std::filesystem::path> by_rank;
  for (const std::filesystem::path& path : entries_of(folder)) {
    const std::string name = path.filename().string();
    if (!name.starts_with(kBegin) || !name.ends_with(kEnd)) continue;
    const std::string number =
        name.substr(kBegin.size(), name.size() - kBegin.size() - kEnd.size());
    int rank = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), rank);
    if (error == std::errc() && *end == '\0' && rank >= 0) by_rank.emplace(rank, path);
  }
  Files files;
  for (const auto& [rank, path] : by_rank) {
    if (rank != static_cast<int>(files.size())) {
      fail(folder / ("checkpoint_gpu_" + std::to_string(files.size()) + ".pt"),
           "missing, but " + path.filename().string() +
               " is there; copy the files of all GPUs into this folder");
    }
    files.push_back(path);
  }
  return files;
}

void check_arcface_checkpoint(const Files& files, const BackboneParameters& parameters,
                              const CheckpointModel& model) {
  check_state_dict(parameters, read_weights(files[0]).state_dict);
  for (std::size_t rank = 0; rank < files.size(); ++rank) {
    (void)centres_of(read_torch_file(files[rank]), expected_rows(files, rank, model), model,
                     files.size());
  }
}

std::filesystem::path convert_arcface_checkpoint(const Files& files,
                                                 const BackboneParameters& parameters,
                                                 const CheckpointModel& model,
                                                 format::Identity identity, std::int64_t images,
                                                 const std::filesystem::path& output) {
  check(!files.empty(), "convert_arcface_checkpoint: no files");
  const TorchFile first = read_torch_file(files[0]);
  const std::int64_t batches = number_in(first, "global_step");  // micro-batches here
  const std::int64_t epochs = number_in(first, "epoch");         // saved at the end of one
  TrainedSoFar& trained = identity.trained;
  trained.planned = their_batch(trained.planned, static_cast<std::int64_t>(files.size()),
                                epochs > 0 ? batches / epochs : 0, images);
  trained.step = batches / trained.planned.gradient_acc;
  trained.images = batches * trained.planned.micro_batch();
  trained.next = {.epoch = epochs, .position = 0};
  identity.world_size = static_cast<int>(files.size());
  identity.global_batch = trained.planned.images();
  identity.job["batch_size"] = trained.planned.batch_size;

  const std::filesystem::path folder =
      output / format::temporary_name(trained.step, {.job_id = identity.job_id});
  const std::filesystem::path final_name = output / format::folder_name(trained.step);
  as_storage_error([&] { std::filesystem::create_directories(folder); });
  format::Manifest manifest{.identity = std::move(identity), .files = {}};
  manifest.files.push_back(write_backbone(folder, files, parameters));
  manifest.files.push_back(write_backbone_moments(folder, first, parameters, model.optimizer));
  for (std::size_t rank = 0; rank < files.size(); ++rank) {
    manifest.files.push_back(write_centres(folder, files, rank, model));
  }
  format::write_manifest(folder, manifest);
  as_storage_error([&] { std::filesystem::rename(folder, final_name); });
  sync_folder(output);
  return final_name;
}

}  // namespace pfc
