// A function with its own stack that can be suspended and resumed. Reports each switch to
// AddressSanitizer.
#pragma once

#include <boost/context/fiber.hpp>
#include <cstddef>
#include <functional>
#include <memory>

namespace pfc::simt {

/// Stack memory, used by one fiber after another.
class FiberStack {
 public:
  static constexpr std::size_t kBytes = std::size_t{64} << 10;
  FiberStack() : memory_(new (std::align_val_t{4096}) std::byte[kBytes]) {}
  [[nodiscard]] std::byte* bottom() const { return memory_.get(); }

 private:
  struct Free {
    void operator()(std::byte* p) const { operator delete[](p, std::align_val_t{4096}); }
  };
  std::unique_ptr<std::byte, Free> memory_;
};

/// Runs a function in parts: resume() runs it until it calls suspend() or returns. The destructor
/// unwinds its stack if it has not returned. Does not own the stack.
class Fiber {
 public:
  Fiber(const FiberStack& stack, std::function<void()> body);
  Fiber(const Fiber&) = delete;
  ~Fiber();

  /// Rethrows the function's exception.
  void resume();
  /// REQUIRES: called from the function.
  void suspend();
  [[nodiscard]] bool ended() const { return ended_; }

 private:
  void enter();  // reports a switch to the fiber to AddressSanitizer
  void leave();  // reports the switch back

  const FiberStack& stack_;
  std::function<void()> body_;
  boost::context::fiber own_;
  boost::context::fiber caller_;
  std::exception_ptr error_;
  bool ended_ = false;
  void* own_fake_stack_ = nullptr;  // owned by AddressSanitizer
  const void* caller_bottom_ = nullptr;
  std::size_t caller_bytes_ = 0;
};

}  // namespace pfc::simt
