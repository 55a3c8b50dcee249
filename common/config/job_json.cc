#include "common/config/job_json.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>

#include "common/config/json_reader.h"
#include "common/config/keys/arcface_torch_keys.h"
#include "common/config/keys/job_keys.h"
#include "common/config/keys/keys_together.h"
#include "common/config/no_network.h"
#include "common/error.h"

namespace pfc {
namespace {

using namespace keys;
using nlohmann::json;

json object_of(const Augmentation& augment);
json object_of(const RandomResizedCrop& crop);
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
      inner.optional_number("lr", rule.lr, kNotNegative);
      inner.optional_number("weight_decay", rule.weight_decay, kNotNegative);
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
          R"(true, false, or {"flip": true, "blur": 0.2, ...}, where 0.2 is a fraction of images)");
    }
    out = {};
    const JobReader inner(*value, job_origin_, key + ".");
    inner.check_keys(keys_of(object_of(out)));
    visit_augmentation(out, inner);
  }

  void random_resized_crop(const std::string& key, std::optional<RandomResizedCrop>& out) const {
    const json* value = find(key);
    if (value == nullptr) return;
    out.reset();
    if (*value == false) return;
    out.emplace();
    if (*value == true) return;
    if (!value->is_object()) {
      fail(key, *value, R"(true, false, or {"scale": [0.08, 1], "ratio": [0.75, 1.3333]})");
    }
    const JobReader inner(*value, job_origin_, path_ + key + ".");
    inner.check_keys(keys_of(object_of(*out)));
    visit_random_resized_crop(*out, inner);
    const auto check_rising = [&](const char* name, const auto& range, std::string_view expected) {
      if (range[0] > range[1]) inner.fail(name, json(range), expected);
    };
    check_rising("scale", out->scale, kPartOfImage.text);
    check_rising("ratio", out->ratio, kAspectRatio.text);
  }

  /// Reads an array of n numbers.
  template <std::size_t n>
  void reals(const std::string& key, std::array<double, n>& out, const NumberRange& range) const {
    const json* value = find(key);
    if (value == nullptr) return;
    if (!value->is_array() || value->size() != n) fail(key, *value, range.text);
    for (std::size_t i = 0; i < n; ++i) out[i] = real(key, (*value)[i], range);
  }

  /// Reads an array of patterns. True means all names, and false none.
  void patterns(const std::string& key, std::vector<std::string>& out) const {
    const json* value = find(key);
    if (value == nullptr) return;
    if (value->is_array()) return JsonReader::texts(key, out);
    if (!value->is_boolean()) fail(key, *value, R"(true, false, or names, for example ["layer1"])");
    out = value->get<bool>() ? std::vector<std::string>{"*"} : std::vector<std::string>{};
  }

  void optional_number(const std::string& key, std::optional<double>& out,
                       const NumberRange& range) const {
    if (find(key) != nullptr) number(key, out.emplace(), range);
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
  void optional_number(const char* key, const std::optional<double>& value, const NumberRange&) {
    object[key] = value ? json(*value) : json();
  }
  void flag(const char* key, bool value) { object[key] = value; }
  void text(const char* key, const std::string& value) { object[key] = value; }
  void path(const char* key, const std::filesystem::path& value) { object[key] = value.string(); }
  void texts(const char* key, const std::vector<std::string>& value) { object[key] = value; }
  void patterns(const char* key, const std::vector<std::string>& value) {
    object[key] = value;
    if (value.empty()) object[key] = false;
    if (value == std::vector<std::string>{"*"}) object[key] = true;
  }
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

  void random_resized_crop(const char* key, const std::optional<RandomResizedCrop>& value) {
    object[key] = value ? object_of(*value) : json(false);
  }
  template <std::size_t n>
  void reals(const char* key, const std::array<double, n>& value, const NumberRange&) {
    object[key] = value;
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

/// Returns the object to which `visit` writes with a Writer.
template <class Visit>
json written(const Visit& visit) {
  json object = json::object();
  visit(Writer{object});
  return object;
}

json object_of(const Augmentation& augment) {
  return written([&](Writer writer) { visit_augmentation(augment, writer); });
}

json object_of(const RandomResizedCrop& crop) {
  return written([&](Writer writer) { visit_random_resized_crop(crop, writer); });
}

json object_of(const MarginUpdate& update) {
  return written([&](Writer writer) { visit_margin_update(update, writer); });
}

json object_of(const LrSchedule& schedule) {
  return written([&](Writer writer) { visit_schedule(schedule, writer); });
}

json object_of(const Loss& loss) {
  return written([&](Writer writer) {
    for (const auto& [name, meaning] : kLosses) {
      if (loss.index() == meaning.index()) writer.object["name"] = name;
    }
    std::visit([&](const auto& l) { visit_loss(l, writer); }, loss);
  });
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
  return written([&](Writer writer) { visit_keys(job, writer); });
}

}  // namespace pfc
