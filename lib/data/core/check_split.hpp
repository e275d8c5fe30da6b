#pragma once

#include "base/error.hpp"
#include "data/core/registry.hpp"
#include "spec/experiment/experiment.hpp"

#include <optional>
#include <string>
#include <vector>

namespace trainctl::data {

/// One thing wrong with a split, with where the config names it.
struct Problem {
  config::Position position;
  std::string message;
  ErrorKind kind = ErrorKind::data;  // data: a file is at fault; config: the experiment
};

struct SplitCheck {
  std::vector<Problem> problems;
  /// What the split holds; the image as it leaves the transforms, if they fit. Absent where the
  /// headers could not be read.
  std::optional<Facts> facts;
};

/// Looks at a split before anything is loaded: files, headers, counts, and whether the transforms
/// fit; with the cache mode `device`, whether a device can keep the images. Reads headers only.
/// Never throws an Error of kind data or config.
SplitCheck check_split(const spec::DataSplit& split,
                       spec::CacheMode cache = spec::CacheMode::automatic);
SplitCheck check_split(const spec::DataSplit& split, const Catalogue& catalogue,
                       spec::CacheMode cache = spec::CacheMode::automatic);
/// The data set alone, before its transforms: images may differ in size.
SplitCheck check_dataset(const spec::DataSplit& split);
SplitCheck check_dataset(const spec::DataSplit& split, const Catalogue& catalogue);

/// Whether batches of that size can be mixed as the split asks; `train` is what check_split found.
std::vector<Problem> check_batch_transforms(const spec::TrainSplit& split, const Facts& train,
                                            std::int64_t batch_size);

}  // namespace trainctl::data
