// Join file: a join string for scripts that start agents.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <filesystem>
#include <functional>
#include <string>

namespace pfc {

/// Holds a join string that only this user can read, and renews it so that its token is always
/// valid. Agents wait for the file (pfc-agent --join-file), so they may start at the same time as
/// the coordinator. Used on the event loop only.
class JoinFile {
 public:
  struct Options {
    std::filesystem::path path;
    std::chrono::milliseconds renewed_after{};  ///< less than the lifetime of the token
    /// Makes a join string. Blocks during file access, so later calls run on a separate thread.
    /// Throws like Gate::make_join_string().
    std::function<std::string()> make;
    std::function<void(const std::string&)> warn;  ///< called on the loop if renewal fails
  };

  /// Replaces an existing file. Throws StorageError if it cannot be written.
  JoinFile(boost::asio::io_context& loop, Options options);
  /// Removes the file, unless it has been replaced.
  ~JoinFile();
  JoinFile(const JoinFile&) = delete;
  JoinFile& operator=(const JoinFile&) = delete;

 private:
  void write();
  void renew_later();
  void renew();

  boost::asio::io_context& loop_;
  const Options options_;
  std::string text_;  ///< last text written
  boost::asio::steady_timer timer_;
  boost::asio::thread_pool files_{1};  // last: uses all members above
};

}  // namespace pfc
