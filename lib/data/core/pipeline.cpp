#include "data/core/pipeline.hpp"

#include "base/error.hpp"
#include "base/machine/machine.hpp"
#include "data/core/common_size.hpp"
#include "data/core/dataset_split.hpp"
#include "data/loader/batch_assembler.hpp"
#include "spec/experiment/placement.hpp"

#include <algorithm>

namespace trainctl::data {
namespace {

template <class Map>
const typename Map::mapped_type& stage_of(const Map& map, const config::Stage& stage) {
  const auto found = map.find(stage.type);
  ENSURE(config, found != map.end(), "{} '{}' is not part of this build", stage.kind, stage.type);
  return found->second;
}

std::string named(const config::Stage& stage) { return stage.kind + " '" + stage.type + "'"; }

Normalization checked(Normalization normalization, const ImageShape& image) {
  const auto channels = static_cast<std::size_t>(image.channels);
  ENSURE(config, normalization.mean.size() == channels && normalization.std.size() == channels,
         "mean has {} values and std has {}, but the images have {} channel(s); give one value of "
         "each for every channel",
         normalization.mean.size(), normalization.std.size(), channels);
  return normalization;
}

}  // namespace

void TransformList::add(const config::Stage& stage, const Catalogue& catalogue) {
  in_context(named(stage), [&] {
    ENSURE(config, !normalization,
           "it stands behind 'normalize', which must be the last transform; move it up");
    const auto normalize = catalogue.normalizations.find(stage.type);
    if (normalize != catalogue.normalizations.end()) {
      normalization = checked(normalize->second(stage), shape);
      return;
    }
    auto step = stage_of(catalogue.transforms, stage)(stage);
    shape = step->output(shape);
    steps.push_back(std::move(step));
    names.push_back(stage.type);
  });
}

TransformList TransformList::of_common_size(const ImageShape& common, const spec::DataSplit& split,
                                            const Catalogue& catalogue) {
  TransformList list{common, {same_size(common)}, {"same_size"}};
  for (const config::Stage& stage : split.transforms) list.add(stage, catalogue);
  return list;
}

std::shared_ptr<const Dataset> build_dataset(const spec::DataSplit& split,
                                             const Catalogue& catalogue) {
  return in_context(named(split.dataset), [&] {
    return split.part ? part_of_set(split, catalogue)
                      : stage_of(catalogue.datasets, split.dataset)(split.dataset);
  });
}

Pipeline build_pipeline(const spec::DataSplit& split, const Catalogue& catalogue) {
  Pipeline pipeline;
  pipeline.dataset = build_dataset(split, catalogue);
  const Facts facts{.layout = pipeline.dataset->layout()};
  if (facts.image() == nullptr) {
    ENSURE(config, split.transforms.empty(), "{} has no images, so 'transforms' must be empty",
           named(split.dataset));
    return pipeline;
  }
  TransformList list{image_shape(*facts.image()), {}, {}};
  for (const config::Stage& stage : split.transforms) list.add(stage, catalogue);
  if (!list.shape.fixed()) {
    const ImageShape common = common_size(*pipeline.dataset).shape;
    if (common.fixed()) list = TransformList::of_common_size(common, split, catalogue);
  }
  pipeline.transforms = std::move(list.steps);
  pipeline.names = std::move(list.names);
  pipeline.normalization = std::move(list.normalization);
  return pipeline;
}

Pipeline build_pipeline(const spec::DataSplit& split) {
  return build_pipeline(split, catalogue_in_use());
}

Pipeline build_pipeline(const spec::TrainSplit& split, const Catalogue& catalogue) {
  Pipeline pipeline = build_pipeline(static_cast<const spec::DataSplit&>(split), catalogue);
  for (const config::Stage& stage : split.batch_transforms) {
    in_context(named(stage), [&] {
      pipeline.batch_transforms.push_back(stage_of(catalogue.batch_transforms, stage)(stage));
    });
  }
  return pipeline;
}

Pipeline build_pipeline(const spec::TrainSplit& split) {
  return build_pipeline(split, catalogue_in_use());
}

LoaderOptions loader_options(const spec::Experiment& experiment, Role role, Shard shard,
                             TrainsOn device) {
  const spec::Loader& loader = experiment.loader;
  const spec::Trainer& trainer = experiment.trainer;
  LoaderOptions options;
  options.batch_size = loader.batch_size;
  options.num_workers = loader.num_workers.value_or(0);
  options.prefetch_factor = loader.prefetch_factor.value_or(options.prefetch_factor);
  options.read_ahead = loader.read_ahead.value;
  // Training on this CPU computes on every core; a GPU leaves the launching thread's.
  const bool shared = device == TrainsOn::cpu || options.num_workers >= usable_cores();
  options.priority = shared ? Priority::below_trainer : Priority::normal;
  options.seed = experiment.seed;
  options.shard = shard;
  options.on_error = experiment.dataset.on_error;
  options.max_skipped = experiment.dataset.max_skipped.value;
  const bool train = role == Role::train;
  options.order =
      train && loader.shuffle && trainer.overfit_batches == 0 ? Order::shuffled : Order::sequential;
  options.last_batch = train && loader.drop_last ? LastBatch::drop : LastBatch::keep;
  if (train && loader.sampler && trainer.overfit_batches == 0) {
    options.sampling = stage_of(catalogue_in_use().samplers, loader.sampler)(loader.sampler);
  }
  const spec::Limit& limit = train ? trainer.limit_train_batches : trainer.limit_val_batches;
  options.limit_batches = limit.batches;
  options.limit_fraction = limit.fraction;
  if (trainer.overfit_batches > 0) options.limit_batches = trainer.overfit_batches;
  if (trainer.fast_dev_run) options.limit_batches = 1;
  return options;
}

LoaderOptions loader_options(const spec::Experiment& experiment, Role role, Shard shard) {
  const bool on_gpus = spec::placement_of(experiment.trainer, read_machine()).on_gpus;
  return loader_options(experiment, role, shard, on_gpus ? TrainsOn::gpu : TrainsOn::cpu);
}

}  // namespace trainctl::data
