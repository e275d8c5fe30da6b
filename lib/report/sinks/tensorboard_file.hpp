#pragma once

#include "base/files.hpp"

#include <string>
#include <string_view>

namespace trainctl::report::tensorboard {

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
