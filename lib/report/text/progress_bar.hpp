#pragma once

#include "events/records.hpp"
#include "report/text/format.hpp"

#include <functional>

namespace trainctl::report {

/// Writes text unchanged, including newlines, to the console or to a string in tests.
using Write = std::function<void(std::string_view)>;

enum class ProgressMode { automatic, tty, plain, none };
/// Resolves `automatic`: tty on a terminal, plain elsewhere.
enum class Device { terminal, file };
ProgressMode resolve(ProgressMode mode, Device device);

struct ProgressOptions {
  ProgressMode mode = ProgressMode::none;  // `automatic` must be resolved
  Style style;
  std::int64_t max_epochs = 0;  // set by RunStarted
};

/// A line like tqdm's on a terminal: `epoch 3/90  42%|████▏     | 210/500 [00:31<00:43, 6.7 it/s,
/// loss=0.193]`, or a plain line every 10 s. Times are in seconds of one steady clock. A run of
/// less than half a second shows no bar.
class ProgressBar {
 public:
  ProgressBar(ProgressOptions options, Write write) : options_(options), write_(std::move(write)) {}

  void set_max_epochs(std::int64_t epochs) { options_.max_epochs = epochs; }
  /// Stores the progress of the run; draws nothing.
  void update(const events::Progress& progress);
  /// Draws the bar if it is due at this time.
  void tick(double now);
  /// Removes the bar from the terminal, so that other lines can be printed; the next tick draws it
  /// again.
  void clear();
  /// Called at the end of an epoch: removes the bar and draws nothing until the next update.
  void rest();

 private:
  struct Pace {
    double started = 0;  // start of this epoch and phase
    double seen = 0;
    std::int64_t step = 0;
    std::int64_t first_step = 0;
    double steps_per_s = 0;
  };

  void follow(double now);
  [[nodiscard]] std::string label() const;
  [[nodiscard]] std::string numbers(double now) const;
  [[nodiscard]] std::string bar_line(double now) const;
  [[nodiscard]] std::string plain_line(double now) const;

  ProgressOptions options_;
  Write write_;
  std::optional<events::Progress> at_;
  Pace pace_;
  double train_rate_ = 0;  // steps per second, kept during validation and across epochs
  bool new_stretch_ = true;
  std::optional<double> first_seen_;
  double last_plain_ = 0;
  bool drawn_ = false;
};

/// Formats a duration as in "[00:31]" and "[1:02:07]", without brackets.
std::string clock_text(double seconds);
/// Returns `width` columns filled to `share`, in eighths of a column (Unicode) or in tenths of the
/// bar (ASCII, like tqdm).
std::string bar_text(double share, int width, Glyphs glyphs);

}  // namespace trainctl::report
