// The programs pfc-coordinator and pfc-agent with a fake worker, in a separate folder.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/process/child_process.h"
#include "tests/support/temporary_folder.h"

namespace pfc::testing {

inline std::string contents(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

class Cluster : public ::testing::Test {
 protected:
  struct Ran {
    ProcessExit exit;
    std::string out, err;

    /// Returns the last line of stderr, or all lines if a sanitizer has reported something.
    [[nodiscard]] std::string last_line() const {
      if (err.find("SUMMARY: ") != std::string::npos) return err;
      const std::string text = err.substr(0, err.find_last_not_of('\n') + 1);
      return text.substr(text.rfind('\n') + 1);
    }
  };

  Cluster() { std::ofstream(folder / "job.json") << R"({"network": "r18", "rec": "somewhere"})"; }

  /// Starts a coordinator whose output goes to files.
  std::unique_ptr<ChildProcess> starts(const std::string& fate,
                                       const std::vector<std::string>& more = {}) {
    std::string command =
        launcher + " \"$0\" \"$@\" >" + stdout_path + " 2>" + (folder / "err").string();
    SpawnOptions options{.program = "/bin/sh",
                         .arguments = {"-c", command, programs + "/pfc-coordinator", "--config",
                                       (folder / "job.json").string(), "--port", "0", "--http-port",
                                       "0", "--state-dir", (folder / "state").string()},
                         .environment = {{"FAKE_WORKER", fate},
                                         {"PFC_TEST_MARK", mark()},
                                         {"XDG_STATE_HOME", (folder / "logs").string()}}};
    options.arguments.insert(options.arguments.end(), hosts.begin(), hosts.end());
    options.arguments.insert(options.arguments.end(), more.begin(), more.end());
    return std::make_unique<ChildProcess>(options);
  }

  Ran ends(ChildProcess& coordinator) {
    Ran ran;
    std::optional<ProcessExit> exit;
    while (!(exit = coordinator.poll())) std::this_thread::sleep_for(std::chrono::milliseconds{5});
    return {.exit = *exit, .out = contents(stdout_path), .err = contents(folder / "err")};
  }

  Ran runs(const std::string& fate, const std::vector<std::string>& more = {}) {
    return ends(*starts(fate, more));
  }

  void wait_for_output(const std::string& text) {
    while (contents(folder / "out").find(text) == std::string::npos) {
      std::this_thread::sleep_for(std::chrono::milliseconds{5});
    }
  }

  [[nodiscard]] std::string mark() const { return folder.path().string(); }

  /// Returns the living processes of this test, at any depth, by a mark in their environment.
  std::vector<std::string> processes_left() {
    std::vector<std::string> left;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const std::string pid = entry.path().filename().string();
      if (pid.find_first_not_of("0123456789") != std::string::npos) continue;
      if (contents(entry.path() / "environ").find("PFC_TEST_MARK=" + mark()) == std::string::npos) {
        continue;
      }
      left.push_back(contents(entry.path() / "comm"));
    }
    return left;
  }

  TemporaryFolder folder;
  std::vector<std::string> hosts{"--hosts", "localhost:2"};
  std::string programs = CLUSTER_FOLDER;
  /// Resets SIGHUP to its default, as in a terminal, even if this test runs under nohup.
  std::string launcher = "exec env --default-signal=HUP";
  std::string stdout_path = (folder / "out").string();
};

}  // namespace pfc::testing
