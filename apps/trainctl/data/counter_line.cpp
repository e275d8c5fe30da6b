#include "data/counter_line.hpp"

#include "base/clock.hpp"
#include "cli/context.hpp"
#include "cli/output.hpp"

#include <algorithm>
#include <utility>

namespace trainctl::app {
namespace {

constexpr double kRedrawEvery = 0.1;
constexpr double kPlainEvery = 10;
constexpr int kBarWidth = 10;

double now() { return steady_clock().now(); }

}  // namespace

CounterLine::CounterLine(const Context& context, std::string label)
    : label_(std::move(label)),
      mode_(progress_for(context)),
      style_(style_for(context, stderr)),
      write_(writer_for(stderr)),
      started_(now()),
      drawn_(started_) {}

CounterLine::~CounterLine() {
  if (on_terminal_) write_("\r\x1b[K");
}

std::string CounterLine::text(std::int64_t done, std::int64_t total, double elapsed) const {
  const double rate = static_cast<double>(done - first_) / std::max(elapsed, 1e-9);
  const double share =
      static_cast<double>(done) / static_cast<double>(std::max<std::int64_t>(total, 1));
  const double left = rate > 0 ? static_cast<double>(total - done) / rate : 0;
  return fmt::format("{} {:3.0f}%|{}| {}/{} [{}<{}, {:.1f} it/s]", label_, share * 100,
                     report::bar_text(share, kBarWidth, style_.glyphs), done, total,
                     report::clock_text(elapsed), report::clock_text(left), rate);
}

void CounterLine::update(std::int64_t done, std::int64_t total) {
  if (mode_ == report::ProgressMode::none) return;
  if (first_ < 0) first_ = done - 1;
  const double time = now();
  const bool terminal = mode_ == report::ProgressMode::tty;
  if (time - drawn_ < (terminal ? kRedrawEvery : kPlainEvery)) return;
  drawn_ = time;
  on_terminal_ = terminal;
  const std::string line = text(done, total, time - started_);
  write_(terminal ? "\r" + line + "\x1b[K" : line + "\n");
}

}  // namespace trainctl::app
