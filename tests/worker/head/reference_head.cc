// The head computed directly from its formulas in float64, with every logit and every gradient in
// memory.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <numbers>
#include <numeric>
#include <set>

#include "kernels/math/bfloat16.h"
#include "tests/worker/head/head_job.h"
#include "worker/head/sampling/class_sampler.h"

namespace pfc::testing {
namespace {

double length(const double* v, std::int64_t n) {
  double squares = 0;
  for (std::int64_t i = 0; i < n; ++i) squares += v[i] * v[i];
  return std::sqrt(squares);
}

struct Logit {
  double value = 0;
  double d_cos = 0;  // derivative of the value by the cosine
};

// The cosine for angles from 0 to pi. Beyond it keeps falling: by 2 for each further pi.
double falling_cosine(double angle) {
  double fallen = 0;
  for (; angle > std::numbers::pi; angle -= std::numbers::pi) fallen += 2;
  return std::cos(angle) - fallen;
}

Logit logit_of(const HeadOptions& o, const Margin& margin, double cos, bool target) {
  if (!target) {
    const double threshold = o.interclass_filtering_threshold;
    if (threshold > 0 && cos > threshold) return {};
    return {o.scale * cos, o.scale};
  }
  const double theta = std::acos(std::clamp(cos, -1.0, 1.0));
  const double angle = margin.m1 * theta + margin.m2;
  if (o.margin_gradient == MarginGradient::kStraightThrough) {
    return {o.scale * (std::cos(angle) - margin.m3), o.scale};
  }
  // Multiplied below by a vector of length sin theta. With rounding errors the length is about
  // 1e-16 instead of 0.
  const double slope = margin.m1 * std::abs(std::sin(angle)) / std::max(std::sin(theta), 1e-10);
  return {o.scale * (falling_cosine(angle) - margin.m3), o.scale * slope};
}

class Reference {
 public:
  explicit Reference(const HeadJob& job) : job_(job), o_(job.options), d_(o_.embedding_size) {
    out_.centres.assign(job.centres.begin(), job.centres.end());
    out_.momentum.resize(out_.centres.size());
    if (o_.optimizer == OptimizerKind::kAdamW) out_.second.resize(out_.centres.size());
  }

  HeadOutcome<double> run() {
    for (std::size_t i = 0; i < job_.micro_batches.size(); ++i) {
      const auto update = static_cast<std::int64_t>(i) / o_.gradient_acc + 1;
      micro_batch(job_.micro_batches[i], update);
      if (static_cast<std::int64_t>(i + 1) % o_.gradient_acc == 0) move_centres(update);
    }
    if (o_.optimizer == OptimizerKind::kSgd && o_.momentum == 0) out_.momentum.clear();
    return out_;
  }

 private:
  void micro_batch(const MicroBatch& batch, std::int64_t step) {
    const auto n = static_cast<std::int64_t>(batch.labels.size());
    settings_ = job_.settings_of(step);
    SampleOptions sample_options{.classes = o_.classes,
                                 .rate = settings_.sample_rate,
                                 .hold = o_.sample_hold,
                                 .seed = o_.seed};
    const CertainClasses certain =
        add_neighbours(sample_options, job_.neighbours, batch.labels, step);
    sample_options.rate = certain.rate;
    const std::vector<std::int64_t> active =
        sample_classes(sample_options, {0, o_.classes}, certain.classes, step);
    for (const std::int64_t c : active) gradients_[c].resize(static_cast<std::size_t>(d_));
    const std::vector<double> x(batch.embeddings.begin(), batch.embeddings.end());
    out_.losses.push_back(0);
    out_.logits_losses.push_back(0);
    out_.d_embeddings.emplace_back(x.size());
    labels_ = {batch.labels.begin(), batch.labels.end()};
    for (std::int64_t i = 0; i < n; ++i) {
      out_.losses.back() += sample(x.data() + i * d_, batch.labels[static_cast<std::size_t>(i)],
                                   active, out_.d_embeddings.back().data() + i * d_, n) /
                            static_cast<double>(n);
      if (batch.teacher.empty()) continue;
      out_.logits_losses.back() +=
          distil(x.data() + i * d_, batch.teacher.data() + i * o_.distillation.embedding_size,
                 active, out_.d_embeddings.back().data() + i * d_, n) /
          static_cast<double>(n);
    }
  }

  // Returns one sample's loss T^2 KL(q || p), without its weight, and adds its weighted gradients.
  // q is the teacher's softmax and p the network's, at temperature T.
  double distil(const double* x, const float* teacher, const std::vector<std::int64_t>& active,
                double* dx, std::int64_t n) {
    const double t = o_.distillation.temperature, x_length = length(x, d_);
    const std::int64_t e = o_.distillation.embedding_size;
    const std::vector<double> theirs(teacher, teacher + e);
    std::vector<double> cos, p, q;
    for (const std::int64_t c : active) {
      double product = 0;
      for (std::int64_t k = 0; k < e; ++k) {
        product += theirs[static_cast<std::size_t>(k)] *
                   double{job_.teacher_centres[static_cast<std::size_t>(c * e + k)]};
      }
      cos.push_back(cosine(x, x_length, c, false));
      p.push_back(std::exp(o_.scale * cos.back() / t));
      q.push_back(std::exp(o_.scale * product / length(theirs.data(), e) / t));
    }
    const double all_p = std::accumulate(p.begin(), p.end(), 0.0);
    const double all_q = std::accumulate(q.begin(), q.end(), 0.0);
    double loss = 0;
    for (std::size_t j = 0; j < active.size(); ++j) {
      p[j] /= all_p;
      q[j] /= all_q;
      loss += t * t * q[j] * std::log(q[j] / p[j]);
      const double d_cos = o_.distillation.weight * t * o_.scale * (p[j] - q[j]) /
                           static_cast<double>(n * o_.gradient_acc);
      add_gradients(x, x_length, active[j], cos[j], d_cos, dx);
    }
    return loss;
  }

  // Returns the active classes of the label's head.
  [[nodiscard]] std::vector<std::int64_t> of_same_head(const std::vector<std::int64_t>& active,
                                                       std::int64_t label) const {
    std::int64_t begin = 0, end = o_.classes;
    std::int64_t first = 0;
    for (const std::int64_t classes : o_.head_classes) {
      if (label >= first && label < first + classes) {
        begin = first;
        end = first + classes;
      }
      first += classes;
    }
    std::vector<std::int64_t> same;
    std::ranges::copy_if(active, std::back_inserter(same),
                         [&](std::int64_t c) { return c >= begin && c < end; });
    return same;
  }

  // Adds one sample's gradients; returns its loss.
  double sample(const double* x, std::int64_t label, const std::vector<std::int64_t>& all_active,
                double* dx, std::int64_t n) {
    const std::vector<std::int64_t> active = of_same_head(all_active, label);
    const double x_length = length(x, d_);
    std::vector<double> cos;
    std::vector<Logit> logits;
    double target = 0;
    for (const std::int64_t c : active) {
      cos.push_back(cosine(x, x_length, c, c == label));
      logits.push_back(logit_of(o_, settings_.margin, cos.back(), c == label));
      if (c == label) target = logits.back().value;
      if (!labels_.contains(c)) logits.back().value += settings_.drawn_logit;
    }
    double others = 0;  // sum of exp(logit - target) of all other classes
    for (std::size_t j = 0; j < active.size(); ++j) {
      if (active[j] != label) others += std::exp(logits[j].value - target);
    }
    for (std::size_t j = 0; j < active.size(); ++j) {
      const double p = active[j] == label ? -others / (1 + others)
                                          : std::exp(logits[j].value - target) / (1 + others);
      const double d_cos = p * logits[j].d_cos / static_cast<double>(n * o_.gradient_acc);
      if (o_.bf16_products && active[j] != label) {
        add_rounded_gradients(x, x_length, active[j], d_cos, dx);
      } else {
        add_gradients(x, x_length, active[j], cos[j], d_cos, dx);
      }
    }
    return std::log1p(others);
  }

  // Rounds an operand of a matrix product. Targets are not rounded.
  [[nodiscard]] double operand(double number) const {
    if (!o_.bf16_products) return number;
    return double{float_of(nearest_bfloat16(static_cast<float>(number)))};
  }

  [[nodiscard]] double cosine(const double* x, double x_length, std::int64_t c, bool target) const {
    const double* w = out_.centres.data() + c * d_;
    double dot = 0;
    for (std::int64_t k = 0; k < d_; ++k) {
      const double unit = x[k] / x_length;
      dot += target ? unit * w[k] : operand(unit) * operand(w[k]);
    }
    return std::clamp(dot / length_of(c), -1.0, 1.0);
  }

  // The factor d_cos / |w| is an operand too. The part along x, or w, is subtracted from each
  // product.
  void add_rounded_gradients(const double* x, double x_length, std::int64_t c, double d_cos,
                             double* dx) {
    const double* w = out_.centres.data() + c * d_;
    const double w_length = length_of(c);
    const double factor = operand(d_cos / w_length);
    double along_x = 0, along_w = 0;
    for (std::int64_t k = 0; k < d_; ++k) {
      along_x += factor * operand(w[k]) * x[k] / x_length;
      along_w += factor * operand(x[k] / x_length) * w[k] / w_length;
    }
    for (std::int64_t k = 0; k < d_; ++k) {
      dx[k] += (factor * operand(w[k]) - along_x * x[k] / x_length) / x_length;
      gradients_[c][static_cast<std::size_t>(k)] +=
          factor * operand(x[k] / x_length) - along_w * w[k] / w_length;
    }
  }

  void add_gradients(const double* x, double x_length, std::int64_t c, double cos, double d_cos,
                     double* dx) {
    const double* w = out_.centres.data() + c * d_;
    const double w_length = length_of(c);
    for (std::int64_t k = 0; k < d_; ++k) {
      const double ux = x[k] / x_length;
      const double uw = w[k] / w_length;
      dx[k] += d_cos * (uw - cos * ux) / x_length;
      gradients_[c][static_cast<std::size_t>(k)] += d_cos * (ux - cos * uw) / w_length;
    }
  }

  double length_of(std::int64_t c) const { return length(out_.centres.data() + c * d_, d_); }

  // Moves every centre, even one without a gradient.
  void move_centres(std::int64_t update) {
    for (std::int64_t c = 0; c < o_.classes; ++c) {
      const auto found = gradients_.find(c);
      for (std::int64_t k = 0; k < d_; ++k) {
        const double g = found == gradients_.end() ? 0 : found->second[static_cast<std::size_t>(k)];
        move(static_cast<std::size_t>(c * d_ + k), g, update);
      }
    }
    gradients_.clear();
  }

  void move(std::size_t i, double gradient, std::int64_t update) {
    double& w = out_.centres[i];
    double& m = out_.momentum[i];
    if (o_.optimizer == OptimizerKind::kSgd) {
      m = o_.momentum * m + gradient + o_.weight_decay * w;
      w -= job_.lr_of(update) * m;
      return;
    }
    double& v = out_.second[i];
    const auto t = static_cast<double>(update);
    w *= 1 - job_.lr_of(update) * o_.weight_decay;
    m = 0.9 * m + 0.1 * gradient;
    v = 0.999 * v + 0.001 * gradient * gradient;
    w -= job_.lr_of(update) * (m / (1 - std::pow(0.9, t))) /
         (std::sqrt(v / (1 - std::pow(0.999, t))) + 1e-8);
  }

  const HeadJob& job_;
  const HeadOptions& o_;
  const std::int64_t d_;
  HeadOutcome<double> out_;
  std::set<std::int64_t> labels_;                          // of the current micro-batch
  HeadSettings settings_;                                  // of the current update
  std::map<std::int64_t, std::vector<double>> gradients_;  // of the active classes
};

}  // namespace

HeadOutcome<double> reference_head(const HeadJob& job) { return Reference(job).run(); }

}  // namespace pfc::testing
