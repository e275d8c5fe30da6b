#pragma once

#include "base/error.hpp"
#include "data/core/registry.hpp"
#include "data/loader/loader.hpp"
#include "spec/experiment/experiment.hpp"

namespace trainctl::data {

enum class Role { train, evaluate };
enum class TrainsOn { cpu, gpu };

/// Opens the split's data set, or its part of one. Throws Error(data) or Error(config).
std::shared_ptr<const Dataset> build_dataset(const spec::DataSplit& split, const Catalog& catalog);

/// Builds the split's data set and transforms from the registry of data stages. Images that no
/// transform gives a size keep theirs, if a probe finds only one. Throws Error(data) or
/// Error(config).
Pipeline build_pipeline(const spec::DataSplit& split, const Catalog& catalog = catalog_in_use());
/// The same with the split's batch transforms.
Pipeline build_pipeline(const spec::TrainSplit& split, const Catalog& catalog = catalog_in_use());

/// The loader options the experiment asks for. Threads that it leaves to `auto` are 0 until
/// decide_loading() has measured.
LoaderOptions loader_options(const spec::Experiment& experiment, Role role, Shard shard,
                             TrainsOn device);
/// The same for a verb that trains nothing: by the GPUs that the machine shows.
LoaderOptions loader_options(const spec::Experiment& experiment, Role role, Shard shard);

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
                       spec::CacheMode cache = spec::CacheMode::automatic,
                       const Catalog& catalog = catalog_in_use());
/// The data set alone, before its transforms: images may differ in size.
SplitCheck check_dataset(const spec::DataSplit& split, const Catalog& catalog = catalog_in_use());

/// Whether batches of that size can be mixed as the split asks; `train` is what check_split found.
std::vector<Problem> check_batch_transforms(const spec::TrainSplit& split, const Facts& train,
                                            std::int64_t batch_size);

}  // namespace trainctl::data
