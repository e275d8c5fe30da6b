#pragma once

#include "data/core/registry.hpp"
#include "data/loader/loader.hpp"
#include "spec/experiment/experiment.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace trainctl::data {

enum class Role { train, evaluate };
enum class TrainsOn { cpu, gpu };

/// Opens the split's data set, or its part of one. Throws Error(data) or Error(config).
std::shared_ptr<const Dataset> build_dataset(const spec::DataSplit& split,
                                             const Catalogue& catalogue);

/// Builds the split's data set and transforms from the registry of data stages. Images that no
/// transform gives a size keep theirs, if a probe finds only one. Throws Error(data) or
/// Error(config).
Pipeline build_pipeline(const spec::DataSplit& split);
Pipeline build_pipeline(const spec::DataSplit& split, const Catalogue& catalogue);

/// The same with the split's batch transforms.
Pipeline build_pipeline(const spec::TrainSplit& split);
Pipeline build_pipeline(const spec::TrainSplit& split, const Catalogue& catalogue);

/// The loader options the experiment asks for. Threads that it leaves to `auto` are 0 till
/// decide_loading() has measured (auto_loading.hpp).
LoaderOptions loader_options(const spec::Experiment& experiment, Role role, Shard shard,
                             TrainsOn device);
/// The same for a verb that trains nothing: by the GPUs that the machine shows.
LoaderOptions loader_options(const spec::Experiment& experiment, Role role, Shard shard);

/// The transforms of a split, apart from its data set, built one after the other.
struct TransformList {
  ImageShape shape;  // of the image behind the last one; its height and width may be open
  std::vector<std::shared_ptr<const Transform>> steps;
  std::vector<std::string> names = {};  // theirs
  std::optional<Normalization> normalization;

  /// Throws Error(config) naming the transform, and stays as it was, where it does not fit or
  /// stands behind `normalize`.
  void add(const config::Stage& stage, const Catalogue& catalogue);

  /// The transforms of the split behind a check that each image has the size `common`. Throws as
  /// add().
  static TransformList of_common_size(const ImageShape& common, const spec::DataSplit& split,
                                      const Catalogue& catalogue);
};

}  // namespace trainctl::data
