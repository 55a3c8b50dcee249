// How an agent finds its coordinator, and what it shows there.
#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <filesystem>
#include <string>

#include "agent/agent_options.h"
#include "security/join_string.h"

namespace pfc {

/// REQUIRES: made before the program starts a thread or reads its environment: PFC_JOIN is taken
/// out of it, because workers inherit the rest.
class JoinOptions {
 public:
  /// The options; --coordinator's value goes to `coordinator`.
  void declare(CLI::App& app, std::string& coordinator);

  /// Fills in the coordinator's address, the agent's credential, the name that the coordinator has
  /// for its host, and whether it stays: an agent that joins does, unless it `is_once`. Waits for
  /// what is not there yet, for at most AgentOptions::patience, or for ever where it stays. A join
  /// file that a coordinator refuses may be of the one before it, which has just ended: it is read
  /// again until it is another one, for at most the patience. Throws InputError and CommError.
  void apply(AgentOptions& options, bool is_once) const;

 private:
  struct Text {
    std::string text;
    std::string origin;
  };
  /// What --join, --join-file or PFC_JOIN has.
  [[nodiscard]] Text text(const AgentOptions& options) const;
  /// Whether it may be another one the next time: stdin can be read once.
  [[nodiscard]] bool may_change() const;
  /// Waits until the file has another text than the one with which joining failed, at most so long.
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
