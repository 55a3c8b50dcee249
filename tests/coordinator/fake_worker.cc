// A worker that trains nothing: it joins, exchanges keys with its peers, reports progress, and ends
// as the environment's FAKE_WORKER says: "complete", "until_stop", "all_fail", or "WHAT:RANK" for
// what happens to that one rank, while the others lose their peer.
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <string>
#include <thread>

#include "common/error.h"
#include "worker/report/coordinator_client.h"

namespace {

using namespace std::chrono_literals;
using pfc::CoordinatorClient;

struct Fate {
  std::string what;
  int rank = -1;
};

Fate read_fate() {
  const char* text = std::getenv("FAKE_WORKER");
  const std::string all = text == nullptr ? "complete" : text;
  const std::size_t colon = all.find(':');
  if (colon == std::string::npos) return {.what = all};
  return {.what = all.substr(0, colon), .rank = std::stoi(all.substr(colon + 1))};
}

/// What a collective does: every rank meets every other in each step.
void meet(CoordinatorClient& client, const pfc::Membership& self, int step) {
  const auto key = [&](int rank) {
    return "step/" + std::to_string(step) + "/" + std::to_string(rank);
  };
  client.set(key(self.rank), {'x'});
  for (int peer = 0; peer < self.world_size; ++peer) client.get(key(peer), 1000ms);
}

int suffer(CoordinatorClient& client, const std::string& what) {
  if (what == "killed") raise(SIGKILL);
  if (what == "exits") {
    std::cerr << "out of luck" << std::endl;
    return 7;
  }
  if (what == "fails") {
    client.finish(CoordinatorClient::Outcome::kFailed, "loss is not finite at step 3");
    return 1;
  }
  if (what == "bad_input") {
    client.finish(CoordinatorClient::Outcome::kFailed, "train.rec: no such file");
    return 2;
  }
  if (what == "floods") {  // more than anybody keeps
    const std::string line(999, 'x');
    for (int i = 0; i < 16'000; ++i) std::cout << line << '\n';
    std::cout << std::flush;
    client.finish(CoordinatorClient::Outcome::kFailed, "it has said enough");
    return 1;
  }
  if (what == "stubborn") {
    signal(SIGTERM, SIG_IGN);
    std::cout << "ignores stops" << std::endl;
    while (true) std::this_thread::sleep_for(1h);
  }
  return 0;  // "leaves": without a word
}

int work(CoordinatorClient& client, const pfc::JoinResult& joined, const Fate& fate) {
  const pfc::Membership& self = joined.membership;
  std::cout << "world size " << self.world_size << ", threads " << std::getenv("OMP_NUM_THREADS")
            << std::endl;
  if (fate.what == "never_trains" && self.rank == fate.rank) {
    pfc::Progress progress;
    progress.starting = true;
    progress.phase = "opening /data";
    client.report(progress);
    while (true) std::this_thread::sleep_for(1h);  // its heartbeats go on
  }
  const bool endless = fate.what == "until_stop" || fate.what == "never_trains";
  const int steps = endless ? 1'000'000 : 5;
  for (int step = 1; step <= steps; ++step) {
    if (client.stop_requested()) {
      client.finish(CoordinatorClient::Outcome::kStopped, "");
      return 0;
    }
    if (step == 3 && fate.what == "all_fail") return suffer(client, "bad_input");
    if (step == 3 && self.rank == fate.rank) return suffer(client, fate.what);
    if (!endless) meet(client, self, step);
    pfc::Progress progress;
    progress.step = step;
    progress.total_steps = steps;
    progress.phase = "forward";
    progress.loss = 1.0 / step;
    progress.samples_per_second = 100;
    progress.device = "cpu";
    progress.phases = {{.phase = "forward", .seconds = 0.01}};
    client.report(progress);
    if (endless) std::this_thread::sleep_for(20ms);
  }
  client.finish(CoordinatorClient::Outcome::kCompleted, "");
  return 0;
}

}  // namespace

// pfc-worker --coordinator ADDRESS --job ID --agent ID --slot S --incarnation N
//   --join-timeout SECONDS --collective-timeout SECONDS
int main(int argc, char** argv) {
  if (argc != 15) return 64;
  std::cout << "collective timeout " << argv[14] << std::endl;
  const pfc::CoordinatorClientOptions options{.address = argv[2],
                                              .job_id = argv[4],
                                              .agent_id = argv[6],
                                              .slot = std::stoi(argv[8]),
                                              .incarnation = std::stoll(argv[10])};
  const Fate fate = read_fate();
  // These tests have one host, so that slots and ranks are the same.
  if (fate.what == "never_joins" && options.slot == fate.rank) pause();
  const auto client = pfc::connect_to_coordinator(options);
  try {
    return work(*client, client->join(std::chrono::seconds(std::stoi(argv[12]))), fate);
  } catch (const pfc::CommError& error) {
    client->finish(CoordinatorClient::Outcome::kCommFailed, error.what());
  } catch (const std::exception& error) {
    client->finish(CoordinatorClient::Outcome::kFailed, error.what());
  }
  return 1;
}
