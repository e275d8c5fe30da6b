#include "data_checks.hpp"

#include "data/check.hpp"
#include "spec/check_data.hpp"

#include <optional>
#include <string>
#include <vector>

namespace trainctl::app {
namespace {

std::optional<data::Facts> look_at(const std::string& name, const spec::DataSplit& split,
                                   config::Diagnostics& diagnostics) {
  const data::SplitCheck check = data::check_split(split);
  for (const data::Problem& problem : check.problems)
    diagnostics.error(problem.position, name + ": " + problem.message);
  return check.facts;
}

std::string described(const data::Facts& facts) {
  if (const data::Field* image = facts.image()) return fmt::format("{}", fmt::join(image->shape, "x"));
  std::vector<std::string> fields;
  for (const data::Field& field : facts.layout) {
    fields.push_back(fmt::format("{} ({})", field.name, fmt::join(field.shape, "x")));
  }
  return fmt::format("{}", fmt::join(fields, ", "));
}

void compare(const data::Facts& train, const data::Facts& other, const std::string& name,
             const config::Position& position, config::Diagnostics& diagnostics) {
  if (train.layout == other.layout && train.classes == other.classes) return;
  diagnostics.error(position, fmt::format("{}: its samples are {} with {} classes, those of dataset.train {} with {}",
                                          name, described(other), other.classes, described(train), train.classes));
}

}  // namespace

void check_data(const spec::Loaded& loaded, config::Diagnostics& diagnostics) {
  const spec::Dataset& data = loaded.experiment.dataset;
  const auto train = look_at("dataset.train", data.train, diagnostics);
  const auto look_beside = [&](const std::string& name, const std::optional<spec::DataSplit>& split) {
    if (!split) return;
    const auto facts = look_at(name, *split, diagnostics);
    if (train && facts) compare(*train, *facts, name, split->dataset.position, diagnostics);
  };
  if (train) {
    for (const data::Problem& problem :
         data::check_batch_transforms(data.train, *train, loaded.experiment.loader.batch_size)) {
      diagnostics.error(problem.position, problem.message);
    }
  }
  look_beside("dataset.val", data.val);
  look_beside("dataset.test", data.test);
  const int data_errors = diagnostics.error_count();
  if (train) spec::check_against_data(loaded, {.samples = train->samples, .classes = train->classes}, diagnostics);
  if (diagnostics.error_count() > data_errors) diagnostics.throw_if_errors();
  if (data_errors > 0) throw Error(ErrorKind::data, diagnostics.render());
}

}  // namespace trainctl::app
