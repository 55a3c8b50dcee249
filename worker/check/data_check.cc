#include "worker/check/data_check.h"

#include <fcntl.h>
#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <random>
#include <string_view>
#include <utility>

#include "common/clock.h"
#include "common/error.h"
#include "common/files/fd.h"
#include "common/median.h"
#include "common/version.h"
#include "data/augment/augmenter.h"
#include "data/damaged_image.h"
#include "data/images/decode.h"
#include "worker/check/thread_time.h"
#include "worker/start/host_check.h"

namespace pfc {
namespace {

using enum CheckFinding::Verdict;
using Comparison = CheckFinding::Comparison;

constexpr double kReadSeconds = 0.5;                // seconds of each measurement
constexpr std::size_t kReadBlockBytes = 256 << 10;  // bytes per read
constexpr std::int64_t kMostReadBytes = 64 << 20;   // total bytes of all reads
constexpr double kFastDisk = 100e6;                 // bytes/s: about 20,000 images of 5 kB
constexpr int kSlice = 16;  // number of images that are decoded between two readings of the clock

/// Returns the median speed of all blocks in bytes per second. The median is used because other
/// programs may interrupt some of the reads. 0 if nothing could be read.
double read_speed(const std::filesystem::path& rec) {
  const Fd file(open(rec.c_str(), O_RDONLY | O_CLOEXEC));
  const off_t size = file < 0 ? 0 : lseek(file, 0, SEEK_END);
  if (size <= 0) return 0;
  std::mt19937_64 random(2048);
  std::vector<std::byte> block(kReadBlockBytes);
  std::vector<double> speeds;
  std::int64_t done = 0;
  const TimePoint begin = Clock::now();
  while (seconds_since(begin) < kReadSeconds && done < kMostReadBytes) {
    const off_t at = static_cast<off_t>(random() % static_cast<std::uint64_t>(size)) / 4096 * 4096;
    posix_fadvise(file, at, kReadBlockBytes, POSIX_FADV_DONTNEED);
    const TimePoint start = Clock::now();
    const ssize_t got = pread(file, block.data(), block.size(), at);
    if (got <= 0) return 0;
    speeds.push_back(static_cast<double>(got) / std::max(seconds_since(start), 1e-6));
    done += got;
  }
  return median_of(std::move(speeds));
}

/// Returns the largest file of the data set that contains images or embeddings. Empty if each
/// image is a separate file: Dataset::briefs() then describes folders and lists.
std::filesystem::path largest_file(const Dataset& dataset) {
  constexpr std::array<std::string_view, 5> kEndings{".rec", ".tar", ".mdb", ".npy",
                                                     ".safetensors"};
  std::filesystem::path largest;
  std::uintmax_t most = 0;
  for (const FileBrief& brief : dataset.briefs()) {
    if (std::ranges::find(kEndings, brief.file.extension().string()) == kEndings.end()) continue;
    std::error_code no_file;
    const std::uintmax_t bytes = std::filesystem::file_size(brief.file, no_file);
    if (no_file || bytes <= most) continue;
    most = bytes;
    largest = brief.file;
  }
  return largest;
}

}  // namespace

CheckFinding version_finding() {
  return {.what = "pfc-worker",
          .found = std::string("version ") + version(),
          .expected = {},
          .remedy = "install the coordinator's version of pfc on this host",
          .comparison = Comparison::kSameEverywhere,
          .otherwise = kStops};
}

std::vector<CheckFinding> facts_findings(const Dataset& dataset, const EvaluationSets& sets) {
  std::vector<CheckFinding> findings;
  for (const HostFact& fact : facts_of_host(dataset, sets)) {
    if (fact.what == version_finding().what) continue;  // reported separately
    findings.push_back({.what = fact.what,
                        .found = fact.value,
                        .expected = {},
                        .remedy = fact.remedy,
                        .comparison = Comparison::kSameEverywhere,
                        .otherwise = kStops});
  }
  return findings;
}

DecodeSpeed decode_speed(const Dataset& dataset, const Augmentation& augmentation) {
  const DatasetInfo& info = dataset.info();
  const Augmenter augmenter(augmentation, /*seed=*/2048);
  ImageDecoder decoder;
  ImageBuffer storage;
  std::vector<std::uint8_t> rgb(static_cast<std::size_t>(info.height * info.width * 3));
  std::mt19937_64 random(2048);
  DecodeSpeed speed;
  const auto decode_one = [&] {  // returns seconds
    const auto image =
        static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(info.images));
    const Sample sample = dataset.read(image, storage);
    const double start = thread_seconds();
    augmenter.decode(decoder, sample.encoded, 0, image, {rgb, {info.height, info.width}});
    return thread_seconds() - start;
  };
  const TimePoint begin = Clock::now();
  while (seconds_since(begin) < kReadSeconds) {
    double seconds = 0;
    int decoded = 0;
    for (int i = 0; i < kSlice; ++i) {
      ++speed.drawn;
      try {
        seconds += decode_one();
        ++decoded;
      } catch (const DamagedImage& e) {
        if (speed.damaged++ == 0) speed.damage = e.what();
      } catch (const InputError& e) {
        if (speed.wrong_label.empty()) speed.wrong_label = e.what();
      }
    }
    speed.images_a_second = std::max(speed.images_a_second, decoded / std::max(seconds, 1e-9));
  }
  return speed;
}

std::vector<CheckFinding> data_speed(const Dataset& dataset, const Augmentation& augmentation) {
  std::vector<CheckFinding> findings;
  if (const double bytes = read_speed(largest_file(dataset)); bytes > 0) {
    findings.push_back(
        {.what = "data read speed",
         .found = fmt::format("{:.0f} MB/s", bytes / 1e6),
         .expected = {},
         .remedy = "check the disk or mount of this host; copy the data to a local disk",
         .value = bytes / 1e6,
         .unit = "MB/s",
         .comparison = Comparison::kAsFastAsOthers,
         .otherwise = kSlows,
         .enough = kFastDisk / 1e6});
  }
  if (dataset.info().embedding_size > 0) return findings;  // nothing to decode
  const DecodeSpeed speed = decode_speed(dataset, augmentation);
  if (!speed.wrong_label.empty()) throw InputError(speed.wrong_label);
  if (speed.images_a_second > 0) {
    findings.push_back({.what = "decode speed",
                        .found = fmt::format("{:.0f} images/s of one core", speed.images_a_second),
                        .expected = {},
                        .remedy = "check this host's power limits, clock and cooling",
                        .value = speed.images_a_second,
                        .unit = "images/s",
                        .comparison = Comparison::kAsFastAsOthers,
                        .otherwise = kSlows});
  }
  if (speed.damaged > 0) {
    findings.push_back({.what = "data",
                        .found = fmt::format("{} of {} sampled images are damaged, the first: {}",
                                             speed.damaged, speed.drawn, speed.damage),
                        .expected = "images that can be decoded",
                        .verdict = kNote,
                        .remedy = "copy the data to this host again; training ends if their share "
                                  "of an epoch exceeds max_damaged"});
  }
  return findings;
}

}  // namespace pfc
