#include "report/text/progress_bar.hpp"

#include <fmt/format.h>

#include <cmath>

namespace trainctl::report {
namespace {

constexpr double kHideBefore_s = 0.5;
constexpr double kPlainEvery_s = 10;
constexpr double kRateSmoothing = 0.3;  // tqdm's: weight of the newest rate
constexpr int kBarWidth = 10;

double share_of(const events::Progress& at) {
  if (at.steps_in_epoch <= 0) return 0;
  return std::clamp(static_cast<double>(at.step_in_epoch) / static_cast<double>(at.steps_in_epoch),
                    0.0, 1.0);
}

std::string pace_text(double steps_per_s) {
  if (!(steps_per_s > 0)) return "? it/s";
  if (steps_per_s < 1) return fmt::format("{:.2f} s/it", 1 / steps_per_s);
  return fmt::format("{:.{}f} it/s", steps_per_s, steps_per_s < 100 ? 1 : 0);
}

const char* phase_word(events::Phase phase) {
  constexpr std::array kWords{"starting", "epoch", "val", "saving", "ending", "loading"};
  return kWords.at(static_cast<std::size_t>(phase));
}

}  // namespace

ProgressMode resolve(ProgressMode mode, Device device) {
  if (mode != ProgressMode::automatic) return mode;
  return device == Device::terminal ? ProgressMode::tty : ProgressMode::plain;
}

std::string clock_text(double seconds) {
  if (!std::isfinite(seconds) || seconds > 1e9) return "?";
  const auto whole = std::llround(std::floor(std::max(seconds, 0.0)));
  if (whole < 3600) return fmt::format("{:02}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

std::string bar_text(double share, int width, Glyphs glyphs) {
  constexpr std::array kEighths{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const bool unicode = glyphs == Glyphs::unicode;
  const int parts = unicode ? 8 : 10;
  const int filled = static_cast<int>(std::clamp(share, 0.0, 1.0) * width * parts + 1e-9);
  std::string bar;
  for (int i = 0; i < filled / parts; ++i) bar += unicode ? "█" : "#";
  const int rest = filled % parts;
  if (rest > 0) bar += unicode ? kEighths[static_cast<std::size_t>(rest)] : std::to_string(rest);
  return pad(bar, width, Align::left);
}

void ProgressBar::update(const events::Progress& progress) {
  new_stretch_ =
      new_stretch_ || !at_ || at_->epoch != progress.epoch || at_->phase != progress.phase;
  at_ = progress;
}

void ProgressBar::follow(double now) {
  if (new_stretch_) {
    const double known = at_->phase == events::Phase::train ? train_rate_ : 0;
    pace_ = {now, now, at_->step_in_epoch, at_->step_in_epoch, known};
    new_stretch_ = false;
    return;
  }
  const double passed = now - pace_.seen;
  const auto steps = static_cast<double>(at_->step_in_epoch - pace_.step);
  if (passed <= 0 || steps <= 0) return;
  const double rate = steps / passed;
  pace_.steps_per_s = pace_.steps_per_s > 0
                          ? kRateSmoothing * rate + (1 - kRateSmoothing) * pace_.steps_per_s
                          : rate;
  if (at_->phase == events::Phase::train) train_rate_ = pace_.steps_per_s;
  pace_.seen = now;
  pace_.step = at_->step_in_epoch;
}

std::string ProgressBar::label() const {
  const std::string of = options_.max_epochs > 0 ? fmt::format("/{}", options_.max_epochs) : "";
  return fmt::format("{} {}{}", phase_word(at_->phase), at_->epoch + 1, of);
}

// Returns "00:31<00:43, 6.7 it/s, loss=0.193".
std::string ProgressBar::numbers(double now) const {
  const auto left = static_cast<double>(at_->steps_in_epoch - at_->step_in_epoch);
  const std::string remaining = pace_.steps_per_s > 0 ? clock_text(left / pace_.steps_per_s) : "?";
  std::string text = fmt::format("{}<{}, {}", clock_text(now - pace_.started), remaining,
                                 pace_text(pace_.steps_per_s));
  if (at_->loss)
    text += std::isfinite(*at_->loss) ? fmt::format(", loss={:.3g}", *at_->loss)
                                      : ", loss=" + exact_text(*at_->loss);
  return text;
}

std::string ProgressBar::bar_line(double now) const {
  const int width = options_.style.width - 1;  // some terminals wrap after a full last column
  const double share = share_of(*at_);
  const std::string head = fmt::format("{} {:3.0f}%", label(), std::floor(100 * share));
  const std::string count = fmt::format(" {}/{}", at_->step_in_epoch, at_->steps_in_epoch);
  const std::string tail = fmt::format(" [{}]", numbers(now));
  const int room = width - display_width(head) - display_width(count) - 2;
  const int bar = std::min(kBarWidth, room - display_width(tail));
  if (bar >= 3)
    return fmt::format("{}|{}|{}{}", head, bar_text(share, bar, options_.style.glyphs), count,
                       tail);
  return clip(head + count + (room > display_width(tail) ? tail : ""), width);
}

std::string ProgressBar::plain_line(double now) const {
  return fmt::format("{} {:3.0f}% {}/{} [{}]\n", label(), std::floor(100 * share_of(*at_)),
                     at_->step_in_epoch, at_->steps_in_epoch, numbers(now));
}

void ProgressBar::tick(double now) {
  if (options_.mode == ProgressMode::none || !at_) return;
  follow(now);
  if (!first_seen_) {
    first_seen_ = now;
    last_plain_ = now;
  }
  if (at_->steps_in_epoch <= 0 || now - *first_seen_ < kHideBefore_s) return;
  if (options_.mode == ProgressMode::tty) {
    write_("\r" + bar_line(now) + "\x1b[K");
    drawn_ = true;
  } else if (now - last_plain_ >= kPlainEvery_s) {
    write_(plain_line(now));
    last_plain_ = now;
  }
}

void ProgressBar::clear() {
  if (drawn_) write_("\r\x1b[K");
  drawn_ = false;
}

void ProgressBar::rest() {
  clear();
  at_.reset();
}

}  // namespace trainctl::report
