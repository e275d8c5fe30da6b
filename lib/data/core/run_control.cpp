#include "data/core/run_control.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <thread>

namespace trainctl::data {
namespace {

constexpr double kLook = 0.05;  // polling interval in seconds: signals wake no thread

std::atomic<const volatile int*> watched_signal{nullptr};
thread_local std::stop_token token_here;
std::atomic<std::atomic<std::int64_t>*> watched_counter = nullptr;

int signal_here() noexcept {
  const volatile int* signal = watched_signal.load(std::memory_order_relaxed);
  return signal == nullptr ? 0 : *signal;
}

}  // namespace

void watch_stop_signal(const volatile int* signal) { watched_signal = signal; }

StopScope::StopScope(std::stop_token token)
    : before_(std::exchange(token_here, std::move(token))) {}

StopScope::~StopScope() { token_here = std::move(before_); }

bool stop_wanted() noexcept { return signal_here() != 0 || token_here.stop_requested(); }

void throw_if_stopped() {
  if (!stop_wanted()) return;
  throw Error(signal_here() == SIGINT ? ErrorKind::interrupted : ErrorKind::terminated,
              "stopped while data was read from the network");
}

void sleep_unless_stopped(double seconds) {
  for (double left = seconds; left > 0 && !stop_wanted(); left -= kLook)
    std::this_thread::sleep_for(std::chrono::duration<double>(std::min(left, kLook)));
}

ProgressCount::ProgressCount(std::atomic<std::int64_t>* counter) {
  watched_counter.store(counter, std::memory_order_release);
  note_progress();
}

ProgressCount::~ProgressCount() { watched_counter.store(nullptr, std::memory_order_release); }

void note_progress() noexcept {
  if (auto* counter = watched_counter.load(std::memory_order_acquire))
    counter->fetch_add(1, std::memory_order_relaxed);
}

}  // namespace trainctl::data
