#include "worker/head/sample_margins.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>

#include "common/error.h"
#include "kernels/math/normal.h"
#include "kernels/math/optimizer.h"

namespace pfc {
namespace {

/// Updates the running mean and (unbiased) deviation of lengths. One sample has no deviation.
void update_lengths(double weight, std::span<const double> lengths, LossState& state) {
  const auto n = static_cast<double>(lengths.size());
  double sum = 0, squares = 0;
  for (const double length : lengths) sum += length;
  const double mean = sum / n;
  for (const double length : lengths) squares += (length - mean) * (length - mean);
  state.length_mean += weight * (mean - state.length_mean);
  if (lengths.size() < 2) return;
  state.length_deviation += weight * (std::sqrt(squares / (n - 1)) - state.length_deviation);
}

/// The longer the embedding, the smaller the angular part of the margin and the larger the additive
/// part. The order of the operations is that of AdaFace's code: the running values are updated
/// before they are used.
void margins_of(const AdaFace& loss, const SamplesOfStep& samples, LossState& state,
                StepMargins& margins) {
  std::vector<double> lengths(samples.lengths.begin(), samples.lengths.end());
  for (double& length : lengths) length = std::clamp(length, 0.001, 100.0);
  update_lengths(loss.t_alpha, lengths, state);
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const double scaled = (lengths[i] - state.length_mean) / (state.length_deviation + kAdaFaceEps);
    const double k = std::clamp(loss.h * scaled, -1.0, 1.0);
    margins.samples[i] = {.margin = {.m1 = 1, .m2 = -loss.m * k, .m3 = loss.m + loss.m * k}};
  }
}

/// The margin rises linearly with the length. The regulariser g(a) = a / u_a^2 + 1 / a falls with
/// it, up to u_a. Lengths are clamped to l_a .. u_a; a clamped length has no gradient.
void margins_of(const MagFace& loss, const SamplesOfStep& samples, LossState& /*state*/,
                StepMargins& margins) {
  const double slope = (loss.u_margin - loss.l_margin) / (loss.u_a - loss.l_a);
  double sum = 0;
  for (std::size_t i = 0; i < samples.lengths.size(); ++i) {
    const double a = std::clamp(samples.lengths[i], loss.l_a, loss.u_a);
    SampleMargin& own = margins.samples[i];
    own = {.margin = {.m1 = 1, .m2 = loss.l_margin + slope * (a - loss.l_a), .m3 = 0}};
    if (a == samples.lengths[i]) {
      own.m2_slope = slope;
      own.regulariser = loss.lambda_g * (1 / (loss.u_a * loss.u_a) - 1 / (a * a));
    }
    sum += loss.lambda_g * (a / (loss.u_a * loss.u_a) + 1 / a);
  }
  margins.added = sum / static_cast<double>(samples.lengths.size());
}

/// Returns the indices of the samples, those with the largest target cosine first, NaNs last.
std::vector<std::size_t> nearest_first(std::span<const float> target_cosines) {
  std::vector<std::size_t> order(target_cosines.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater{}, [&](std::size_t i) {
    return std::isnan(target_cosines[i]) ? -2.f : target_cosines[i];
  });
  return order;
}

/// Returns a margin for each sample: a function of (seed, step, sample). With `plus` the margins
/// are reassigned: the nearer a sample is to its centre, the smaller its margin.
std::vector<double> drawn(double mean, double deviation, bool plus, const SamplesOfStep& samples,
                          std::size_t count) {
  std::vector<double> margins(count);
  for (std::size_t i = 0; i < count; ++i) {
    const Philox4 words =
        random_words(samples.seed, Stream::kElasticMargin, static_cast<std::uint32_t>(samples.step),
                     static_cast<std::uint64_t>(samples.first) + i);
    margins[i] = mean + deviation * double{box_muller(words.x[0], words.x[1]).a};
  }
  if (!plus) return margins;
  std::vector<double> sorted = margins;
  std::ranges::sort(sorted);
  const std::vector<std::size_t> order = nearest_first(samples.target_cosines);
  for (std::size_t k = 0; k < count; ++k) margins[order[k]] = sorted[k];
  return margins;
}

void margins_of(const ElasticArcFace& loss, const SamplesOfStep& samples, LossState& /*state*/,
                StepMargins& margins) {
  const auto m = drawn(loss.m, loss.std, loss.plus, samples, margins.samples.size());
  for (std::size_t i = 0; i < m.size(); ++i) {
    margins.samples[i] = {.margin = {.m1 = 1, .m2 = m[i], .m3 = 0}};
  }
}

void margins_of(const ElasticCosFace& loss, const SamplesOfStep& samples, LossState& /*state*/,
                StepMargins& margins) {
  const auto m = drawn(loss.m, loss.std, loss.plus, samples, margins.samples.size());
  for (std::size_t i = 0; i < m.size(); ++i) {
    margins.samples[i] = {.margin = {.m1 = 1, .m2 = 0, .m3 = m[i]}};
  }
}

/// Another class is hard for a sample if its cosine is above cos(theta + m) of the target. t is
/// updated before it is used.
void margins_of(const CurricularFace& loss, const SamplesOfStep& samples, LossState& state,
                StepMargins& margins) {
  double sum = 0;
  for (const float cosine : samples.target_cosines) sum += double{cosine};
  const double mean = sum / static_cast<double>(samples.target_cosines.size());
  state.target_cosine += loss.t_alpha * (mean - state.target_cosine);
  margins.hardness = static_cast<float>(state.target_cosine);
  margins.hard_above.clear();
  for (const float cosine : samples.target_cosines) {
    const double theta = std::acos(std::clamp(double{cosine}, -1.0, 1.0));
    margins.hard_above.push_back(static_cast<float>(std::cos(theta + loss.m)));
  }
  std::ranges::fill(margins.samples, SampleMargin{.margin = {.m1 = 1, .m2 = loss.m, .m3 = 0}});
}

/// The threshold is subtracted from the target's logit as part of the margin, and from the other
/// logits as the offset.
void margins_of(const UniFace& loss, const SamplesOfStep& samples, LossState& state,
                StepMargins& margins) {
  margins.offset = static_cast<float>(-*state.threshold);
  const double m3 = loss.m + *state.threshold / samples.scale;
  std::ranges::fill(margins.samples, SampleMargin{.margin = {.m1 = 1, .m2 = 0, .m3 = m3}});
}

void margins_of(const CombinedMargin&, const SamplesOfStep&, LossState&, StepMargins&) {
  check(false, "sample_margins: all samples have the same margin");
}

void margins_of(const PlainSoftmax&, const SamplesOfStep&, LossState&, StepMargins&) {
  check(false, "sample_margins: samples have no margin");
}

}  // namespace

nlohmann::json to_json(const LossState& state) {
  nlohmann::json json = {{"length_mean", state.length_mean},
                         {"length_deviation", state.length_deviation},
                         {"target_cosine", state.target_cosine}};
  if (!state.threshold) return json;
  json["threshold"] = *state.threshold;
  json["threshold_momentum"] = state.threshold_momentum;
  json["threshold_second"] = state.threshold_second;
  return json;
}

LossState loss_state_of(const nlohmann::json& json) {
  const LossState start;
  LossState state{.length_mean = json.value("length_mean", start.length_mean),
                  .length_deviation = json.value("length_deviation", start.length_deviation),
                  .target_cosine = json.value("target_cosine", start.target_cosine)};
  if (!json.contains("threshold")) return state;
  state.threshold = json["threshold"].get<double>();
  state.threshold_momentum = json.value("threshold_momentum", 0.0);
  state.threshold_second = json.value("threshold_second", 0.0);
  return state;
}

bool has_sample_margins(const Loss& loss) {
  return !is_combined_margin(loss) && !is_plain_softmax(loss);
}

bool uses_lengths(const Loss& loss) {
  return std::holds_alternative<AdaFace>(loss) || std::holds_alternative<MagFace>(loss);
}

bool uses_target_cosines(const Loss& loss) {
  const auto* const arc = std::get_if<ElasticArcFace>(&loss);
  const auto* const cos = std::get_if<ElasticCosFace>(&loss);
  return has_hard_negatives(loss) || (arc != nullptr && arc->plus) || (cos != nullptr && cos->plus);
}

bool has_hard_negatives(const Loss& loss) { return std::holds_alternative<CurricularFace>(loss); }

TargetForm target_form(const Loss& loss) {
  if (std::holds_alternative<AdaFace>(loss)) return TargetForm::kAdaFace;
  if (std::holds_alternative<MagFace>(loss)) return TargetForm::kMagFace;
  if (has_hard_negatives(loss)) return TargetForm::kCurricularFace;
  if (is_plain_softmax(loss)) return TargetForm::kPlain;
  return TargetForm::kCombined;
}

void sample_margins(const Loss& loss, const SamplesOfStep& samples, LossState& state,
                    StepMargins& margins) {
  const std::size_t n = margins.samples.size();
  check(samples.lengths.size() == (uses_lengths(loss) ? n : 0) &&
            samples.target_cosines.size() == (uses_target_cosines(loss) ? n : 0),
        "sample_margins: expects lengths and target_cosines only if the loss uses them");
  std::visit([&](const auto& l) { margins_of(l, samples, state, margins); }, loss);
}

double first_threshold(std::int64_t classes) { return std::log(10 * static_cast<double>(classes)); }

void update_threshold(const MarginSoftmaxOptions& options, const MarginSoftmax::Update& update,
                      double gradient, LossState& state) {
  auto b = static_cast<float>(*state.threshold), g = static_cast<float>(gradient);
  auto momentum = static_cast<float>(state.threshold_momentum);
  auto second = static_cast<float>(state.threshold_second);
  if (options.optimizer == OptimizerKind::kSgd) {
    sgd_update(sgd_options(options, update), g, b, momentum);
  } else {
    adamw_update(adamw_options(update.lr, options.weight_decay, update.number), g, b, momentum,
                 second);
  }
  state.threshold = double{b};
  state.threshold_momentum = double{momentum};
  state.threshold_second = double{second};
}

}  // namespace pfc
