#include "agent/join_options.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <system_error>
#include <thread>

#include "agent/discovery.h"
#include "agent/join.h"
#include "common/clock.h"
#include "common/command_line.h"
#include "common/coordinator_file.h"
#include "common/error.h"
#include "common/log.h"
#include "security/credential.h"
#include "security/first_contact.h"

namespace pfc {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFilePollInterval{100};
constexpr milliseconds kQuietWait{3'000};
constexpr milliseconds kTurn{10'000};  // for one attempt; then the file or beacon is read again

void warn(const std::string& line) { print_message("pfc-agent", Severity::kWarning, line); }

/// Waits for the file, because the coordinator that writes it may be starting at the same time.
void wait_for_file(const std::filesystem::path& path, const AgentOptions& options) {
  const TimePoint begin = Clock::now();
  std::error_code error;
  for (bool told = false; !std::filesystem::exists(path, error);) {
    const auto waited = Clock::now() - begin;
    if (error || (!options.stays && waited >= options.patience)) return;  // the reader says why
    if (!told && waited >= kQuietWait) {
      told = true;
      warn(path.string() +
           ": this file does not exist yet; waiting for the coordinator to write it");
    }
    std::this_thread::sleep_for(kFilePollInterval);
  }
}

}  // namespace

void JoinOptions::declare(CLI::App& app, std::string& coordinator) {
  state_dir_ = default_state_folder();
  auto* const plain = app.add_option("--coordinator", coordinator,
                                     "HOST:PORT of the coordinator that starts this agent. To join "
                                     "another coordinator, use --join");
  plain->check(host_and_port());
  auto* const text =
      app.add_option("--join", join_,
                     "The join string TOKEN@HOST:PORT#FINGERPRINT, as the coordinator prints it. "
                     "Other users of this machine can see the arguments of a program: use "
                     "--join-file or the environment variable PFC_JOIN to hide the token");
  auto* const file = app.add_option(
      "--join-file", join_file_,
      "File that contains the join string; the agent waits until it exists. '-' reads stdin");
  text->excludes(plain)->excludes(file);
  file->excludes(plain);
  app.add_flag("--discover", discover_,
               "Finds the coordinator on this machine's networks; requires pfc-coordinator "
               "--beacon. The join string may then be just the TOKEN")
      ->excludes(plain);
  app.add_option("--credential", credential_,
                 "File with key and certificates; '-' reads stdin. Used only by a coordinator that "
                 "starts an agent itself")
      ->needs(plain);
  plain->needs("--credential");
  app.add_option("--state-dir", state_dir_,
                 "Folder in which the agent stores its key. An agent that is started again with "
                 "this key needs no new token")
      ->capture_default_str();
}

void JoinOptions::apply(AgentOptions& options, bool is_once) const {
  const bool joins = options.coordinator.empty();
  options.stays = options.stays || (joins && !is_once);
  if (!joins) {
    if (!credential_.empty()) options.credential = read_credential(credential_);
    return;
  }
  const TimePoint deadline = Clock::now() + options.patience;
  std::optional<Text> given;
  for (bool told = false;; told = true) {
    if (!given || may_change()) given = text(options);
    const JoinString join = join_string(*given, options);
    try {
      const JoinedCluster joined =
          join_cluster(join, options.host, state_dir_, std::min(options.patience, kTurn));
      options.coordinator = join.address;
      options.credential = joined.credential;
      options.host = joined.host;
      return;
    } catch (const StorageError&) {
      throw;
    } catch (const ClockError&) {
      throw;
    } catch (const InputError& error) {
      if (!may_change() || !changes(*given, error.what(), options.patience)) throw;
    } catch (const CommError& error) {
      if (!options.stays && Clock::now() >= deadline) throw;
      if (!told) warn(std::string(error.what()) + "; trying again");
    }
  }
}

bool JoinOptions::may_change() const { return !join_file_.empty() && join_file_ != "-"; }

bool JoinOptions::changes(const Text& tried, const std::string& why, milliseconds patience) const {
  warn(why + "; " + tried.origin +
       " may be left from a coordinator that has ended; waiting until a new coordinator writes it");
  const TimePoint deadline = Clock::now() + patience;
  while (Clock::now() < deadline) {
    std::this_thread::sleep_for(kFilePollInterval);
    try {
      if (read_join_text(join_file_) != tried.text) return true;
    } catch (const InputError&) {  // the old coordinator removes the file when it ends
    }
  }
  return false;
}

JoinOptions::Text JoinOptions::text(const AgentOptions& options) const {
  if (!join_.empty()) return {.text = join_, .origin = "--join"};
  if (!join_file_.empty()) {
    if (join_file_ != "-") wait_for_file(join_file_, options);
    return {.text = read_join_text(join_file_), .origin = join_file_.string()};
  }
  if (!variable_.empty()) return {.text = variable_, .origin = kJoinVariable};
  throw InputError(
      "found no join string; give --join TOKEN@HOST:PORT#FINGERPRINT, as the coordinator prints "
      "it, or --join-file FILE");
}

JoinString JoinOptions::join_string(const Text& text, const AgentOptions& options) const {
  if (!discover_) return parse_join_string(text.text, text.origin);
  return discover({.token = parse_token(text.text, text.origin),
                   .limit = options.stays ? milliseconds::max() : options.patience,
                   .notice = warn});
}

}  // namespace pfc
