// A running pfc-coordinator: its parts, from the first port to the exit code.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "common/coordinator_file.h"
#include "common/process/stop_signals.h"
#include "coordinator/access/gate.h"
#include "coordinator/coordinator.h"
#include "coordinator/journal/journal.h"
#include "coordinator/program/join_file.h"
#include "coordinator/program/local_agent.h"
#include "coordinator/program/options.h"
#include "coordinator/program/setup.h"
#include "coordinator/rpc/service.h"
#include "coordinator/rules/verdict.h"
#include "coordinator/sockets/beacon_sender.h"
#include "coordinator/takeover/inheritance.h"
#include "coordinator/terminal/background_output.h"
#include "coordinator/terminal/terminal.h"
#include "coordinator/web/http_server.h"
#include "coordinator/web/last_reading.h"
#include "coordinator/web/pages.h"

namespace pfc {

/// Constructed and run once per process. Members are in order of construction; each uses only
/// those before it.
class CoordinatorProgram {
 public:
  /// Checks the options, takes over from a killed coordinator, opens the ports, and publishes the
  /// address for pfcctl. Does not own the options. Throws InputError, StorageError.
  explicit CoordinatorProgram(const Options& options);
  /// Runs the job or service to its end. Returns the exit code. Exits the process itself if gRPC
  /// cannot be shut down.
  int run();

 private:
  /// Output to the user. Prints these notes first.
  struct Console {
    explicit Console(const std::vector<std::string>& notes);
    BackgroundOutput output;
    Terminal terminal;
  };

  [[nodiscard]] CoordinatorOptions settings() const;
  [[nodiscard]] CoordinatorFile about() const;
  [[nodiscard]] std::string page_access() const;
  HttpReply serve(const HttpRequest& request);
  void warn(const std::string& line);  ///< called on the loop
  void finished(const Verdict& verdict);
  void begin_journal();
  [[nodiscard]] proto::SavedCoordinator own_record() const;
  [[nodiscard]] std::unique_ptr<JoinFile> write_join_file();
  void start();
  void start_local_agent();
  void print_check();
  /// Recreates removed files in the state folder, because other programs need them. Runs on its
  /// own thread, because the disk may hang.
  void keep_files(const std::stop_token& stop);
  /// Looks up hosts without an address until the start timeout. Runs on its own thread.
  void look_up_again(const std::stop_token& stop);
  int end();

  const Options& options_;
  Setup setup_;
  Inheritance inheritance_;
  const std::string local_agent_id_;
  Console console_;
  boost::asio::io_context loop_{1};
  std::optional<Verdict> verdict_;  ///< empty: not finished
  LastReading last_reading_;
  boost::asio::steady_timer linger_;  ///< wait after the end
  std::unique_ptr<Journal> journal_;  ///< not owned by coordinator_, which uses it
  Coordinator coordinator_;
  Gate gate_;  ///< keys and tokens
  Service service_;
  Pages pages_;
  const std::unique_ptr<HttpServer> http_;
  PublishedCoordinator published_;
  std::optional<StopSignals> signals_;
  std::unique_ptr<JoinFile> join_file_;  ///< null if not requested or not needed
  std::optional<BeaconSender> beacon_;
  std::optional<LocalAgent> agent_;
  std::jthread keeper_, names_;  ///< last: use the members above
};

}  // namespace pfc
