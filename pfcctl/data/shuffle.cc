#include "pfcctl/data/shuffle.h"

#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_map>
#include <utility>

#include "common/byte_size.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/ordered_work.h"
#include "data/damaged_image.h"
#include "data/open_dataset.h"
#include "data/records/image_record.h"
#include "data/records/writing/resumable_writer.h"
#include "kernels/math/philox.h"
#include "pfcctl/data/options.h"
#include "pfcctl/data/pack/pack.h"
#include "pfcctl/data/progress.h"
#include "pfcctl/data/verbs.h"

namespace pfc {

namespace {

// Images per block. A disk reads this many small images in about the time of one.
constexpr std::int64_t kBlock = 32;
constexpr std::int64_t kMostAhead = 256;  // blocks; more do not make reading faster
constexpr std::int64_t kMeasured = 256;   // images used to estimate the mean size
constexpr std::uint64_t kOverhead = 256;  // bytes per image in the pool, besides its content

/// A record to be written, or its image's damage.
struct Loaded {
  std::vector<std::byte> payload;
  std::optional<std::string> damage;
};

Loaded load(const Dataset& dataset, std::int64_t image) {
  thread_local ImageBuffer storage;
  try {
    const Sample sample = dataset.read(image, storage);
    if (!sample.record.empty()) {
      return {.payload = {sample.record.begin(), sample.record.end()}, .damage = {}};
    }
    return {.payload = encode_image_record(sample.label, static_cast<std::uint64_t>(image),
                                           sample.encoded),
            .damage = {}};
  } catch (const DamagedImage& e) {
    return {.payload = {}, .damage = named_damage(dataset.name(image), e)};
  }
}

/// How much fits into the memory. Three quarters of it are for images in the pool, the rest for
/// blocks that are read ahead.
struct Room {
  std::int64_t pool = 0;   ///< images
  std::int64_t ahead = 0;  ///< blocks
};

Room room_in(std::uint64_t memory, const Dataset& dataset) {
  const std::int64_t images = dataset.info().images;
  const std::int64_t count = std::min(kMeasured, images);
  std::uint64_t bytes = 0;
  for (std::int64_t k = 0; k < count; ++k) {
    bytes += kOverhead + load(dataset, k * images / count).payload.size();
  }
  const std::uint64_t mean = bytes / static_cast<std::uint64_t>(count);
  const auto fits = [&](std::uint64_t part) {
    return static_cast<std::int64_t>(std::min(part / mean, std::uint64_t{1} << 40));
  };
  return {.pool = std::clamp(fits(memory / 4 * 3), kBlock, std::max(images, kBlock)),
          .ahead = std::clamp(fits(memory / 4) / kBlock, std::int64_t{1}, kMostAhead)};
}

/// Moves the images of one set from the old file to the new one.
class Shuffler {
 public:
  Shuffler(const Dataset& dataset, const ShuffleOptions& options)
      : dataset_(dataset),
        options_(options),
        room_(room_in(options.memory, dataset)),
        order_(images(), kBlock, room_.pool, options.seed, !options.keep_order),
        allowed_(allowed_of(images(), options.max_damaged)),
        writer_(options.out / "train.rec", options.out / "train.idx",
                description("shuffle", dataset,
                            {{"seed", options.seed},
                             {"pool", room_.pool},
                             {"keep_order", options.keep_order}})),
        damaged_(numbered_notes(writer_.notes())),
        first_(first_open_place(writer_.written(), damaged_)) {}

  Shuffled write(const ShowProgress& progress) {
    using Block = std::vector<Loaded>;
    ordered_work<Block>(
        order_.blocks(), options_.threads,
        [&](std::int64_t i) {
          Block block;
          if (is_behind(i)) return block;
          const auto [begin, end] = order_.block(i);
          for (std::int64_t image = begin; image < end; ++image) {
            block.push_back(load(dataset_, image));
          }
          return block;
        },
        [&](std::int64_t i, Block block) {
          for (std::size_t k = 0; k < block.size(); ++k) {
            held_.emplace(order_.block(i).begin + static_cast<std::int64_t>(k),
                          std::move(block[k]));
          }
          for (const std::int64_t image : order_.take_block()) emit(image);
          if (progress) progress(place_, images());
        },
        room_.ahead);
    return {.images = writer_.written(),
            .classes = dataset_.info().classes,
            .damaged = values(damaged_)};
  }
  void close() { writer_.close(); }

 private:
  [[nodiscard]] std::int64_t images() const { return dataset_.info().images; }
  /// Returns whether an earlier run wrote all images that leave the pool up to this block.
  [[nodiscard]] bool is_behind(std::int64_t block) const {
    return first_ > 0 && order_.left_after(block) <= first_;
  }

  void emit(std::int64_t image) {
    auto held = held_.extract(image);
    const std::int64_t place = place_++;
    if (place < first_) return;
    const Loaded loaded = held ? std::move(held.mapped()) : load(dataset_, image);
    if (!loaded.damage) {
      writer_.append(writer_.written(), loaded.payload);
      return;
    }
    if (damaged_.emplace(place, *loaded.damage).second) {
      writer_.note(note_text(place, *loaded.damage));
    }
    expect_few_damaged(std::ssize(damaged_), images(), allowed_, damaged_.begin()->second);
  }

  const Dataset& dataset_;
  const ShuffleOptions& options_;
  const Room room_;
  ShuffleOrder order_;
  const std::int64_t allowed_;
  ResumableWriter writer_;
  NumberedNotes damaged_;
  const std::int64_t first_;  ///< first place in the new order that this run writes
  std::int64_t place_ = 0;
  std::unordered_map<std::int64_t, Loaded> held_;
};

}  // namespace

ShuffleOrder::ShuffleOrder(std::int64_t images, std::int64_t block, std::int64_t pool,
                           std::uint64_t seed, bool shuffle)
    : images_(images),
      block_(block),
      room_(!shuffle         ? 0
            : pool >= images ? images
                             : pool - block),
      blocks_((images + block - 1) / block),
      seed_(seed),
      shuffle_(shuffle),
      order_(blocks_, seed, shuffle) {
  check(images > 0 && block > 0 && block <= pool, "ShuffleOrder: no images, or no room for them");
}

ShuffleOrder::Range ShuffleOrder::block(std::int64_t i) const {
  const std::int64_t begin = order_.at(0, i) * block_;
  return {begin, std::min(begin + block_, images_)};
}

/// The last block of the data may have fewer images than the others, and its turn is random.
std::int64_t ShuffleOrder::left_after(std::int64_t i) const {
  if (i + 1 == blocks_) return images_;
  return std::max<std::int64_t>(0, (i + 1) * block_ - (blocks_ * block_ - images_) - room_);
}

std::vector<std::int64_t> ShuffleOrder::take_block() {
  const Range range = block(taken_);
  for (std::int64_t image = range.begin; image < range.end; ++image) pool_.push_back(image);
  ++taken_;
  if (!shuffle_) return std::exchange(pool_, {});
  std::vector<std::int64_t> leave;
  while (!pool_.empty() && (std::ssize(pool_) > room_ || taken_ == blocks_)) {
    leave.push_back(draw());
  }
  return leave;
}

std::int64_t ShuffleOrder::draw() {
  const Philox4 random =
      random_words(seed_, Stream::kShuffle, 1, static_cast<std::uint64_t>(left_++));
  const std::uint64_t wide = std::uint64_t{random.x[0]} << 32 | random.x[1];
  const auto chosen = static_cast<std::size_t>(wide % pool_.size());
  std::swap(pool_[chosen], pool_.back());
  const std::int64_t image = pool_.back();
  pool_.pop_back();
  return image;
}

Shuffled shuffle_dataset(const ShuffleOptions& options, const ShowProgress& progress) {
  const auto dataset = open_dataset({.rec = options.in, .doing = end_at_interrupt});
  return shuffle_dataset(*dataset, options, progress);
}

Shuffled shuffle_dataset(const Dataset& dataset, const ShuffleOptions& options,
                         const ShowProgress& progress) {
  expect_labelled_images(dataset, "shuffle");
  check_image_size(dataset.info(), options.in);
  if (dataset.info().classes > kMaxFloatLabel) {
    throw InputError(
        fmt::format("{}: found {} classes, but RecordIO stores labels as float32, which is exact "
                    "up to {}; train on the data as they are",
                    options.in.string(), dataset.info().classes, kMaxFloatLabel));
  }
  prepare_folder(options.in, options.out, options.replace);
  Shuffler shuffler(dataset, options);
  Shuffled shuffled = shuffler.write(progress);
  write_companions(dataset, options.out);
  shuffler.close();
  return shuffled;
}

void add_data_shuffle(CLI::App& data) {
  struct Flags {
    ShuffleOptions options;
    std::string memory = "2GiB";
  };
  const auto flags = std::make_shared<Flags>();  // owned by the verb's callback
  ShuffleOptions& o = flags->options;
  CLI::App* verb =
      data.add_subcommand("shuffle", "Converts any data set to RecordIO in random order");
  add_data_set(*verb, o.in);
  verb->add_option("--out", o.out, "Output folder for train.rec, train.idx and property")
      ->required();
  verb->add_option("--memory", flags->memory,
                   "Memory for images that wait for their place in the new order (2GiB, 500MB)")
      ->capture_default_str();
  verb->add_option("--seed", o.seed, "Seed of the random order")->capture_default_str();
  add_threads(*verb, o.threads);
  add_max_damaged(*verb, o.max_damaged);
  add_force(*verb, o.replace);
  verb->footer(
      "Reads the data once and writes it once, whatever its size. Records keep their bytes.\n"
      "After Ctrl-C, the same command continues. Example:\n"
      "  pfcctl data shuffle /data/faces --out /data/faces-shuffled");
  verb->callback([flags] {
    ShuffleOptions& options = flags->options;
    options.memory = parse_byte_size(flags->memory, "--memory");
    const TimePoint start = Clock::now();
    const Shuffled shuffled =
        shuffle_dataset(options, Progress("shuffling", "images").as_function());
    tell_written(options.out / "train.rec", shuffled.images, shuffled.classes, shuffled.damaged,
                 start);
  });
}

}  // namespace pfc
