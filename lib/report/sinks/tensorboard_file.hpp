#pragma once

#include "base/files.hpp"
#include "base/statistics.hpp"

#include <variant>

// The events of a TensorBoard file as bytes, without the framing of record_of(): one function per
// kind of event.

namespace trainctl::report::tensorboard {

/// The time of an event: `wall_time` in seconds since 1970.
struct Moment {
  double wall_time = 0;
  std::int64_t step = 0;
};

/// Returns the first event of every file.
std::string version_event(double wall_time);
/// Returns the start event of a session: readers discard what earlier files have from `moment.step`
/// on.
std::string start_event(Moment moment);

using Scalars = std::vector<std::pair<std::string, double>>;
/// Returns an event with numbers in single precision, as the format requires.
std::string scalars_event(Moment moment, const Scalars& scalars);

/// Returns an event with Markdown for the Text tab.
std::string text_event(Moment moment, const std::string& tag, const std::string& text);

/// A picture as a PNG file.
struct Picture {
  int width = 0;
  int height = 0;
  std::string png;
};
std::string image_event(Moment moment, const std::string& tag, const Picture& picture);

/// Returns a histogram; empty if it has no values.
std::string histogram_event(Moment moment, const std::string& tag, const Histogram& values);

using HParam = std::variant<double, bool, std::string>;
/// The hyperparameters of a run.
struct HParams {
  std::string group;  // shared by the runs that are shown as one row
  std::vector<std::pair<std::string, HParam>> values;
  std::vector<std::string> metrics;  // tags of the scalars to show with the hyperparameters
};
/// Returns two events: the available hyperparameters and metrics, and the values of this run.
std::vector<std::string> hparams_events(double wall_time, const HParams& params);
enum class Success { no, yes };
/// Returns the event that ends the session of a run's hyperparameters.
std::string hparams_end_event(double wall_time, Success success);

/// Returns a record of a TFRecord file: length, checksum of the length, bytes, checksum of the
/// bytes; checksums are masked CRC-32C, and all numbers are little-endian.
std::string record_of(std::string_view bytes);

/// Returns a name in `folder` that sorts after the names of all event files there, because readers
/// process them in this order: events.out.tfevents.SECONDS.HOST.PID.0. `wall_time` is in seconds
/// since 1970.
fs::path next_file(const fs::path& folder, double wall_time, const std::string& host);

/// Returns whether the folder has event files.
bool has_files(const fs::path& folder);

/// An event file to which whole records are appended; after a kill the file is a readable prefix.
class EventFile {
 public:
  /// Creates the file with its first record. Throws Error(resource).
  EventFile(fs::path path, double wall_time);

  /// Appends a record with one write(). Removes a record that the disk rejects in part, and throws
  /// Error(resource).
  void append(std::string_view event);
  /// Syncs the file; records after the last sync can be lost in a power failure. Throws
  /// Error(resource).
  void sync();
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  fs::path path_;
  Fd fd_;
};

}  // namespace trainctl::report::tensorboard
