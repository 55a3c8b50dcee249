#include "kernels/margin/margin_softmax.h"

namespace pfc {

CentrePrecision precision_of(const CentreTable& t) {
  const bool half_weight = t.weight.dtype == DType::kBFloat16;
  const bool half_momentum = t.momentum.dtype == DType::kBFloat16;
  check(half_momentum || !half_weight, "margin softmax: bf16 centres with fp32 momentum");
  check(!t.second || t.second.dtype == t.momentum.dtype, "margin softmax: AdamW's two moments");
  if (half_weight) return CentrePrecision::kBf16;
  return half_momentum ? CentrePrecision::kBf16Momentum : CentrePrecision::kFp32;
}

SgdOptions sgd_options(const MarginSoftmaxOptions& o, const MarginSoftmax::Update& update) {
  return {.lr = static_cast<float>(update.lr),
          .momentum = static_cast<float>(o.momentum),
          .weight_decay = static_cast<float>(o.weight_decay)};
}

PastUpdate past_update(const MarginSoftmaxOptions& o, const MarginSoftmax::Update& update) {
  const bool sgd = o.optimizer == OptimizerKind::kSgd;
  return {.lr = static_cast<float>(update.lr),
          .momentum_or_number =
              sgd ? static_cast<float>(o.momentum) : static_cast<float>(update.number),
          .weight_decay = static_cast<float>(o.weight_decay)};
}

}  // namespace pfc
