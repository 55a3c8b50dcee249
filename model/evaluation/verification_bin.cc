#include "model/evaluation/verification_bin.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>

#include "common/error.h"
#include "common/files/mapped_file.h"
#include "common/files/regular_file.h"
#include "data/pickle/pickle.h"
#include "data/records/writing/buffered_file.h"

namespace pfc {

namespace {

namespace fs = std::filesystem;
using Kind = PickleValue::Kind;

// A pickle can hold an image once and use it in many pairs. This limit on repetitions prevents a
// small file from becoming a large set.
constexpr std::uint64_t kMaxRepeat = 32;

// Python's pickle.py appends this many list items at a time, which bounds a reader's stack.
constexpr std::size_t kItemsPerAppend = 1000;

/// EMPTY_LIST, then MARK item... APPENDS for every kItemsPerAppend items.
template <typename WriteItem>
void write_list(BufferedFile& file, std::size_t count, const WriteItem& write_item) {
  file.write("]");
  for (std::size_t begin = 0; begin < count; begin += kItemsPerAppend) {
    file.write("(");
    for (std::size_t i = begin; i < std::min(count, begin + kItemsPerAppend); ++i) write_item(i);
    file.write("e");
  }
}

/// Builds a verification set from the values of a pickle.
class SetBuilder {
 public:
  SetBuilder(const fs::path& path, std::span<const std::byte> file)
      : path_(path), origin_(path.string()), file_(file), pickle_(origin_, file) {}

  VerificationSet build() {
    const std::vector<PickleValue>& parts = sequence(pickle_.root(), "the pickle");
    if (parts.size() != 2) {
      fail(fmt::format("found {} parts, expected (images, flags)", parts.size()));
    }
    VerificationSet set{.name = path_.stem().string(), .file = path_, .images = {}, .same = {}};
    add_flags(parts[1], set);
    const std::vector<PickleValue>& images = sequence(parts[0], "the first part");
    if (set.same.empty()) fail("found no flags, expected one for each pair of images");
    if (images.size() != 2 * set.same.size()) {
      fail(fmt::format("found {} images and {} flags, expected two images per flag", images.size(),
                       set.same.size()));
    }
    set.images.reserve(images.size());
    for (const PickleValue& image : images) add_image(image, set);
    return set;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw InputError(fmt::format("{}: {}: not a verification file", path_.string(), what));
  }

  const std::vector<PickleValue>& sequence(const PickleValue& v, const char* what) const {
    if (v.kind != Kind::kSequence) fail(fmt::format("{} is not a list or tuple", what));
    return pickle_.sequence(v);
  }

  void add_flags(const PickleValue& flags, VerificationSet& set) const {
    if (flags.kind == Kind::kArray) {
      for (const std::byte b : pickle_.array(flags).bytes) set.same.push_back(b != std::byte{0});
      return;
    }
    for (const PickleValue& flag : sequence(flags, "the second part")) {
      const bool number = flag.kind == Kind::kBool || flag.kind == Kind::kInteger;
      if (!number || (flag.number != 0 && flag.number != 1)) {
        fail(fmt::format("flag {} is neither true nor false", set.same.size()));
      }
      set.same.push_back(flag.number == 1);
    }
  }

  void add_image(const PickleValue& image, VerificationSet& set) {
    const auto bytes = encoded(image);
    if (!bytes) {
      fail(fmt::format("image {} is neither bytes nor a one-dimensional uint8 array",
                       set.images.size()));
    }
    if (bytes->empty()) fail(fmt::format("image {} is empty", set.images.size()));
    total_bytes_ += bytes->size();
    if (total_bytes_ > kMaxRepeat * file_.size()) {
      fail("too many images refer to the same bytes");
    }
    set.images.emplace_back(bytes->begin(), bytes->end());
  }

  [[nodiscard]] std::optional<std::span<const std::byte>> encoded(const PickleValue& image) const {
    if (image.kind == Kind::kBytes) return image.bytes;
    if (image.kind != Kind::kArray) return std::nullopt;
    const PickleArray& array = pickle_.array(image);
    if (!array.vector || array.dtype != "u1") return std::nullopt;
    return array.bytes;
  }

  const fs::path& path_;
  const std::string origin_;
  const std::span<const std::byte> file_;
  const Pickle pickle_;
  std::uint64_t total_bytes_ = 0;
};

/// Returns the folder itself, or the folder of a file or of a pattern of files.
fs::path folder_of(const fs::path& rec) {
  std::error_code ignored;
  return fs::is_directory(rec, ignored) ? rec : rec.parent_path();
}

std::vector<fs::path> panel_in(std::span<const fs::path> rec) {
  std::vector<fs::path> found;
  std::string tried;
  for (const char* name : {"lfw", "cfp_fp", "agedb_30", "calfw", "cplfw", "xqlfw"}) {
    for (const fs::path& each : rec) {
      const fs::path place = folder_of(each) / (std::string(name) + ".bin");
      tried += (tried.empty() ? "" : ", ") + place.string();
      if (!something_at(place)) continue;
      found.push_back(place);
      break;
    }
  }
  if (!found.empty()) return found;
  throw InputError(fmt::format("panel of verification sets: found none; tried {}", tried));
}

}  // namespace

VerificationSet read_verification_bin(const fs::path& path) {
  // Mapped, so that no second copy of the images is in memory.
  return parse_verification_bin(path, MappedFile(path).bytes());
}

VerificationSet parse_verification_bin(const fs::path& path, std::span<const std::byte> file) {
  return SetBuilder(path, file).build();
}

fs::path find_verification_bin(const std::string& target, std::span<const fs::path> rec) {
  std::error_code ignored;
  std::vector<fs::path> places;
  for (const fs::path& each : rec) {
    if (fs::path(target).has_parent_path()) break;
    const fs::path folder = folder_of(each);
    if (fs::path(target).extension() != ".bin") places.push_back(folder / (target + ".bin"));
    places.push_back(folder / target);
  }
  places.emplace_back(target);
  std::string tried;
  for (const fs::path& place : places) {
    if (fs::is_regular_file(place, ignored)) return place;
    tried += (tried.empty() ? "" : ", ") + place.string();
  }
  const bool folder_is_meant = fs::path(target).has_parent_path();
  const auto other = std::ranges::find_if(places, [&](const fs::path& place) {
    return something_at(place) && (folder_is_meant || !fs::is_directory(place, ignored));
  });
  if (other != places.end()) return *other;
  throw InputError(fmt::format("val_targets: '{}' not found; tried {}", target, tried));
}

std::vector<fs::path> find_verification_bins(const std::vector<std::string>& targets,
                                             std::span<const fs::path> rec) {
  std::vector<fs::path> found;
  for (const std::string& target : targets) {
    if (target == kPanel) {
      std::ranges::move(panel_in(rec), std::back_inserter(found));
    } else {
      found.push_back(find_verification_bin(target, rec));
    }
  }
  return found;
}

void write_verification_bin(const std::filesystem::path& path,
                            std::span<const std::vector<std::byte>> images,
                            const std::vector<bool>& same) {
  check(images.size() == 2 * same.size(), "write_verification_bin: needs two images per pair");
  BufferedFile file(path);
  file.write(std::string_view("\x80\x04"));  // PROTO 4
  write_list(file, images.size(), [&](std::size_t i) {
    check(images[i].size() <= std::numeric_limits<std::uint32_t>::max(), "image above 4 GiB");
    const auto bytes = static_cast<std::uint32_t>(images[i].size());
    file.write("B");  // BINBYTES, u32 length
    file.write(std::as_bytes(std::span(&bytes, 1)));
    file.write(images[i]);
  });
  write_list(file, same.size(), [&](std::size_t i) {
    file.write(same[i] ? std::string_view("\x88") : std::string_view("\x89"));  // NEWTRUE, NEWFALSE
  });
  file.write("\x86.");  // TUPLE2, STOP
  file.commit();
}

std::size_t VerificationSet::bytes() const {
  std::size_t sum = 0;
  for (const auto& image : images) sum += image.size();
  return sum;
}

}  // namespace pfc
