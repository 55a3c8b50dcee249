#include "model/networks/layers/batch_norm_layer.h"

namespace pfc {
namespace {

constexpr float kMomentum = 0.1f;

std::int64_t channels_of(const Tensor& x) { return x.shape[x.shape.rank() - 1]; }

bool needs_gradient(const Variable* v) { return v != nullptr && v->needs_gradient; }

}  // namespace

BatchNormLayer::BatchNormLayer(Ops& ops, const BatchNormVariables& variables, Comm* sync)
    : ops_(ops),
      v_(variables),
      sync_(v_.frozen ? nullptr : sync),
      channels_(channels_of(v_.x->data)),
      rows_(v_.x->data.elements() / channels_),
      total_rows_(rows_ * (sync_ == nullptr ? 1 : sync_->size())),
      norm_(ops.batch_norm({.rows = rows_, .channels = channels_, .eps = v_.epsilon})),
      statistics_(nullptr, {2 * channels_}),
      sums_(nullptr, {2 * channels_}),
      dslope_(nullptr, {channels_}) {
  if (sync_ == nullptr) return;
  over_workers_ = ops.batch_norm({.rows = sync_->size(), .channels = 2 * channels_});
  gathered_ = Tensor(nullptr, {sync_->size(), 2 * channels_});
  spread_ = Tensor(nullptr, {2 * channels_});
}

void BatchNormLayer::feed_statistics_to(BatchNormLayer& next) {
  if (next.v_.frozen) return;
  next_ = &next;
  next.statistics_are_fed_ = true;
}

Tensor BatchNormLayer::half(const Tensor& pair, int which) const {
  return {pair.f32() + which * channels_, {channels_}};
}

void BatchNormLayer::plan_forward(ActivationPlan& plan, bool training) {
  plan.use(v_.x->data);
  if (v_.residual != nullptr) plan.use(v_.residual->data);
  plan.make(v_.y->data);
  if (!training) return;
  if (next_ != nullptr) plan.make(next_->statistics_);
  if (v_.frozen) return;
  if (statistics_are_fed_) {
    plan.use(statistics_);
  } else {
    plan.make(statistics_);
  }
  plan.keep(statistics_);
  if (sync_ == nullptr) return;
  plan.make(gathered_);
  plan.make(spread_);
}

void BatchNormLayer::plan_backward(ActivationPlan& plan) {
  plan.use(v_.y->gradient);
  if (reduces() || v_.x->needs_gradient) {
    plan.use(v_.x->data);
    if (!v_.frozen) plan.use(statistics_);
    plan.make(sums_);
    if (v_.slope != nullptr) plan.make(dslope_);
  }
  // The derivative of z + residual with respect to the residual is 1, so z and the residual have
  // the same gradient, that of y. The residual's branch needs this gradient later, so dx may
  // overwrite it only if there is no branch.
  const bool branch = needs_gradient(v_.residual);
  if (branch) plan.make_in_place_of(v_.residual->gradient, v_.y->gradient);
  if (!v_.x->needs_gradient) return;
  adds_to_dx_ = plan.made(v_.x->gradient);
  if (adds_to_dx_) {
    plan.use(v_.x->gradient);
  } else if (branch) {
    plan.make(v_.x->gradient);
  } else {
    plan.make_in_place_of(v_.x->gradient, v_.y->gradient);
  }
}

void BatchNormLayer::forward(const ForwardPass& pass) {
  const bool of_batch = pass.training && !v_.frozen;
  if (of_batch && !pass.again) {
    if (!statistics_are_fed_) norm_->statistics(v_.x->data, mean(), variance());
    if (sync_ != nullptr) combine_over_workers();
    update_running_statistics();
  }
  const bool feed = pass.training && !pass.again && next_ != nullptr;
  norm_->forward({.x = v_.x->data,
                  .mean = of_batch ? mean() : v_.running_mean->data,
                  .variance = of_batch ? variance() : v_.running_variance->data,
                  .gamma = v_.gamma->data,
                  .beta = v_.beta->data,
                  .slope = v_.slope == nullptr ? Tensor{} : v_.slope->data,
                  .residual = v_.residual == nullptr ? Tensor{} : v_.residual->data,
                  .y = v_.y->data,
                  .y_mean = feed ? next_->mean() : Tensor{},
                  .y_variance = feed ? next_->variance() : Tensor{}});
}

// Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample
// variances", 1979: for parts of equal size, the mean is the mean of the means, and the variance
// is the mean of the variances plus the variance of the means.
void BatchNormLayer::combine_over_workers() {
  sync_->all_gather(statistics_, gathered_);
  over_workers_->statistics(gathered_, statistics_, spread_);
  ops_.add(variance(), half(spread_, 0), variance());
}

void BatchNormLayer::update_running_statistics() {
  ops_.update_running_statistics({.mean = mean(),
                                  .variance = variance(),
                                  .total_rows = total_rows_,
                                  .momentum = kMomentum,
                                  .running_mean = v_.running_mean->data,
                                  .running_variance = v_.running_variance->data});
}

void BatchNormLayer::backward(bool accumulate) {
  const BatchNorm::Backward b = {.dy = v_.y->gradient,
                                 .x = v_.x->data,
                                 .mean = v_.frozen ? v_.running_mean->data : mean(),
                                 .variance = v_.frozen ? v_.running_variance->data : variance(),
                                 .gamma = v_.gamma->data,
                                 .beta = v_.beta->data,
                                 .slope = v_.slope == nullptr ? Tensor{} : v_.slope->data,
                                 .sum_dz = half(sums_, 0),
                                 .sum_dz_xhat = half(sums_, 1),
                                 .dslope = dslope_,
                                 .total_rows = total_rows_,
                                 .add = adds_to_dx_ ? v_.x->gradient : Tensor{},
                                 .dx = v_.x->gradient};
  if (reduces()) {
    norm_->backward_reduce(b);
    store_gradient(b.sum_dz, v_.beta, accumulate);
    store_gradient(b.sum_dz_xhat, v_.gamma, accumulate);
    store_gradient(b.dslope, v_.slope, accumulate);
  }
  if (!v_.x->needs_gradient) return;
  if (v_.frozen) ops_.fill(sums_, 0.f);  // the statistics do not depend on x
  if (sync_ != nullptr) sync_->all_reduce_sum(sums_);
  norm_->backward_apply(b);
}

bool BatchNormLayer::reduces() const { return !v_.frozen || needs_gradient(v_.slope); }

void BatchNormLayer::store_gradient(const Tensor& sum, const Variable* parameter,
                                    bool accumulate) const {
  if (!needs_gradient(parameter)) return;
  if (accumulate) {
    ops_.add(parameter->gradient, sum, parameter->gradient);
  } else {
    ops_.copy(sum, parameter->gradient);
  }
}

}  // namespace pfc
