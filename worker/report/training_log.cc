#include "worker/report/training_log.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "common/byte_size.h"
#include "common/files/file_error.h"
#include "worker/report/event_tail.h"

namespace pfc {
namespace {

namespace fs = std::filesystem;

// Version of the keys in metrics.jsonl. Version 1 had neither this key nor "kind" and "time".
constexpr int kTrainingLogSchema = 2;

bool holds_something(const fs::path& path) {
  const fs::file_status status = fs::symlink_status(path);
  if (fs::is_regular_file(status) || fs::is_directory(status)) return !fs::is_empty(path);
  return fs::exists(status);
}

/// Renames files and folders that are not empty, so that nothing is lost. Returns a message about
/// it; empty if nothing was renamed.
std::string set_aside(const std::vector<fs::path>& files) {
  std::vector<fs::path> full;
  for (const fs::path& file : files) {
    if (holds_something(file)) full.push_back(file);
  }
  if (full.empty()) return {};
  const auto aside = [](const fs::path& file, int number) {
    return fs::path(file.string() + ".old-" + std::to_string(number));
  };
  const auto taken = [&](int number) {
    return std::ranges::any_of(files, [&](const fs::path& file) {
      return fs::exists(fs::symlink_status(aside(file, number)));
    });
  };
  int number = 1;
  while (taken(number)) ++number;
  std::string text;
  for (const fs::path& file : full) {
    fs::rename(file, aside(file, number));
    text += (text.empty() ? "an earlier run's files are kept: " : ", ") +
            aside(file, number).filename().string();
  }
  return text;
}

}  // namespace

std::string utc_time(std::chrono::system_clock::time_point when) {
  using namespace std::chrono;
  const std::time_t seconds = system_clock::to_time_t(when);
  const auto millis = duration_cast<milliseconds>(when.time_since_epoch()).count() % 1000;
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char stamp[32];
  std::strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &utc);
  char text[48];
  std::snprintf(text, sizeof text, "%s.%03dZ", stamp, static_cast<int>(millis));
  return text;
}

std::string training_line(std::chrono::system_clock::time_point when, std::string_view message) {
  using namespace std::chrono;
  const std::time_t seconds = system_clock::to_time_t(when);
  const auto millis = duration_cast<milliseconds>(when.time_since_epoch()).count() % 1000;
  std::tm local{};
  localtime_r(&seconds, &local);
  char stamp[32];
  std::strftime(stamp, sizeof stamp, "%Y-%m-%d %H:%M:%S", &local);
  char head[64];
  std::snprintf(head, sizeof head, "Training: %s,%03d-", stamp, static_cast<int>(millis));
  return head + std::string(message);
}

std::string time_left(double seconds) {
  const auto whole = [](double count, const char* unit) {
    // NOLINTNEXTLINE(bugprone-incorrect-roundings): never negative
    const auto n = static_cast<long long>(count + 0.5);
    return std::to_string(n) + " " + unit + (n == 1 ? "" : "s");
  };
  if (seconds >= 2 * 3600 - 30) return whole(seconds / 3600, "hour");
  if (seconds >= 2 * 60 - 0.5) return whole(seconds / 60, "minute");
  return whole(seconds, "second");
}

void RemainingTime::add_step(double seconds) {
  constexpr double kStepsRemembered = 200;
  steps_.sum *= 1 - 1 / kStepsRemembered;
  steps_.count *= 1 - 1 / kStepsRemembered;
  steps_.add(seconds);
  others_.add(0);
}

void RemainingTime::add_checkpoint(std::int64_t step, double seconds) {
  if (plan_.reaches_multiple(step, schedule_.save_every_steps)) return checkpoints_.add(seconds);
  others_.sum += seconds;
}

double RemainingTime::after(std::int64_t step) const {
  if (step >= plan_.last_step) return 0;
  const double done = plan_.planned_steps_of(plan_.after(step).images);
  const auto end = static_cast<double>(plan_.planned_steps);
  // Returns how often this still happens: at each interval, and once after the last step.
  const auto still = [&](std::int64_t every) {
    if (every == 0) return 1.0;
    const auto interval = static_cast<double>(every);
    return std::ceil(end / interval) - 1 - std::floor(done / interval) + 1;
  };
  const auto steps_left = static_cast<double>(plan_.last_step - step);
  return (steps_.value() + others_.value()) * steps_left +
         evaluations_.value() * still(schedule_.verbose) +
         checkpoints_.value() * still(schedule_.save_every_steps);
}

std::string speed_message(const LogWindow& w) {
  char text[320];
  char scale[64] = "", distillation[64] = "", logits[64] = "";
  if (w.loss_scale) std::snprintf(scale, sizeof scale, "Fp16 Grad Scale: %g   ", *w.loss_scale);
  if (w.distillation_loss) {
    std::snprintf(distillation, sizeof distillation, "Distillation Loss %.4f   ",
                  *w.distillation_loss);
  }
  if (w.logits_loss) std::snprintf(logits, sizeof logits, "Logits Loss %.4f   ", *w.logits_loss);
  std::snprintf(text, sizeof text,
                "Speed %.2f samples/sec   Loss %.4f   %s%sLearningRate %.4f   Epoch: %lld   "
                "Global Step: %lld   %sRequired: %s",
                w.samples_per_second, w.loss, distillation, logits, w.lr,
                static_cast<long long>(w.epoch), static_cast<long long>(w.step), scale,
                time_left(w.seconds_left).c_str());
  return text;
}

std::string time_message(const std::map<std::string, double>& phases) {
  double total = 0;
  for (const auto& [phase, seconds] : phases) total += seconds;
  std::vector<std::pair<std::string, double>> longest_first(phases.begin(), phases.end());
  std::stable_sort(longest_first.begin(), longest_first.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string text = "where the time went:";
  for (const auto& [phase, seconds] : longest_first) {
    char share[32];
    std::snprintf(share, sizeof share, " %.1f %%,", 100 * seconds / total);
    text += " " + phase + share;
  }
  text.pop_back();
  return text;
}

std::string paging_message(const PagingCounters& p) {
  const auto bytes = [](std::int64_t pages) {
    return byte_size_text(static_cast<std::uint64_t>(pages) * kPageBytes);
  };
  char text[160];
  std::snprintf(
      text, sizeof text,
      "class centres on disk: %.1f %% of the %s used were in the cache, read %s, wrote %s, waited "
      "%.1f s",
      100 * static_cast<double>(p.hits) / static_cast<double>(std::max(p.used, 1L)),
      bytes(p.used).c_str(), bytes(p.read).c_str(), bytes(p.written).c_str(), p.waited_seconds);
  return text;
}

TrainingLog::TrainingLog(TrainingLogOptions options) : options_(std::move(options)) {
  const fs::path log = options_.output / "training.log";
  const fs::path metrics = options_.output / "metrics.jsonl";
  std::vector<fs::path> earlier{log, metrics};
  for (const char* name :
       {kTensorBoardFolder, "backbone.safetensors", "backbone.onnx", "model.pt"}) {
    earlier.push_back(options_.output / name);
  }
  std::string kept;
  if (options_.start.images > 0) {
    drop_events_after(metrics, options_.start.images);
  } else {
    kept = as_storage_error([&] { return set_aside(earlier); });
  }
  log_.emplace(log);
  metrics_.emplace(metrics);
  if (!kept.empty()) message(kept);
}

void TrainingLog::message(std::string_view text) {
  const std::string line = training_line(std::chrono::system_clock::now(), text);
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
  log_->write_line(line);
}

nlohmann::ordered_json TrainingLog::event(const char* kind, std::int64_t step) const {
  return {{"schema", kTrainingLogSchema},
          {"kind", kind},
          {"time", utc_time(std::chrono::system_clock::now())},
          {"generation", options_.generation},
          {"step", step},
          {"images_seen",
           options_.start.images + (step - options_.start.step) * options_.global_batch}};
}

void TrainingLog::write(const nlohmann::ordered_json& event) { metrics_->write_line(event.dump()); }

void TrainingLog::start(const StartRecord& r) {
  nlohmann::ordered_json object = event("start", r.steps_done);
  object.update({{"last_step", r.last_step},
                 {"network", r.network},
                 {"device", r.device},
                 {"precision", r.precision},
                 {"classes", r.classes},
                 {"images", r.images},
                 {"workers", r.workers},
                 {"batch_size", r.batch_size},
                 {"global_batch", options_.global_batch}});
  write(object);
}

void TrainingLog::step(const StepRecord& r) {
  std::map<std::string, double> phases;
  for (const PhaseTimer::Sample& s : r.phases) phases[s.phase] += s.seconds;
  const double head_seconds = phases["head"];
  nlohmann::ordered_json object = event("step", r.stats.step);
  object.update({{"epoch", r.stats.epoch},
                 {"loss", r.stats.loss},
                 {"lr", r.stats.lr},
                 {"gradient_norm", r.stats.gradient_norm}});
  if (r.stats.distillation_loss) object["distillation_loss"] = *r.stats.distillation_loss;
  if (r.stats.logits_loss) object["logits_loss"] = *r.stats.logits_loss;
  if (r.loss_scale) object["loss_scale"] = *r.loss_scale;
  object.update({{"samples_per_second", static_cast<double>(r.stats.samples) / r.step_seconds},
                 {"step_seconds", r.step_seconds},
                 {"head_share", head_seconds / r.step_seconds},
                 {"data_wait_seconds", r.stats.data_wait_seconds},
                 {"reduce_seconds", r.stats.reduce_seconds},
                 {"reduce_overlapped_seconds", r.stats.reduce_overlapped_seconds},
                 {"skipped_images", r.stats.skipped_images}});
  for (const auto& [purpose, counters] : r.comm) {
    object["comm_calls"][purpose] = counters.calls;
    object["comm_bytes"][purpose] = counters.sent_bytes;
  }
  object.update({{"resident_bytes", r.resident_bytes}, {"memory_bytes", r.peak_resident_bytes}});
  if (r.gpu_memory_bytes) object["gpu_memory_bytes"] = *r.gpu_memory_bytes;
  object["phases"] = phases;
  write(object);
}

void TrainingLog::evaluation(std::int64_t step, const VerificationResult& r) {
  char text[160];
  const std::string prefix = "[" + r.name + "][" + std::to_string(step) + "]";
  std::snprintf(text, sizeof text, "XNorm: %f", r.embedding_norm);
  message(prefix + text);
  std::snprintf(text, sizeof text, "Accuracy-Flip: %.5f+-%.5f", r.accuracy, r.deviation);
  message(prefix + text);
  nlohmann::ordered_json object = event("evaluation", step);
  object.update({{"val_target", r.name},
                 {"accuracy", r.accuracy},
                 {"accuracy_deviation", r.deviation},
                 {"threshold", r.threshold},
                 {"pairs", r.pairs},
                 {"xnorm", r.embedding_norm},
                 {"seconds", r.seconds}});
  write(object);
}

void TrainingLog::evaluation(std::int64_t step, const RetrievalResult& r) {
  nlohmann::ordered_json object = event("evaluation", step);
  object["val_target"] = r.name;
  std::string text = "[" + r.name + "][" + std::to_string(step) + "]", precisions;
  for (std::size_t i = 0; i < kRecallRanks.size(); ++i) {
    const std::string k = std::to_string(kRecallRanks[i]);
    text += fmt::format("{}Recall@{}: {:.5f}", i == 0 ? "" : "  ", k, r.recalls[i]);
    precisions += fmt::format("  P@{}: {:.5f}", k, r.precisions[i]);
    object["recall"][k] = r.recalls[i];
    object["precision"][k] = r.precisions[i];
  }
  text += precisions;
  message(text);
  object.update({{"images", r.images},
                 {"queries", r.queries},
                 {"xnorm", r.embedding_norm},
                 {"seconds", r.seconds}});
  write(object);
}

void TrainingLog::evaluation(std::int64_t step, const ClassificationResult& r) {
  nlohmann::ordered_json object = event("evaluation", step);
  object["val_target"] = r.name;
  std::string text = "[" + r.name + "][" + std::to_string(step) + "]";
  for (std::size_t i = 0; i < kTopRanks.size(); ++i) {
    const std::string k = std::to_string(kTopRanks[i]);
    text += fmt::format("{}Top-{}: {:.5f}", i == 0 ? "" : "  ", k, r.top[i]);
    object["top"][k] = r.top[i];
  }
  message(text);
  object.update({{"images", r.images}, {"xnorm", r.embedding_norm}, {"seconds", r.seconds}});
  write(object);
}

void TrainingLog::checkpoint(const CheckpointEvent& e) {
  nlohmann::ordered_json object = event("checkpoint", e.step);
  object.update({{"stage", e.published ? "published" : "begun"}, {"seconds", e.seconds}});
  write(object);
}

void TrainingLog::end(const EndRecord& r) {
  nlohmann::ordered_json object = event("end", r.step);
  object.update({{"reason", r.reason}, {"seconds", r.seconds}, {"phase_seconds", r.phase_seconds}});
  write(object);
}

}  // namespace pfc
