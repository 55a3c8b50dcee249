// A softmax over classes that are sharded over several workers. Each worker computes statistics of
// its part of a sample's logits; the loss and the probabilities are computed from all parts.
#pragma once

#include <cmath>
#include <limits>

#include "kernels/math/host_device.h"

namespace pfc {

/// Statistics of one sample's logits on one worker. max and sum exclude the targets, so that
/// neither the loss nor 1 - p(target) is a difference of nearly equal numbers.
struct RowStatistics {
  /// The maximum of all logits except the targets'. Binary cross-entropy: 0.
  double max = -std::numeric_limits<double>::infinity();
  /// The sum of exp(logit - max) over all logits except the targets'. Binary cross-entropy: the sum
  /// of log(1 + exp(logit)) over these logits.
  double sum = 0;
  /// The target's logit, or the log sum exp of several targets' logits. -infinity: no target here.
  double target = -std::numeric_limits<double>::infinity();
};

/// Adds the logit of a target, or the log sum exp of the logits of several targets.
PFC_HOST_DEVICE void add_target(RowStatistics& s, double logit) {
  constexpr double kNone = -std::numeric_limits<double>::infinity();
  if (logit == kNone) return;
  if (s.target == kNone) {
    s.target = logit;
  } else {
    const bool larger = logit > s.target;
    const double high = larger ? logit : s.target, low = larger ? s.target : logit;
    s.target = high + std::log1p(std::exp(low - high));
  }
}

/// Merges b into a, which then has the statistics of the classes of a and of b. b may have no
/// classes.
PFC_HOST_DEVICE void merge(RowStatistics& a, const RowStatistics& b) {
  if (b.sum != 0) {
    const double max = b.max > a.max ? b.max : a.max;
    a.sum = (a.sum == 0 ? 0 : a.sum * std::exp(a.max - max)) + b.sum * std::exp(b.max - max);
    a.max = max;
  }
  add_target(a, b.target);
}

/// Softmax cross entropy of one sample. For binary cross-entropy see row_binary().
struct RowSoftmax {
  double loss = 0;         ///< log sum exp - target; accurate even near 0 and for huge logits
  double others = 0;       ///< probability of all classes except the targets; precise near 0
  double probability = 0;  ///< p(class) = probability * exp(logit - max) for the other classes
  double uniform = 0;      ///< p(class) - uniform = d loss / d logit of the other classes
};

PFC_HOST_DEVICE RowSoftmax row_softmax(const RowStatistics& s) {
  if (s.sum == 0) return {};  // no class except the target
  const double excess = s.max + std::log(s.sum) - s.target;
  RowSoftmax r;
  r.loss = excess > 0 ? excess + std::log1p(std::exp(-excess)) : std::log1p(std::exp(excess));
  r.others = 1 / (1 + std::exp(-excess));
  r.probability = r.others / s.sum;
  return r;
}

/// Binary cross-entropy of one sample (Zhou et al., "UniFace", ICCV 2023): loss = log(1 +
/// exp(-target)) + the sum of log(1 + exp(logit)) over the other classes. d loss / d target =
/// -others; d loss / d logit = probability * sigmoid(logit), where probability = 1.
PFC_HOST_DEVICE RowSoftmax row_binary(const RowStatistics& s) {
  RowSoftmax r;
  const double pull = -s.target;
  r.loss = s.sum + (pull > 0 ? pull + std::log1p(std::exp(-pull)) : std::log1p(std::exp(pull)));
  r.others = 1 / (1 + std::exp(-pull));
  r.probability = 1;
  return r;
}

/// Changes the loss to that of several targets with equal wanted probabilities: -mean log p.
/// all_targets: the log sum exp of their logits; mean: the mean of their logits.
PFC_HOST_DEVICE void spread_over_targets(RowSoftmax& r, double all_targets, double mean) {
  r.loss += all_targets - mean;
}

/// Changes the wanted probabilities from 1 for the target to 1 - smoothing, and from 0 to smoothing
/// / classes for every class, including the target (label smoothing: Szegedy et al., arXiv
/// 1512.00567, section 7). logits: the sum of the logits of all classes. target: the target's
/// logit, or the mean of the logits of several targets.
PFC_HOST_DEVICE void smooth_labels(RowSoftmax& r, double smoothing, double target, double logits,
                                   double classes) {
  if (classes <= 1) return;
  r.uniform = smoothing / classes;
  r.loss += smoothing * (target - logits / classes);
}

/// One of a sample's targets.
struct TargetShare {
  double wanted = 1;      ///< the target's wanted probability: 1 / number of targets
  double of_targets = 1;  ///< the target's probability / the probability of all targets
};

/// Returns -d loss / d logit of a target: wanted probability - probability. With one target and
/// without smoothing this is 1 - p(target), computed without subtracting nearly equal numbers.
PFC_HOST_DEVICE double target_pull(const RowSoftmax& r, double smoothing, TargetShare t = {}) {
  const double pull = t.wanted - t.of_targets + t.of_targets * r.others;
  return r.uniform > 0 ? pull - (smoothing * t.wanted - r.uniform) : pull;
}

}  // namespace pfc
