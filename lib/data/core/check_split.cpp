#include "data/core/check_split.hpp"

#include "data/batch_transform/mixer.hpp"
#include "data/cache/fixed_prefix.hpp"
#include "data/cache/plan_colors.hpp"
#include "data/core/common_size.hpp"
#include "data/core/dataset_split.hpp"
#include "data/core/pipeline.hpp"
#include "data/loader/batch_assembler.hpp"

#include <utility>

namespace trainctl::data {
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
