#include "spec/experiment/split.hpp"

#include "config/schema/dump.hpp"
#include "spec/experiment_yaml.hpp"
#include "support/catch.hpp"

namespace spec = trainctl::spec;
using Catch::Matchers::Equals;

namespace {

const std::string kOneSet = "dataset={train: {type: synthetic_digits}, split: {val: 0.2}}";

spec::Dataset dataset_of(const std::vector<std::string>& overrides) {
  return load_valid(overrides).experiment.dataset;
}

}  // namespace

TEST_CASE("split: val and test take the data set of train and keep their transforms", "[spec]") {
  const spec::Dataset data = dataset_of(
      {"dataset={train: {type: mnist, root: m, transforms: [{type: random_crop, size: "
       "8}]}, val: {transforms: [{type: center_crop, size: 8}]}, split: {val: 0.2, test: "
       "0.1, seed: 3}}"});
  REQUIRE(data.train.part);
  CHECK(data.train.part->part == spec::Part::train);
  REQUIRE(data.val);
  CHECK(data.val->dataset.type == "mnist");
  CHECK(data.val->transforms.at(0).type == "center_crop");
  CHECK_FALSE(data.val->part->copies_transforms);
  REQUIRE(data.test);
  CHECK(data.test->part->part == spec::Part::test);
  CHECK(data.test->part->options.seed == 3);
  CHECK_FALSE(data.test->part->copies_transforms);  // they are those of val
  CHECK(data.test->transforms.at(0).type == "center_crop");
  CHECK(data.test->part->source == data.train.part->source);
}

TEST_CASE("split: val may be left out, or set to none", "[spec]") {
  CHECK(dataset_of({kOneSet}).val.has_value());
  CHECK(dataset_of({kOneSet}).val->part->copies_transforms);
  CHECK_FALSE(dataset_of({kOneSet, "++dataset.val=~"}).val.has_value());
  CHECK_FALSE(dataset_of({kOneSet}).test.has_value());
  CHECK(dataset_of({kOneSet, "+dataset.split.test=0.1"}).test.has_value());
  CHECK_FALSE(dataset_of({kOneSet, "+dataset.split.test=0.1", "++dataset.val=~"}).test.has_value());
}

TEST_CASE("split: test may be another data set if the split has no part for it", "[spec]") {
  const spec::Dataset data =
      dataset_of({kOneSet, "+dataset.test={type: synthetic_digits, split: test}"});
  CHECK_FALSE(data.test->part.has_value());
  CHECK(data.val->part.has_value());
}

TEST_CASE("split: contradictions are reported where they are written", "[spec]") {
  CHECK_THAT(problems_of({"dataset.split={val: 0.5, test: 0.5}", "~dataset.val"}),
             Contains("the fractions of val and test must sum to less than 1, got 1"));
  CHECK_THAT(problems_of({"dataset.split={seed: 1}"}),
             Contains("dataset.split must set val or test to a fraction above 0"));
  CHECK_THAT(problems_of({"dataset.split={val: 0.2}"}),
             Contains("valid.yaml:4") &&
                 Contains("dataset.val must not name a data set: dataset.split.val takes its "
                          "samples from dataset.train") &&
                 Contains("remove 'split.val', or remove all keys except 'transforms' here"));
  CHECK_THAT(problems_of({"dataset.split={val: 1.5}"}), Contains("below 1"));
}

TEST_CASE("split: the error about a missing data set lists the sources", "[spec]") {
  CHECK_THAT(problems_of({"dataset.val={transforms: []}"}),
             Contains("dataset.val has no 'type'") &&
                 Contains("to use a part of dataset.train, add 'split: {val: 0.2}' to dataset"));
  CHECK_THAT(problems_of({"dataset.train={transforms: []}"}),
             Contains("dataset.train has no 'type'") && Contains("add 'type: cifar10'"));
  CHECK_THAT(problems_of({"dataset.val={root: a}"}), Contains("dataset has no 'type'"));
}

TEST_CASE("split: causes no warning that validation uses the training samples", "[spec]") {
  CHECK_THAT(problems_of({kOneSet}), Equals(""));
}

TEST_CASE("split: the resolved experiment has the same parts when read again", "[spec]") {
  for (const char* more : {"", "++dataset.val=~",
                           "+dataset.val={transforms: [{type: center_crop, "
                           "size: 20}]}"}) {
    CAPTURE(more);
    std::vector<std::string> overrides{kOneSet, "+dataset.split.test=0.1"};
    if (*more != '\0') overrides.emplace_back(more);
    const spec::Loaded loaded = load_valid(overrides);
    const std::string text = spec::dump_resolved(loaded);
    trainctl::config::Diagnostics diagnostics;
    const spec::Loaded again = spec::load_experiment_text("again.yaml", text, {}, diagnostics);
    CHECK(diagnostics.render().empty());
    const auto plain = [](const spec::Loaded& one) {
      return trainctl::config::dump(spec::resolved_tree(one));
    };
    CHECK(plain(again) == plain(loaded));
    const spec::Dataset& data = again.experiment.dataset;
    CHECK(data.val.has_value() == loaded.experiment.dataset.val.has_value());
    CHECK(data.test.has_value() == loaded.experiment.dataset.test.has_value());
    CHECK(data.train.part->part == spec::Part::train);
    CHECK(data.split == loaded.experiment.dataset.split);
  }
}

TEST_CASE("split: folds take the place of val") {
  const auto folded = [](const std::string& split) {
    return "dataset={train: {type: synthetic_digits}, split: " + split + "}";
  };
  const spec::Dataset data = dataset_of({folded("{folds: 4, fold: 3, test: 0.2}")});
  REQUIRE(data.val);
  CHECK(data.val->part->part == spec::Part::val);
  CHECK(data.test->part->part == spec::Part::test);
  CHECK(data.split->share(spec::Part::val) == Approx(0.2));
  CHECK(data.split->share(spec::Part::train) == Approx(0.6));
  CHECK_THAT(problems_of({folded("{folds: 4, val: 0.2}")}),
             Contains("with 'folds', one of the folds is val, so 'val' must be 0"));
  CHECK_THAT(problems_of({folded("{folds: 4, fold: 4}")}),
             Contains("dataset.split.fold must be below 'folds', got 4 of 4") &&
                 Contains("folds are numbered from 0 to 3"));
  CHECK_THAT(problems_of({folded("{val: 0.2, fold: 1}")}),
             Contains("dataset.split.fold is 1, but 'folds' is not set"));
  CHECK_THAT(problems_of({folded("{folds: 1}")}), Contains("at least 2"));
  CHECK_THAT(problems_of({"dataset.split={folds: 5}"}),
             Contains("dataset.split.folds takes its samples from dataset.train") &&
                 Contains("remove 'split.folds' (set by sweep --folds), or remove all keys"));
}
