// Tests limits of a process, and its exit.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <new>
#include <system_error>

#include "common/error.h"
#include "common/error_text.h"
#include "common/machine/descriptors.h"
#include "common/machine/limits.h"
#include "common/process/exit_deadline.h"
#include "tests/support/error_message.h"

namespace pfc {
namespace {

using namespace std::chrono_literals;

TEST(ExitDeadline, EndsAProcessThatWaitsForever) {
  EXPECT_EXIT(
      {
        end_process_after(1s, 7);
        while (true) pause();
      },
      ::testing::ExitedWithCode(7), "");
}

TEST(Descriptors, LimitIsRaisedToTheHardLimit) {
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  rlimit low = before;
  low.rlim_cur = 100;
  setrlimit(RLIMIT_NOFILE, &low);
  EXPECT_TRUE(descriptors_are_short(90, 10));
  EXPECT_FALSE(descriptors_are_short(89, 10));
  raise_descriptor_limit();
  rlimit after{};
  getrlimit(RLIMIT_NOFILE, &after);
  EXPECT_EQ(after.rlim_cur, before.rlim_max);
  setrlimit(RLIMIT_NOFILE, &before);
}

/// Returns the error of expect_limits() if the process has this limit.
std::string refusal_under(decltype(RLIMIT_AS) resource, rlim_t value, const ProcessNeeds& needs) {
  rlimit before{};
  getrlimit(resource, &before);
  rlimit low = before;
  low.rlim_cur = value;
  setrlimit(resource, &low);
  std::string message = testing::message_of<InputError>([&] { expect_limits(needs); });
  setrlimit(resource, &before);
  return message;
}

TEST(ProcessLimits, AreNamedIfTheyAreTooLow) {
  EXPECT_EQ(refusal_under(RLIMIT_NOFILE, 20, {.files = 22}),
            "open files: found a limit of 20 (ulimit -Hn), expected at least 22; raise it");
  EXPECT_EQ(refusal_under(RLIMIT_AS, 250'000 << 10, {}),
            "address space: found a limit of 244 MiB (ulimit -v), expected at least 1.00 GiB; "
            "raise it, best with ulimit -v unlimited");
}

TEST(ProcessLimits, AreAcceptedIfTheySuffice) {
  EXPECT_NO_THROW(expect_limits({.files = 20, .address_space = 1}));
}

TEST(TextOfAnError, ExplainsSystemErrors) {
  EXPECT_EQ(text_of(InputError("--x: found 1")), "--x: found 1");
  EXPECT_EQ(text_of(std::system_error(EAGAIN, std::generic_category(), "fork")),
            "cannot start a thread or process (fork: Resource temporarily unavailable): a limit of "
            "this user (ulimit -u, ulimit -v) or of the machine may have been reached; raise it, "
            "or end other programs");
  EXPECT_EQ(text_of(std::system_error(EMFILE, std::generic_category(), "pipe")),
            "pipe: Too many open files; raise this process's limit (ulimit -Hn)");
  EXPECT_EQ(text_of(std::bad_alloc()),
            "out of memory; end other programs, raise the limit of this process (ulimit -v), or "
            "lower batch_size (pfcctl plan shows what a worker needs)");
}

}  // namespace
}  // namespace pfc
