#include "common/machine/process_work.h"

#include <sys/resource.h>

#include <fstream>
#include <string>

namespace pfc {
namespace {

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

}  // namespace

ProcessWork process_work() {
  ProcessWork work;
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) == 0) {
    work.cpu_seconds = seconds(usage.ru_utime) + seconds(usage.ru_stime);
  }
  std::ifstream io("/proc/self/io");
  std::string key;
  for (std::uint64_t value = 0; io >> key >> value;) {
    if (key == "rchar:" || key == "read_bytes:") work.bytes_read += value;
  }
  return work;
}

}  // namespace pfc
