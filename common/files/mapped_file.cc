#include "common/files/mapped_file.h"

#include <sys/mman.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "common/error.h"
#include "common/files/regular_file.h"

namespace pfc {

MappedFile::MappedFile(const std::filesystem::path& path) {
  const RegularFile file(path);
  const std::size_t size = file.bytes();
  if (size == 0) return;  // mmap refuses a length of 0
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd(), 0);
  if (data == MAP_FAILED) {
    const int error = errno;
    throw InputError(path.string() + ": cannot map: " + std::generic_category().message(error));
  }
  bytes_ = {static_cast<const std::byte*>(data), size};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace pfc
