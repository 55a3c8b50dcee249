// Templates of IJB-B and IJB-C: one embedding for all images of a template.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace pfc {

struct Templates {
  std::vector<std::int64_t> ids;  ///< ascending
  std::vector<double> rows;       ///< [ids.size(), D]; each has length 1

  /// Returns the index of the template; -1 if it does not exist. O(log n).
  [[nodiscard]] std::int64_t find(std::int64_t id) const;
};

/// Combines the features of each template's images, one after another, as InsightFace's
/// image2template_feature() does. The features of a medium's images (a video's frames) are
/// averaged, and the means of the media are added, both in float32. The sum is then divided by its
/// length, in float64. Holds the sums of the current template, and all finished templates.
class TemplatePooling {
 public:
  explicit TemplatePooling(std::int64_t dimension);

  /// feature: [D]. REQUIRES: calls are ordered by template, and by medium within a template.
  void add(std::int64_t template_id, std::int64_t medium, std::span<const float> feature);
  [[nodiscard]] Templates finish();

 private:
  void end_medium();
  void end_template();

  std::vector<float> medium_sum_, template_sum_;  ///< [D]
  std::int64_t template_ = 0, medium_ = 0, images_ = 0;
  bool begun_ = false;
  Templates done_;
};

}  // namespace pfc
