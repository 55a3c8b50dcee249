#include "tests/support/simt/fiber.h"

#include <boost/context/preallocated.hpp>
#include <boost/context/stack_context.hpp>
#include <exception>
#include <utility>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#else
// Without AddressSanitizer, there is nothing to report.
static void __sanitizer_start_switch_fiber(void** /*fake_stack*/, const void* /*bottom*/,
                                           std::size_t /*bytes*/) {}
static void __sanitizer_finish_switch_fiber(void* /*fake_stack*/, const void** /*old_bottom*/,
                                            std::size_t* /*old_bytes*/) {}
#define ASAN_UNPOISON_MEMORY_REGION(address, bytes) ((void)(address), (void)(bytes))
#endif

namespace pfc::simt {
namespace {

namespace context = boost::context;

// The caller owns the stack: nothing to allocate or free.
struct Borrowed {
  context::stack_context allocate() { std::terminate(); }
  void deallocate(context::stack_context& /*stack*/) {}
};

context::preallocated place_on(const FiberStack& stack) {
  context::stack_context whole;
  whole.size = FiberStack::kBytes;
  whole.sp = stack.bottom() + FiberStack::kBytes;
  return {whole.sp, whole.size, whole};
}

}  // namespace

Fiber::Fiber(const FiberStack& stack, std::function<void()> body)
    : stack_(stack), body_(std::move(body)) {
  // Removes redzones left by the previous fiber on this stack.
  ASAN_UNPOISON_MEMORY_REGION(stack_.bottom(), FiberStack::kBytes);
  own_ = context::fiber(std::allocator_arg, place_on(stack), Borrowed{},
                        [this](context::fiber&& caller) {
                          caller_ = std::move(caller);
                          enter();
                          try {
                            body_();
                          } catch (const context::detail::forced_unwind&) {
                            throw;
                          } catch (...) {
                            error_ = std::current_exception();
                          }
                          ended_ = true;
                          __sanitizer_start_switch_fiber(nullptr, caller_bottom_, caller_bytes_);
                          return std::move(caller_);
                        });
}

Fiber::~Fiber() {
  if (ended_ || !own_) return;
  void* fake_stack = nullptr;
  __sanitizer_start_switch_fiber(&fake_stack, stack_.bottom(), FiberStack::kBytes);
  own_ = {};  // unwinds the stack
  __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
}

void Fiber::resume() {
  void* fake_stack = nullptr;
  __sanitizer_start_switch_fiber(&fake_stack, stack_.bottom(), FiberStack::kBytes);
  own_ = std::move(own_).resume();
  __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void Fiber::suspend() {
  leave();
  caller_ = std::move(caller_).resume();
  enter();
}

void Fiber::enter() {
  __sanitizer_finish_switch_fiber(own_fake_stack_, &caller_bottom_, &caller_bytes_);
}

void Fiber::leave() {
  __sanitizer_start_switch_fiber(&own_fake_stack_, caller_bottom_, caller_bytes_);
}

}  // namespace pfc::simt
