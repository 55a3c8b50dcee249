// Distillation of logits (Hinton et al., "Distilling the Knowledge in a Neural Network", arXiv
// 1503.02531, section 2): the loss of a sample is T^2 KL(q || p), where q and p are the softmaxes
// of the teacher's and the network's logits / T. Both logits are scale * cosine, without margin.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/math/host_device.h"

namespace pfc {

struct LogitDistillation {
  double weight = 0;                ///< factor of the loss; 0: off
  double temperature = 4;           ///< T; REQUIRES: scale / T is at most kMostDistilledScale
  std::int64_t embedding_size = 0;  ///< of the teacher

  [[nodiscard]] bool on() const { return weight > 0; }
};

/// Sums over the active classes of all workers for one sample, where b is the teacher's logit / T
/// and a the network's. Cosines limit a and b, so these sums need no maximum.
struct DistilledSums {
  double network = 0;     ///< sum of exp(a)
  double teacher = 0;     ///< sum of exp(b)
  double difference = 0;  ///< sum of exp(b) (b - a)
};
/// Number of these sums for a sample. The workers add each of them.
constexpr std::int64_t kDistilledSums = 3;

/// Returns T^2 KL(q || p). d loss / d a = T^2 (p - q) = T^2 (exp(a) / network - exp(b) / teacher).
PFC_HOST_DEVICE double distilled_loss(const DistilledSums& s, double temperature) {
  return temperature * temperature *
         (s.difference / s.teacher + std::log(s.network) - std::log(s.teacher));
}

/// Returns the factor f in d loss / d cosine = f (p - q), for a mean over `samples` that is
/// multiplied by weight and gradient_scale.
PFC_HOST_DEVICE double distilled_factor(const LogitDistillation& d, double scale,
                                        double gradient_scale, std::int64_t samples) {
  return gradient_scale * d.weight * d.temperature * scale / static_cast<double>(samples);
}

}  // namespace pfc
