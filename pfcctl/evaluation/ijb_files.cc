#include "pfcctl/evaluation/ijb_files.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <functional>
#include <map>
#include <span>
#include <string_view>
#include <utility>

#include "common/error.h"
#include "common/files/regular_file.h"
#include "common/one_line.h"
#include "data/text_lines.h"
#include "pfcctl/data/progress.h"

namespace pfc {

namespace {

using std::filesystem::path;

/// A line with its fields; reads numbers from them.
struct IjbLine {
  const path& file;
  std::int64_t number;
  std::vector<std::string_view> fields;

  [[noreturn]] void fail(const std::string& expected) const {
    throw InputError(fmt::format("{} line {}: expected {}", file.string(), number, expected));
  }
  template <class Number>
  [[nodiscard]] Number at(std::size_t i) const {
    Number value{};
    const std::string_view text = fields[i];
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    bool good = error == std::errc() && end == text.data() + text.size();
    if constexpr (std::is_floating_point_v<Number>) good = good && std::isfinite(value);
    if (!good) fail(fmt::format("a number, found \"{}\"", one_line(text, 40)));
    return value;
  }
};

bool starts_with_number(std::string_view text) {
  std::int64_t ignored = 0;
  return std::from_chars(text.data(), text.data() + text.size(), ignored).ec == std::errc();
}

/// `heading`: the first line may be a heading, which does not begin with a number.
void read_fields(const path& file, std::size_t least, std::string_view separators, bool heading,
                 const std::function<void(const IjbLine&)>& take) {
  read_lines(file, end_at_interrupt, [&](std::string_view text, std::int64_t number) {
    const IjbLine line{file, number, fields_of(text, separators)};
    if (text.empty() || (heading && number == 1 && !starts_with_number(text))) return;
    if (line.fields.size() < least) {
      line.fail(fmt::format("{} fields, found {}", least, line.fields.size()));
    }
    take(line);
  });
}

std::vector<IjbFace> read_faces(const path& meta, const std::string& set) {
  std::vector<IjbFace> faces;
  read_fields(meta / (set + "_name_5pts_score.txt"), 12, " ", false, [&](const IjbLine& line) {
    IjbFace face{.image = std::string(line.fields[0]), .score = line.at<float>(11)};
    for (std::size_t i = 0; i < face.landmarks.size(); ++i) {
      face.landmarks[i] = {line.at<double>(1 + 2 * i), line.at<double>(2 + 2 * i)};
    }
    const path inside = path(face.image).lexically_normal();
    if (inside.empty() || inside.is_absolute() || *inside.begin() == "..") {
      line.fail(fmt::format("a file in loose_crop, found \"{}\"", one_line(face.image, 80)));
    }
    faces.push_back(std::move(face));
  });
  if (faces.empty()) {
    throw InputError((meta / (set + "_name_5pts_score.txt")).string() + ": found no images");
  }
  std::size_t next = 0;
  const path templates = meta / (set + "_face_tid_mid.txt");
  read_fields(templates, 3, " ", false, [&](const IjbLine& line) {
    if (next == faces.size()) line.fail("as many lines as " + set + "_name_5pts_score.txt has");
    if (line.fields[0] != faces[next].image) {
      line.fail(fmt::format("\"{}\", the next image of {}_name_5pts_score.txt, found \"{}\"",
                            one_line(faces[next].image, 80), set, one_line(line.fields[0], 80)));
    }
    faces[next].template_id = line.at<std::int64_t>(1);
    faces[next++].medium = line.at<std::int64_t>(2);
  });
  if (next < faces.size()) {
    throw InputError(fmt::format("{}: found {} lines, expected one for each of the {} of {}",
                                 templates.string(), next, faces.size(),
                                 set + "_name_5pts_score.txt"));
  }
  std::ranges::stable_sort(
      faces, {}, [](const IjbFace& face) { return std::pair(face.template_id, face.medium); });
  return faces;
}

/// Throws InputError if no face belongs to the template.
void expect_template(const std::vector<IjbFace>& faces, std::int64_t id, const IjbLine& line) {
  if (std::ranges::binary_search(faces, id, {}, &IjbFace::template_id)) return;
  line.fail(fmt::format("templates that are in _face_tid_mid.txt, found {}", id));
}

std::vector<IjbPair> read_pairs(const path& file, const std::vector<IjbFace>& faces) {
  std::vector<IjbPair> pairs;
  read_fields(file, 3, " ", false, [&](const IjbLine& line) {
    const auto label = line.at<int>(2);
    if (label != 0 && label != 1) line.fail("0 or 1 in field 3");
    pairs.push_back({line.at<std::int64_t>(0), line.at<std::int64_t>(1), label == 1});
    expect_template(faces, pairs.back().first, line);
    expect_template(faces, pairs.back().second, line);
  });
  const auto genuine = std::ranges::count(pairs, true, &IjbPair::same);
  if (pairs.empty()) throw InputError(file.string() + ": found no pairs");
  if (genuine == 0 || genuine == std::ssize(pairs)) {
    throw InputError(fmt::format(
        "{}: found only pairs with label {}, expected pairs of one person (label 1) and pairs of "
        "two people (label 0)",
        file.string(), genuine == 0 ? 0 : 1));
  }
  return pairs;
}

std::vector<IjbSubject> read_subjects(const path& file, const std::vector<IjbFace>& faces) {
  std::map<std::int64_t, std::int64_t> subjects;  // by template: a line for each of its images
  read_fields(file, 2, ",", true, [&](const IjbLine& line) {
    const auto id = line.at<std::int64_t>(0);
    expect_template(faces, id, line);
    subjects.emplace(id, line.at<std::int64_t>(1));
  });
  std::vector<IjbSubject> list;
  for (const auto& [id, subject] : subjects) list.push_back({id, subject});
  if (list.empty()) throw InputError(file.string() + ": found no templates");
  return list;
}

}  // namespace

IjbLists read_ijb_lists(const path& folder) {
  const path meta = folder / "meta";
  IjbLists lists{.set = something_at(meta / "ijbb_face_tid_mid.txt") ? "ijbb" : "ijbc"};
  lists.faces = read_faces(meta, lists.set);
  lists.pairs = read_pairs(meta / (lists.set + "_template_pair_label.txt"), lists.faces);
  const path probes = meta / (lists.set + "_1N_probe_mixed.csv");
  if (!something_at(probes)) return lists;
  lists.probes = read_subjects(probes, lists.faces);
  for (const char* number : {"1", "2"}) {
    const char* letter = lists.set == "ijbb" ? "S" : "G";
    lists.galleries.push_back(
        read_subjects(meta / (lists.set + "_1N_gallery_" + letter + number + ".csv"), lists.faces));
  }
  return lists;
}

}  // namespace pfc
