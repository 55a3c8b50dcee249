#include "worker/head/paging/undo_log.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "common/error.h"
#include "common/files/crc32c.h"
#include "common/files/file_error.h"
#include "common/files/regular_file.h"

namespace pfc {
namespace {

constexpr std::uint32_t kGroupMagic = 0x756e646f;

/// The first page of a group.
struct GroupHeader {
  std::uint32_t magic = kGroupMagic;
  std::uint32_t checksum = 0;  ///< of the whole group, computed with 0 here
  std::uint64_t offset = 0;    ///< of the group in the file
  std::uint32_t name = 0;      ///< CRC-32C of the file's name: old blocks of the disk do not match
  std::uint32_t count = 0;     ///< pages
  std::array<std::uint32_t, UndoLog::kMostPages> pages{};
};
static_assert(sizeof(GroupHeader) == kPageBytes);

std::string_view group_text(const PageBuffer& bytes, std::size_t pages) {
  return {reinterpret_cast<const char*>(bytes.page(0)), pages * kPageBytes};
}

std::uint32_t number_of_name(const std::filesystem::path& path) {
  return crc32c(path.filename().string());
}

bool begins_group(const GroupHeader& header, std::uint64_t offset, std::uint32_t name) {
  return header.magic == kGroupMagic && header.offset == offset && header.name == name &&
         header.count > 0 && header.count <= UndoLog::kMostPages;
}

/// Returns whether a group begins at one of the pages from this offset on.
bool has_group_after(const RegularFile& file, std::uint64_t offset, std::uint32_t name) {
  const PageBuffer page(1);
  GroupHeader header;
  for (; offset < file.bytes(); offset += kPageBytes) {
    if (file.read_at(offset, {page.page(0), kPageBytes}) < kPageBytes) return false;
    std::memcpy(&header, page.page(0), kPageBytes);
    if (begins_group(header, offset, name)) return true;
  }
  return false;
}

Fd create_log(const std::filesystem::path& path) {
  Fd fd = open_to_write(path, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW);
  if (fd < 0) throw StorageError(path.string() + ": " + file_error_text(errno));
  return fd;
}

}  // namespace

PageBuffer::PageBuffer(std::size_t pages)
    : bytes_(static_cast<std::byte*>(
          ::operator new (pages* kPageBytes, std::align_val_t{kPageBytes}))) {}

void PageBuffer::Free::operator()(std::byte* bytes) const {
  ::operator delete (bytes, std::align_val_t{kPageBytes});
}

UndoLog::UndoLog(const std::filesystem::path& path)
    : file_(create_log(path), path.string()), name_(number_of_name(path)) {
  file_.sync();
}

void UndoLog::add(std::span<const PageImage> images) {
  check(images.size() <= kMostPages, "undo log: too many pages");
  Lock lock(mutex_);
  while (next_.pages.size() + images.size() > kMostPages) advance(lock);
  for (const PageImage& image : images) {
    next_.pages.push_back(image.page);
    std::memcpy(next_.bytes.page(next_.pages.size()), image.bytes, kPageBytes);
  }
  const std::uint64_t group = written_ + (writing_ ? 1 : 0);
  while (written_ <= group) advance(lock);
}

/// Writes the next group, or waits while another thread writes a group.
void UndoLog::advance(Lock& lock) {
  if (error_) std::rethrow_exception(error_);
  if (writing_) return changed_.wait(lock);
  writing_ = true;
  std::swap(out_, next_);
  lock.unlock();
  std::exception_ptr error;
  try {
    write(out_);
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  out_.pages.clear();
  error_ = error;
  writing_ = false;
  if (!error) ++written_;
  changed_.notify_all();
}

void UndoLog::write(Group& group) {
  GroupHeader header{
      .offset = end_, .name = name_, .count = static_cast<std::uint32_t>(group.pages.size())};
  std::ranges::copy(group.pages, header.pages.begin());
  const std::size_t pages = 1 + group.pages.size();
  std::memcpy(group.bytes.page(0), &header, kPageBytes);
  header.checksum = crc32c(group_text(group.bytes, pages));
  std::memcpy(group.bytes.page(0), &header, kPageBytes);
  file_.write(end_, {group.bytes.page(0), pages * kPageBytes});
  file_.sync();
  end_ += pages * kPageBytes;
}

void read_undo_log(const std::filesystem::path& path, bool in_use, std::uint64_t pages,
                   const std::function<void(const PageImage& image, std::uint64_t offset)>& f) {
  const RegularFile file(path);
  const std::uint32_t name = number_of_name(path);
  const PageBuffer bytes(1 + UndoLog::kMostPages);
  GroupHeader header;
  for (std::uint64_t begin = 0; begin < file.bytes();) {
    const std::size_t first = file.read_at(begin, {bytes.page(0), kPageBytes});
    std::memcpy(&header, bytes.page(0), kPageBytes);
    const bool known = first == kPageBytes && begins_group(header, begin, name);
    const std::size_t size = 1 + (known ? header.count : UndoLog::kMostPages);
    const std::span<std::byte> images(bytes.page(1), (size - 1) * kPageBytes);
    const std::uint32_t expected = std::exchange(header.checksum, 0);
    std::memcpy(bytes.page(0), &header, kPageBytes);
    if (!known || file.read_at(begin + kPageBytes, images) < images.size() ||
        crc32c(group_text(bytes, size)) != expected) {
      const bool is_last = file.bytes() - begin <= size * kPageBytes &&
                           !has_group_after(file, begin + kPageBytes, name);
      if (in_use && is_last) return;
      throw InputError(path.string() + ": the pages at offset " + std::to_string(begin) +
                       " are damaged");
    }
    for (std::size_t i = 1; i < size; ++i) {
      if (header.pages[i - 1] >= pages) {
        throw InputError(path.string() + ": has page " + std::to_string(header.pages[i - 1]) +
                         " of a file of " + std::to_string(pages) + " pages");
      }
      f({.page = header.pages[i - 1], .bytes = bytes.page(i)}, begin + i * kPageBytes);
    }
    begin += size * kPageBytes;
  }
}

}  // namespace pfc
