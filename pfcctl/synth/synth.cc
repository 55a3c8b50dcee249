#include "pfcctl/synth/synth.h"

#include <algorithm>
#include <array>
#include <string>
#include <system_error>

#include "common/error.h"
#include "common/files/file_error.h"
#include "common/ordered_work.h"
#include "data/images/jpeg_encoder.h"
#include "data/records/image_record.h"
#include "data/records/property_file.h"
#include "data/records/record_writer.h"
#include "model/evaluation/verification_bin.h"
#include "pfcctl/synth/draw.h"
#include "pfcctl/synth/render/develop.h"
#include "pfcctl/synth/render/renderer.h"

namespace pfc::synth {
namespace {

/// Image size at which a camera's blur is given in pixels.
constexpr float kCameraSize = 112;

using Jpeg = std::vector<std::byte>;
using Progress = std::function<void(std::int64_t)>;

void check_range(const char* flag, std::int64_t value, std::int64_t low, std::int64_t high) {
  if (value < low || value > high) {
    throw InputError(std::string(flag) + " " + std::to_string(value) + ": expected " +
                     std::to_string(low) + " to " + std::to_string(high));
  }
}

constexpr const char* kNames = "identities.txt";  // deleted: these people have no names
constexpr std::array<const char*, 5> kFiles{"train.rec", "train.idx", "property", "val.bin",
                                            kNames};

void check_nothing_is_replaced(const std::filesystem::path& folder) {
  for (const char* name : kFiles) {
    const std::filesystem::path file = folder / name;
    std::error_code error;
    const bool found = std::filesystem::exists(std::filesystem::symlink_status(file, error));
    if (error && error != std::errc::no_such_file_or_directory) {
      throw StorageError(file.string() + ": cannot look for it: " + error.message());
    }
    if (found) {
      throw InputError(file.string() +
                       ": there is a data set already; choose another folder with --out, or give "
                       "--force to replace it");
    }
  }
}

void write_training_set(const SynthOptions& o, const std::filesystem::path& folder,
                        const Progress& progress) {
  const std::int64_t images = o.identities * o.images_per_identity;
  RecordWriter writer(folder / "train.rec", folder / "train.idx");
  writer.append(0, encode_record_zero(images, o.identities));
  const auto draw = [&](std::int64_t n) {
    return draw_jpeg(o.seed, static_cast<std::uint32_t>(n / o.images_per_identity),
                     static_cast<std::uint32_t>(n % o.images_per_identity), o.size);
  };
  const auto take = [&](std::int64_t n, const Jpeg& jpeg) {
    writer.append(n + 1, encode_image_record(n / o.images_per_identity,
                                             static_cast<std::uint64_t>(n + 1), jpeg));
    progress(n + 1);
  };
  ordered_work<Jpeg>(images, o.threads, draw, take);
  for (std::int64_t k = 0; k < o.identities; ++k) {
    const std::int64_t first = 1 + k * o.images_per_identity;
    writer.append(images + 1 + k,
                  encode_identity_record(images + 1 + k, first, first + o.images_per_identity));
  }
  writer.close();
  write_property(folder / "property", {.classes = o.identities, .height = o.size, .width = o.size});
}

void write_validation_set(const SynthOptions& o, const std::filesystem::path& path,
                          const Progress& progress) {
  const std::vector<Pair> pairs = draw_pairs(o);
  std::vector<Jpeg> images;
  std::vector<bool> same;
  same.reserve(pairs.size());
  for (const Pair& pair : pairs) same.push_back(pair.same);
  const auto draw = [&](std::int64_t n) {
    const Pair& pair = pairs[static_cast<std::size_t>(n / 2)];
    const ImageOf& which = n % 2 == 0 ? pair.a : pair.b;
    return draw_jpeg(o.seed, which.identity, which.image, o.size);
  };
  const auto take = [&](std::int64_t n, Jpeg jpeg) {
    images.push_back(std::move(jpeg));
    progress(n + 1);
  };
  ordered_work<Jpeg>(2 * o.val_pairs, o.threads, draw, take);
  write_verification_bin(path, images, same);
}

}  // namespace

void check_options(const SynthOptions& o) {
  // RecordIO limits the classes: float32 labels are exact up to 2^24.
  check_range("--identities", o.identities, 1, kMaxFloatLabel);
  check_range("--images-per-identity", o.images_per_identity, 1, 1'000'000);
  check_range("--val-identities", o.val_identities, 2, 1'000'000);
  check_range("--val-pairs", o.val_pairs, 10, 1'000'000);
  check_range("--size", o.size, 16, 1024);
  check_range("--threads", o.threads, 0, 1024);
}

std::vector<std::byte> draw_jpeg(std::uint64_t seed, std::uint32_t k, std::uint32_t i, int size) {
  const Identity who = draw_identity(seed, k);
  Capture capture = draw_capture(seed, k, i, who);
  const float scale = static_cast<float>(size) / kCameraSize;
  capture.camera.blur *= scale;
  capture.camera.motion *= scale;
  const int drawn = size + size / 2;  // larger, then averaged down for smooth edges
  const std::vector<std::uint8_t> rgb = develop(render(who, capture, drawn), capture.camera, size);
  return encode_jpeg(rgb, size, size, capture.camera.jpeg_quality);
}

std::vector<Pair> draw_pairs(const SynthOptions& o) {
  Draw d(o.seed, Purpose::kPairs, 0);
  const auto first = static_cast<std::uint32_t>(o.identities);
  const auto people = static_cast<std::uint32_t>(o.val_identities);
  const auto images = static_cast<std::uint32_t>(std::max<std::int64_t>(2, o.images_per_identity));
  std::vector<Pair> pairs;
  for (std::int64_t n = 0; n < o.val_pairs; ++n) {
    const bool same = n % 2 == 0;
    const std::uint32_t one = d.below(people);
    const std::uint32_t other = same ? one : (one + 1 + d.below(people - 1)) % people;
    const std::uint32_t image = d.below(images);
    const std::uint32_t step = 1 + d.below(images - 1);
    const std::uint32_t second = same ? (image + step) % images : step;
    pairs.push_back({{first + one, image}, {first + other, second}, same});
  }
  return pairs;
}

void write_synthetic_set(const SynthOptions& options, const std::filesystem::path& folder,
                         const std::function<void(std::int64_t, std::int64_t)>& progress) {
  check_options(options);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    throw StorageError(folder.string() +
                       ": cannot make this folder: " + file_error_text(error.value()));
  if (!options.replace) check_nothing_is_replaced(folder);
  std::filesystem::remove(folder / kNames, error);
  if (error) throw StorageError((folder / kNames).string() + ": cannot remove: " + error.message());
  const std::int64_t training = options.identities * options.images_per_identity;
  const std::int64_t all = training + 2 * options.val_pairs;
  const auto report = [&](std::int64_t before) {
    return [&progress, all, before](std::int64_t done) {
      if (progress) progress(before + done, all);
    };
  };
  write_training_set(options, folder, report(0));
  write_validation_set(options, folder / "val.bin", report(training));
}

}  // namespace pfc::synth
