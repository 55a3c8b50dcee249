#include "pfcctl/data/align/landmarks.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "common/error.h"
#include "data/damaged_image.h"
#include "data/layouts/layout.h"
#include "data/text_lines.h"

namespace pfc {
namespace {

namespace fs = std::filesystem;

using Numbers = std::array<double, 10>;

std::optional<double> coordinate_in(std::string_view text) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number);
  if (parsed.ec != std::errc() || parsed.ptr != end || !std::isfinite(number)) return {};
  return number;
}

/// Returns whether the fields are a face2rec2 line of an image that is not aligned: 0, path, label,
/// optionally a box of four numbers, and landmarks.
bool is_face2rec2(std::span<const std::string_view> fields) {
  return (fields.size() == 13 || fields.size() == 17) && fields[0] == "0" &&
         is_image_name(fs::path(fields[1]));
}

/// Parses a line: an image path that may contain blanks, and ten numbers.
std::pair<std::string_view, std::optional<Numbers>> parse_line(
    std::span<const std::string_view> fields) {
  Numbers numbers{};
  if (fields.size() <= numbers.size()) return {fields.front(), std::nullopt};
  const std::string_view path =
      is_face2rec2(fields) ? fields[1] : joined(fields.first(fields.size() - numbers.size()));
  if (fields.size() > numbers.size() + 1 && !is_image_name(fs::path(path))) {
    return {fields.front(), std::nullopt};
  }
  const auto last = fields.last(numbers.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto number = coordinate_in(last[i]);
    if (!number) return {path, std::nullopt};
    numbers[i] = *number;
  }
  return {path, numbers};
}

Landmarks points_of(const Numbers& numbers, bool in_columns) {
  Landmarks points;
  for (std::size_t i = 0; i < points.size(); ++i) {
    points[i] = in_columns ? Point{numbers[i], numbers[i + points.size()]}
                           : Point{numbers[2 * i], numbers[2 * i + 1]};
  }
  return points;
}

/// Returns whether a face can have these landmarks: image coordinates, not all in one pixel.
bool are_of_a_face(const Landmarks& points) {
  constexpr double kFarthest = 100'000, kNearest = 1;
  const auto extent = [&](double Point::*side) {
    const auto [least, most] = std::ranges::minmax(points, {}, side);
    return most.*side - least.*side;
  };
  return std::max(extent(&Point::x), extent(&Point::y)) >= kNearest &&
         std::ranges::all_of(points, [](const Point& p) {
           return std::abs(p.x) <= kFarthest && std::abs(p.y) <= kFarthest;
         });
}

/// Returns the distance of the landmarks from the template's after the best rotation, scaling and
/// translation: the root mean square, as a fraction of the face's size.
double misfit(const Landmarks& points) {
  constexpr std::int64_t kSize = 112;
  if (!are_of_a_face(points)) return std::numeric_limits<double>::infinity();
  const Landmarks place = template_landmarks(kSize);
  const Similarity similarity = estimate_similarity(points, place);
  double sum = 0;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const Point p = similarity.of(points[i]);
    sum += std::pow(p.x - place[i].x, 2) + std::pow(p.y - place[i].y, 2);
  }
  return std::sqrt(sum / static_cast<double>(points.size())) / kSize;
}

// A fraction of the face's size. Frontal faces stay well below it; profiles may not.
constexpr double kFits = 0.1;

/// Exchanges left and right of the eyes, of the mouth, or of both, whichever fits best. Returns the
/// new landmarks and their misfit.
std::pair<Landmarks, double> best_exchange(const Landmarks& points) {
  std::pair<Landmarks, double> best{points, std::numeric_limits<double>::infinity()};
  for (const auto& [eyes, mouth] : {std::pair{true, false}, {false, true}, {true, true}}) {
    Landmarks other = points;
    if (eyes) std::swap(other[0], other[1]);
    if (mouth) std::swap(other[3], other[4]);
    if (const double found = misfit(other); found < best.second) best = {other, found};
  }
  return best;
}

/// If most faces fit only when exchanged, "left" in the list is the person's own left. Then swaps
/// every face that fits better when swapped, even if it fits badly either way (a profile). In any
/// other list, swaps only a face that fits when swapped and not otherwise.
void correct_sides(LandmarkList& list) {
  std::int64_t fitting = 0, exchanged = 0;
  for (const FaceLine& face : list.faces) {
    if (!face.problem.empty()) continue;
    if (misfit(face.landmarks) < kFits) {
      ++fitting;
    } else if (best_exchange(face.landmarks).second < kFits) {
      ++exchanged;
    }
  }
  const bool all = exchanged > fitting;
  for (FaceLine& face : list.faces) {
    if (!face.problem.empty()) continue;
    const double before = misfit(face.landmarks);
    if (!all && before < kFits) continue;
    const auto [other, after] = best_exchange(face.landmarks);
    if (after >= before || (!all && after >= kFits)) continue;
    face.landmarks = other;
    ++list.exchanged;
  }
}

bool fits_somehow(const Landmarks& points) {
  return misfit(points) < kFits || best_exchange(points).second < kFits;
}

/// Returns whether the relative path stays inside its base.
bool stays_inside(const fs::path& path) {
  return path.is_relative() && !path.empty() &&
         std::ranges::none_of(path, [](const fs::path& part) { return part == ".."; });
}

/// Returns whether the line is a heading: "image x1 y1 ...", or the number of lines.
bool is_heading(std::span<const std::string_view> fields) {
  if (fields.size() == 1 && coordinate_in(fields[0])) return true;
  return !is_image_name(fs::path(fields[0])) &&
         std::ranges::none_of(fields, [](auto field) { return coordinate_in(field).has_value(); });
}

}  // namespace

Similarity place_face(const Landmarks& landmarks, std::int64_t size) {
  constexpr double kSmallest = 1e-6;  // smallest scale; below it the landmarks do not form a face
  if (are_of_a_face(landmarks)) {
    const Similarity placed = estimate_similarity(landmarks, template_landmarks(size));
    if (std::hypot(placed.a, placed.b) >= kSmallest) return placed;
  }
  throw DamagedImage("its landmarks cannot belong to a face");
}

void expect_inside(const Landmarks& landmarks, ImageSize size) {
  const auto outside = std::ranges::count_if(landmarks, [&](const Point& p) {
    const auto beyond = [](double at, std::int64_t side) {
      const auto length = static_cast<double>(side);
      return at < -0.1 * length || at > 1.1 * length;
    };
    return beyond(p.x, size.width) || beyond(p.y, size.height);
  });
  if (outside < 3) return;
  throw DamagedImage(
      fmt::format("{} of 5 landmarks are outside the image ({} x {} pixels, width x height); "
                  "expected pixels of this image as displayed, with its Exif rotation applied",
                  outside, size.width, size.height));
}

LandmarkList read_landmarks(const fs::path& file) {
  LandmarkList list;
  std::vector<std::optional<Numbers>> numbers;
  std::int64_t headings = 0;
  read_lines(file, {}, [&](std::string_view line, std::int64_t number) {
    const std::vector<std::string_view> fields = fields_of(line, " ,");
    if (fields.empty()) return;
    const bool may_be_heading = list.faces.empty() && headings < 2;
    if (may_be_heading && is_heading(fields)) {
      ++headings;
      return;
    }
    const auto [path, landmarks] = parse_line(fields);
    const fs::path image = fs::path(with_slashes(path)).lexically_normal();
    if (!stays_inside(image)) {
      throw InputError(
          fmt::format("{}: line {}: found '{}', expected an image path "
                      "without \"..\"",
                      file.string(), number, line.substr(0, 80)));
    }
    numbers.push_back(landmarks);
    std::string problem;
    if (!numbers.back() || !are_of_a_face(points_of(*numbers.back(), false))) {
      numbers.back().reset();
      problem = fmt::format(
          "{}: line {}: found '{}', expected a path, and x and y of five landmarks, in pixels",
          file.string(), number, line.substr(0, 80));
    }
    list.faces.push_back({.image = image,
                          .label = std::string(is_face2rec2(fields) ? fields[2] : ""),
                          .landmarks = {},
                          .problem = std::move(problem)});
  });
  if (list.faces.empty())
    throw InputError(file.string() +
                     ": found no faces; expected lines with an image path and ten numbers");

  std::int64_t as_points = 0, as_columns = 0;
  for (const auto& each : numbers) {
    if (!each) continue;
    as_points += fits_somehow(points_of(*each, false)) ? 1 : 0;
    as_columns += fits_somehow(points_of(*each, true)) ? 1 : 0;
  }
  list.in_columns = as_columns > as_points;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (!numbers[i]) continue;
    Landmarks& points = list.faces[i].landmarks;
    points = points_of(*numbers[i], list.in_columns);
    if (!are_of_a_face(points)) {
      list.faces[i].problem =
          list.faces[i].image.string() + ": all five landmarks are the same point";
    }
  }
  correct_sides(list);
  return list;
}

}  // namespace pfc
