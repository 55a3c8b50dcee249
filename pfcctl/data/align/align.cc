#include "pfcctl/data/align/align.h"

#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "common/error.h"
#include "common/files/atomic_file.h"
#include "common/files/file_error.h"
#include "common/files/regular_file.h"
#include "common/ordered_work.h"
#include "data/damaged_image.h"
#include "data/images/align.h"
#include "data/images/decode.h"
#include "data/images/image_file.h"
#include "data/images/jpeg_encoder.h"
#include "pfcctl/data/align/landmarks.h"
#include "pfcctl/data/options.h"
#include "pfcctl/data/pack/pack.h"
#include "pfcctl/data/progress.h"
#include "pfcctl/data/verbs.h"

namespace pfc {

namespace {

namespace fs = std::filesystem;

struct Face {
  fs::path image;  ///< relative path
  fs::path out;    ///< relative path
  std::string label;
  Landmarks landmarks;
  std::string problem;  ///< why there are no landmarks; empty if there are
};

/// Names the files of faces. Images that differ only in their extension share a numbering.
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

std::vector<Face> with_files(std::vector<FaceLine> lines) {
  std::vector<Face> faces;
  FaceFiles outs;
  for (FaceLine& each : lines) {
    fs::path out = outs.next(each.image);
    faces.push_back({std::move(each.image), std::move(out), std::move(each.label), each.landmarks,
                     std::move(each.problem)});
  }
  return faces;
}

struct Result {
  std::optional<std::string> damage;
  bool existed = false;
};

void expect_face(const fs::path& target, std::int64_t size, ImageDecoder& decoder,
                 ImageBuffer& encoded) {
  std::string found;
  try {
    const ImageSize there = decoder.size(read_image_file(target, encoded));
    if (there.height == size && there.width == size) return;
    found = fmt::format("has {} x {} pixels", there.height, there.width);
  } catch (const DamagedImage&) {
    found = "cannot be read as an image";
  }
  throw InputError(fmt::format(
      "{}: already exists, but {}; expected a face of {} x {}; choose another folder for --out",
      target.string(), found, size, size));
}

Result align_one(const Face& face, const fs::path& images, const AlignOptions& options) {
  thread_local ImageDecoder decoder;
  thread_local ImageBuffer encoded;
  thread_local std::vector<std::uint8_t> rgb, out;
  const fs::path target = options.out / face.out;
  if (something_at(target)) {
    expect_face(target, options.size, decoder, encoded);
    return {.damage = {}, .existed = true};
  }
  const fs::path source = images / face.image;
  if (!face.problem.empty()) return {.damage = face.problem};
  try {
    const ImageSize size = decoder.decode_whole(read_image_file(source, encoded), rgb);
    expect_inside(face.landmarks, size);
    const ImageSize wanted{options.size, options.size};
    const Similarity placed = place_face(face.landmarks, options.size);
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

/// Throws InputError if `out` contains photographs, because they could be mistaken for faces.
void check_out(const std::vector<Face>& faces, const fs::path& images, const fs::path& out) {
  if (way_within(out, images)) {
    throw InputError(out.string() +
                     ": --out is the folder of the images, or contains it; choose another folder");
  }
  const auto way = way_within(images, out);
  if (!way) return;
  for (const Face& face : faces) {
    if (*face.image.lexically_relative(*way).begin() == "..") continue;
    throw InputError(fmt::format(
        "{}: --out contains {}, which is one of the images to align; choose another folder",
        out.string(), face.image.string()));
  }
}

void write_list(const fs::path& file, const std::string& lines) {
  if (something_at(file) && read_text(file, lines.size() + 1) != lines) {
    throw InputError(
        file.string() +
        ": already exists and lists other faces; remove it, or choose another folder for --out");
  }
  write_file_atomically(file, lines);
}

}  // namespace

Aligned align_faces(const AlignOptions& options, const ShowProgress& progress) {
  LandmarkList list = read_landmarks(options.landmarks);
  const std::vector<Face> faces = with_files(std::move(list.faces));
  const fs::path beside = options.landmarks.parent_path();
  const fs::path images = !options.images.empty() ? options.images : beside.empty() ? "." : beside;
  check_out(faces, images, options.out);
  const auto count = std::ssize(faces);
  const auto allowed = allowed_of(count, options.max_damaged);
  std::string labelled;  // content of train.lst, as face2rec2 reads it
  Aligned aligned{.in_columns = list.in_columns, .exchanged = list.exchanged};
  ordered_work<Result>(
      count, options.threads,
      [&](std::int64_t i) {
        return align_one(faces[static_cast<std::size_t>(i)], images, options);
      },
      [&](std::int64_t i, const Result& result) {
        const Face& face = faces[static_cast<std::size_t>(i)];
        if (result.damage) {
          aligned.damaged.push_back(*result.damage);
          expect_few_damaged(std::ssize(aligned.damaged), count, allowed, aligned.damaged.front());
        } else {
          ++aligned.images;
          aligned.existing += result.existed ? 1 : 0;
          if (!face.label.empty()) {
            labelled += fmt::format("1\t{}\t{}\n", face.out.string(), face.label);
          }
        }
        if (progress) progress(i + 1, count);
      });
  if (!labelled.empty()) write_list(options.out / "train.lst", labelled);
  return aligned;
}

void add_data_align(CLI::App& data) {
  const auto o = std::make_shared<AlignOptions>();  // owned by the verb's callback
  CLI::App* verb =
      data.add_subcommand("align", "Aligns the faces in photographs by five landmarks");
  verb->add_option("landmarks", o->landmarks,
                   "Text file with one line per face: the path of its image, and x y of left eye, "
                   "right eye, nose, left and right corner of the mouth. Or a face2rec2 list with "
                   "landmarks, whose labels are copied to OUT/train.lst")
      ->required();
  verb->add_option("--images", o->images,
                   "Folder to which the paths are relative. Default: the folder of the landmarks");
  verb->add_option("--out", o->out, "Output folder for the faces; their paths stay the same")
      ->required();
  verb->add_option("--size", o->size, "Width and height of a face in pixels")
      ->check(CLI::Range(16, 1024))
      ->capture_default_str();
  verb->add_option("--quality", o->quality, "JPEG quality")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  add_threads(*verb, o->threads);
  add_max_damaged(*verb, o->max_damaged);
  verb->footer(
      "Any face detector can produce the landmarks. Existing faces in --out are not written\n"
      "again: choose another folder if landmarks or options have changed. Example:\n"
      "  pfcctl data align landmarks.txt --images photographs --out faces");
  verb->callback([o] {
    const Aligned aligned = align_faces(*o, Progress("aligning", "faces").as_function());
    tell_damaged(aligned.damaged);
    std::printf("%s: %lld faces, %lld of which existed already, %zu damaged ones skipped\n",
                o->out.c_str(), static_cast<long long>(aligned.images),
                static_cast<long long>(aligned.existing), aligned.damaged.size());
    if (aligned.in_columns) {
      std::printf("landmarks were read in the order x1 .. x5 y1 .. y5\n");
    }
    if (aligned.exchanged > 0) {
      std::printf(
          "left and right landmarks were exchanged in the list and have been swapped back for %lld "
          "faces\n",
          static_cast<long long>(aligned.exchanged));
    }
  });
}

}  // namespace pfc
