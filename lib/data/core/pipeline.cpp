#include "data/core/pipeline.hpp"

#include "base/error.hpp"
#include "base/machine/machine.hpp"
#include "data/batch_transform/mixer.hpp"
#include "data/cache/device_cache.hpp"
#include "data/cache/fixed_prefix.hpp"
#include "data/core/dataset_split.hpp"
#include "data/core/image_probe.hpp"
#include "data/loader/batch_assembler.hpp"
#include "spec/experiment/run_size.hpp"

#include <algorithm>
#include <utility>

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

namespace {

/// Runs `body`; an Error becomes a problem at the stage.
template <class Body>
void collect(SplitCheck& check, const config::Stage& stage, Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    check.problems.push_back({stage.position, error.what(), error.kind()});
  }
}

/// `list`: of the transforms, which fit images of the shape `image`.
void check_tail(TransformList list, const ImageShape& image, const spec::DataSplit& split,
                SplitCheck& check) {
  Pipeline pipeline;
  pipeline.transforms = std::move(list.steps);
  pipeline.names = std::move(list.names);
  ImageShape shape = image;
  for (std::size_t i = 0; i < fixed_prefix(pipeline); ++i)
    shape = pipeline.transforms[i]->output(shape);
  const std::string obstacle = planned_tail(pipeline, shape).obstacle;
  if (obstacle.empty()) return;
  check.problems.push_back(
      {split.dataset.position, "dataset.cache.mode=device: " + obstacle, ErrorKind::config});
}

/// Replaces the list by one that begins with the size of all images. Throws Error(config) naming
/// two that differ.
void take_common_size(TransformList& list, const spec::DataSplit& split,
                      const Catalogue& catalogue) {
  const CommonSize common = common_size(*build_dataset(split, catalogue));
  ENSURE(config, common.difference.empty(), "the images differ in size: {}; {}", common.difference,
         kSizeHint);
  if (common.shape.fixed()) list = TransformList::of_common_size(common.shape, split, catalogue);
}

/// A part that has the transforms of train because the file names none for it.
void check_copied_transforms(const spec::DataSplit& split, const TransformList& list,
                             SplitCheck& check) {
  if (!split.part || !split.part->copies_transforms) return;
  for (std::size_t i = 0; i < list.steps.size(); ++i) {
    if (!list.steps[i]->random()) continue;
    const char* part = enum_names(split.part->part)[static_cast<std::size_t>(split.part->part)];
    check.problems.push_back(
        {split.part->position,
         fmt::format("the transforms must be written, because '{}' of dataset.train is random; for "
                     "example dataset.{}: {{transforms: [...]}}",
                     list.names[i], part),
         ErrorKind::config});
    return;
  }
}

}  // namespace

SplitCheck check_dataset(const spec::DataSplit& split, const Catalogue& catalogue) {
  SplitCheck check;
  collect(check, split.dataset, [&] {
    const auto facts = catalogue.facts.find(split.dataset.type);
    ENSURE(config, facts != catalogue.facts.end(), "{} '{}' is not part of this build",
           split.dataset.kind, split.dataset.type);
    in_context(split.dataset.kind + " '" + split.dataset.type + "'",
               [&] { check.facts = facts->second(split.dataset); });
  });
  if (!split.part || !check.facts) return check;
  config::Stage at_split;
  at_split.position = split.part->position;
  collect(check, at_split, [&] { keep_part(*check.facts, split, catalogue); });
  if (!check.problems.empty()) check.facts.reset();
  return check;
}

SplitCheck check_split(const spec::DataSplit& split, const Catalogue& catalogue,
                       spec::CacheMode cache) {
  SplitCheck check = check_dataset(split, catalogue);
  if (!check.facts) return check;
  const Field* image = check.facts->image();
  if (image == nullptr) {
    if (!split.transforms.empty()) {
      check.problems.push_back({split.transforms.front().position,
                                "the samples of '" + split.dataset.type +
                                    "' have no image, so there is nothing to transform; "
                                    "remove 'transforms'",
                                ErrorKind::config});
    }
    return check;
  }
  const ImageShape stored = image_shape(*image);
  TransformList list{stored, {}, {}};
  for (const config::Stage& stage : split.transforms) {
    collect(check, stage, [&] { list.add(stage, catalogue); });
  }
  check_copied_transforms(split, list, check);
  const std::size_t before = check.problems.size();
  collect(check, split.dataset, [&] {
    if (before == 0 && !list.shape.fixed()) take_common_size(list, split, catalogue);
    check.facts->layout = transformed(check.facts->layout, list.steps);
  });
  if (before > 0)
    check.problems.resize(before);  // a missing size is no news where a transform fell out
  if (cache == spec::CacheMode::device && check.problems.empty())
    check_tail(std::move(list), stored, split, check);
  return check;
}

std::vector<Problem> check_batch_transforms(const spec::TrainSplit& split, const Facts& train,
                                            std::int64_t batch_size) {
  if (split.batch_transforms.empty()) return {};
  SplitCheck check;
  collect(check, split.batch_transforms.front(), [&] { mixed_layout(train.layout, batch_size); });
  return check.problems;
}

SplitCheck check_split(const spec::DataSplit& split, spec::CacheMode cache) {
  return check_split(split, catalogue_in_use(), cache);
}

SplitCheck check_dataset(const spec::DataSplit& split) {
  return check_dataset(split, catalogue_in_use());
}

}  // namespace trainctl::data
