#pragma once

#include "data/loader/skipped_samples.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl::data {

/// A file or folder of a source as it was when it was packed.
struct PathMark {
  std::string path;
  std::int64_t mtime_ns = 0;
  std::uint64_t size = 0;  // of a folder: 0
  bool operator==(const PathMark&) const = default;
};

/// What a pack was made from.
struct PackOrigin {
  std::string stage;            // the data set's options, as YAML
  std::vector<PathMark> marks;  // the paths it names come first; empty: nothing can be compared
};

/// What a pack tells beside its samples.
struct PackNotes {
  std::vector<std::string> class_names;  // empty where nobody named them
  std::vector<SkippedSample> left_out;   // samples of the source that could not be read
  PackOrigin origin;
};

std::string encode_notes(const PackNotes& notes);
/// Throws Error(data) where the bytes are none; `name` is what errors call the file.
PackNotes decode_notes(std::string_view bytes, const std::string& name);

}  // namespace trainctl::data
