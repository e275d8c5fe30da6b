#include "split_argument.hpp"

#include "base/error.hpp"

#include <CLI/CLI.hpp>

namespace trainctl::app {

void add_split_argument(CLI::App& verb, std::string& split) {
  verb.add_option("--split", split, "which split: train, val, test")
      ->check(CLI::IsMember({"train", "val", "test"}).description(""))
      ->type_name("SPLIT")
      ->capture_default_str();
}

const spec::DataSplit& split_called(const std::string& name, const spec::Experiment& experiment) {
  const spec::Dataset& dataset = experiment.dataset;
  if (name == "train") return dataset.train;
  const std::optional<spec::DataSplit>& split = name == "val" ? dataset.val : dataset.test;
  ENSURE(config, split.has_value(),
         "the experiment has no dataset.{}; add it, or choose another --split", name);
  return *split;
}

data::Role role_of(const std::string& split) {
  return split == "train" ? data::Role::train : data::Role::evaluate;
}

}  // namespace trainctl::app
