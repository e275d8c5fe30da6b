#pragma once

#include "base/error.hpp"
#include "data/core/registry.hpp"
#include "data/loader/loader.hpp"
#include "spec/experiment/experiment.hpp"

namespace trainctl::data {

/// Returns "dataset 'mnist'".
inline std::string named(const config::Stage& stage) {
  return stage.kind + " '" + stage.type + "'";
}

/// Returns the entry of the stage in a map of a catalog.
template <class Map>
const typename Map::mapped_type& stage_of(const Map& map, const config::Stage& stage) {
  const auto found = map.find(stage.type);
  ENSURE(config, found != map.end(), "{} is not part of this build", named(stage));
  return found->second;
}

/// Returns what that entry makes of the stage, for example a data set. Names the stage in errors.
template <class Map>
auto made_of(const Map& map, const config::Stage& stage) {
  const auto& make = stage_of(map, stage);
  return in_context(named(stage), [&] { return make(stage); });
}

/// Whether a loader serves training, with shuffling, sampler and drop_last, or evaluation. `test`
/// reads the whole split, `evaluate` as much of it as the trainer limits validations to.
enum class Role { train, evaluate, test };
/// The device of the training, which decides the priority of loader threads.
enum class TrainsOn { cpu, gpu };

/// Opens the data set of the split, or the part of it that the split uses. Throws Error(data) or
/// Error(config).
std::shared_ptr<const Dataset> build_dataset(const spec::DataSplit& split, const Catalog& catalog);

/// Builds the data set and transforms of the split from the catalog. If no transform sets the image
/// size, the images keep theirs, provided that a probe finds only one size. Throws Error(data) or
/// Error(config).
Pipeline build_pipeline(const spec::DataSplit& split, const Catalog& catalog = catalog_in_use());
/// Like the first overload, with the batch transforms of the split.
Pipeline build_pipeline(const spec::TrainSplit& split, const Catalog& catalog = catalog_in_use());

/// Returns the loader options of the experiment. `num_workers: auto` gives 0 until decide_loading()
/// has measured.
LoaderOptions loader_options(const spec::Experiment& experiment, Role role, Shard shard,
                             TrainsOn device);
/// For commands that train nothing: detects the device from the visible GPUs.
LoaderOptions loader_options(const spec::Experiment& experiment, Role role, Shard shard);

/// One error in a split, with its position in the config.
struct Problem {
  config::Position position;
  std::string message;
  ErrorKind kind = ErrorKind::data;  // data: a file is faulty; config: the experiment is
};

/// The result of checking a split.
struct SplitCheck {
  std::vector<Problem> problems;
  std::string warning;  // with its hint; empty: none
  /// The facts of the split, with the image shape after the transforms if they fit. Absent when the
  /// headers could not be read.
  std::optional<Facts> facts;
};

/// Checks a split before anything is loaded: files, headers, counts, and whether the transforms
/// fit. With the cache mode `device` also checks whether a device can hold the images. Reads
/// headers and a few masks. Never throws Error(data) or Error(config).
SplitCheck check_split(const spec::DataSplit& split,
                       spec::CacheMode cache = spec::CacheMode::automatic,
                       const Catalog& catalog = catalog_in_use());
/// Checks the data set without its transforms: images may differ in size.
SplitCheck check_dataset(const spec::DataSplit& split, const Catalog& catalog = catalog_in_use());

/// Checks whether the split's batch transforms can mix batches of that size. `train` comes from
/// check_split().
std::vector<Problem> check_batch_transforms(const spec::TrainSplit& split, const Facts& train,
                                            std::int64_t batch_size);

}  // namespace trainctl::data
