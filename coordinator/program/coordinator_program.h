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
#include "common/machine/stop_signals.h"
#include "coordinator/access/gate.h"
#include "coordinator/coordinator.h"
#include "coordinator/journal/journal.h"
#include "coordinator/launch/inheritance.h"
#include "coordinator/launch/join_file.h"
#include "coordinator/launch/local_agent.h"
#include "coordinator/net/beacon_sender.h"
#include "coordinator/program/options.h"
#include "coordinator/program/setup.h"
#include "coordinator/report/background_output.h"
#include "coordinator/report/terminal.h"
#include "coordinator/rpc/service.h"
#include "coordinator/verdict.h"
#include "coordinator/web/http_server.h"
#include "coordinator/web/last_reading.h"
#include "coordinator/web/pages.h"

namespace pfc {

/// Made once in a process, and run once. The members stand in the order in which they are made;
/// each uses only those before it, and they end in the opposite order.
class CoordinatorProgram {
 public:
  /// Checks what was asked for, takes over what a killed coordinator has left, and opens the ports;
  /// pfcctl finds it from then on. Borrows the options. Throws InputError, StorageError.
  explicit CoordinatorProgram(const Options& options);
  /// Runs the job, or the service, to its end. Returns the exit code. Where gRPC cannot be ended it
  /// ends the process itself.
  int run();

 private:
  /// What a person sees. It begins with these lines.
  struct Console {
    explicit Console(const std::vector<std::string>& notes);
    BackgroundOutput output;
    Terminal terminal;
  };

  [[nodiscard]] CoordinatorOptions settings() const;
  [[nodiscard]] CoordinatorFile about() const;
  [[nodiscard]] std::string page_access() const;
  HttpReply serve(const HttpRequest& request);
  void warn(const std::string& line);  ///< on the loop
  void finished(const Verdict& verdict);
  void begin_journal();
  [[nodiscard]] proto::SavedCoordinator own_record() const;
  [[nodiscard]] std::unique_ptr<JoinFile> write_join_file();
  void start();
  void start_local_agent();
  void print_check();
  /// Recreates removed files in the state folder, because other programs need them. Runs on its own
  /// thread, because the disk may hang.
  void keep_files(const std::stop_token& stop);
  int end();

  const Options& options_;
  Setup setup_;
  Inheritance inheritance_;
  const std::string local_agent_id_;
  Console console_;
  boost::asio::io_context loop_{1};
  std::optional<Verdict> verdict_;  ///< empty: nothing has ended yet
  LastReading last_reading_;
  boost::asio::steady_timer linger_;  ///< after the end
  std::unique_ptr<Journal> journal_;  ///< the coordinator borrows it
  Coordinator coordinator_;
  Gate gate_;  ///< keys and tokens
  Service service_;
  Pages pages_;
  const std::unique_ptr<HttpServer> http_;
  PublishedCoordinator published_;
  std::optional<StopSignals> signals_;
  std::unique_ptr<JoinFile> join_file_;  ///< null where none is asked for, or agents need none
  std::optional<BeaconSender> beacon_;
  std::optional<LocalAgent> agent_;
  std::jthread keeper_;  ///< declared last: it uses the members above
};

}  // namespace pfc
