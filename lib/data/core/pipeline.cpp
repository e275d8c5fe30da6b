#include "data/core/pipeline.hpp"

#include "base/machine/machine.hpp"
#include "data/cache/cached_dataset.hpp"
#include "data/cache/device_cache.hpp"
#include "data/core/dataset_split.hpp"
#include "data/core/image_probe.hpp"
#include "data/loader/batch_assembler.hpp"
#include "data/transform/joint.hpp"
#include "spec/experiment/experiment.hpp"

namespace trainctl::data {
namespace {

/// Leaves a mask as it is.
Normalization checked(Normalization normalization, const ImageShape& image, bool masks) {
  const auto channels = static_cast<std::size_t>(image.channels - (masks ? 1 : 0));
  ENSURE(config, normalization.mean.size() == channels && normalization.std.size() == channels,
         "mean and std must have one value per channel of the images ({}), got {} for mean and {} "
         "for std",
         channels, normalization.mean.size(), normalization.std.size());
  if (masks) {
    normalization.mean.push_back(0);
    normalization.std.push_back(1);
  }
  return normalization;
}

/// The transforms of a split, added one after the other.
struct TransformList {
  ImageShape shape;    // of the output of the last transform; height and width may be open
  Pipeline pipeline;   // without its data set
  bool masks = false;  // whether the last channel is a mask

  /// Throws Error(config) that names the transform when it does not fit or follows `normalize`. The
  /// list is then unchanged.
  void add(const config::Stage& stage, const Catalog& catalog) {
    in_context(named(stage), [&] {
      ENSURE(
          config, !pipeline.normalization,
          "no transform may follow 'normalize'\nhint: use 'normalize' once, as the last transform");
      const auto normalize = catalog.normalizations.find(stage.type);
      if (normalize != catalog.normalizations.end()) {
        pipeline.normalization = checked(normalize->second(stage), shape, masks);
        return;
      }
      const auto& make = stage_of(catalog.transforms, stage);
      auto step = masks ? joint_transform(stage, make) : make(stage);
      shape = step->output(shape);
      pipeline.transforms.push_back(std::move(step));
      pipeline.names.push_back(stage.type);
    });
  }
};

/// Returns the transforms of the split after a check that each image has the size `common`. Throws
/// like TransformList::add().
TransformList list_of_common_size(const ImageShape& common, const spec::DataSplit& split,
                                  const Catalog& catalog, bool masks) {
  TransformList list{common, {.transforms = {same_size(common)}, .names = {"same_size"}}, masks};
  for (const config::Stage& stage : split.transforms) list.add(stage, catalog);
  return list;
}

}  // namespace

std::shared_ptr<const Dataset> build_dataset(const spec::DataSplit& split, const Catalog& catalog) {
  return in_context(named(split.dataset), [&] {
    return split.part ? part_of_set(split, catalog)
                      : stage_of(catalog.datasets, split.dataset)(split.dataset);
  });
}

Pipeline build_pipeline(const spec::DataSplit& split, const Catalog& catalog) {
  const auto dataset = build_dataset(split, catalog);
  const Facts facts{.layout = dataset->layout()};
  if (facts.image() == nullptr) {
    ENSURE(config, split.transforms.empty(), "{} has no images, so 'transforms' must be empty",
           named(split.dataset));
    return {dataset};
  }
  TransformList list{image_shape(*facts.image()), {}, has_masks(facts.layout)};
  for (const config::Stage& stage : split.transforms) list.add(stage, catalog);
  if (!list.shape.fixed()) {
    const ImageShape common = common_size(*dataset).shape;
    if (common.fixed()) list = list_of_common_size(common, split, catalog, list.masks);
  }
  list.pipeline.dataset = dataset;
  return std::move(list.pipeline);
}

Pipeline build_pipeline(const spec::TrainSplit& split, const Catalog& catalog) {
  Pipeline pipeline = build_pipeline(static_cast<const spec::DataSplit&>(split), catalog);
  for (const config::Stage& stage : split.batch_transforms)
    pipeline.batch_transforms.push_back(made_of(catalog.batch_transforms, stage));
  return pipeline;
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
  // Training on a CPU uses all cores. With a GPU, only the thread that launches kernels needs one.
  const bool shared = device == TrainsOn::cpu || options.num_workers >= usable_cores();
  options.priority = shared ? Priority::below_trainer : Priority::normal;
  options.seed = experiment.seed;
  options.shard = shard;
  options.on_error = experiment.dataset.on_error;
  options.max_skipped = experiment.dataset.max_skipped.value;
  if (device == TrainsOn::gpu && loader.pin_memory.value_or(true))
    options.in_flight = kGpuBatchesInFlight;
  const bool train = role == Role::train;
  options.digests = train;
  options.order =
      train && loader.shuffle && trainer.overfit_batches == 0 ? Order::shuffled : Order::sequential;
  options.last_batch = train && loader.drop_last ? LastBatch::drop : LastBatch::keep;
  if (train && loader.sampler && trainer.overfit_batches == 0) {
    options.sampling = stage_of(catalog_in_use().samplers, loader.sampler)(loader.sampler);
  }
  if (role != Role::test) {
    const spec::Limit& limit = train ? trainer.limit_train_batches : trainer.limit_val_batches;
    options.limit_batches = limit.batches;
    options.limit_fraction = limit.fraction;
    if (trainer.overfit_batches > 0) options.limit_batches = trainer.overfit_batches;
  }
  if (trainer.fast_dev_run) options.limit_batches = 1;
  return options;
}

LoaderOptions loader_options(const spec::Experiment& experiment, Role role, Shard shard) {
  const bool on_gpus = spec::placement_of(experiment.trainer, read_machine()).on_gpus;
  return loader_options(experiment, role, shard, on_gpus ? TrainsOn::gpu : TrainsOn::cpu);
}

namespace {

/// Runs `body` and turns an Error into a problem of the stage.
template <class Body>
void collect(SplitCheck& check, const config::Stage& stage, Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    check.problems.push_back({stage.position, error.what(), error.kind()});
  }
}

/// Checks whether a device can hold images of shape `image` for these transforms, which must fit
/// them.
void check_tail(const Pipeline& pipeline, ImageShape image, const spec::DataSplit& split,
                SplitCheck& check) {
  for (std::size_t i = 0; i < fixed_prefix(pipeline); ++i)
    image = pipeline.transforms[i]->output(image);
  const std::string obstacle = planned_tail(pipeline, image).obstacle;
  if (obstacle.empty()) return;
  check.problems.push_back(
      {split.dataset.position, "dataset.cache.mode=device: " + obstacle, ErrorKind::config});
}

/// Rejects random transforms in a part that inherits the transforms of train.
void check_copied_transforms(const spec::DataSplit& split, const Pipeline& pipeline,
                             SplitCheck& check) {
  if (!split.part || !split.part->copies_transforms) return;
  for (std::size_t i = 0; i < pipeline.transforms.size(); ++i) {
    if (!pipeline.transforms[i]->random()) continue;
    const char* part = enum_names(split.part->part)[static_cast<std::size_t>(split.part->part)];
    check.problems.push_back(
        {split.part->position,
         fmt::format("without 'transforms', the transforms of dataset.train apply, of which '{}' "
                     "is random\nhint: set transforms that are not random in dataset.{}.transforms",
                     pipeline.names[i], part),
         ErrorKind::config});
    return;
  }
}

}  // namespace

SplitCheck check_dataset(const spec::DataSplit& split, const Catalog& catalog) {
  SplitCheck check;
  collect(check, split.dataset, [&] {
    check.facts = made_of(catalog.facts, split.dataset);
    if (has_masks(check.facts->layout))
      check.warning = mask_warning(*made_of(catalog.datasets, split.dataset));
  });
  if (!split.part || !check.facts) return check;
  config::Stage at_split;
  at_split.position = split.part->position;
  collect(check, at_split, [&] { keep_part(*check.facts, split, catalog); });
  if (!check.problems.empty()) check.facts.reset();
  return check;
}

SplitCheck check_split(const spec::DataSplit& split, spec::CacheMode cache,
                       const Catalog& catalog) {
  SplitCheck check = check_dataset(split, catalog);
  if (!check.facts) return check;
  const Field* image = check.facts->image();
  if (image == nullptr) {
    if (!split.transforms.empty()) {
      check.problems.push_back({split.transforms.front().position,
                                "the samples of '" + split.dataset.type +
                                    "' have no image to transform\nhint: remove 'transforms'",
                                ErrorKind::config});
    }
    return check;
  }
  const ImageShape stored = image_shape(*image);
  TransformList list{stored, {}, has_masks(check.facts->layout)};
  for (const config::Stage& stage : split.transforms)
    collect(check, stage, [&] { list.add(stage, catalog); });
  check_copied_transforms(split, list.pipeline, check);
  const std::size_t before = check.problems.size();
  collect(check, split.dataset, [&] {
    if (before == 0 && !list.shape.fixed()) {
      const CommonSize common = common_size(*build_dataset(split, catalog));
      ENSURE(config, common.difference.empty(), "the images differ in size: {}\nhint: {}",
             common.difference, kSizeHint);
      if (common.shape.fixed())
        list = list_of_common_size(common.shape, split, catalog, list.masks);
    }
    check.facts->layout = transformed(check.facts->layout, list.pipeline.transforms);
  });
  // After another problem a transform is left out, so a missing size is not reported.
  if (before > 0) check.problems.resize(before);
  if (cache == spec::CacheMode::device && check.problems.empty())
    check_tail(list.pipeline, stored, split, check);
  return check;
}

std::vector<Problem> check_batch_transforms(const spec::TrainSplit& split, const Facts& train,
                                            std::int64_t batch_size) {
  if (split.batch_transforms.empty()) return {};
  SplitCheck check;
  collect(check, split.batch_transforms.front(), [&] { mixed_layout(train.layout, batch_size); });
  return check.problems;
}

}  // namespace trainctl::data
