// Tests reading whole image files.
#include "data/images/image_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "data/damaged_image.h"
#include "tests/support/error_message.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

namespace pfc {
namespace {

using ::testing::HasSubstr;
using testing::message_of;
using testing::write_file;

class ImageFile : public ::testing::Test {
 protected:
  std::string read() {
    const auto bytes = read_image_file(path_, storage_);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  std::string damage() {
    return message_of<DamagedImage>([&] { read(); });
  }

  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "1.jpg";
  ImageBuffer storage_;
};

TEST_F(ImageFile, IsReadIntoStorageThatOnlyGrows) {
  write_file(path_, "seven77");
  EXPECT_EQ(read(), "seven77");
  write_file(path_, "two");
  EXPECT_EQ(read(), "two");
  EXPECT_EQ(storage_.stored.size(), 7u);
}

TEST_F(ImageFile, IsDamagedIfItCannotBeRead) {
  EXPECT_THAT(damage(), HasSubstr("1.jpg: cannot open: No such file or directory"));
  std::filesystem::create_directories(path_);
  EXPECT_THAT(damage(), HasSubstr("1.jpg: not a regular file"));
}

TEST_F(ImageFile, IsDamagedIfItIsTooLarge) {
  write_file(path_, "");
  std::filesystem::resize_file(path_, kMaxImageBytes + 1);  // sparse
  EXPECT_THAT(damage(), HasSubstr("1.jpg: found 536870913 bytes, expected at most 536870912"));
  EXPECT_EQ(storage_.stored.capacity(), 0u);
}

}  // namespace
}  // namespace pfc
