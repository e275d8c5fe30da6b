#pragma once

#include "base/files.hpp"
#include "data/cache/cached_dataset.hpp"
#include "data/loader/skipped_samples.hpp"
#include "data/pack/pack_format.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trainctl::data {

/// keep: the files as they are; baseline: progressive JPEGs without their scans, the same pixels;
/// resize: JPEGs of a smaller size; raw: pixels.
enum class PackMode { keep, baseline, resize, raw };
constexpr std::array<const char*, 4> enum_names(PackMode) {
  return {"keep", "baseline", "resize", "raw"};
}

struct PackOptions {
  PackMode mode = PackMode::keep;
  std::optional<std::int64_t>
      size;          // shorter side of resize and raw; a smaller image is not enlarged
  int quality = 90;  // of resize
  int workers = 1;
  OnError on_error = OnError::fail;         // skip: what cannot be decoded is left out
  std::optional<std::int64_t> max_skipped;  // default: default_max_skipped()
  PackOrigin origin = {};                   // what the samples were made from
};

/// The options that decide what is in the pack, as its header tells them.
std::string pack_recipe(const PackOptions& options);

struct PackReport {
  std::int64_t samples = 0;  // in the pack
  std::int64_t found =
      0;  // that were there already: all of a complete file, or what an interrupted run had made
  std::int64_t damaged = 0;  // that an interrupted run had made, and that were made again
  std::vector<SkippedSample> left_out;
  std::uint64_t bytes = 0;
};

/// How far the packing has come: first through what is there already, then through the samples.
struct PackProgress {
  Progress checked;
  Progress packed;
};

/// Packs the images and labels of a data set into `path`: the same bytes for any number of workers
/// and after any number of interruptions. A complete pack of the same samples and options is left
/// as it is. Throws Error(config) where another file, or the beginning of another pack, is in the
/// way, or where a pack cannot hold such samples; Error(data) naming the image that cannot be read.
PackReport make_pack(const Dataset& dataset, const fs::path& path, const PackOptions& options,
                     const PackProgress& progress = {});

}  // namespace trainctl::data
