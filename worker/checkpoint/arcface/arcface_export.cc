#include "worker/checkpoint/arcface/arcface_export.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "common/config/job_json.h"
#include "common/error.h"
#include "common/files/file_error.h"
#include "kernels/make_ops.h"
#include "model/files/model_file.h"
#include "model/files/torch_writer.h"
#include "worker/checkpoint/stored_centres.h"
#include "worker/schedule/lr_schedule.h"

namespace pfc {
namespace {

namespace format = checkpoint_format;

/// Returns the parameters in the order of torch.nn.Module.parameters(): arcface_torch creates a
/// block's downsample last, its last batch norm has a frozen weight, and a vision transformer
/// begins with the parameters that belong to no layer.
std::vector<std::string> in_torch_order(const BackboneParameters& parameters) {
  std::vector<std::string> names, downsample;
  for (const Parameter& p : parameters.weights) {
    if (p.name.find(".downsample.") != std::string::npos) {
      downsample.push_back(p.name);
      continue;
    }
    if (p.name == "features.bias") names.emplace_back("features.weight");
    names.push_back(p.name);
    if (!p.name.ends_with(".bn3.bias")) continue;
    names.insert(names.end(), downsample.begin(), downsample.end());
    downsample.clear();
  }
  if (std::ranges::find(names, "pos_embed") != names.end()) {
    std::erase_if(names,
                  [](const auto& name) { return name == "pos_embed" || name == "mask_token"; });
    names.insert(names.begin(), {"mask_token", "pos_embed"});
  }
  return names;
}

class Exporter {
 public:
  explicit Exporter(const std::filesystem::path& folder)
      : manifest_(format::load_manifest(folder)),
        id_(manifest_.identity),
        job_(parse_job(id_.job, (folder / format::kManifest).string())),
        model_(read_model(folder / format::kBackbone)),
        moments_(open(folder, format::kBackboneOptimizer)),
        centres_(id_, {.classes = id_.classes}, {0, id_.classes}, job_.optimizer,
                 [&](const std::string& name) { return open(folder, name); }),
        history_(job_.optimizer) {
    // Several vision transformers have the same tensors.
    const bool same = model_.options.network == job_.network || job_.network.starts_with("vit_");
    if (!same || job_.network.starts_with("ir_") || job_.network.starts_with("resnet")) {
      throw InputError(folder.string() + ": found network " + job_.network +
                       ", expected one of arcface_torch: iresnet, mobilefacenet or vit");
    }
    if (is_plain_softmax(job_.loss)) {
      throw InputError(folder.string() +
                       ": found loss softmax, whose classes have biases; expected a loss of class "
                       "centres, because arcface_torch has no biases");
    }
    if (job_.sub_centres != 1) {
      throw InputError(
          folder.string() + ": found sub_centres " + std::to_string(job_.sub_centres) +
          ", expected 1, because arcface_torch has one centre for each class; train with "
          "sub_centres 1");
    }
    if (job_.pixels != PixelScale{}) {
      throw InputError(folder.string() +
                       ": found image_mean or image_std, expected their default, 0.5, because "
                       "arcface_torch reads pixels as x / 127.5 - 1");
    }
    (void)open(folder, format::kBackbone);  // verifies the file that was read
    history_.restore(centres_.seen({0, 1}).updates);
    const auto ops = make_ops({.choice = DeviceChoice::kCpu, .cpu_threads = 1});
    BackboneOptions options = model_.options;
    options.network = job_.network;
    parameters_ = backbone_parameters(*ops, options);
  }

  [[nodiscard]] std::int64_t classes() const { return id_.classes; }

  void write(const std::filesystem::path& path, RowRange rows) const {
    CaughtUpRows caught_up(centres_, history_, rows, id_.embedding_size);
    TorchWriter file;
    file.begin_dict();
    number(file, "epoch", id_.trained.next.epoch);
    number(file, "global_step", batches());
    file.text("state_dict_backbone");
    // Parameters first: the numbers of the moments follow the order of the names.
    add_state_dict(file, model_.weights.state_dict, in_torch_order(parameters_));
    file.text("state_dict_softmax_fc");
    file.begin_dict();
    centres(file, "weight", caught_up, rows, 0);
    file.end_dict();
    file.text("state_optimizer");
    optimizer(file, caught_up, rows);
    file.text("state_lr_scheduler");
    scheduler(file);
    file.end_dict();
    file.write(path);
  }

  /// Warns if arcface_torch does not have the job's schedule.
  void check_schedule() const {
    if (job_.lr_schedule.kind == ScheduleKind::kPolynomial) return;
    spdlog::warn(
        "lr_schedule: arcface_torch has only polynomial schedules, this job has another; "
        "arcface_torch will continue from this learning rate with a polynomial schedule");
  }

 private:
  [[nodiscard]] SafetensorsFile open(const std::filesystem::path& folder,
                                     const std::string& name) const {
    return format::open_verified(folder, manifest_, name);
  }

  static void number(TorchWriter& file, const char* key, std::int64_t value) {
    file.text(key);
    file.integer(value);
  }
  static void real(TorchWriter& file, const char* key, double value) {
    file.text(key);
    file.real(value);
  }
  static void flag(TorchWriter& file, const char* key) {
    file.text(key);
    file.boolean(false);
  }

  void centres(TorchWriter& file, const char* key, CaughtUpRows& caught_up, RowRange rows,
               std::size_t which) const {
    file.text(key);
    file.tensor({"F32", {rows.size(), id_.embedding_size}, [&caught_up, which] {
                   return caught_up.tensor(which);
                 }});
  }

  /// Writes torch.optim's state_dict(): moments by parameter number, the centres' last.
  void optimizer(TorchWriter& file, CaughtUpRows& caught_up, RowRange rows) const {
    const bool adamw = job_.optimizer == OptimizerKind::kAdamW;
    const std::vector<std::string> names = in_torch_order(parameters_);
    file.begin_dict();
    file.text("state");
    file.begin_dict();
    for (std::size_t i = 0; i <= names.size(); ++i) {
      if (i < names.size() && !moments_.tensors().contains(format::kMomentumPrefix + names[i])) {
        continue;  // frozen
      }
      file.integer(static_cast<std::int64_t>(i));
      file.begin_dict();
      if (adamw) number(file, "step", id_.loss_scale.updates);
      const auto add = [&](const char* key, const char* prefix, std::size_t which) {
        if (i == names.size()) return centres(file, key, caught_up, rows, which);
        const NamedTensors::Tensor& tensor = moments_.at(prefix + names[i]);
        file.text(key);
        file.tensor({tensor.dtype, tensor.shape, [bytes = tensor.bytes] { return bytes; }});
      };
      add(adamw ? "exp_avg" : "momentum_buffer", format::kMomentumPrefix, 1);
      if (adamw) add("exp_avg_sq", format::kSecondPrefix, 2);
      file.end_dict();
    }
    file.end_dict();
    file.text("param_groups");
    file.begin_list();
    group(file, 0, static_cast<std::int64_t>(names.size()), job_.momentum);
    group(file, static_cast<std::int64_t>(names.size()), 1, centre_momentum(job_));
    file.end_list();
    file.end_dict();
  }

  void group(TorchWriter& file, std::int64_t first, std::int64_t count, double momentum) const {
    file.begin_dict();
    real(file, "lr", next_lr());
    real(file, "initial_lr", job_.lr);
    real(file, "weight_decay", job_.weight_decay);
    if (job_.optimizer == OptimizerKind::kAdamW) {
      file.text("betas");
      file.begin_list();
      file.real(0.9);
      file.real(0.999);
      file.end_list();
      real(file, "eps", 1e-8);
      flag(file, "amsgrad");
    } else {
      real(file, "momentum", momentum);
      real(file, "dampening", 0);
      flag(file, "nesterov");
    }
    flag(file, "maximize");
    file.text("params");
    file.begin_list();
    for (std::int64_t i = first; i < first + count; ++i) file.integer(i);
    file.end_list();
    file.end_dict();
  }

  /// Returns the planned number of micro-batches so far.
  [[nodiscard]] std::int64_t batches() const {
    return id_.trained.images / id_.trained.planned.micro_batch();
  }
  [[nodiscard]] StepPlan plan() const {
    return plan_steps(job_, static_cast<int>(id_.trained.planned.world_size), job_.num_image,
                      id_.trained);
  }
  [[nodiscard]] double next_lr() const {
    const StepPlan next = plan();
    return LrScheduler(job_.lr_schedule, job_.lr, next).at(next.first_step());
  }

  /// Writes the attributes of PolynomialLRWarmup, which counts micro-batches.
  void scheduler(TorchWriter& file) const {
    const StepPlan steps = plan();
    file.begin_dict();
    number(file, "total_iters", steps.total_steps * job_.gradient_acc);
    number(file, "warmup_iters", steps.warmup_steps * job_.gradient_acc);
    real(file, "power", job_.lr_schedule.power);
    number(file, "last_epoch", batches());
    number(file, "_step_count", batches() + 1);
    for (const auto& [key, lr] : {std::pair{"base_lrs", job_.lr}, {"_last_lr", next_lr()}}) {
      file.text(key);
      file.begin_list();
      file.real(lr);
      file.real(lr);
      file.end_list();
    }
    file.end_dict();
  }

  const format::Manifest manifest_;
  const format::Identity& id_;
  const JobConfig job_;
  const ModelFile model_;
  const SafetensorsFile moments_;
  const StoredCentres centres_;
  UpdateHistory history_;
  BackboneParameters parameters_;
};

}  // namespace

void export_arcface_checkpoint(const std::filesystem::path& checkpoint, int gpus,
                               const std::filesystem::path& output,
                               const std::function<void(const std::filesystem::path&)>& written) {
  const Exporter exporter(checkpoint);
  exporter.check_schedule();
  if (gpus < 1 || gpus > exporter.classes()) {
    throw InputError("gpus: found " + std::to_string(gpus) + ", expected 1 to " +
                     std::to_string(exporter.classes()) + ", the number of classes");
  }
  as_storage_error([&] { std::filesystem::create_directories(output); });
  const auto name = [&](int gpu) {
    return output / ("checkpoint_gpu_" + std::to_string(gpu) + ".pt");
  };
  for (int gpu = 0; gpu < gpus; ++gpu) {
    if (!std::filesystem::exists(name(gpu))) continue;
    throw InputError(name(gpu).string() + ": exists already; choose another folder");
  }
  for (int gpu = 0; gpu < gpus; ++gpu) {
    exporter.write(name(gpu), shard_of(exporter.classes(), gpu, gpus));
    written(name(gpu));
  }
}

}  // namespace pfc
