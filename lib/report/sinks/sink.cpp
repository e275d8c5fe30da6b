#include "report/sinks/sink.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <utility>

namespace trainctl::report {
namespace {

constexpr std::size_t kMost = 1 << 14;
constexpr double kShortestPause = 5;
constexpr double kLongestPause = 600;

}  // namespace

void Backlog::add(Write write) {
  if (waiting_.size() == kMost) {
    waiting_.pop_front();
    ++lost_;
  }
  waiting_.push_back(std::move(write));
  drain();
}

void Backlog::drain() {
  try {
    while (!waiting_.empty()) {
      waiting_.front()();
      waiting_.pop_front();
    }
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::resource) throw;
    failure_ = error.what();
  }
}

void Backlog::on_tick(double now) {
  now_ = now;
  drain();
}

void Backlog::close() {
  drain();
  ENSURE(resource, waiting_.empty(), "the end of the history is missing: {}", failure_);
}

std::optional<std::string> Backlog::news() {
  if (waiting_.empty()) {
    if (!std::exchange(is_told_, false)) return std::nullopt;
    pause_ = 0;
    const std::size_t lost = std::exchange(lost_, 0);
    return lost == 0 ? "the lines of the history that waited are written"
                     : fmt::format(
                           "lines of the history that waited are written, but the {} "
                           "oldest of them are lost",
                           lost);
  }
  if (now_ < next_told_) return std::nullopt;
  is_told_ = true;
  pause_ = std::clamp(2 * pause_, kShortestPause, kLongestPause);
  next_told_ = now_ + pause_;
  return failure_ + "; the run goes on, and the lines of its history wait";
}

}  // namespace trainctl::report
