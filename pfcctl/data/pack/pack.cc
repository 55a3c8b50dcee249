#include "pfcctl/data/pack/pack.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "common/clock.h"
#include "common/error.h"
#include "common/files/sha256.h"
#include "common/ordered_work.h"
#include "data/damaged_image.h"
#include "data/images/decode.h"
#include "data/images/jpeg_encoder.h"
#include "data/open_dataset.h"
#include "data/records/image_record.h"
#include "data/records/writing/resumable_writer.h"
#include "pfcctl/data/options.h"
#include "pfcctl/data/progress.h"
#include "pfcctl/data/verbs.h"

namespace pfc {

namespace {

namespace fs = std::filesystem;

constexpr int kQuality = 95;  // default if images are resized

/// An image for the new set, or its damage.
struct Prepared {
  std::vector<std::byte> bytes;
  std::optional<std::string> damage;
};

/// Prepares images for storage. Thread-safe: each call has its own decoder.
class Preparer {
 public:
  Preparer(const Dataset& dataset, const PackOptions& options)
      : dataset_(dataset), options_(options) {}

  [[nodiscard]] Prepared prepare(std::int64_t image) const {
    thread_local ImageDecoder decoder;
    thread_local ImageBuffer storage;
    try {
      const Sample sample = dataset_.read(image, storage);
      return {.bytes = encode(decoder, sample.encoded), .damage = {}};
    } catch (const DamagedImage& e) {
      return {.bytes = {}, .damage = named_damage(dataset_.name(image), e)};
    }
  }

 private:
  [[nodiscard]] std::vector<std::byte> encode(ImageDecoder& decoder,
                                              std::span<const std::byte> encoded) const {
    if (options_.size == 0 && options_.quality == 0) {
      (void)decoder.size(encoded);
      return {encoded.begin(), encoded.end()};
    }
    std::vector<std::uint8_t> rgb;
    ImageSize size{options_.size, options_.size};
    if (options_.size == 0) {
      size = decoder.decode_whole(encoded, rgb);
    } else {
      rgb.resize(static_cast<std::size_t>(size.height * size.width * 3));
      decoder.decode(encoded, size, rgb);
    }
    return encode_jpeg(rgb, static_cast<int>(size.height), static_cast<int>(size.width),
                       options_.quality == 0 ? kQuality : options_.quality);
  }

  const Dataset& dataset_;
  const PackOptions& options_;
};

/// The images ordered by label, and the number of images of each label.
struct Order {
  std::vector<std::int64_t> images;
  std::vector<std::int64_t> of_class;
};

Order by_label(const Dataset& dataset) {
  Order order;
  order.of_class.resize(static_cast<std::size_t>(dataset.info().classes));
  std::vector<std::int64_t> labels = labels_of(dataset);
  for (std::int64_t& label : labels) {
    label = std::max<std::int64_t>(label, 0);  // a damaged image is reported when it is processed
    ++order.of_class[static_cast<std::size_t>(label)];
  }
  order.images.resize(labels.size());
  std::iota(order.images.begin(), order.images.end(), std::int64_t{0});
  std::ranges::stable_sort(order.images, {}, [&](std::int64_t image) {
    return labels[static_cast<std::size_t>(image)];
  });
  return order;
}

/// Returns a checksum with which a later run detects another order. Labels of merged sets depend on
/// the names of people, which the description of the data set does not contain.
std::string checksum(const Order& order) {
  Sha256 sum;
  sum.update(std::as_bytes(std::span(order.of_class)));
  sum.update(std::as_bytes(std::span(order.images)));
  return sum.finish();
}

/// Writes a set in order. Notes each damaged image with its place in the order.
class SetWriter {
 public:
  SetWriter(const Dataset& dataset, const PackOptions& options)
      : options_(options),
        preparer_(dataset, options),
        order_(by_label(dataset)),
        allowed_(allowed_of(order_.images.size(), options.max_damaged)),
        writer_(std::make_unique<ResumableWriter>(options.out / "train.rec",
                                                  options.out / "train.idx",
                                                  description("pack", dataset,
                                                              {{"size", options.size},
                                                               {"quality", options.quality},
                                                               {"order", checksum(order_)}}))),
        damaged_(numbered_notes(writer_->notes())) {}

  UnfinishedSet write(const ShowProgress& progress) {
    write_images(progress);
    write_identities();
    return {.packed = {.images = kept(),
                       .classes = std::ssize(order_.of_class),
                       .damaged = values(damaged_)},
            .writer = std::move(writer_)};
  }

 private:
  [[nodiscard]] std::int64_t images() const { return std::ssize(order_.images); }
  [[nodiscard]] std::int64_t kept() const { return images() - std::ssize(damaged_); }

  void write_images(const ShowProgress& progress) {
    if (writer_->written() == 0) {
      writer_->append(0, encode_record_zero(images(), std::ssize(order_.of_class)));
    }
    const std::int64_t first =
        std::min(first_open_place(writer_->written() - 1, damaged_), images());
    std::int64_t key = writer_->written(), label = 0, end_of_label = order_.of_class.front();
    ordered_work<Prepared>(
        images() - first, options_.threads,
        [&](std::int64_t i) {
          return preparer_.prepare(order_.images[static_cast<std::size_t>(first + i)]);
        },
        [&](std::int64_t i, const Prepared& image) {
          const std::int64_t place = first + i;
          while (place >= end_of_label) {
            end_of_label += order_.of_class[static_cast<std::size_t>(++label)];
          }
          if (image.damage) {
            leave_out(place, *image.damage);
          } else {
            writer_->append(
                key, encode_image_record(label, static_cast<std::uint64_t>(key), image.bytes));
            ++key;
          }
          if (progress) progress(place + 1, images());
        });
  }

  void leave_out(std::int64_t place, const std::string& what) {
    if (damaged_.emplace(place, what).second) writer_->note(note_text(place, what));
    expect_few_damaged(std::ssize(damaged_), images(), allowed_, damaged_.begin()->second);
  }

  void write_identities() {
    const std::int64_t classes = std::ssize(order_.of_class);
    std::int64_t begin = 0, first = 1;  // a place, and the key of the image there
    auto damaged = damaged_.begin();
    for (std::int64_t c = 0; c < classes; ++c) {
      const std::int64_t count = order_.of_class[static_cast<std::size_t>(c)];
      std::int64_t end = first + count;
      for (; damaged != damaged_.end() && damaged->first < begin + count; ++damaged) --end;
      const std::int64_t key = kept() + 1 + c;
      // An earlier run may have written this identity record.
      if (key >= writer_->written()) writer_->append(key, encode_identity_record(key, first, end));
      begin += count;
      first = end;
    }
    // Record 0 is written first, before the number of undamaged images is known.
    if (!damaged_.empty()) writer_->replace_first(encode_record_zero(kept(), classes));
  }

  const PackOptions& options_;
  const Preparer preparer_;
  const Order order_;
  const std::int64_t allowed_;
  std::unique_ptr<ResumableWriter> writer_;
  NumberedNotes damaged_;
};

void check_counts(const DatasetInfo& info, const PackOptions& options) {
  check_image_size(info, options.in);
  const std::int64_t most = std::max(info.classes, info.images + info.classes + 1);
  if (most <= kMaxFloatLabel) return;
  throw InputError(
      fmt::format("{}: found {} images of {} classes, but RecordIO stores these numbers as "
                  "float32, which is exact up to {}; train on the data as they are",
                  options.in.string(), info.images, info.classes, kMaxFloatLabel));
}

}  // namespace

Packed pack_dataset(const PackOptions& options, const ShowProgress& progress) {
  const auto dataset =
      open_dataset({.rec = options.in, .image_size = options.size, .doing = end_at_interrupt});
  expect_labelled_images(*dataset, "pack");
  return pack_dataset(*dataset, options, progress);
}

Packed pack_dataset(const Dataset& dataset, const PackOptions& options,
                    const ShowProgress& progress) {
  return finish_set(dataset, options, write_set(dataset, options, progress));
}

UnfinishedSet write_set(const Dataset& dataset, const PackOptions& options,
                        const ShowProgress& progress) {
  check_counts(dataset.info(), options);
  prepare_folder(options.in, options.out, options.replace);
  return SetWriter(dataset, options).write(progress);
}

Packed finish_set(const Dataset& dataset, const PackOptions& options, UnfinishedSet set) {
  write_companions(dataset, options.out);
  set.writer->close();
  return std::move(set.packed);
}

void add_data_pack(CLI::App& data) {
  const auto o = std::make_shared<PackOptions>();  // owned by the verb's callback
  CLI::App* verb =
      data.add_subcommand("pack", "Converts any data set to RecordIO: train.rec and train.idx");
  add_data_set(*verb, o->in);
  verb->add_option("--out", o->out, "Output folder for train.rec, train.idx and property")
      ->required();
  verb->add_option("--size", o->size, "Resizes images to this width and height; 0: does not resize")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
  verb->add_option("--quality", o->quality,
                   "Encodes images again as JPEG of this quality; 0: keeps the bytes, or uses 95 "
                   "with --size")
      ->check(CLI::Range(0, 100))
      ->capture_default_str();
  add_threads(*verb, o->threads);
  add_max_damaged(*verb, o->max_damaged);
  add_force(*verb, o->replace);
  verb->footer(
      "The files appear when they are complete. After Ctrl-C, the same command continues.\n"
      "Example:\n"
      "  pfcctl data pack photographs --size 112 --out /data/faces");
  verb->callback([o] {
    const TimePoint start = Clock::now();
    const Packed packed = pack_dataset(*o, Progress("packing", "images").as_function());
    tell_written(o->out / "train.rec", packed.images, packed.classes, packed.damaged, start,
                 o->size != 0 || o->quality != 0);
  });
}

}  // namespace pfc
