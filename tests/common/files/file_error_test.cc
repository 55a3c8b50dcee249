#include "common/files/file_error.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace pfc {
namespace {

TEST(FileErrorText, SaysWhatToDoAboutAFullDisk) {
  EXPECT_EQ(file_error_text(ENOSPC), "No space left on device (make room on its disk)");
  EXPECT_EQ(file_error_text(EDQUOT), "Disk quota exceeded (make room, or ask for a larger quota)");
  EXPECT_EQ(file_error_text(EACCES), "Permission denied");
}

}  // namespace
}  // namespace pfc
