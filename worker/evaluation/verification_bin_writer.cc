#include "worker/evaluation/verification_bin_writer.h"

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>

#include "common/error.h"
#include "worker/data/records/buffered_file.h"

namespace pfc {

namespace {

// Python's pickle.py appends lists by so many items, which bounds a reader's stack.
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

}  // namespace

void write_verification_bin(const std::filesystem::path& path,
                            std::span<const std::vector<std::byte>> images,
                            const std::vector<bool>& same) {
  check(images.size() == 2 * same.size(), "write_verification_bin: two images a pair");
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

}  // namespace pfc
