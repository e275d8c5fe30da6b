#pragma once

#include "data/cache/cached_dataset.hpp"
#include "data/pack/pack_format.hpp"

namespace trainctl::data {

/// keep: files unchanged; baseline: progressive JPEGs converted losslessly to baseline; resize:
/// JPEGs of a smaller size; raw: pixels.
enum class PackMode { keep, baseline, resize, raw };
constexpr std::array<const char*, 4> enum_names(PackMode) {
  return {"keep", "baseline", "resize", "raw"};
}

/// How a pack is made.
struct PackOptions {
  PackMode mode = PackMode::keep;
  std::optional<std::int64_t>
      size;          // shorter side for resize and raw; smaller images are not enlarged
  int quality = 90;  // for resize
  int workers = 1;
  OnError on_error = OnError::fail;         // skip: omit images that cannot be decoded
  std::optional<std::int64_t> max_skipped;  // default: default_max_skipped()
  PackOrigin origin = {};                   // the source of the samples
};

/// Returns the options that determine the content of the pack, as stored in its header.
std::string pack_recipe(const PackOptions& options);

/// The result of make_pack().
struct PackReport {
  std::int64_t samples = 0;  // in the pack
  std::int64_t found =
      0;  // found in an existing file: all of a complete pack, or those of an interrupted run
  std::int64_t damaged = 0;  // damaged in an interrupted run and packed again
  std::vector<SkippedSample> skipped;
  std::uint64_t bytes = 0;
};

/// Progress callbacks: first for samples found in an existing file, then for packed samples.
struct PackProgress {
  Progress checked;
  Progress packed;
};

/// Packs the images and labels of a data set into `path`: the same bytes for any number of workers
/// and after any number of interruptions. Keeps a complete pack of the same samples and options.
/// Throws Error(config) when another file or the partial file of another pack exists, or when a
/// pack cannot hold such samples; Error(data) that names an unreadable image.
PackReport make_pack(const Dataset& dataset, const fs::path& path, const PackOptions& options,
                     const PackProgress& progress = {});

}  // namespace trainctl::data
