// Configuration of one job: the keys of job.json, as in arcface_torch (docs/configuration.md).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/config/choices.h"

namespace pfc {

struct LrSchedule {
  ScheduleKind kind = ScheduleKind::kPolynomial;
  double power = 1.0;                ///< exponent, polynomial only
  std::vector<std::int64_t> epochs;  ///< multistep: epochs after which the rate is multiplied
  double gamma = 0.1;                ///< factor, multistep only
  double final_factor = 0;           ///< cosine: rate at the end / lr
  // One cycle, with the names and defaults of PyTorch's OneCycleLR.
  double pct_start = 0.3;         ///< fraction of the steps in which the rate rises
  double div_factor = 25;         ///< lr / rate of the first step
  double final_div_factor = 1e4;  ///< rate of the first step / rate of the last step
};

/// A margin that rises from `initial` to the job's margin_list between two epochs.
struct MarginUpdate {
  Margin initial = {.m1 = 1, .m2 = 0, .m3 = 0};  ///< until start_epoch
  double start_epoch = 0, end_epoch = 0;         ///< trained epochs when the rise begins and ends
  MarginIncrease increase = MarginIncrease::kExponential;
};

/// The fraction of the negative classes that take part in a step. It may change between epochs.
class SampleRate {
 public:
  /// A rate, and the number of trained epochs after which it applies.
  struct From {
    double epoch = 0, rate = 1;
    friend bool operator==(const From&, const From&) = default;
  };
  // A single number is the usual case. NOLINTNEXTLINE(google-explicit-constructor)
  SampleRate(double rate = 1) : parts_{{0, rate}} {}
  /// REQUIRES: the epochs rise from 0.
  explicit SampleRate(std::vector<From> parts) : parts_(std::move(parts)) {}

  [[nodiscard]] const std::vector<From>& parts() const { return parts_; }
  [[nodiscard]] double at(double epochs) const;  ///< rate after this number of trained epochs
  [[nodiscard]] double largest() const { return std::ranges::max(parts_, {}, &From::rate).rate; }
  [[nodiscard]] double smallest() const { return std::ranges::min(parts_, {}, &From::rate).rate; }
  friend bool operator==(const SampleRate&, const SampleRate&) = default;

 private:
  std::vector<From> parts_;
};

/// How a network reads pixels: as (x / 255 - mean) / std, for red, green and blue. The default is
/// that of face recognition, x / 127.5 - 1.
struct PixelScale {
  std::array<double, 3> mean{0.5, 0.5, 0.5}, std{0.5, 0.5, 0.5};

  friend bool operator==(const PixelScale&, const PixelScale&) = default;
};

/// A random region of an image, with the names and defaults of torchvision's RandomResizedCrop.
struct RandomResizedCrop {
  std::array<double, 2> scale{0.08, 1};           ///< least and greatest part of the image's area
  std::array<double, 2> ratio{3.0 / 4, 4.0 / 3};  ///< least and greatest width / height

  friend bool operator==(const RandomResizedCrop&, const RandomResizedCrop&) = default;
};

/// Random changes to training images (data/augment/augmenter.h). Each number is the fraction of
/// images, 0 to 1, that get the change.
struct Augmentation {
  bool flip = true;  ///< horizontal flip of half of the images
  std::optional<RandomResizedCrop> random_resized_crop = {};  ///< none: the whole image
  double crop = 0, low_resolution = 0, blur = 0, colour = 0, grey = 0, cut_out = 0;

  friend bool operator==(const Augmentation&, const Augmentation&) = default;
};

/// The learning rate, as a factor of the job's, and the weight decay of parameters with these
/// names.
struct ParameterRule {
  std::string names;         ///< pattern (name_patterns.h); "centres": the class centres
  std::optional<double> lr;  ///< multiplies the job's learning rate
  std::optional<double> weight_decay;
};

// The losses of the classification layer, with their keys (docs/losses.md).

/// ArcFace, CosFace, SphereFace and their combination: the same margin for every sample, given by
/// the job's margin_list.
struct CombinedMargin {};

/// Kim et al., "AdaFace: quality adaptive margin for face recognition", arXiv 2204.00964.
struct AdaFace {
  double m = 0.4;
  double h = 0.333;       ///< strength of the effect of an embedding's length on the margin
  double t_alpha = 0.01;  ///< weight of a batch in the running mean and deviation of lengths
};

/// Meng et al., "MagFace: a universal representation for face recognition and quality
/// assessment", arXiv 2103.06627. The names of the keys are those of its code.
struct MagFace {
  double l_a = 10, u_a = 110;              ///< lengths of embeddings are limited to this range
  double l_margin = 0.45, u_margin = 0.8;  ///< margins at these lengths
  double lambda_g = 35;                    ///< weight of the regulariser of lengths
};

/// Boutros et al., "ElasticFace: elastic margin loss for deep face recognition", arXiv
/// 2109.09416: each sample's margin is drawn from a normal distribution in every step.
struct ElasticArcFace {
  double m = 0.5;
  double std = 0.05;
  bool plus = false;  ///< gives a batch's smaller margins to samples nearer to their centres
};
struct ElasticCosFace {
  double m = 0.35;
  double std = 0.05;
  bool plus = false;
};

/// Huang et al., "CurricularFace: adaptive curriculum learning loss for deep face recognition",
/// arXiv 2004.00288: the logits of classes nearer than the target class grow during training.
struct CurricularFace {
  double m = 0.5;
  double t_alpha = 0.01;  ///< weight of a batch in the running mean of the targets' cosines
};

/// Zhou et al., "UniFace: unified cross-entropy loss for deep face recognition", ICCV 2023: binary
/// cross-entropy with one learned threshold instead of a softmax.
struct UniFace {
  double m = 0.4;
};

/// Cross entropy of the softmax of W x + b, for classification: torch.nn.Linear. Neither the
/// embeddings nor the rows of W, which are the class centres, are normalised. Each row ends with
/// the bias of its class.
struct PlainSoftmax {};

using Loss = std::variant<CombinedMargin, AdaFace, MagFace, ElasticArcFace, ElasticCosFace,
                          CurricularFace, UniFace, PlainSoftmax>;

inline bool is_combined_margin(const Loss& loss) {
  return std::holds_alternative<CombinedMargin>(loss);
}
inline bool is_plain_softmax(const Loss& loss) {
  return std::holds_alternative<PlainSoftmax>(loss);
}
inline bool is_uniface(const Loss& loss) { return std::holds_alternative<UniFace>(loss); }
/// Returns the number of elements of one row of the class centres. There is one row per class,
/// which holds the sub-centres of the class one after another.
inline std::int64_t centre_size(const Loss& loss, std::int64_t embedding_size,
                                std::int64_t sub_centres) {
  return sub_centres * embedding_size + int{is_plain_softmax(loss)};
}

/// How the embeddings of a network and its teacher are compared (worker/distillation/).
enum class DistillEmbeddings { kCosine, kMse, kNone };

/// Largest margin_scale / distill_temperature. Up to this value, exp(logit / temperature) and its
/// sum over all classes fit in float32.
inline constexpr double kMostDistilledScale = 64;

/// The value of every key of a job file. Constant after parsing.
struct JobConfig {
  std::string network = "r50";        ///< one of network_names(), or kNoNetwork
  std::int64_t embedding_size = 512;  ///< 0 (only with kNoNetwork): read from the data
  std::int64_t feature_size = 0;      ///< kNoNetwork: length of the data's rows, which a linear
                                      ///< layer maps to embeddings; 0: the rows are embeddings
  double dropout = 0.0;               ///< rate, before the last linear layer of iresnet
  bool zero_init_residual = false;    ///< resnets: blocks start as the identity
  Loss loss;
  Margin margin;                              ///< margin of CombinedMargin (key margin_list)
  std::optional<MarginUpdate> margin_update;  ///< none: the margin is constant
  double margin_scale = 64.0;
  MarginGradient margin_gradient = MarginGradient::kStraightThrough;
  double interclass_filtering_threshold = 0.0;  ///< 0: off
  double label_smoothing = 0.0;  ///< part of the target probability, divided among all classes
  std::int64_t sub_centres = 1;  ///< centres per class; the nearest is used
  SampleRate sample_rate;
  std::int64_t sample_hold = 1;  ///< steps for which a class stays in the sample
  std::int64_t sample_unit = 1;  ///< classes that are drawn together; a power of two
  Sampler sampler = Sampler::kRandom;
  std::int64_t hard_neighbours = 16;  ///< with kHard: nearest classes to find for each
  std::int64_t hard_refresh = 2000;   ///< with kHard: steps between two searches
  bool sample_correction = false;     ///< makes the loss an estimate of the loss over all classes
  Precision precision = Precision::kFp32;
  CentrePrecision centre_precision = CentrePrecision::kFp32;  ///< type of class centres
  CentreStorage centre_storage = CentreStorage::kDevice;
  std::int64_t centre_cache = 1024;  ///< with kDisk: MiB of a worker's memory for class centres
  Precision exchange_precision = Precision::kFp32;  ///< type of sent embeddings; or kBf16
  bool tf32 = false;              ///< allow TF32 rounding of inputs in a GPU's float32 products
  bool cuda_graphs = true;        ///< launch the fixed parts of a step as CUDA graphs
  double logits_memory = 0.1;     ///< memory for kept logits / memory of centres and momentum
  std::int64_t batch_size = 128;  ///< images per worker and micro-batch
  OptimizerKind optimizer = OptimizerKind::kSgd;
  double lr = 0.1;
  LrSchedule lr_schedule;
  LrScaling lr_scaling = LrScaling::kAuto;
  double momentum = 0.9;
  std::optional<double> centre_momentum;  ///< of the class centres; nullopt: same as momentum
  double weight_decay = 5e-4;
  std::vector<ParameterRule> parameters;  ///< a later rule overrides an earlier one
  bool no_decay_on_norms = false;         ///< norms, PReLUs and biases have no weight decay
  std::vector<std::string> freeze;        ///< patterns: tensors of the backbone that do not change
  std::vector<std::string> recompute;     ///< patterns: blocks whose activations are not kept
  double clip_norm = 5.0;                 ///< 0: off
  double ema_decay = 0;                   ///< decay of the averaged backbone; 0: no average is kept
  double num_epoch = 20;
  std::int64_t max_steps = 0;  ///< 0: num_epoch sets the length
  double warmup_epoch = 0;
  std::vector<std::filesystem::path> rec;         ///< data sets (data/layouts/layout.h)
  std::vector<std::filesystem::path> identities;  ///< per set: file of class names; "": the data's
  std::vector<std::filesystem::path> overlay;     ///< per set: file of changed labels; "": none
  bool share_identities = false;  ///< merge classes of several sets that have the same name
  Heads heads = Heads::kOne;      ///< used only with several data sets
  std::int64_t image_size = 0;    ///< rows and columns of an image; 0: read from the data
  PixelScale pixels;              ///< keys "image_mean" and "image_std"
  bool shuffle = true;
  bool balance_classes = false;  ///< every class has the same number of images in an epoch
  ReadKind read = ReadKind::kRandom;
  std::int64_t read_buffer_mib = 1024;   ///< sequential: memory of all workers for encoded images
  Augmentation augment;                  ///< applied to training images
  double max_damaged = 0.001;            ///< allowed fraction of damaged images per epoch
  std::filesystem::path stage;           ///< folder to copy the data to first; empty: none
  std::vector<std::string> val_targets;  ///< names (NAME.bin in rec) or paths
  std::vector<std::filesystem::path> val_rec;  ///< data sets with the classes of `rec`, for top-k
  /// The shorter side of a `val_rec` image is resized to this, then the centre is cropped; 0: off.
  std::int64_t val_resize = 0;
  std::filesystem::path output = "work_dirs/job";
  std::vector<std::string> exports;            ///< key "export": additional model formats to write
  std::int64_t frequent = 10;                  ///< steps between log lines
  std::int64_t verbose = 2000;                 ///< steps between evaluations; 0: only at the end
  bool tensorboard = true;                     ///< write event files for TensorBoard
  std::int64_t histograms_every_steps = 1000;  ///< steps between histograms in event files; 0: none
  std::int64_t save_every_steps = 0;           ///< 0: only at the end and on a stop
  double save_every_seconds = 0;               ///< 0: off
  std::int64_t keep_checkpoints = 3;
  bool replicate = false;        ///< keep a copy of another worker's state in each worker's memory
  double snapshot_seconds = 60;  ///< seconds between two of these copies
  std::uint64_t seed = 2048;
  std::int64_t num_workers = 2;  ///< decoding threads per worker
  bool resume = false;
  std::filesystem::path init_from;           ///< file of weights (model/files/weights_file.h)
  std::vector<std::string> init_from_names;  ///< patterns: tensors to take from it; empty: all
  InitialCentres init_centres = InitialCentres::kRandom;
  std::filesystem::path teacher;  ///< file of the network to learn from; empty: none
  DistillEmbeddings distill_embeddings = DistillEmbeddings::kCosine;
  double distill_weight = 1;       ///< weight of the loss of embeddings; the head's loss has 1
  double distill_logits = 0;       ///< weight of the loss of logits; 0: they are not compared
  double distill_temperature = 4;  ///< divides both networks' logits
  Precision teacher_precision = Precision::kAuto;  ///< not kFp16; auto: teacher_activations()
  std::int64_t gradient_acc = 1;
  bool sync_bn = false;
  DeviceChoice device = DeviceChoice::kAuto;
  std::int64_t num_classes = 0;            ///< 0: taken from the data; else must equal the data's
  std::int64_t num_image = 0;              ///< like num_classes
  std::vector<std::int64_t> head_classes;  ///< per separate head; like num_classes
  std::int64_t labels_per_image = 0;       ///< most labels of an image; like num_classes
  std::string notes;                       ///< free text, stored in the job's checkpoints
};

/// Returns SGD's momentum of the class centres.
inline double centre_momentum(const JobConfig& job) {
  return job.centre_momentum.value_or(job.momentum);
}

/// Returns the paths of the data sets for messages: "/data/a, /data/b".
std::string text_of(std::span<const std::filesystem::path> paths);

/// Returns the smallest number of samples over which a batch norm of the network computes its
/// statistics in a training step: the images of one worker's micro-batch, or with sync_bn those of
/// all workers. Returns the largest integer for kNoNetwork.
std::int64_t batch_norm_samples(const JobConfig& job, int workers);

/// Throws InputError if batch_norm_samples() is 1: nothing can be learnt, because (x - mean) /
/// deviation is 0 for every x. parse_job() checks this if the result does not depend on the number
/// of workers.
void check_batch_norm_samples(const JobConfig& job, int workers);

}  // namespace pfc
