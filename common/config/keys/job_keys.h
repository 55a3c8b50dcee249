// The keys of a job: names, bounds and allowed words.
#pragma once

#include <string_view>
#include <type_traits>

#include "common/config/config.h"
#include "common/config/json_reader.h"
#include "common/config/no_network.h"

namespace pfc::keys {

// Every number has bounds. If the meaning of a key implies none, the bounds are far beyond the
// needs of any job, so that only a mistyped number exceeds them. They are also far below the
// numbers with which computations would overflow.

// The distillation loss of the logits is multiplied by the square of the temperature, and so are
// the rounding errors of its sums.
inline constexpr NumberRange kTemperature{.low = 0,
                                          .high = 1'000,
                                          .low_open = true,
                                          .high_open = false,
                                          .text = "a number above 0, at most 1000"};
inline constexpr NumberRange kPositive{.low = 0,
                                       .high = 1e6,
                                       .low_open = true,
                                       .high_open = false,
                                       .text = "a number above 0, at most 1000000"};
inline constexpr NumberRange kNotNegative{
    .low = 0, .high = 1e6, .high_open = false, .text = "a number from 0 to 1000000"};
// A wide range, so that a test can make a job that diverges in its first steps.
inline constexpr NumberRange kLearningRate{
    .low = 0, .high = 1e30, .high_open = false, .text = "a number from 0 to 1e30"};
inline constexpr NumberRange kMarginFactor{
    .low = 0, .high = 100, .low_open = true, .high_open = false, .text = "m1 above 0, at most 100"};
inline constexpr NumberRange kMarginOffset{
    .low = -100, .high = 100, .high_open = false, .text = "m2 and m3 from -100 to 100"};
inline constexpr NumberRange kSampleMargin{
    .low = 0, .high = 3, .high_open = false, .text = "a number from 0 to 3"};
// An angle below pi / 2 plus such a margin stays below pi.
inline constexpr NumberRange kEasyMargin{
    .low = 0, .high = 1.5, .high_open = false, .text = "a number from 0 to 1.5"};
inline constexpr NumberRange kMarginShare{
    .low = -100, .high = 100, .high_open = false, .text = "a number from -100 to 100"};
inline constexpr NumberRange kFraction{
    .low = 0, .high = 1, .high_open = false, .text = "a number from 0 to 1"};
inline constexpr NumberRange kPartOfImage{
    .low = 0,
    .high = 1,
    .low_open = true,
    .high_open = false,
    .text = "two rising numbers above 0, at most 1, for example [0.08, 1]"};
inline constexpr NumberRange kAspectRatio{
    .low = 0.01,
    .high = 100,
    .high_open = false,
    .text = "two rising numbers from 0.01 to 100, for example [0.75, 1.3333]"};
inline constexpr NumberRange kColourMean{
    .low = 0,
    .high = 1,
    .high_open = false,
    .text = "three numbers from 0 to 1, for example [0.485, 0.456, 0.406]"};
inline constexpr NumberRange kColourDeviation{
    .low = 0.001,
    .high = 1,
    .high_open = false,
    .text = "three numbers from 0.001 to 1, for example [0.229, 0.224, 0.225]"};
// Numbers above the following bounds are too close to 1: nearly everything would be dropped, or
// float32 would round a momentum to 1, so that it never decays.
inline constexpr NumberRange kDropout{
    .low = 0, .high = 0.99, .high_open = false, .text = "a number from 0 to 0.99"};
inline constexpr NumberRange kSmoothing = kDropout;  // at 1 the labels have no effect
inline constexpr NumberRange kRise = kDropout;  // fraction of the steps in which the rate rises
inline constexpr NumberRange kMomentum{
    .low = 0, .high = 0.9999, .high_open = false, .text = "a number from 0 to 0.9999"};
inline constexpr NumberRange kAverageDecay{
    .low = 0, .high = 0.99999, .high_open = false, .text = "a number from 0 to 0.99999"};
inline constexpr NumberRange kSteps{
    .low = 1, .high = 1e9, .high_open = false, .text = "an integer from 1 to 1000000000"};
inline constexpr NumberRange kStepsOrZero{
    .low = 0, .high = 1e9, .high_open = false, .text = "an integer from 0 to 1000000000"};
inline constexpr NumberRange kSeed{.low = 0, .text = "an integer from 0 to 18446744073709551615"};
inline constexpr NumberRange kBatch{
    .low = 1, .high = 1 << 20, .high_open = false, .text = "an integer from 1 to 1048576"};
inline constexpr NumberRange kDimension{
    .low = 0, .high = 1 << 16, .high_open = false, .text = "an integer from 1 to 65536"};
inline constexpr NumberRange kFeatures{
    .low = 0, .high = 1 << 16, .high_open = false, .text = "an integer from 0 to 65536"};
inline constexpr NumberRange kTableSize{
    .low = 0, .high = 1ll << 40, .high_open = false, .text = "an integer from 0 to 1099511627776"};
inline constexpr NumberRange kLabels{
    .low = 0, .high = 1000, .high_open = false, .text = "an integer from 0 to 1000"};
inline constexpr NumberRange kMilestone{.low = 1, .high = 1e6};
inline constexpr NumberRange kImageSize{
    .low = 0, .high = 4096, .high_open = false, .text = "an integer from 0 to 4096"};
inline constexpr NumberRange kSubCentres{
    .low = 1, .high = 16, .high_open = false, .text = "an integer from 1 to 16"};
inline constexpr NumberRange kHold{
    .low = 1, .high = 1e6, .high_open = false, .text = "an integer from 1 to 1000000"};
inline constexpr NumberRange kSampleUnit{
    .low = 1, .high = 64, .high_open = false, .text = "a power of two from 1 to 64"};
inline constexpr NumberRange kNeighbours{
    .low = 1, .high = 1000, .high_open = false, .text = "an integer from 1 to 1000"};
inline constexpr NumberRange kCentreCache{
    .low = 1, .high = 1e9, .high_open = false, .text = "an integer from 1 to 1000000000"};
inline constexpr NumberRange kThreads{
    .low = 1, .high = 1024, .high_open = false, .text = "an integer from 1 to 1024"};

inline constexpr Names<std::string_view, 25> kNetworks{
    {{"r18", "r18"},
     {"r34", "r34"},
     {"r50", "r50"},
     {"r100", "r100"},
     {"r200", "r200"},
     {"mbf", "mbf"},
     {"mbf_large", "mbf_large"},
     {"ir_18", "ir_18"},
     {"ir_50", "ir_50"},
     {"ir_101", "ir_101"},
     {"ir_se_50", "ir_se_50"},
     {"ir_se_101", "ir_se_101"},
     {"resnet18", "resnet18"},
     {"resnet34", "resnet34"},
     {"resnet50", "resnet50"},
     {"resnet101", "resnet101"},
     {"vit_t", "vit_t"},
     {"vit_t_dp005_mask0", "vit_t_dp005_mask0"},
     {"vit_s", "vit_s"},
     {"vit_s_dp005_mask_0", "vit_s_dp005_mask_0"},
     {"vit_b", "vit_b"},
     {"vit_b_dp005_mask_005", "vit_b_dp005_mask_005"},
     {"vit_l_dp005_mask_005", "vit_l_dp005_mask_005"},
     {"vit_h", "vit_h"},
     {kNoNetwork, kNoNetwork}}};
inline constexpr Names<Precision, 4> kPrecisions{{{"fp32", Precision::kFp32},
                                                  {"bf16", Precision::kBf16},
                                                  {"fp16", Precision::kFp16},
                                                  {"auto", Precision::kAuto}}};
inline constexpr Names<Precision, 3> kTeacherPrecisions{
    {{"auto", Precision::kAuto}, {"fp32", Precision::kFp32}, {"bf16", Precision::kBf16}}};
inline constexpr Names<Precision, 2> kExchangePrecisions{
    {{"fp32", Precision::kFp32}, {"bf16", Precision::kBf16}}};
inline constexpr Names<Sampler, 2> kSamplers{
    {{"random", Sampler::kRandom}, {"hard", Sampler::kHard}}};
inline constexpr Names<CentreStorage, 2> kCentreStorages{
    {{"device", CentreStorage::kDevice}, {"disk", CentreStorage::kDisk}}};
inline constexpr Names<CentrePrecision, 5> kCentrePrecisions{
    {{"fp32", CentrePrecision::kFp32},
     {"bf16_momentum", CentrePrecision::kBf16Momentum},
     {"bf16", CentrePrecision::kBf16},
     {"int8", CentrePrecision::kInt8},
     {"fp8", CentrePrecision::kFp8}}};
inline constexpr Names<MarginGradient, 2> kMarginGradients{
    {{"exact", MarginGradient::kExact}, {"straight_through", MarginGradient::kStraightThrough}}};
inline constexpr Names<MarginIncrease, 2> kMarginIncreases{
    {{"exp", MarginIncrease::kExponential}, {"linear", MarginIncrease::kLinear}}};
inline constexpr Names<Loss, 8> kLosses{{{"margin", CombinedMargin{}},
                                         {"adaface", AdaFace{}},
                                         {"magface", MagFace{}},
                                         {"elastic_arcface", ElasticArcFace{}},
                                         {"elastic_cosface", ElasticCosFace{}},
                                         {"curricularface", CurricularFace{}},
                                         {"uniface", UniFace{}},
                                         {"softmax", PlainSoftmax{}}}};
inline constexpr Names<OptimizerKind, 2> kOptimizers{
    {{"sgd", OptimizerKind::kSgd}, {"adamw", OptimizerKind::kAdamW}}};
inline constexpr Names<ScheduleKind, 4> kSchedules{{{"polynomial", ScheduleKind::kPolynomial},
                                                    {"multistep", ScheduleKind::kMultistep},
                                                    {"cosine", ScheduleKind::kCosine},
                                                    {"one_cycle", ScheduleKind::kOneCycle}}};
inline constexpr Names<LrScaling, 4> kLrScalings{{{"auto", LrScaling::kAuto},
                                                  {"linear", LrScaling::kLinear},
                                                  {"sqrt", LrScaling::kSqrt},
                                                  {"none", LrScaling::kNone}}};
inline constexpr Names<Heads, 2> kHeads{{{"one", Heads::kOne}, {"separate", Heads::kSeparate}}};
inline constexpr Names<ReadKind, 2> kReads{
    {{"random", ReadKind::kRandom}, {"sequential", ReadKind::kSequential}}};
inline constexpr Names<InitialCentres, 2> kInitialCentres{
    {{"random", InitialCentres::kRandom}, {"mean", InitialCentres::kMean}}};
inline constexpr Names<DistillEmbeddings, 3> kDistillEmbeddings{
    {{"cosine", DistillEmbeddings::kCosine},
     {"mse", DistillEmbeddings::kMse},
     {"none", DistillEmbeddings::kNone}}};
inline constexpr Names<DeviceChoice, 3> kDevices{
    {{"auto", DeviceChoice::kAuto}, {"cpu", DeviceChoice::kCpu}, {"cuda", DeviceChoice::kCuda}}};

/// Visits every key of an augmentation once.
template <class Augment, class Visitor>
void visit_augmentation(Augment& augment, Visitor&& v) {
  v.flag("flip", augment.flip);
  v.random_resized_crop("random_resized_crop", augment.random_resized_crop);
  v.number("crop", augment.crop, kFraction);
  v.number("low_resolution", augment.low_resolution, kFraction);
  v.number("blur", augment.blur, kFraction);
  v.number("colour", augment.colour, kFraction);
  v.number("grey", augment.grey, kFraction);
  v.number("cut_out", augment.cut_out, kFraction);
}

/// Visits every key of a random resized crop once.
template <class Crop, class Visitor>
void visit_random_resized_crop(Crop& crop, Visitor&& v) {
  v.reals("scale", crop.scale, kPartOfImage);
  v.reals("ratio", crop.ratio, kAspectRatio);
}

/// Visits every key of a margin's update once.
template <class Update, class Visitor>
void visit_margin_update(Update& update, Visitor&& v) {
  v.margin("initial", update.initial);
  v.number("start_epoch", update.start_epoch, kNotNegative);
  v.number("end_epoch", update.end_epoch, kNotNegative);
  v.choice("increase", update.increase, kMarginIncreases);
}

/// Visits the name of a schedule, and then every parameter that a schedule of this name has.
template <class Schedule, class Visitor>
void visit_schedule(Schedule& s, Visitor&& v) {
  v.choice("name", s.kind, kSchedules);
  switch (s.kind) {
    case ScheduleKind::kPolynomial:
      return v.number("power", s.power, kPositive);
    case ScheduleKind::kMultistep:
      v.milestones("epochs", s.epochs);
      return v.number("gamma", s.gamma, kPositive);
    case ScheduleKind::kCosine:
      return v.number("final_factor", s.final_factor, kFraction);
    case ScheduleKind::kOneCycle:
      v.number("pct_start", s.pct_start, kRise);
      v.number("div_factor", s.div_factor, kPositive);
      return v.number("final_div_factor", s.final_div_factor, kPositive);
  }
}

/// Visits every key of a loss once.
template <class Visited, class Visitor>
void visit_loss(Visited& visited, Visitor&& v) {
  using Kind = std::remove_const_t<Visited>;
  if constexpr (std::is_same_v<Kind, AdaFace>) {
    v.number("m", visited.m, kSampleMargin);
    v.number("h", visited.h, kMarginShare);
    v.number("t_alpha", visited.t_alpha, kFraction);
  } else if constexpr (std::is_same_v<Kind, MagFace>) {
    v.number("l_a", visited.l_a, kPositive);
    v.number("u_a", visited.u_a, kPositive);
    v.number("l_margin", visited.l_margin, kEasyMargin);
    v.number("u_margin", visited.u_margin, kEasyMargin);
    v.number("lambda_g", visited.lambda_g, kNotNegative);
  } else if constexpr (std::is_same_v<Kind, CurricularFace>) {
    v.number("m", visited.m, kSampleMargin);
    v.number("t_alpha", visited.t_alpha, kFraction);
  } else if constexpr (std::is_same_v<Kind, UniFace>) {
    v.number("m", visited.m, kSampleMargin);
  } else if constexpr (std::is_same_v<Kind, ElasticArcFace> ||
                       std::is_same_v<Kind, ElasticCosFace>) {
    v.number("m", visited.m, kSampleMargin);
    v.number("std", visited.std, kFraction);
    v.flag("plus", visited.plus);
  }
}

/// The augmentations of arcface_torch's dali_aug.
inline constexpr Augmentation kDaliAugmentation{
    .flip = true, .low_resolution = 0.1, .blur = 0.2, .colour = 0.2, .grey = 0.1};

/// Visits every key once, for the parser, to_json and the list of keys, so they cannot differ.
template <class Job, class Visitor>
void visit_keys(Job& job, Visitor&& v) {
  v.choice("network", job.network, kNetworks);
  v.number("embedding_size", job.embedding_size, kDimension);
  v.number("feature_size", job.feature_size, kFeatures);
  v.number("dropout", job.dropout, kDropout);
  v.flag("zero_init_residual", job.zero_init_residual);
  v.loss("loss", job.loss);
  v.margin("margin_list", job.margin);
  v.margin_update("margin_update", job.margin_update);
  v.number("margin_scale", job.margin_scale, kPositive);
  v.choice("margin_gradient", job.margin_gradient, kMarginGradients);
  v.number("interclass_filtering_threshold", job.interclass_filtering_threshold, kFraction);
  v.number("label_smoothing", job.label_smoothing, kSmoothing);
  v.number("sub_centres", job.sub_centres, kSubCentres);
  v.sample_rate("sample_rate", job.sample_rate);
  v.number("sample_hold", job.sample_hold, kHold);
  v.number("sample_unit", job.sample_unit, kSampleUnit);
  v.choice("sampler", job.sampler, kSamplers);
  v.number("hard_neighbours", job.hard_neighbours, kNeighbours);
  v.number("hard_refresh", job.hard_refresh, kSteps);
  v.flag("sample_correction", job.sample_correction);
  v.choice("precision", job.precision, kPrecisions);
  v.choice("centre_precision", job.centre_precision, kCentrePrecisions);
  v.choice("centre_storage", job.centre_storage, kCentreStorages);
  v.number("centre_cache", job.centre_cache, kCentreCache);
  v.choice("exchange_precision", job.exchange_precision, kExchangePrecisions);
  v.flag("tf32", job.tf32);
  v.flag("cuda_graphs", job.cuda_graphs);
  v.number("logits_memory", job.logits_memory, kNotNegative);
  v.patterns("recompute", job.recompute);
  v.number("batch_size", job.batch_size, kBatch);
  v.choice("optimizer", job.optimizer, kOptimizers);
  v.number("lr", job.lr, kLearningRate);
  v.schedule("lr_schedule", job.lr_schedule);
  v.choice("lr_scaling", job.lr_scaling, kLrScalings);
  v.number("momentum", job.momentum, kMomentum);
  v.optional_number("centre_momentum", job.centre_momentum, kMomentum);
  v.number("weight_decay", job.weight_decay, kNotNegative);
  v.rules("parameters", job.parameters);
  v.flag("no_decay_on_norms", job.no_decay_on_norms);
  v.texts("freeze", job.freeze);
  v.number("clip_norm", job.clip_norm, kNotNegative);
  v.number("ema_decay", job.ema_decay, kAverageDecay);
  v.number("num_epoch", job.num_epoch, kPositive);
  v.number("max_steps", job.max_steps, kStepsOrZero);
  v.number("warmup_epoch", job.warmup_epoch, kNotNegative);
  v.paths("rec", job.rec);
  v.paths("identities", job.identities);
  v.paths("overlay", job.overlay);
  v.flag("share_identities", job.share_identities);
  v.choice("heads", job.heads, kHeads);
  v.number("image_size", job.image_size, kImageSize);
  v.reals("image_mean", job.pixels.mean, kColourMean);
  v.reals("image_std", job.pixels.std, kColourDeviation);
  v.flag("shuffle", job.shuffle);
  v.flag("balance_classes", job.balance_classes);
  v.choice("read", job.read, kReads);
  v.number("read_buffer_mib", job.read_buffer_mib, kBatch);
  v.augmentation("augment", job.augment);
  v.number("max_damaged", job.max_damaged, kFraction);
  v.path("stage", job.stage);
  v.texts("val_targets", job.val_targets);
  v.paths("val_rec", job.val_rec);
  v.number("val_resize", job.val_resize, kImageSize);
  v.path("output", job.output);
  v.texts("export", job.exports);
  v.number("frequent", job.frequent, kSteps);
  v.number("verbose", job.verbose, kStepsOrZero);
  v.flag("tensorboard", job.tensorboard);
  v.number("histograms_every_steps", job.histograms_every_steps, kStepsOrZero);
  v.number("save_every_steps", job.save_every_steps, kStepsOrZero);
  v.number("save_every_seconds", job.save_every_seconds, kNotNegative);
  v.number("keep_checkpoints", job.keep_checkpoints, kSteps);
  v.flag("replicate", job.replicate);
  v.number("snapshot_seconds", job.snapshot_seconds, kPositive);
  v.number("seed", job.seed, kSeed);
  v.number("num_workers", job.num_workers, kThreads);
  v.flag("resume", job.resume);
  v.path("init_from", job.init_from);
  v.texts("init_from_names", job.init_from_names);
  v.choice("init_centres", job.init_centres, kInitialCentres);
  v.path("teacher", job.teacher);
  v.choice("distill_embeddings", job.distill_embeddings, kDistillEmbeddings);
  v.number("distill_weight", job.distill_weight, kPositive);
  v.number("distill_logits", job.distill_logits, kNotNegative);
  v.number("distill_temperature", job.distill_temperature, kTemperature);
  v.choice("teacher_precision", job.teacher_precision, kTeacherPrecisions);
  v.number("gradient_acc", job.gradient_acc, kBatch);
  v.flag("sync_bn", job.sync_bn);
  v.choice("device", job.device, kDevices);
  v.number("num_classes", job.num_classes, kTableSize);
  v.number("num_image", job.num_image, kTableSize);
  v.numbers("head_classes", job.head_classes, kTableSize);
  v.number("labels_per_image", job.labels_per_image, kLabels);
  v.text("notes", job.notes);
}

}  // namespace pfc::keys
