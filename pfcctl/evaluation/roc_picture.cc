#include "pfcctl/evaluation/roc_picture.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "common/one_line.h"

namespace pfc {

namespace {

// Pixels. The legend is below the plot, so that it hides no curve.
constexpr double kLeft = 70, kTop = 20, kWidth = 620, kHeight = 420, kLegendLine = 20;
// Okabe and Ito's colours, which colour-blind people can distinguish.
constexpr std::array<const char*, 7> kColours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                 "#56b4e9", "#e69f00", "#000000"};

struct Axes {
  int decades = 0;   ///< FPR from 10^-decades to 1
  double least = 0;  ///< TPR from here to 1

  [[nodiscard]] double x(double fpr) const {
    const double lowest = std::pow(10, -decades);
    return kLeft + kWidth * (std::log10(std::max(fpr, lowest)) + decades) / decades;
  }
  [[nodiscard]] double y(double tpr) const {
    return kTop + kHeight * (1 - std::max(tpr - least, 0.) / (1 - least));
  }
};

Axes axes_of(const std::vector<NamedRoc>& curves) {
  Axes axes{.decades = 1, .least = 0.9};
  for (const NamedRoc& curve : curves) {
    const double resolved = std::ceil(std::log10(static_cast<double>(curve.roc.impostors)) - 1e-9);
    axes.decades = std::max(axes.decades, static_cast<int>(resolved));
  }
  for (const NamedRoc& curve : curves) {
    double tpr = 0;  // TPR without a false accept
    for (const RocPoint& p : curve.roc.points) tpr = p.fpr > 0 ? tpr : p.tpr;
    axes.least = std::min(axes.least, std::floor(tpr * 10) / 10);
  }
  return axes;
}

std::string text(double x, double y, const char* anchor, const std::string& words) {
  return fmt::format(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>)"
                     "\n",
                     x, y, anchor, words);
}

std::string line(double x1, double y1, double x2, double y2) {
  return fmt::format(R"(<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" stroke="#ccc"/>)"
                     "\n",
                     x1, y1, x2, y2);
}

std::string grid(const Axes& axes) {
  const double bottom = kTop + kHeight, right = kLeft + kWidth;
  std::string svg;
  for (int decade = -axes.decades; decade <= 0; ++decade) {
    const double x = axes.x(std::pow(10, decade));
    svg += line(x, kTop, x, bottom) +
           text(x, bottom + 18, "middle", decade == 0 ? "1" : fmt::format("1e{}", decade));
  }
  const int first = static_cast<int>(std::lround(axes.least * 100));
  const int step = first < 50 ? 20 : first < 90 ? 10 : 2;
  for (int percent = first; percent <= 100; percent += step) {
    const double y = axes.y(percent / 100.);
    svg += line(kLeft, y, right, y) +
           text(kLeft - 8, y + 4, "end", fmt::format("{:.2f}", percent / 100.));
  }
  svg += text(kLeft + kWidth / 2, bottom + 40, "middle", "false positive rate (FPR, FAR)");
  svg += fmt::format(R"x(<text transform="translate(20 {:.0f}) rotate(-90)" text-anchor="middle">)x"
                     "true positive rate (TPR, TAR)</text>\n",
                     kTop + kHeight / 2);
  return svg;
}

/// Returns the curve as the data of an SVG path. Omits a point that is less than half a pixel from
/// the previous point of the path, unless its FPR is 1.
std::string path_of(const Roc& roc, const Axes& axes) {
  std::string path;
  double last_x = -1, last_y = -1;
  for (const RocPoint& p : roc.points) {
    const double x = axes.x(p.fpr), y = axes.y(p.tpr);
    if (std::hypot(x - last_x, y - last_y) < 0.5 && p.fpr < 1) continue;
    path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : " L", x, y);
    last_x = x;
    last_y = y;
  }
  return path;
}

std::string escaped(const std::string& name) {
  std::string out;
  for (const char c : one_line(name)) {
    if (c == '<')
      out += "&lt;";
    else if (c == '&')
      out += "&amp;";
    else
      out += c;
  }
  return out;
}

}  // namespace

std::string roc_picture(const std::vector<NamedRoc>& curves) {
  const Axes axes = axes_of(curves);
  const double legend = kTop + kHeight + 66;
  const double width = kLeft + kWidth + 30;
  const double height = legend + kLegendLine * static_cast<double>(curves.size());
  std::string svg =
      fmt::format(R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0:.0f}" height="{1:.0f}" )"
                  R"(viewBox="0 0 {0:.0f} {1:.0f}" font-family="sans-serif" font-size="13">)"
                  "\n"
                  R"(<rect width="100%" height="100%" fill="white"/>)"
                  "\n",
                  width, height);
  svg += grid(axes);
  for (std::size_t i = 0; i < curves.size(); ++i) {
    const char* colour = kColours[i % kColours.size()];
    const char* dashes = i < kColours.size() ? "none" : "6 4";
    const double y = legend + kLegendLine * static_cast<double>(i);
    for (const std::string& path :
         {path_of(curves[i].roc, axes), fmt::format("M{:.1f} {:.1f} h 30", kLeft, y - 4)}) {
      svg += fmt::format(
          R"(<path d="{}" fill="none" stroke="{}" stroke-width="2" stroke-dasharray="{}"/>)"
          "\n",
          path, colour, dashes);
    }
    svg += text(kLeft + 40, y, "start",
                fmt::format("{} (EER {:.2f} %)", escaped(curves[i].name),
                            100 * equal_error_rate(curves[i].roc)));
  }
  return svg + "</svg>\n";
}

}  // namespace pfc
