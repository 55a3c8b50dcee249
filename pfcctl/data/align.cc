#include "pfcctl/data/align.h"

#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "common/error.h"
#include "common/files/atomic_file.h"
#include "common/files/file_error.h"
#include "common/files/regular_file.h"
#include "pfcctl/data/options.h"
#include "pfcctl/data/pack.h"
#include "pfcctl/data/progress.h"
#include "pfcctl/data/verbs.h"
#include "pfcctl/synth/ordered_work.h"
#include "worker/data/damaged_image.h"
#include "worker/data/images/align.h"
#include "worker/data/images/decode.h"
#include "worker/data/images/image_file.h"
#include "worker/data/images/jpeg_encoder.h"
#include "worker/data/text_lines.h"

namespace pfc {

namespace {

namespace fs = std::filesystem;

constexpr double kSmallest = 1e-6;  // scale, of landmarks that have nothing of a face

struct Face {
  fs::path image;  ///< relative
  fs::path out;    ///< likewise
  Landmarks landmarks;
};

std::optional<double> coordinate_in(std::string_view text) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number);
  if (parsed.ec != std::errc() || parsed.ptr != end || !std::isfinite(number)) return {};
  return number;
}

std::optional<Landmarks> landmarks_in(std::span<const std::string_view> fields) {
  Landmarks points;
  if (fields.size() != 2 * points.size()) return {};
  for (std::size_t i = 0; i < points.size(); ++i) {
    const auto x = coordinate_in(fields[2 * i]), y = coordinate_in(fields[2 * i + 1]);
    if (!x || !y) return {};
    points[i] = {*x, *y};
  }
  return points;
}

/// Whether they may be those of a face: pixels of an image, and not all of them in one.
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

/// Whether it stays below what it is relative to.
bool stays_inside(const fs::path& path) {
  return path.is_relative() && !path.empty() &&
         std::ranges::none_of(path, [](const fs::path& part) { return part == ".."; });
}

/// The files of the faces. Images whose names differ by their endings alone share one numbering.
class FaceFiles {
 public:
  fs::path next(fs::path image) {
    const std::string stem = image.replace_extension().string();
    int& count = of_stem_[stem];
    std::string file;
    do {
      ++count;
      file = stem + (count == 1 ? "" : "-" + std::to_string(count)) + ".jpg";
    } while (!used_.insert(file).second);
    return file;
  }

 private:
  std::map<std::string, int> of_stem_;
  std::set<std::string>
      used_;  ///< a-2.jpg may be the second face of a.jpg, or the first of a-2.jpg
};

std::vector<Face> read_faces(const fs::path& file) {
  std::vector<Face> faces;
  FaceFiles outs;
  read_lines(file, {}, [&](std::string_view line, std::int64_t number) {
    const std::vector<std::string_view> fields = fields_of(line, " ,");
    if (fields.empty()) return;
    const auto points = landmarks_in(std::span(fields).subspan(1));
    const fs::path image = fs::path(fields.front()).lexically_normal();
    const bool heading =
        number == 1 && std::ranges::none_of(
                           fields.begin() + 1, fields.end(),
                           [](std::string_view field) { return coordinate_in(field).has_value(); });
    if (heading) return;
    if (!points || !are_of_a_face(*points) || !stays_inside(image)) {
      throw InputError(fmt::format(
          "{}: line {}: found '{}', expected the path of an image, without .., and x and y of five "
          "landmarks, in pixels",
          file.string(), number, line.substr(0, 80)));
    }
    faces.push_back({image, outs.next(image), *points});
  });
  if (faces.empty()) throw InputError(file.string() + ": no line with landmarks");
  return faces;
}

struct Result {
  std::optional<std::string> damage;
  bool existed = false;
};

void expect_face(const fs::path& target, std::int64_t size, ImageDecoder& decoder,
                 std::vector<std::byte>& encoded) {
  std::string found;
  try {
    const ImageSize there = decoder.size(read_image_file(target, encoded));
    if (there.height == size && there.width == size) return;
    found = fmt::format("has {} x {} pixels", there.height, there.width);
  } catch (const DamagedImage&) {
    found = "cannot be read as an image";
  }
  throw InputError(fmt::format(
      "{}: is there already, but {}, so it is no face of {} x {}; name another folder for --out",
      target.string(), found, size, size));
}

Result align_one(const Face& face, const fs::path& images, const AlignOptions& options) {
  thread_local ImageDecoder decoder;
  thread_local std::vector<std::byte> encoded;
  thread_local std::vector<std::uint8_t> rgb, out;
  const fs::path target = options.out / face.out;
  if (something_at(target)) {
    expect_face(target, options.size, decoder, encoded);
    return {.damage = {}, .existed = true};
  }
  const fs::path source = images / face.image;
  try {
    const ImageSize size = decoder.decode_whole(read_image_file(source, encoded), rgb);
    const ImageSize wanted{options.size, options.size};
    const Similarity placed = estimate_similarity(face.landmarks, template_landmarks(options.size));
    if (std::hypot(placed.a, placed.b) < kSmallest) {
      throw DamagedImage("its landmarks are not those of a face");
    }
    out.resize(static_cast<std::size_t>(wanted.height * wanted.width * 3));
    warp(rgb, size, placed, wanted, out);
  } catch (const DamagedImage& e) {
    return {.damage = named_damage(source.string(), e)};
  }
  const auto side = static_cast<int>(options.size);
  const std::vector<std::byte> jpeg = encode_jpeg(out, side, side, options.quality);
  as_storage_error([&] { fs::create_directories(target.parent_path()); });
  write_file_atomically(target, {reinterpret_cast<const char*>(jpeg.data()), jpeg.size()});
  return {};
}

/// A photograph must not be taken for a face, nor a face for a photograph.
void check_out(const std::vector<Face>& faces, const fs::path& images, const fs::path& out) {
  if (way_within(out, images)) {
    throw InputError(out.string() +
                     ": --out is the folder of the images, or holds it; name another");
  }
  const auto way = way_within(images, out);
  if (!way) return;
  for (const Face& face : faces) {
    if (*face.image.lexically_relative(*way).begin() == "..") continue;
    throw InputError(fmt::format("{}: --out holds {}, which is to be aligned; name another",
                                 out.string(), face.image.string()));
  }
}

}  // namespace

Aligned align_faces(const AlignOptions& options, const ShowProgress& progress) {
  const std::vector<Face> faces = read_faces(options.landmarks);
  const fs::path beside = options.landmarks.parent_path();
  const fs::path images = !options.images.empty() ? options.images : beside.empty() ? "." : beside;
  check_out(faces, images, options.out);
  const auto count = std::ssize(faces);
  const auto allowed = allowed_of(count, options.max_damaged);
  Aligned aligned;
  synth::ordered_work<Result>(
      count, options.threads,
      [&](std::int64_t i) {
        return align_one(faces[static_cast<std::size_t>(i)], images, options);
      },
      [&](std::int64_t i, const Result& result) {
        if (result.damage) {
          aligned.damaged.push_back(*result.damage);
          expect_few_damaged(std::ssize(aligned.damaged), count, allowed, aligned.damaged.front());
        } else {
          ++aligned.images;
          aligned.existing += result.existed ? 1 : 0;
        }
        if (progress) progress(i + 1, count);
      });
  return aligned;
}

void add_data_align(CLI::App& data) {
  const auto o = std::make_shared<AlignOptions>();  // owned by the verb's callback
  CLI::App* verb = data.add_subcommand("align", "Photographs and five landmarks to aligned faces");
  verb->add_option("landmarks", o->landmarks,
                   "Text: a line for each face with the path of its image and x y of left eye, "
                   "right eye, nose, left and right corner of the mouth")
      ->required();
  verb->add_option("--images", o->images,
                   "What the paths are relative to; without it the landmarks' folder");
  verb->add_option("--out", o->out, "Folder for the faces, under the same paths")->required();
  verb->add_option("--size", o->size, "Rows and columns of a face")
      ->check(CLI::Range(16, 1024))
      ->capture_default_str();
  verb->add_option("--quality", o->quality, "Of the JPEG")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  add_threads(*verb, o->threads);
  add_max_damaged(*verb, o->max_damaged);
  verb->footer(
      "Landmarks come from any face detector. Faces that are in --out are not made again. "
      "Example:\n"
      "  pfcctl data align landmarks.txt --images photographs --out faces");
  verb->callback([o] {
    Aligned aligned;
    {
      Progress progress("aligning", "faces");
      aligned = align_faces(*o, progress.as_function());
    }
    tell_damaged(aligned.damaged);
    std::printf("%s: %lld faces, %lld of which were there, %zu damaged ones left out\n",
                o->out.c_str(), static_cast<long long>(aligned.images),
                static_cast<long long>(aligned.existing), aligned.damaged.size());
  });
}

}  // namespace pfc
