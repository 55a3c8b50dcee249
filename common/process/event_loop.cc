#include "common/process/event_loop.h"

#include <exception>

#include "common/error_text.h"

namespace pfc {

void run_event_loop(boost::asio::io_context& loop,
                    const std::function<void(const std::string& what)>& failed) {
  for (int failures = 0;;) {
    try {
      loop.run();
      return;
    } catch (const std::exception& error) {
      if (++failures > kMostFailures) throw;
      failed(text_of(error));
    }
  }
}

}  // namespace pfc
