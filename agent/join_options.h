// Options by which an agent finds its coordinator and authenticates.
#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <filesystem>
#include <string>

#include "agent/agent_options.h"
#include "security/join_string.h"

namespace pfc {

/// REQUIRES: constructed before the program starts a thread or reads its environment, because it
/// removes PFC_JOIN, which workers must not inherit.
class JoinOptions {
 public:
  /// Declares the options. The value of --coordinator goes to `coordinator`.
  void declare(CLI::App& app, std::string& coordinator);

  /// Sets the coordinator's address, the agent's credential, the host's name in --hosts, and
  /// `stays` (true for an agent that joins, unless `is_once`). Retries for up to
  /// AgentOptions::patience, or forever if the agent stays. A join file that a coordinator refuses
  /// may be left from an earlier coordinator. It is then read again until it changes, for up to
  /// AgentOptions::patience. Throws InputError and CommError.
  void apply(AgentOptions& options, bool is_once) const;

 private:
  struct Text {
    std::string text;
    std::string origin;
  };
  /// Returns the content of --join, --join-file or PFC_JOIN.
  [[nodiscard]] Text text(const AgentOptions& options) const;
  /// Returns whether the text may change. Stdin can be read only once.
  [[nodiscard]] bool may_change() const;
  /// Waits up to `patience` until the file's text differs from the one that failed.
  [[nodiscard]] bool changes(const Text& tried, const std::string& why,
                             std::chrono::milliseconds patience) const;
  [[nodiscard]] JoinString join_string(const Text& text, const AgentOptions& options) const;

  std::string variable_ = take_join_variable();
  std::string join_;
  std::filesystem::path join_file_;
  std::filesystem::path credential_;
  std::filesystem::path state_dir_;
  bool discover_ = false;
};

}  // namespace pfc
