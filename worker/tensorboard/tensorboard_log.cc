#include "worker/tensorboard/tensorboard_log.h"

#include <cmath>
#include <utility>
#include <vector>

#include "data/images/jpeg_encoder.h"
#include "worker/tensorboard/event_folder.h"
#include "worker/tensorboard/summaries.h"

namespace pfc {
namespace {

// At this quality the colours of faces differ from the pixels by about 2 of 255.
constexpr int kJpegQuality = 95;

std::filesystem::path begin_file(const TensorBoardOptions& o) {
  if (o.first_step > 1) drop_orphaned_events(o.folder, o.first_step);
  return next_event_file(o.folder);
}

void add_distribution(tensorboard::Summary& summary, const std::string& name,
                      std::span<const float> values) {
  const Distribution distribution = distribution_of(values);
  if (distribution.buckets.empty()) return;
  add_histogram(summary, tag_of("embeddings", name), distribution.buckets);
  add_scalar(summary, tag_of("embeddings", name + "_mean"), distribution.mean);
}

void add_sampled_images(tensorboard::Summary& summary, const StepSample& sample) {
  if (sample.images.empty()) return;
  const Shape& shape = sample.images_shape;
  const auto height = static_cast<int>(shape[1]), width = static_cast<int>(shape[2]);
  const std::size_t bytes = sample.images.size() / static_cast<std::size_t>(shape[0]);
  std::vector<std::vector<std::byte>> files;
  for (std::size_t begin = 0; begin < sample.images.size(); begin += bytes) {
    const auto image = std::span(sample.images).subspan(begin, bytes);
    files.push_back(encode_jpeg(image, height, width, kJpegQuality));
  }
  add_images(summary, tag_of("batch", "images"), width, height, files);
}

}  // namespace

TensorBoardLog::TensorBoardLog(const TensorBoardOptions& options)
    : file_(begin_file(options), options.first_step) {}

void TensorBoardLog::step(const StepRecord& record) {
  ++sums_.steps;
  sums_.step_seconds += record.step_seconds;
  sums_.data_wait_seconds += record.stats.data_wait_seconds;
  if (std::isfinite(record.stats.gradient_norm)) {
    sums_.gradient_norm += record.stats.gradient_norm;
    ++sums_.gradient_norms;
  }
  for (const PhaseTimer::Sample& s : record.phases) sums_.phases[s.phase] += s.seconds;
}

void TensorBoardLog::line(const LogWindow& window) {
  const Sums sums = std::exchange(sums_, {});
  tensorboard::Summary summary;
  const auto add = [&](const char* group, const std::string& name, double value) {
    add_scalar(summary, tag_of(group, name), value);
  };
  add("train", "loss", window.loss);
  if (window.distillation_loss) add("train", "distillation_loss", *window.distillation_loss);
  if (window.logits_loss) add("train", "logits_loss", *window.logits_loss);
  add("train", "learning_rate", window.lr);
  add("train", "epoch", static_cast<double>(window.epoch));
  if (sums.gradient_norms > 0) {
    add("train", "gradient_norm", sums.gradient_norm / sums.gradient_norms);
  }
  if (window.loss_scale) add("train", "loss_scale", *window.loss_scale);
  add("speed", "samples_per_second", window.samples_per_second);
  if (sums.steps > 0) {
    add("speed", "step_seconds", sums.step_seconds / sums.steps);
    add("speed", "data_wait_seconds", sums.data_wait_seconds / sums.steps);
    for (const auto& [phase, seconds] : sums.phases) add("phases", phase, seconds / sums.steps);
  }
  file_.write(window.step, std::move(summary));
}

void TensorBoardLog::evaluation(std::int64_t step, const VerificationResult& result) {
  tensorboard::Summary summary;
  add_scalar(summary, tag_of("verification", result.name), result.accuracy);
  add_scalar(summary, tag_of("verification_deviation", result.name), result.deviation);
  add_scalar(summary, tag_of("verification_threshold", result.name), result.threshold);
  file_.write(step, std::move(summary));
}

void TensorBoardLog::evaluation(std::int64_t step, const RetrievalResult& result) {
  tensorboard::Summary summary;
  for (std::size_t i = 0; i < kRecallRanks.size(); ++i) {
    const std::string k = std::to_string(kRecallRanks[i]);
    add_scalar(summary, tag_of("recall_at_" + k, result.name), result.recalls[i]);
    add_scalar(summary, tag_of("precision_at_" + k, result.name), result.precisions[i]);
  }
  file_.write(step, std::move(summary));
}

void TensorBoardLog::evaluation(std::int64_t step, const ClassificationResult& result) {
  tensorboard::Summary summary;
  for (std::size_t i = 0; i < kTopRanks.size(); ++i) {
    add_scalar(summary, tag_of("top_" + std::to_string(kTopRanks[i]), result.name), result.top[i]);
  }
  file_.write(step, std::move(summary));
}

void TensorBoardLog::sample(std::int64_t step, const StepSample& sample) {
  tensorboard::Summary summary;
  add_distribution(summary, "length", sample.lengths);
  add_distribution(summary, "target_cosine", sample.target_cosines);
  if (!sample.images.empty()) add_sampled_images(summary, sample);
  file_.write(step, std::move(summary));
}

}  // namespace pfc
