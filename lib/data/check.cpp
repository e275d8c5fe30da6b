#include "data/check.hpp"

#include "data/build.hpp"
#include "data/mixer.hpp"
#include "data/tiles.hpp"

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
  return check;
}

SplitCheck check_split(const spec::DataSplit& split, const Catalogue& catalogue) {
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
  TransformList list{image_shape(*image), {}, {}};
  for (const config::Stage& stage : split.transforms) {
    collect(check, stage, [&] { list.add(stage, catalogue); });
  }
  const std::size_t before = check.problems.size();
  collect(check, split.dataset,
          [&] { check.facts->layout = transformed(check.facts->layout, list.steps); });
  if (before > 0)
    check.problems.resize(before);  // a missing size is no news where a transform fell out
  return check;
}

std::vector<Problem> check_batch_transforms(const spec::TrainSplit& split, const Facts& train,
                                            std::int64_t batch_size) {
  if (split.batch_transforms.empty()) return {};
  SplitCheck check;
  collect(check, split.batch_transforms.front(), [&] { mixed_layout(train.layout, batch_size); });
  return check.problems;
}

SplitCheck check_split(const spec::DataSplit& split) {
  return check_split(split, builtin_catalogue());
}

SplitCheck check_dataset(const spec::DataSplit& split) {
  return check_dataset(split, builtin_catalogue());
}

}  // namespace trainctl::data
