#include "model/evaluation/template_pooling.h"

#include <algorithm>
#include <cmath>

#include "common/error.h"

namespace pfc {

std::int64_t Templates::find(std::int64_t id) const {
  const auto found = std::ranges::lower_bound(ids, id);
  return found != ids.end() && *found == id ? found - ids.begin() : -1;
}

TemplatePooling::TemplatePooling(std::int64_t dimension)
    : medium_sum_(static_cast<std::size_t>(dimension)), template_sum_(medium_sum_.size()) {}

void TemplatePooling::add(std::int64_t template_id, std::int64_t medium,
                          std::span<const float> feature) {
  check(feature.size() == medium_sum_.size(), "TemplatePooling: wrong dimension");
  if (begun_ && template_id == template_) {
    check(medium >= medium_, "TemplatePooling: media are not in order");
    if (medium != medium_) end_medium();
  } else {
    check(!begun_ || template_id > template_, "TemplatePooling: templates are not in order");
    if (begun_) end_template();
  }
  begun_ = true;
  template_ = template_id;
  medium_ = medium;
  ++images_;
  std::ranges::transform(medium_sum_, feature, medium_sum_.begin(), std::plus{});
}

void TemplatePooling::end_medium() {
  for (std::size_t k = 0; k < medium_sum_.size(); ++k) {
    template_sum_[k] += medium_sum_[k] / static_cast<float>(images_);
  }
  std::ranges::fill(medium_sum_, 0.f);
  images_ = 0;
}

void TemplatePooling::end_template() {
  end_medium();
  double squares = 0;
  for (const float x : template_sum_) squares += double{x} * double{x};
  const double length = squares > 0 ? std::sqrt(squares) : 1;
  done_.ids.push_back(template_);
  for (const float x : template_sum_) done_.rows.push_back(double{x} / length);
  std::ranges::fill(template_sum_, 0.f);
}

Templates TemplatePooling::finish() {
  if (begun_) end_template();
  begun_ = false;
  return std::move(done_);
}

}  // namespace pfc
