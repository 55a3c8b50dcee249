#include "common/trace/profiler_range.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "common/clock.h"
#include "worker/report/phase_timer.h"

namespace pfc {
namespace {

// NVTX looks for its tool once, at the first range of a process. Each test is a separate process.
TEST(ProfilerRange, IsReceivedByAToolInItsDomain) {
  ::setenv("NVTX_INJECTION64_PATH", PFC_FAKE_NVTX_TOOL, 1);
  PhaseTimer phases;
  phases("forward", [] { const ProfilerRange range("all_gather"); });
  void* const tool = ::dlopen(PFC_FAKE_NVTX_TOOL, RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(tool, nullptr) << "nobody has loaded it";
  const auto heard = reinterpret_cast<const char* (*)()>(::dlsym(tool, "pfc_heard"));
  ASSERT_NE(heard, nullptr);
  EXPECT_STREQ(heard(), "domain pfc\nbegin forward\nbegin all_gather\nend\nend\n");
  ::dlclose(tool);
}

// Has no limit: it prints a number for the documentation.
TEST(ProfilerRange, CostsLittleWithoutATool) {
  constexpr int kTimes = 1'000'000;
  const TimePoint begin = Clock::now();
  for (int i = 0; i < kTimes; ++i) const ProfilerRange range("forward");
  std::printf("%.1f ns a range\n", 1e9 * seconds_since(begin) / kTimes);
}

}  // namespace
}  // namespace pfc
