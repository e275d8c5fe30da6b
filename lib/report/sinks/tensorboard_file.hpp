#pragma once

#include "base/files.hpp"

#include <variant>

// The events of a TensorBoard file as bytes: one function for each kind, without their frame
// (tensorboard_file.hpp).

namespace trainctl::report::tensorboard {

/// When an event came: `wall_time` in seconds since 1970.
struct Moment {
  double wall_time = 0;
  std::int64_t step = 0;
};

/// The first event of every file.
std::string version_event(double wall_time);
/// A session begins: what earlier files have from `moment.step` on is forgotten by the reader.
std::string start_event(Moment moment);

using Scalars = std::vector<std::pair<std::string, double>>;
/// Numbers are kept in single precision, as the format has it.
std::string scalars_event(Moment moment, const Scalars& scalars);

/// Markdown, under the tab Text.
std::string text_event(Moment moment, const std::string& tag, const std::string& text);

/// A picture as a PNG file.
struct Picture {
  int width = 0;
  int height = 0;
  std::string png;
};
std::string image_event(Moment moment, const std::string& tag, const Picture& picture);

/// Of the finite values, in 30 bins of one width; empty where there are none.
std::string histogram_event(Moment moment, const std::string& tag, std::span<const double> values);

using HParam = std::variant<double, bool, std::string>;
struct HParams {
  std::string group;  // of runs that are shown as one row
  std::vector<std::pair<std::string, HParam>> values;
  std::vector<std::string> metrics;  // tags of scalars beside which they are shown
};
/// Two events: what there is to compare, and the values of this run.
std::vector<std::string> hparams_events(double wall_time, const HParams& params);
enum class Success { no, yes };
std::string hparams_end_event(double wall_time, Success success);

/// A record of a TFRecord file: length, checksum of the length, bytes, checksum of the bytes; both
/// are masked CRC-32C, all numbers little-endian.
std::string record_of(std::string_view bytes);

/// A name in `folder` that sorts behind those of all event files there, as readers go through them
/// by name: events.out.tfevents.SECONDS.HOST.PID.0. `wall_time` in seconds since 1970.
fs::path next_file(const fs::path& folder, double wall_time, const std::string& host);

/// Whether the folder has event files.
bool has_files(const fs::path& folder);

/// An event file that grows by whole records: what a killed process leaves is a readable prefix.
class EventFile {
 public:
  /// Makes the file with its first record. Throws Error(resource).
  EventFile(fs::path path, double wall_time);

  /// One write(). Of a record that the disk does not take whole nothing is left: throws
  /// Error(resource).
  void append(std::string_view event);
  /// Until here a power cut may take records back. Throws Error(resource).
  void sync();
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  fs::path path_;
  Fd fd_;
};

}  // namespace trainctl::report::tensorboard
