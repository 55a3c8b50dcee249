// Margins of the samples of a step, for losses whose margin differs between samples.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <vector>

#include "common/config/config.h"
#include "kernels/margin/margin_softmax.h"
#include "kernels/math/margin.h"

namespace pfc {

/// Values that a loss carries from step to step; the same on every worker. Starts as in AdaFace's
/// code.
struct LossState {
  double length_mean = 20, length_deviation = 100;  ///< AdaFace: of embeddings' lengths
  double target_cosine = 0;                         ///< t of CurricularFace
  std::optional<double> threshold;  ///< b of UniFace; the first step sets it to first_threshold()
  double threshold_momentum = 0, threshold_second = 0;  ///< optimizer's state of b

  friend bool operator==(const LossState&, const LossState&) = default;
};
nlohmann::json to_json(const LossState& state);
/// A missing value gets the value of a new job. Throws nlohmann::json::exception if a value is not
/// a number.
LossState loss_state_of(const nlohmann::json& json);

/// Returns whether samples have margins of their own.
bool has_sample_margins(const Loss& loss);
/// Returns whether the margins of this loss depend on the lengths of the embeddings.
bool uses_lengths(const Loss& loss);
/// Returns whether they depend on the cosines of the targets.
bool uses_target_cosines(const Loss& loss);
/// Returns whether the logits of other classes depend on those cosines: StepMargins::hard_above.
bool has_hard_negatives(const Loss& loss);
TargetForm target_form(const Loss& loss);

/// The samples of a micro-batch, of all workers.
struct SamplesOfStep {
  double scale = 1;                 ///< margin_scale
  std::span<const double> lengths;  ///< [N], of embeddings; empty if !uses_lengths()
  /// [N], cosines of the embeddings with their own centres; empty if !uses_target_cosines().
  std::span<const float> target_cosines;
  std::uint64_t seed = 0;
  std::int64_t step = 0;
  std::int64_t first = 0;  ///< index of the first sample among those of all micro-batches
};

struct StepMargins {
  std::vector<SampleMargin> samples;  ///< [N]
  std::vector<float> hard_above;      ///< [N] for CurricularFace, otherwise empty
  float hardness = 0;                 ///< this and hard_above: see MarginSoftmax::Batch
  float offset = 0;                   ///< MarginSoftmax::Batch::offset
  double added = 0;                   ///< what the loss adds to the mean cross entropy
};

/// Fills `margins`, of which `samples` has N elements, and updates the state. A pure function of
/// its arguments, so every worker computes the same. REQUIRES: has_sample_margins().
void sample_margins(const Loss& loss, const SamplesOfStep& samples, LossState& state,
                    StepMargins& margins);

/// Returns UniFace's first threshold, log(10 classes). If all cosines are 0, the other classes
/// together then add about 0.1 to a sample's loss. classes: expected number of active ones.
double first_threshold(std::int64_t classes);
/// Applies one step of the optimizer to the threshold.
void update_threshold(const MarginSoftmaxOptions& options, const MarginSoftmax::Update& update,
                      double gradient, LossState& state);

}  // namespace pfc
