// A worker that does not train: it joins, exchanges keys with its peers, reports progress, and
// ends as the environment variable FAKE_WORKER says: "complete", "until_stop", "saves" (runs until
// SIGTERM, then needs a moment to write a file), "has_child" (runs until the stop, and starts a
// process that outlives it) or "all_fail". "WHAT:RANK" applies to one rank; the others lose their
// peer. "killed_once:RANK" applies only to the first generation. If the job has "notes", they
// replace the variable.
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "common/error.h"
#include "security/credential.h"
#include "worker/coordinator_link/coordinator_client.h"

namespace {

using namespace std::chrono_literals;
using pfc::CoordinatorClient;

struct Fate {
  std::string what;
  int rank = -1;
};

Fate parse_fate(const std::string& all) {
  const std::size_t colon = all.find(':');
  if (colon == std::string::npos) return {.what = all};
  return {.what = all.substr(0, colon), .rank = std::stoi(all.substr(colon + 1))};
}

Fate read_fate() {
  const char* text = std::getenv("FAKE_WORKER");
  return parse_fate(text == nullptr ? "complete" : text);
}

/// Returns what the job's notes request; without notes, `otherwise`.
Fate fate_of(const std::string& job_json, const Fate& otherwise) {
  const std::string notes = nlohmann::json::parse(job_json).value("notes", "");
  return notes.empty() ? otherwise : parse_fate(notes);
}

/// Acts like a collective: in each step every rank waits for every other.
void meet(CoordinatorClient& client, const pfc::Membership& self, int step,
          std::chrono::milliseconds timeout) {
  const auto key = [&](int rank) {
    return "step/" + std::to_string(step) + "/" + std::to_string(rank);
  };
  client.set(key(self.rank), {'x'});
  for (int peer = 0; peer < self.world_size; ++peer) client.get(key(peer), timeout);
}

int suffer(CoordinatorClient& client, const std::string& what) {
  if (what == "killed" || what == "killed_once") raise(SIGKILL);
  if (what == "exits") {
    std::cerr << "out of luck" << std::endl;
    return 7;
  }
  if (what == "fails") {
    client.finish(CoordinatorClient::Outcome::kFailed, "loss is not finite at step 3");
    return 1;
  }
  if (what == "bad_input") {
    client.finish(CoordinatorClient::Outcome::kBadInput, "train.rec: no such file");
    return 2;
  }
  if (what == "floods") {  // writes more than the coordinator buffers
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
  return 0;  // "leaves": without a report
}

std::atomic<bool> g_terminated{false};

int save(int rank) {
  std::this_thread::sleep_for(300ms);  // the worker must not be killed before it has saved
  std::ofstream(std::string(std::getenv("PFC_TEST_MARK")) + "/saved-" + std::to_string(rank));
  return 0;
}

int work(CoordinatorClient& client, const pfc::JoinResult& joined, const Fate& given) {
  const pfc::Membership& self = joined.membership;
  const Fate fate = fate_of(joined.job_json, given);
  std::cout << "generation " << self.generation << ", pid " << getpid() << std::endl;
  if (fate.what == "saves") signal(SIGTERM, [](int) { g_terminated = true; });
  std::cout << "world size " << self.world_size << ", threads " << std::getenv("OMP_NUM_THREADS")
            << std::endl;
  if (fate.what == "never_trains" && self.rank == fate.rank) {
    pfc::Progress progress;
    progress.starting = true;
    progress.phase = "opening /data";
    client.report(progress);
    while (true) std::this_thread::sleep_for(1h);  // its heartbeats continue
  }
  if (fate.what == "has_child" && std::system("sleep 1000 &") != 0) return 1;
  const bool endless = fate.what == "until_stop" || fate.what == "has_child" ||
                       fate.what == "saves" || fate.what == "never_trains";
  const int steps = endless ? 1'000'000 : 5;
  for (int step = 1; step <= steps; ++step) {
    if (g_terminated) return save(self.rank);
    if (client.stop_requested()) {
      client.finish(CoordinatorClient::Outcome::kStopped, "");
      return 0;
    }
    if (step == 3 && fate.what == "all_fail") return suffer(client, "bad_input");
    const bool spared = fate.what == "killed_once" && self.generation > 1;
    if (step == 3 && self.rank == fate.rank && !spared) return suffer(client, fate.what);
    // A test must have time to see that the job trains before it stops it.
    if (!endless) meet(client, self, step, fate.what == "stubborn" ? 10min : 1s);
    pfc::Progress progress;
    progress.step = step;
    progress.total_steps = steps;
    progress.steps = step;
    progress.phase = "forward";
    progress.loss = 1.0 / step;
    progress.samples_per_second = 100;
    progress.device = "cpu";
    progress.phases = {{.phase = "forward", .seconds = 0.01}};
    client.report(progress);
    if (endless) std::this_thread::sleep_for(20ms);  // duration of a step
  }
  client.finish(CoordinatorClient::Outcome::kCompleted, "");
  return 0;
}

}  // namespace

// pfc-worker --coordinator ADDRESS --job ID --agent ID --slot S --incarnation N
//   --join-timeout SECONDS --collective-timeout SECONDS --coordinator-grace SECONDS
//   [--credential -]
int main(int argc, char** argv) {
  const bool over_tls = argc == 19;  // --credential -
  if (argc != 17 && !over_tls) return 64;
  std::cout << "collective timeout " << argv[14] << std::endl;
  const pfc::CoordinatorClientOptions options{
      .address = argv[2],
      .credential = over_tls ? pfc::read_credential(argv[18]) : pfc::Credential{},
      .job_id = argv[4],
      .agent_id = argv[6],
      .slot = std::stoi(argv[8]),
      .incarnation = std::stoll(argv[10]),
      .grace = std::chrono::milliseconds(static_cast<std::int64_t>(std::stod(argv[16]) * 1000)),
      .gives_up = [] { return g_terminated.load(); }};
  const Fate fate = read_fate();
  // These tests have one host, so slot and rank are equal.
  if (fate.what == "never_joins" && options.slot == fate.rank) pause();
  const auto client = pfc::connect_to_coordinator(options);
  bool join_again = true;
  while (join_again) {
    try {
      return work(*client, client->join(std::chrono::seconds(std::stoi(argv[12]))), fate);
    } catch (const pfc::CommError& error) {
      join_again = client->finish(CoordinatorClient::Outcome::kCommFailed, error.what()).join_again;
    } catch (const std::exception& error) {
      join_again = client->finish(CoordinatorClient::Outcome::kFailed, error.what()).join_again;
    }
  }
  return 1;
}
