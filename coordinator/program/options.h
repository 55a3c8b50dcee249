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

/// Options of a job whose number of workers may change.
struct ElasticOptions {
  std::optional<int> max_restarts;
  int min_workers = 0;
  int max_workers = 0;
  int spares = 0;

  [[nodiscard]] bool may_go_on() const { return min_workers > 0 || spares > 0; }
  /// Returns the allowed restarts, or the default.
  [[nodiscard]] int restarts() const;
};

/// Options of pfc-coordinator (see --help). Times are in seconds.
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
  double progress_floor = 30;
  double progress_factor = 10;
  double stop_timeout = 60;
  ElasticOptions elastic;
  double token_lifetime = 3'600;
  std::optional<double> coordinator_grace;  ///< empty: depends on the hosts
  std::string take_over = "auto";
  double metrics_linger = 60;
  std::string address;
  std::string network;
  bool allow_chaos = false;
  bool check = false;  ///< train nothing (docs/check.md)
  bool json = false;   ///< print the report of the check as JSON
  std::filesystem::path state_dir = default_state_folder();

  [[nodiscard]] bool is_service() const { return config.empty() && !check; }
};

/// Declares every option and the text below them. Parsing writes to `options`, which must outlive
/// `app`.
void declare(CLI::App& app, Options& options);

}  // namespace pfc
