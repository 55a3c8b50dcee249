// rendezvous_simulation EVENTS [SEED]: tests decide() with any number of random events.
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "tests/coordinator/simulation/simulated_cluster.h"

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: rendezvous_simulation EVENTS [SEED]\n");
    return 2;
  }
  const auto events = std::strtoll(argv[1], nullptr, 10);
  const auto seed = argc > 2 ? static_cast<unsigned>(std::strtoul(argv[2], nullptr, 10)) : 1U;
  std::string problem;
  const auto begin = std::chrono::steady_clock::now();
  const pfc::testing::Tally t = pfc::testing::simulate(events, seed, problem);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  const auto number = [](std::int64_t value) { return static_cast<long long>(value); };
  std::printf(
      "%lld events in %.1f s: %lld generations, %lld restarts, %lld planned changes, %lld begun "
      "with fewer workers, %lld times left out, %lld coordinators taken over; jobs: %lld "
      "completed, %lld stopped, %lld failed\n",
      number(t.events), seconds.count(), number(t.generations), number(t.restarts),
      number(t.planned), number(t.smaller), number(t.left_out), number(t.takeovers),
      number(t.completed), number(t.stopped), number(t.failed));
  if (problem.empty()) return 0;
  std::printf("a promise was broken: %s\n", problem.c_str());
  return 1;
}
