#include "common/files/fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <utility>

namespace pfc {
namespace {

bool is_open(int number) { return ::fcntl(number, F_GETFD) >= 0; }
Fd open_null() { return Fd(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

TEST(Fd, ClosesItsDescriptorWhenDestroyedOrReplaced) {
  Fd fd = open_null();
  const int first = fd;
  EXPECT_TRUE(is_open(first));
  Fd other = open_null();
  const int second = other;
  fd = std::move(other);
  EXPECT_FALSE(is_open(first));
  EXPECT_EQ(fd, second);
  { const Fd owner(std::move(fd)); }
  EXPECT_FALSE(is_open(second));
  EXPECT_EQ(fd, -1) << "it was moved from";  // NOLINT(bugprone-use-after-move)
}

TEST(Fd, LeavesAReleasedDescriptorOpen) {
  int number = -1;
  {
    Fd fd = open_null();
    number = fd.release();
  }
  EXPECT_TRUE(is_open(number));
  const Fd owner(number);
}

}  // namespace
}  // namespace pfc
