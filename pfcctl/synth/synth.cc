#include "pfcctl/synth/synth.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <string>
#include <system_error>
#include <type_traits>

#include "common/error.h"
#include "common/files/file_error.h"
#include "common/files/regular_file.h"
#include "common/ordered_work.h"
#include "data/images/jpeg_encoder.h"
#include "data/records/image_record.h"
#include "data/records/property_file.h"
#include "data/records/writing/record_writer.h"
#include "model/evaluation/verification_bin.h"
#include "pfcctl/synth/draw.h"
#include "pfcctl/synth/face.h"

namespace pfc::synth {
namespace {

using Jpeg = std::vector<std::byte>;
using Progress = std::function<void(std::int64_t)>;

template <class Number>
void check_range(const char* flag, Number value, std::type_identity_t<Number> low,
                 std::type_identity_t<Number> high) {
  if (!(value >= low && value <= high)) {  // also refuses NaN
    throw InputError(fmt::format("{} {}: expected {} to {}", flag, value, low, high));
  }
}

constexpr const char* kNames = "identities.txt";  // deleted: these people have no names
constexpr std::array<const char*, 5> kFiles{"train.rec", "train.idx", "property", "val.bin",
                                            kNames};

void check_nothing_is_replaced(const std::filesystem::path& folder) {
  for (const char* name : kFiles) {
    if (!something_at(folder / name)) continue;
    throw InputError((folder / name).string() +
                     ": found an existing data set; choose another folder with --out, or replace "
                     "it with --force");
  }
}

void write_training_set(const SynthOptions& o, const std::filesystem::path& folder,
                        const Progress& progress) {
  const std::int64_t images = o.identities * o.images_per_identity;
  RecordWriter writer(folder / "train.rec", folder / "train.idx");
  writer.append(0, encode_record_zero(images, o.identities));
  const auto draw = [&](std::int64_t n) {
    return draw_jpeg(o, {static_cast<std::uint32_t>(n / o.images_per_identity),
                         static_cast<std::uint32_t>(n % o.images_per_identity)});
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
    return draw_jpeg(o, n % 2 == 0 ? pair.a : pair.b);
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
  check_range("--difficulty", o.difficulty, 0, 1);
}

std::vector<std::byte> draw_jpeg(const SynthOptions& o, ImageOf which) {
  const Face face = draw_face(o.seed, which.identity, which.image, o.size, o.difficulty);
  return encode_jpeg(face.rgb, o.size, o.size, face.quality);
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
                       ": cannot create this folder: " + file_error_text(error.value()));
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
