// The command line of pfc-coordinator.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/coordinator_file.h"
#include "coordinator/allocation/allocation.h"

namespace pfc {

/// What `pfc-coordinator --help` describes. Times are in seconds.
struct Options {
  std::string hosts = "localhost";
  std::filesystem::path hosts_file;
  std::optional<Launcher> hosts_from;
  std::filesystem::path join_file;
  bool beacon = false;
  std::filesystem::path config;
  std::vector<std::string> overrides;
  int port = 7450;
  int http_port = 7451;
  double start_timeout = 60;
  double collective_timeout = 300;
  double stop_timeout = 60;
  int max_restarts = 0;
  double token_lifetime = 3'600;
  std::string network;
  std::filesystem::path state_dir = default_state_folder();

  [[nodiscard]] bool is_service() const { return config.empty(); }
};

/// Declares every option and the text below them; parsing fills in `options`, which must outlive
/// `app`.
void declare(CLI::App& app, Options& options);

}  // namespace pfc
