#include "data/stored_image.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <utility>

#include "data/damaged_image.h"

namespace pfc {
namespace {

// If a file has records that are not indexed, an extent may be far longer than its image.
constexpr std::uint64_t kMostUnasked = std::uint64_t{256} << 10;

}  // namespace

StoredImage::StoredImage(Extent extent, std::span<const std::byte> ahead, ImageBuffer& buffer)
    : extent_(std::move(extent)), have_(ahead), buffer_(buffer) {}

std::span<const std::byte> StoredImage::first(std::size_t bytes) {
  if (bytes <= have_.size()) return have_.first(bytes);
  const std::size_t have = have_.size();
  const auto wanted = std::max<std::size_t>(bytes, std::min(extent_.bytes, kMostUnasked));
  const bool is_own = have_.data() == buffer_.stored.data();
  if (buffer_.stored.size() < wanted) buffer_.stored.resize(wanted);
  if (!is_own) std::ranges::copy(have_, buffer_.stored.begin());
  const auto rest = std::span(buffer_.stored).subspan(have, wanted - have);
  const std::size_t got =
      as_damaged_image([&] { return extent_.file->read_at(extent_.offset + have, rest); });
  have_ = std::span(buffer_.stored).first(have + got);
  if (bytes <= have_.size()) return have_.first(bytes);
  throw DamagedImage(
      fmt::format("{}: offset {}: the file ends after {} of {} bytes: it is truncated",
                  extent_.file->path().string(), extent_.offset, have_.size(), bytes));
}

}  // namespace pfc
