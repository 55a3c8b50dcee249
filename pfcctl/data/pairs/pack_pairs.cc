#include "pfcctl/data/pairs/pack_pairs.h"

#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <array>
#include <charconv>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "common/error.h"
#include "common/files/regular_file.h"
#include "data/damaged_image.h"
#include "data/images/decode.h"
#include "data/images/image_file.h"
#include "data/layouts/layout.h"
#include "data/text_lines.h"
#include "model/evaluation/verification_bin.h"
#include "pfcctl/data/progress.h"
#include "pfcctl/data/verbs.h"

namespace pfc {

namespace {

namespace fs = std::filesystem;

struct Pair {
  fs::path first, second;
  bool same = false;
  std::int64_t line = 0;
};

std::optional<int> image_number_in(std::string_view text) {
  int number = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number);
  if (parsed.ec != std::errc() || parsed.ptr != end || number < 0) return {};
  return number;
}

/// Returns the path with the extension of the existing file. facenet's aligned faces are PNG files.
fs::path lfw_path(const fs::path& images, std::string_view name, int number) {
  const fs::path path = fs::path(name) / fmt::format("{}_{:04}.jpg", name, number);
  for (const char* ending : {".jpg", ".png", ".jpeg", ".webp"}) {
    const fs::path other = fs::path(path).replace_extension(ending);
    std::error_code ignored;
    if (fs::exists(images / other, ignored)) return other;
  }
  return path;
}

/// Joins the fields to two image paths, which may contain spaces. Returns views of the line.
std::optional<std::pair<std::string_view, std::string_view>> two_paths(
    std::span<const std::string_view> fields) {
  for (std::size_t i = 1; i < fields.size(); ++i) {
    const std::string_view first = joined(fields.first(i)), second = joined(fields.subspan(i));
    if (is_image_name(first) && is_image_name(second)) return std::pair{first, second};
  }
  return {};
}

std::optional<Pair> parse_pair(const std::vector<std::string_view>& fields,
                               const fs::path& images) {
  if (fields.size() == 3) {
    const auto first = image_number_in(fields[1]), last = image_number_in(fields[2]);
    if (first && last) {
      return Pair{lfw_path(images, fields[0], *first), lfw_path(images, fields[0], *last), true};
    }
    if (last && *last <= 1) {
      return Pair{with_slashes(fields[0]), with_slashes(fields[1]), *last == 1};
    }
  }
  if (fields.size() == 4) {
    const auto first = image_number_in(fields[1]), last = image_number_in(fields[3]);
    if (first && last) {
      return Pair{lfw_path(images, fields[0], *first), lfw_path(images, fields[2], *last), false};
    }
  }
  if (fields.size() < 4) return {};
  const auto same = image_number_in(fields.back());
  const auto paths = two_paths(std::span(fields).first(fields.size() - 1));
  if (!paths || !same || *same > 1) return {};
  return Pair{with_slashes(paths->first), with_slashes(paths->second), *same == 1};
}

/// A heading has LFW's counts, or only words. A pair without its last field is not a heading.
bool is_heading(const std::vector<std::string_view>& fields, const fs::path& images) {
  const auto is_number = [](std::string_view field) { return image_number_in(field).has_value(); };
  if (fields.size() <= 2 && std::ranges::all_of(fields, is_number)) return true;
  return std::ranges::none_of(fields, [&](std::string_view field) {
    std::error_code ignored;
    return is_number(field) || is_image_name(fs::path(field)) ||
           fs::is_regular_file(images / field, ignored);
  });
}

/// A line of CALFW's and CPLFW's lists: PATH, and 0 for two people or the number of a fold for one
/// person. Two lines form a pair.
struct HalfPair {
  fs::path image;
  int fold = 0;
};

std::optional<HalfPair> parse_half(const std::vector<std::string_view>& fields) {
  if (fields.size() != 2 || !is_image_name(fields[0])) return {};
  const auto fold = image_number_in(fields[1]);
  if (!fold) return {};
  return HalfPair{with_slashes(fields[0]), *fold};
}

std::vector<Pair> read_pairs(const fs::path& file, const fs::path& images) {
  std::vector<Pair> pairs;
  std::optional<HalfPair> open;  ///< waits for its second line
  read_lines(file, {}, [&](std::string_view line, std::int64_t number) {
    const auto expect = [&](bool ok, const char* expected) {
      if (ok) return;
      throw InputError(fmt::format("{}: line {}: found '{}', expected {}", file.string(), number,
                                   line.substr(0, 80), expected));
    };
    const std::vector<std::string_view> fields = fields_of(line, " ");
    if (fields.empty()) return;
    std::optional<Pair> pair;
    if (const auto half = parse_half(fields)) {
      if (!open) {
        open = half;
        return;
      }
      expect(open->fold == half->fold, "the same number in both lines of a pair");
      pair = Pair{open->image, half->image, half->fold > 0};
      open.reset();
    } else {
      expect(!open, "the second line of a pair: PATH and a number");
      pair = parse_pair(fields, images);
      if (!pair && number == 1 && is_heading(fields, images)) return;
    }
    expect(pair.has_value(),
           "NAME I J, NAME I OTHER J, PATH PATH and 1 (the same person) or 0, or a pair in two "
           "lines PATH and a number; names with blanks need tabs between the fields");
    pair->line = number;
    pairs.push_back(std::move(*pair));
  });
  if (open) {
    throw InputError(fmt::format("{}: the last pair has one line, expected two: {}", file.string(),
                                 open->image.string()));
  }
  if (pairs.empty()) throw InputError(file.string() + ": found no pairs");
  return pairs;
}

/// Returns the bytes of an image, after checking that it decodes.
std::vector<std::byte> image_bytes(const fs::path& path, ImageDecoder& decoder,
                                   std::vector<std::uint8_t>& rgb) {
  ImageBuffer buffer;
  const auto found = read_image_file(path, buffer);
  std::vector<std::byte> bytes(found.begin(), found.end());
  try {
    decoder.decode_whole(bytes, rgb);
  } catch (const DamagedImage& e) {
    throw InputError(path.string() + ": " + e.what());
  }
  return bytes;
}

}  // namespace

void expect_bin_to_write(const fs::path& out, bool replace) {
  if (out.extension() != ".bin") {
    throw InputError("--out: found " + out.string() +
                     ", expected NAME.bin, so that \"val_targets\": [\"NAME\"] finds it");
  }
  if (!replace && something_at(out)) {
    throw InputError(out.string() +
                     ": already exists; choose another file, or replace it with --force");
  }
}

PackedPairs pack_pairs(const PackPairsOptions& options, const ShowProgress& progress) {
  expect_bin_to_write(options.out, options.replace);
  const std::vector<Pair> pairs = read_pairs(options.pairs, options.images);
  std::vector<std::vector<std::byte>> images;
  std::vector<bool> same;
  ImageDecoder decoder;
  std::vector<std::uint8_t> rgb;
  PackedPairs packed{.pairs = std::ssize(pairs), .same = 0};
  for (const Pair& pair : pairs) {
    if (progress) progress(std::ssize(same), packed.pairs);
    try {
      images.push_back(image_bytes(options.images / pair.first, decoder, rgb));
      images.push_back(image_bytes(options.images / pair.second, decoder, rgb));
    } catch (const InputError& error) {
      throw InputError(
          fmt::format("{}: line {}: {}", options.pairs.string(), pair.line, error.what()));
    }
    same.push_back(pair.same);
    packed.same += pair.same ? 1 : 0;
  }
  write_verification_bin(options.out, images, same);
  if (progress) progress(packed.pairs, packed.pairs);
  return packed;
}

void add_data_pack_pairs(CLI::App& data) {
  const auto o = std::make_shared<PackPairsOptions>();  // owned by the verb's callback
  CLI::App* verb = data.add_subcommand(
      "pack-pairs", "Writes a verification set from a list of pairs and their images");
  verb->add_option("pairs", o->pairs,
                   "The pairs.txt of LFW, CALFW or CPLFW, or lines PATH PATH 1 (same person) and "
                   "PATH PATH 0")
      ->required();
  verb->add_option("--images", o->images,
                   "Folder of the images, which have the size of the training images")
      ->required();
  verb->add_option("--out", o->out, "NAME.bin, for \"val_targets\": [\"NAME\"]")->required();
  verb->add_flag("--force", o->replace, "Replaces an existing file");
  verb->footer(
      "Example:\n"
      "  pfcctl data pack-pairs pairs.txt --images faces --out data/mine.bin");
  verb->callback([o] {
    const PackedPairs packed = pack_pairs(*o, Progress("packing", "pairs").as_function());
    std::printf("%s: %lld pairs, %lld of one person\n", o->out.c_str(),
                static_cast<long long>(packed.pairs), static_cast<long long>(packed.same));
  });
}

}  // namespace pfc
