#include "common/config/job_json.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "common/config/arcface_torch_keys.h"
#include "common/config/json_reader.h"
#include "common/config/keys_together.h"
#include "common/config/no_network.h"
#include "common/error.h"

namespace pfc {
namespace {

using nlohmann::json;

// Every number has bounds. If the meaning of a key gives none, they are far beyond the needs of a
// job, so only a mistyped number exceeds them, and far below overflow in computations.
constexpr NumberRange kPositive{.low = 0,
                                .high = 1e6,
                                .low_open = true,
                                .high_open = false,
                                .text = "a number above 0, at most 1000000"};
constexpr NumberRange kNotNegative{
    .low = 0, .high = 1e6, .high_open = false, .text = "a number from 0 to 1000000"};
// Wide, so that a job that diverges at once can be made on purpose.
constexpr NumberRange kLearningRate{
    .low = 0, .high = 1e30, .high_open = false, .text = "a number from 0 to 1e30"};
constexpr NumberRange kMarginFactor{
    .low = 0, .high = 100, .low_open = true, .high_open = false, .text = "m1 above 0, at most 100"};
constexpr NumberRange kMarginOffset{
    .low = -100, .high = 100, .high_open = false, .text = "m2 and m3 from -100 to 100"};
constexpr NumberRange kSampleMargin{
    .low = 0, .high = 3, .high_open = false, .text = "a number from 0 to 3"};
// Added to an angle below pi / 2 it stays below pi.
constexpr NumberRange kEasyMargin{
    .low = 0, .high = 1.5, .high_open = false, .text = "a number from 0 to 1.5"};
constexpr NumberRange kMarginShare{
    .low = -100, .high = 100, .high_open = false, .text = "a number from -100 to 100"};
constexpr NumberRange kFraction{
    .low = 0, .high = 1, .high_open = false, .text = "a number from 0 to 1"};
// Above these bounds nearly everything is dropped, or the momentum never decays: as float32 the
// largest numbers below 1 are 1.
constexpr NumberRange kDropout{
    .low = 0, .high = 0.99, .high_open = false, .text = "a number from 0 to 0.99"};
constexpr NumberRange kRise = kDropout;  // of the steps of a job
constexpr NumberRange kMomentum{
    .low = 0, .high = 0.9999, .high_open = false, .text = "a number from 0 to 0.9999"};
constexpr NumberRange kAverageDecay{
    .low = 0, .high = 0.99999, .high_open = false, .text = "a number from 0 to 0.99999"};
constexpr NumberRange kSteps{
    .low = 1, .high = 1e9, .high_open = false, .text = "an integer from 1 to 1000000000"};
constexpr NumberRange kStepsOrZero{
    .low = 0, .high = 1e9, .high_open = false, .text = "an integer from 0 to 1000000000"};
constexpr NumberRange kSeed{.low = 0, .text = "an integer from 0 to 18446744073709551615"};
constexpr NumberRange kBatch{
    .low = 1, .high = 1 << 20, .high_open = false, .text = "an integer from 1 to 1048576"};
constexpr NumberRange kDimension{
    .low = 0, .high = 1 << 16, .high_open = false, .text = "an integer from 1 to 65536"};
constexpr NumberRange kTableSize{
    .low = 0, .high = 1ll << 40, .high_open = false, .text = "an integer from 0 to 1099511627776"};
constexpr NumberRange kMilestone{.low = 1, .high = 1e6};
constexpr NumberRange kImageSize{
    .low = 0, .high = 4096, .high_open = false, .text = "an integer from 0 to 4096"};
constexpr NumberRange kThreads{
    .low = 1, .high = 1024, .high_open = false, .text = "an integer from 1 to 1024"};

constexpr Names<std::string_view, 19> kNetworks{{{"r18", "r18"},
                                                 {"r34", "r34"},
                                                 {"r50", "r50"},
                                                 {"r100", "r100"},
                                                 {"r200", "r200"},
                                                 {"mbf", "mbf"},
                                                 {"mbf_large", "mbf_large"},
                                                 {"ir_18", "ir_18"},
                                                 {"ir_50", "ir_50"},
                                                 {"ir_101", "ir_101"},
                                                 {"vit_t", "vit_t"},
                                                 {"vit_t_dp005_mask0", "vit_t_dp005_mask0"},
                                                 {"vit_s", "vit_s"},
                                                 {"vit_s_dp005_mask_0", "vit_s_dp005_mask_0"},
                                                 {"vit_b", "vit_b"},
                                                 {"vit_b_dp005_mask_005", "vit_b_dp005_mask_005"},
                                                 {"vit_l_dp005_mask_005", "vit_l_dp005_mask_005"},
                                                 {"vit_h", "vit_h"},
                                                 {kNoNetwork, kNoNetwork}}};
constexpr Names<Precision, 4> kPrecisions{{{"fp32", Precision::kFp32},
                                           {"bf16", Precision::kBf16},
                                           {"fp16", Precision::kFp16},
                                           {"auto", Precision::kAuto}}};
constexpr Names<CentrePrecision, 3> kCentrePrecisions{
    {{"fp32", CentrePrecision::kFp32},
     {"bf16_momentum", CentrePrecision::kBf16Momentum},
     {"bf16", CentrePrecision::kBf16}}};
constexpr Names<MarginGradient, 2> kMarginGradients{
    {{"exact", MarginGradient::kExact}, {"straight_through", MarginGradient::kStraightThrough}}};
constexpr Names<MarginIncrease, 2> kMarginIncreases{
    {{"exp", MarginIncrease::kExponential}, {"linear", MarginIncrease::kLinear}}};
constexpr Names<Loss, 6> kLosses{{{"margin", CombinedMargin{}},
                                  {"adaface", AdaFace{}},
                                  {"magface", MagFace{}},
                                  {"elastic_arcface", ElasticArcFace{}},
                                  {"elastic_cosface", ElasticCosFace{}},
                                  {"curricularface", CurricularFace{}}}};
constexpr Names<OptimizerKind, 2> kOptimizers{
    {{"sgd", OptimizerKind::kSgd}, {"adamw", OptimizerKind::kAdamW}}};
constexpr Names<ScheduleKind, 4> kSchedules{{{"polynomial", ScheduleKind::kPolynomial},
                                             {"multistep", ScheduleKind::kMultistep},
                                             {"cosine", ScheduleKind::kCosine},
                                             {"one_cycle", ScheduleKind::kOneCycle}}};
constexpr Names<LrScaling, 4> kLrScalings{{{"auto", LrScaling::kAuto},
                                           {"linear", LrScaling::kLinear},
                                           {"sqrt", LrScaling::kSqrt},
                                           {"none", LrScaling::kNone}}};
constexpr Names<Heads, 2> kHeads{{{"one", Heads::kOne}, {"separate", Heads::kSeparate}}};
constexpr Names<ReadKind, 2> kReads{
    {{"random", ReadKind::kRandom}, {"sequential", ReadKind::kSequential}}};
constexpr Names<InitialCentres, 2> kInitialCentres{
    {{"random", InitialCentres::kRandom}, {"mean", InitialCentres::kMean}}};
constexpr Names<DeviceChoice, 3> kDevices{
    {{"auto", DeviceChoice::kAuto}, {"cpu", DeviceChoice::kCpu}, {"cuda", DeviceChoice::kCuda}}};

/// Visits every key of an augmentation once.
template <class Augment, class Visitor>
void visit_augmentation(Augment& augment, Visitor&& v) {
  v.flag("flip", augment.flip);
  v.number("crop", augment.crop, kFraction);
  v.number("low_resolution", augment.low_resolution, kFraction);
  v.number("blur", augment.blur, kFraction);
  v.number("colour", augment.colour, kFraction);
  v.number("grey", augment.grey, kFraction);
  v.number("cut_out", augment.cut_out, kFraction);
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
  } else if constexpr (!std::is_same_v<Kind, CombinedMargin>) {  // ElasticFace
    v.number("m", visited.m, kSampleMargin);
    v.number("std", visited.std, kFraction);
    v.flag("plus", visited.plus);
  }
}

/// The augmentations of arcface_torch's dali_aug.
constexpr Augmentation kDaliAugmentation{
    .flip = true, .low_resolution = 0.1, .blur = 0.2, .colour = 0.2, .grey = 0.1};

/// Visits every key once, for the parser, to_json and the list of keys, so they cannot differ.
template <class Job, class Visitor>
void visit_keys(Job& job, Visitor&& v) {
  v.choice("network", job.network, kNetworks);
  v.number("embedding_size", job.embedding_size, kDimension);
  v.number("dropout", job.dropout, kDropout);
  v.loss("loss", job.loss);
  v.margin("margin_list", job.margin);
  v.margin_update("margin_update", job.margin_update);
  v.number("margin_scale", job.margin_scale, kPositive);
  v.choice("margin_gradient", job.margin_gradient, kMarginGradients);
  v.number("interclass_filtering_threshold", job.interclass_filtering_threshold, kFraction);
  v.sample_rate("sample_rate", job.sample_rate);
  v.flag("sample_correction", job.sample_correction);
  v.choice("precision", job.precision, kPrecisions);
  v.choice("centre_precision", job.centre_precision, kCentrePrecisions);
  v.flag("tf32", job.tf32);
  v.flag("cuda_graphs", job.cuda_graphs);
  v.number("logits_memory", job.logits_memory, kNotNegative);
  v.number("batch_size", job.batch_size, kBatch);
  v.choice("optimizer", job.optimizer, kOptimizers);
  v.number("lr", job.lr, kLearningRate);
  v.schedule("lr_schedule", job.lr_schedule);
  v.choice("lr_scaling", job.lr_scaling, kLrScalings);
  v.number("momentum", job.momentum, kMomentum);
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
  v.flag("share_identities", job.share_identities);
  v.choice("heads", job.heads, kHeads);
  v.number("image_size", job.image_size, kImageSize);
  v.flag("shuffle", job.shuffle);
  v.flag("balance_classes", job.balance_classes);
  v.choice("read", job.read, kReads);
  v.number("read_buffer_mib", job.read_buffer_mib, kBatch);
  v.augmentation("augment", job.augment);
  v.number("max_damaged", job.max_damaged, kFraction);
  v.path("stage", job.stage);
  v.texts("val_targets", job.val_targets);
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
  v.number("gradient_acc", job.gradient_acc, kBatch);
  v.flag("sync_bn", job.sync_bn);
  v.choice("device", job.device, kDevices);
  v.number("num_classes", job.num_classes, kTableSize);
  v.number("num_image", job.num_image, kTableSize);
  v.numbers("head_classes", job.head_classes, kTableSize);
  v.text("notes", job.notes);
}

json object_of(const Augmentation& augment);
json object_of(const LrSchedule& schedule);
json object_of(const MarginUpdate& update);
json object_of(const Loss& loss);

std::vector<std::string> keys_of(const json& object) {
  std::vector<std::string> keys;
  for (const auto& item : object.items()) keys.push_back(item.key());
  return keys;
}

/// A JsonReader that also reads the value types that only jobs have.
class JobReader : public JsonReader {
 public:
  /// `path` begins the names of the object's keys: "lr_schedule.".
  JobReader(const json& object, const JobOrigin& origin, std::string path = "")
      : JsonReader(object, origin.file), job_origin_(origin), path_(std::move(path)) {}

  void margin(const std::string& key, Margin& out) const {
    const json* value = find(key);
    if (value == nullptr) return;
    const std::string_view expected = "three numbers [m1, m2, m3], for example [1.0, 0.5, 0.0]";
    if (!value->is_array() || value->size() != 3) fail(key, *value, expected);
    out = {.m1 = real(key, (*value)[0], kMarginFactor),
           .m2 = real(key, (*value)[1], kMarginOffset),
           .m3 = real(key, (*value)[2], kMarginOffset)};
  }

  void loss(const std::string& key, Loss& out) const {
    const json* value = find(key);
    if (value == nullptr) return;
    if (!value->is_object()) return choice(key, out, kLosses);
    if (value->value("name", json()).is_null()) {
      fail(key, *value, R"("adaface" or another name, or {"name": "adaface", "m": 0.4, ...})");
    }
    const JobReader inner(*value, job_origin_, key + ".");
    inner.choice("name", out, kLosses);
    inner.check_keys(keys_of(object_of(out)));
    std::visit([&](auto& l) { visit_loss(l, inner); }, out);
  }

  /// Reads an array of strings. The word "panel" means ["panel"].
  void texts(const std::string& key, std::vector<std::string>& out) const {
    const json* value = find(key);
    if (value == nullptr || *value != "panel") return JsonReader::texts(key, out);
    out = {"panel"};
  }

  void schedule(const std::string& key, LrSchedule& out) const {
    const json* value = find(key);
    if (value == nullptr) return;
    out = {};
    if (value->is_string()) {
      choice(key, out.kind, kSchedules);
      if (out.kind == ScheduleKind::kMultistep) {
        fail(key, *value, R"({"name": "multistep", "epochs": [10, 18], "gamma": 0.1})");
      }
      return;
    }
    if (!value->is_object() || value->value("name", json()).is_null()) {
      fail(key, *value, R"("polynomial", "cosine", "one_cycle", or {"name": "multistep", ...})");
    }
    const JobReader inner(*value, job_origin_, key + ".");
    inner.choice("name", out.kind, kSchedules);
    inner.check_keys(keys_of(object_of(out)));
    visit_schedule(out, inner);
  }

  void sample_rate(const std::string& key, SampleRate& out) const {
    const json* value = find(key);
    if (value == nullptr) return;
    if (!value->is_array()) {
      double rate = 1;
      number(key, rate, kFraction);
      out = rate;
      return;
    }
    const std::string_view expected =
        "a number, or pairs of rising epochs from 0 and rates, for example [[0, 0.1], [18, 1.0]]";
    std::vector<SampleRate::From> parts;
    for (const json& each : *value) {
      if (!each.is_array() || each.size() != 2) fail(key, each, expected);
      const SampleRate::From part{.epoch = real(key, each[0], kNotNegative),
                                  .rate = real(key, each[1], kFraction)};
      const bool rises = parts.empty() ? part.epoch == 0 : part.epoch > parts.back().epoch;
      if (!rises) fail(key, each[0], expected);
      parts.push_back(part);
    }
    if (parts.empty()) fail(key, *value, expected);
    out = SampleRate(std::move(parts));
  }

  void margin_update(const std::string& key, std::optional<MarginUpdate>& out) const {
    const json* value = find(key);
    if (value == nullptr) return;
    if (!value->is_object()) fail(key, *value, R"(an object: {"start_epoch": 4, "end_epoch": 10})");
    const JobReader inner(*value, job_origin_, key + ".");
    inner.check_keys(keys_of(object_of(out.emplace())));
    visit_margin_update(*out, inner);
    if (out->end_epoch > out->start_epoch) return;
    inner.fail("end_epoch", json(out->end_epoch), "an epoch after start_epoch");
  }

  void rules(const std::string& key, std::vector<ParameterRule>& out) const {
    const json* value = find(key);
    if (value == nullptr) return;
    const std::string_view expected =
        R"(an array of objects, for example [{"names": "layer4.*", "lr": 0.1, "weight_decay": 0}])";
    if (!value->is_array()) fail(key, *value, expected);
    out.clear();
    for (const json& each : *value) {
      if (!each.is_object()) fail(key, each, expected);
      const JobReader inner(each, job_origin_, key + ".");
      inner.check_keys(std::vector<std::string>{"names", "lr", "weight_decay"});
      ParameterRule& rule = out.emplace_back();
      inner.text("names", rule.names);
      inner.optional_number("lr", rule.lr);
      inner.optional_number("weight_decay", rule.weight_decay);
    }
  }

  void augmentation(const std::string& key, Augmentation& out) const {
    const json* value = find(key);
    if (value == nullptr) return;
    if (value->is_boolean()) {
      out = {.flip = value->get<bool>()};
      return;
    }
    if (!value->is_object()) {
      fail(
          key, *value,
          R"(true, false, or {"flip": true, "blur": 0.2, ...} with the part of the images of each)");
    }
    out = {};
    const JobReader inner(*value, job_origin_, key + ".");
    inner.check_keys(keys_of(object_of(out)));
    visit_augmentation(out, inner);
  }

  void optional_number(const std::string& key, std::optional<double>& out) const {
    if (find(key) != nullptr) number(key, out.emplace(), kNotNegative);
  }

  void milestones(const std::string& key, std::vector<std::int64_t>& out) const {
    const std::string_view expected = "epochs in rising order, for example [10, 18]";
    const json* value = find(key);
    if (value == nullptr) fail(key, json(), expected);
    if (!value->is_array() || value->empty()) fail(key, *value, expected);
    for (const json& epoch : *value) {
      const bool rising = epoch.is_number_integer() && kMilestone.has(epoch.get<double>()) &&
                          (out.empty() || epoch.get<double>() > static_cast<double>(out.back()));
      if (!rising) fail(key, epoch, expected);
      out.push_back(epoch.get<std::int64_t>());
    }
  }

 protected:
  [[nodiscard]] std::string origin_of(const std::string& key) const override {
    const std::string origin = job_origin_.of(path_ + key);
    return path_.empty() ? origin : origin + ": " + path_.substr(0, path_.size() - 1);
  }

 private:
  const JobOrigin& job_origin_;
  const std::string path_;
};

/// Writes every key to a JSON object.
struct Writer {
  json& object;

  template <class Value>
  void number(const char* key, const Value& value, const NumberRange&) {
    object[key] = value;
  }
  void flag(const char* key, bool value) { object[key] = value; }
  void text(const char* key, const std::string& value) { object[key] = value; }
  void path(const char* key, const std::filesystem::path& value) { object[key] = value.string(); }
  void texts(const char* key, const std::vector<std::string>& value) { object[key] = value; }
  /// Writes a single path as a string, the usual form.
  void paths(const char* key, const std::vector<std::filesystem::path>& value) {
    if (value.size() < 2) return path(key, value.empty() ? std::filesystem::path() : value[0]);
    object[key] = json::array();
    for (const std::filesystem::path& each : value) object[key].push_back(each.string());
  }
  void numbers(const char* key, const std::vector<std::int64_t>& value, const NumberRange&) {
    object[key] = value;
  }
  void margin(const char* key, const Margin& m) { object[key] = {m.m1, m.m2, m.m3}; }

  template <class Value, class Named, std::size_t n>
  void choice(const char* key, const Value& value, const Names<Named, n>& names) {
    for (const auto& [name, meaning] : names) {
      if (value == meaning) object[key] = name;
    }
  }

  void augmentation(const char* key, const Augmentation& augment) {
    object[key] = object_of(augment);
  }

  /// Writes a constant rate as a number, the usual form.
  void sample_rate(const char* key, const SampleRate& value) {
    object[key] = value.largest();
    if (value.parts().size() == 1) return;
    object[key] = json::array();
    for (const auto& [epoch, rate] : value.parts()) object[key].push_back({epoch, rate});
  }

  void margin_update(const char* key, const std::optional<MarginUpdate>& value) {
    object[key] = value ? object_of(*value) : json();
  }

  void loss(const char* key, const Loss& value) { object[key] = object_of(value); }

  void rules(const char* key, const std::vector<ParameterRule>& value) {
    object[key] = json::array();
    for (const ParameterRule& rule : value) {
      json& each = object[key].emplace_back(json{{"names", rule.names}});
      if (rule.lr) each["lr"] = *rule.lr;
      if (rule.weight_decay) each["weight_decay"] = *rule.weight_decay;
    }
  }

  void schedule(const char* key, const LrSchedule& s) { object[key] = object_of(s); }
  void milestones(const char* key, const std::vector<std::int64_t>& value) { object[key] = value; }
};

json object_of(const Augmentation& augment) {
  json object = json::object();
  visit_augmentation(augment, Writer{object});
  return object;
}

json object_of(const MarginUpdate& update) {
  json object = json::object();
  visit_margin_update(update, Writer{object});
  return object;
}

json object_of(const LrSchedule& schedule) {
  json object = json::object();
  visit_schedule(schedule, Writer{object});
  return object;
}

json object_of(const Loss& loss) {
  json object = json::object();
  for (const auto& [name, meaning] : kLosses) {
    if (loss.index() == meaning.index()) object["name"] = name;
  }
  std::visit([&](const auto& l) { visit_loss(l, Writer{object}); }, loss);
  return object;
}

/// Reads the older `"fp16": true`. If both keys are given, they must agree.
void read_fp16(const json& job, const JobOrigin& origin, Precision& precision) {
  if (!job.contains("fp16")) return;
  bool fp16 = false;
  const JobReader reader(job, origin);
  reader.flag("fp16", fp16);
  if (!fp16) return;
  if (!job.value("precision", json()).is_null() && precision != Precision::kFp16) {
    reader.fail("precision", job["precision"],
                "\"fp16\", because \"fp16\" is true; remove one of the two keys");
  }
  precision = Precision::kFp16;
}

/// Reads arcface_torch's `"dali_aug": true`. It conflicts with other augmentations.
void read_dali_aug(const json& job, const JobOrigin& origin, Augmentation& augment) {
  if (!job.contains("dali_aug")) return;
  bool dali_aug = false;
  const JobReader reader(job, origin);
  reader.flag("dali_aug", dali_aug);
  if (!dali_aug) return;
  if (!job.value("augment", json()).is_null() && augment != kDaliAugmentation) {
    reader.fail("augment", job["augment"],
                "no value, because \"dali_aug\" is true; remove one of the two keys");
  }
  augment = kDaliAugmentation;
}

}  // namespace

std::vector<std::string> job_keys() {
  std::vector<std::string> keys = keys_of(to_json(JobConfig{}));
  keys.insert(keys.end(), {"fp16", "dali_aug"});
  return keys;
}

std::vector<std::string> parameters_of_others(std::string_view key, std::string_view name) {
  std::vector<std::string> own, others;
  const auto add = [&](std::string_view each, const json& object) {
    const std::vector<std::string> keys = keys_of(object);
    std::vector<std::string>& list = each == name ? own : others;
    list.insert(list.end(), keys.begin(), keys.end());
  };
  if (key == "lr_schedule") {
    for (const auto& [each, kind] : kSchedules) add(each, object_of(LrSchedule{.kind = kind}));
  } else if (key == "loss") {
    for (const auto& [each, loss] : kLosses) add(each, object_of(loss));
  }
  if (own.empty()) return {};
  std::erase_if(others, [&](const std::string& each) { return std::ranges::count(own, each) > 0; });
  return others;
}

JobConfig parse_job(const json& job, const JobOrigin& origin) {
  if (!job.is_object()) {
    throw InputError(origin.file + ": expected a JSON object { \"key\": value, ... }, found " +
                     shown(job));
  }
  std::vector<std::string> known = job_keys();
  for (const ArcfaceTorchKey& each : arcface_torch_keys()) known.emplace_back(each.key);
  const JobReader reader(job, origin);
  reader.check_keys(known);
  JobConfig config;
  visit_keys(config, reader);
  read_fp16(job, origin, config.precision);
  read_dali_aug(job, origin, config.augment);
  if (config.network == kNoNetwork && job.value("embedding_size", json()).is_null()) {
    config.embedding_size = 0;  // read from the data
  }
  if (!is_combined_margin(config.loss) && job.value("margin_gradient", json()).is_null()) {
    config.margin_gradient = MarginGradient::kExact;  // as in the papers of these losses
  }
  if (config.output.empty()) reader.fail("output", json(""), "the path of a folder");
  check_keys_together(config, origin);
  return config;
}

json to_json(const JobConfig& job) {
  json object = json::object();
  visit_keys(job, Writer{object});
  return object;
}

}  // namespace pfc
