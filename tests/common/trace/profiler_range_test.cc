#include "common/trace/profiler_range.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "worker/report/phase_timer.h"

namespace pfc {
namespace {

// NVTX looks for its tool once, at the first range of a process. Each test is a separate process.
TEST(ProfilerRange, IsReceivedByAToolInItsDomain) {
  ::setenv("NVTX_INJECTION64_PATH", PFC_FAKE_NVTX_TOOL, 1);
  PhaseTimer phases;
  phases("forward", [] { const ProfilerRange range("all_gather"); });
  void* const tool = ::dlopen(PFC_FAKE_NVTX_TOOL, RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(tool, nullptr) << "the first range did not load the tool";
  const auto heard = reinterpret_cast<const char* (*)()>(::dlsym(tool, "pfc_heard"));
  ASSERT_NE(heard, nullptr);
  EXPECT_STREQ(heard(), "domain pfc\nbegin forward\nbegin all_gather\nend\nend\n");
  ::dlclose(tool);
}

}  // namespace
}  // namespace pfc
