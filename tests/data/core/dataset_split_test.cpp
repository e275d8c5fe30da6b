#include "data/core/dataset_split.hpp"

#include "data/core/pipeline.hpp"
#include "data/sources.hpp"
#include "spec/load.hpp"
#include "spec/options/dataset.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <numeric>
#include <set>
#include <utility>

using namespace trainctl;
using namespace trainctl::data;
using namespace trainctl::data::testing;

namespace {

spec::Experiment split_experiment(const std::string& dataset) {
  config::Diagnostics diagnostics;
  return spec::load_experiment_text("split.yaml",
                                    "dataset: " + dataset +
                                        "\nmodel: mlp\noptimizer: adam\ntrainer: {accelerator: "
                                        "cpu}\nloader: {batch_size: 1}\n",
                                    {}, diagnostics)
      .experiment;
}

std::vector<std::string> names_of(const Dataset& dataset) {
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < dataset.size(); ++i) names.push_back(dataset.images()->name(i));
  return names;
}

std::vector<std::int64_t> class_counts(const Dataset& dataset) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(dataset.classes()));
  for (const std::int64_t label : labels_of(dataset)) ++counts[static_cast<std::size_t>(label)];
  return counts;
}

std::vector<float> feature_rows(const Dataset& dataset) {
  std::vector<float> all;
  for (std::int64_t i = 0; i < dataset.size(); ++i) {
    const auto row = values<float>(dataset, i, 0);
    all.insert(all.end(), row.begin(), row.end());
  }
  return all;
}

/// Creates two classes with 30 and 60 files.
void put_folder(const TempFolder& folder) {
  for (int i = 0; i < 90; ++i)
    put_text(folder / (i < 30 ? "crow" : "owl") / (std::to_string(100 + i) + ".jpg"),
             std::to_string(i));
  settle(folder.path());
}

}  // namespace

TEST_CASE("split: stratify divides each class of an image folder by the exact shares") {
  const CacheHome cache;
  const TempFolder folder;
  put_folder(folder);
  const spec::Experiment e = split_experiment(
      "{train: {type: image_folder, root: " + folder.path().string() +
      ", transforms: [{type: random_crop, size: 4}]}, val: {transforms: [{type: "
      "center_crop, size: 4}]}, split: {val: 0.2, test: 0.1, seed: 1, stratify: true}}");
  REQUIRE(e.dataset.val);
  REQUIRE(e.dataset.test);
  const Pipeline train = build_pipeline(e.dataset.train);
  const Pipeline val = build_pipeline(*e.dataset.val);
  const Pipeline test = build_pipeline(*e.dataset.test);
  CHECK(train.names == std::vector<std::string>{"random_crop"});
  CHECK(val.names == std::vector<std::string>{"center_crop"});
  CHECK(test.names == std::vector<std::string>{"center_crop"});
  CHECK(class_counts(*train.dataset) == std::vector<std::int64_t>{21, 42});
  CHECK(class_counts(*val.dataset) == std::vector<std::int64_t>{6, 12});
  CHECK(class_counts(*test.dataset) == std::vector<std::int64_t>{3, 6});
  CHECK(val.dataset->class_names() == train.dataset->class_names());
  std::set<std::string> all;
  for (const Pipeline* part : {&train, &val, &test}) {
    for (const std::string& name : names_of(*part->dataset)) CHECK(all.insert(name).second);
  }
  CHECK(all.size() == 90);
  // The facts for `validate` are those of the parts.
  CHECK(check_dataset(e.dataset.train).facts->samples == 63);
  CHECK(check_dataset(*e.dataset.val).facts->samples == 18);
  CHECK(train.dataset->fingerprint() != val.dataset->fingerprint());
}

TEST_CASE("split: the same seed gives the same parts, another seed gives others") {
  const auto val_fingerprint = [](int seed) {
    const spec::Experiment e = split_experiment(
        "{train: {type: synthetic_digits, samples: 200}, split: {val: 0.25, seed: " +
        std::to_string(seed) + "}}");
    return build_pipeline(*e.dataset.val).dataset->fingerprint();
  };
  CHECK(val_fingerprint(0) == val_fingerprint(0));
  CHECK(val_fingerprint(0) != val_fingerprint(1));
}

TEST_CASE("split: split_document lists the samples of each part") {
  const spec::Experiment e = split_experiment(
      "{train: {type: synthetic_digits, samples: 100}, split: {val: 0.2, test: 0.1}}");
  const Json document = split_document(e.dataset.train);
  CHECK(document["schema"] == "trainctl.split/2");
  CHECK(document["samples"] == Json({{"train", 70}, {"val", 20}, {"test", 10}}));
  const auto val = document["val"].get<std::vector<std::int64_t>>();
  REQUIRE(val.size() == 20);
  const auto part = build_pipeline(*e.dataset.val).dataset;
  const auto whole = build("synthetic_digits", [] {
    spec::dataset::SyntheticDigits options;
    options.samples = 100;
    return options;
  }());
  for (std::size_t i = 0; i < val.size(); ++i)
    CHECK(stored(*part, static_cast<std::int64_t>(i)) == stored(*whole, val[i]));
}

TEST_CASE("split: division_digest depends on the samples but not on the times of their files") {
  const CacheHome cache;
  const TempFolder folder;
  put_folder(folder);
  const auto digest = [&](int seed = 1) {
    const spec::Experiment e =
        split_experiment("{train: {type: image_folder, root: " + folder.path().string() +
                         ", transforms: [{type: center_crop, size: 4}]}, split: {val: 0.2, seed: " +
                         std::to_string(seed) + "}}");
    const std::string fingerprint = build_pipeline(e.dataset.train).dataset->fingerprint();
    return std::pair(division_digest(e.dataset.train), fingerprint);
  };
  const auto before = digest();
  const std::filesystem::path file = folder / "crow/100.jpg";
  CHECK(digest() == before);
  CHECK(digest(2).first != before.first);
  std::filesystem::last_write_time(file,
                                   std::filesystem::last_write_time(file) - std::chrono::hours(24));
  const auto touched = digest();
  CHECK(touched.first == before.first);
  CHECK(touched.second != before.second);
  SECTION("renamed") { std::filesystem::rename(file, folder / "crow/099.jpg"); }
  SECTION("added") { put_text(folder / "owl/999.jpg", "1"); }
  SECTION("removed") { std::filesystem::remove(file); }
  SECTION("changed in size") { put_text(file, "longer"); }
  CHECK(digest().first != before.first);
}

TEST_CASE("split: the statistics of a table are computed from the rows of train only") {
  const TempFolder folder;
  std::string text = "x,d,y,patient\n";
  for (int i = 0; i < 40; ++i)
    text += std::to_string(i * i) + "," + (i % 2 == 0 ? "north" : "south") + "," +
            std::to_string(i % 2) + ",p" + std::to_string(i / 4) + "\n";
  put_text(folder / "all.csv", text);
  const std::string options =
      "standardize: true, categorical: [d], label: y, path: " + (folder / "all.csv").string();
  for (const char* split :
       {"{val: 0.25, seed: 2}", "{val: 0.25, stratify: true}", "{val: 0.25, group_by: patient}",
        "{val: 0.25, stratify: true, group_by: patient}"}) {
    CAPTURE(split);
    const std::string features =
        std::string(split).find("group_by") == std::string::npos ? ", features: [x, d]" : "";
    const spec::Experiment e =
        split_experiment("{train: {type: csv, " + options + features + "}, split: " + split + "}");
    const auto train = build_pipeline(e.dataset.train).dataset;
    const auto val = build_pipeline(*e.dataset.val).dataset;
    // The features equal those of two separate files with statistics from train.csv.
    const Json document = split_document(e.dataset.train);
    const auto val_rows = document["val"].get<std::vector<int>>();
    std::string files[2] = {"x,d,y,patient\n", "x,d,y,patient\n"};
    std::size_t begin = text.find('\n') + 1;
    for (int i = 0; i < 40; ++i) {
      const std::size_t end = text.find('\n', begin) + 1;
      files[std::count(val_rows.begin(), val_rows.end(), i)] += text.substr(begin, end - begin);
      begin = end;
    }
    put_text(folder / "train.csv", files[0]);
    put_text(folder / "val.csv", files[1]);
    spec::dataset::Csv apart;
    apart.label = "y";
    apart.features = {"x", "d"};
    apart.categorical = {"d"};
    apart.standardize = true;
    apart.path = apart.statistics_from.emplace(folder / "train.csv");
    CHECK(feature_rows(*train) == feature_rows(*build("csv", apart)));
    apart.path = folder / "val.csv";
    CHECK(feature_rows(*val) == feature_rows(*build("csv", apart)));
    if (!features.empty()) CHECK(val->size() == 10);
  }
}

TEST_CASE("split: group_by keeps the groups of an image list in one part") {
  const CacheHome cache;
  const TempFolder folder;
  std::string list = "path,label,patient\n";
  for (int i = 0; i < 60; ++i) {
    const std::string name = std::to_string(100 + i) + ".jpg";
    put_text(folder / name, name);
    list += name + "," + (i % 3 == 0 ? "ill" : "well") + ",p" + std::to_string(i / 5) + "\n";
  }
  put_text(folder / "list.csv", list);
  settle(folder.path());
  const spec::Experiment e = split_experiment(
      "{train: {type: image_list, path: " + (folder / "list.csv").string() +
      ", transforms: [{type: center_crop, size: 4}]}, split: {val: 0.25, group_by: "
      "patient}}");
  const auto train = build_pipeline(e.dataset.train).dataset;
  const auto val = build_pipeline(*e.dataset.val).dataset;
  CHECK(train->layout()[1] == Field{"label", Dtype::i64, {}});
  CHECK(val->size() == 15);
  const auto patients = [](const Dataset& part) {
    std::set<int> found;
    for (const std::string& name : names_of(part))
      found.insert((std::stoi(name.substr(name.size() - 7, 3)) - 100) / 5);
    return found;
  };
  CHECK(patients(*train).size() == 9);
  CHECK(patients(*val).size() == 3);
}

TEST_CASE("split: check_split reports groups, strata and shares that cannot be divided") {
  const CacheHome cache;
  const TempFolder folder;
  put_folder(folder);
  put_text(folder / "t.csv", "x,y,g\n1,0,a\n2,0,a\n3,1,b\n4,0,b");
  put_text(folder / "tokens.bin", std::string(400, 'a'));
  const auto problems = [&](const std::string& train, const std::string& split) {
    const spec::Experiment e = split_experiment("{train: " + train + ", split: " + split + "}");
    const SplitCheck check = check_split(e.dataset.train);
    std::string text;
    for (const Problem& problem : check.problems) text += problem.message + "\n";
    CHECK(check.facts.has_value() == text.empty());
    return text;
  };
  const std::string images = "{type: image_folder, root: " + folder.path().string() +
                             ", transforms: [{type: center_crop, size: 4}]}";
  const std::string table =
      "{type: csv, label: y, features: [x], path: " + (folder / "t.csv").string() + "}";
  CHECK(problems(images, "{val: 0.2}").empty());
  CHECK_THAT(
      problems(images, "{val: 0.2, group_by: patient}"),
      Contains(
          "dataset.split.group_by names a column, but the data set 'image_folder' has no columns"));
  CHECK_THAT(problems(images, "{val: 0.001}"), Contains("val would have no samples"));
  CHECK_THAT(problems(table, "{val: 0.25, stratify: true}"), Contains("class 1 has 1"));
  CHECK_THAT(problems(table, "{val: 0.25, group_by: h}"), Contains("has no column 'h'"));
  CHECK_THAT(problems(table, "{val: 0.1, group_by: g}"),
             Contains("set the nearest possible share, 0.5"));
  CHECK_THAT(
      problems("{type: tokens, sequence_length: 4, path: " + (folder / "tokens.bin").string() + "}",
               "{val: 0.25}"),
      Contains("dataset.split cannot divide tokens"));
}

TEST_CASE("split: a part without transforms uses those of train, if none is random") {
  const auto problems = [](const std::string& transforms) {
    const spec::Experiment e = split_experiment(
        "{train: {type: synthetic_digits, samples: 100, "
        "transforms: [" +
        transforms + "]}, split: {val: 0.2}}");
    std::string text;
    for (const Problem& problem : check_split(*e.dataset.val).problems) text += problem.message;
    return text;
  };
  CHECK(problems("{type: center_crop, size: 20}").empty());
  CHECK_THAT(problems("{type: center_crop, size: 20}, random_horizontal_flip"),
             StartsWith("without 'transforms', the transforms of dataset.train apply, of which "
                        "'random_horizontal_flip' is random\nhint: set transforms that are not "
                        "random in dataset.val.transforms"));
}

namespace {

/// Divides into folds once for each fold. Returns the val samples of each, after a check that the
/// parts are disjoint and complete and that test is the same for all folds.
Parts folds_of(spec::SplitOptions options, std::int64_t samples,
               const std::vector<std::int64_t>& labels,
               const std::vector<std::uint32_t>& groups = {}) {
  Parts folds;
  std::vector<std::int64_t> test;
  for (options.fold = 0; options.fold < *options.folds; ++options.fold) {
    const Parts parts = divide(options, samples, labels, groups, {});
    std::vector<std::int64_t> all;
    for (const auto& part : parts) {
      REQUIRE(std::ranges::is_sorted(part));
      all.insert(all.end(), part.begin(), part.end());
    }
    std::ranges::sort(all);
    std::vector<std::int64_t> expected(static_cast<std::size_t>(samples));
    std::iota(expected.begin(), expected.end(), std::int64_t{0});
    REQUIRE(all == expected);
    if (options.fold > 0) REQUIRE(parts[2] == test);
    test = parts[2];
    folds.push_back(parts[1]);
  }
  std::set<std::int64_t> seen(test.begin(), test.end());
  for (const auto& fold : folds) seen.insert(fold.begin(), fold.end());
  REQUIRE(std::ssize(seen) == samples);  // every sample is in exactly one fold, or in test
  return folds;
}

}  // namespace

TEST_CASE("split: every sample is in exactly one fold, whose sizes differ by at most one") {
  for (const std::int64_t folds : {2, 3, 5, 10}) {
    for (const std::int64_t samples : {10, 11, 37, 250}) {
      for (const std::uint64_t seed : {0U, 1U, 99U}) {
        CAPTURE(folds, samples, seed);
        const spec::SplitOptions options{.seed = seed, .folds = folds};
        const Parts parts = folds_of(options, samples, {});
        const auto [least, most] =
            std::ranges::minmax(parts, {}, [](const auto& part) { return part.size(); });
        CHECK(most.size() - least.size() <= 1);
        CHECK(folds_of(options, samples, {}) == parts);
        if (samples > 20) CHECK(folds_of({.seed = seed + 1, .folds = folds}, samples, {}) != parts);
        CHECK(std::ssize(folds_of({.test = 0.2, .seed = seed, .folds = 2}, samples, {})) == 2);
      }
    }
  }
}

TEST_CASE("split: stratified folds have equal class counts, and groups stay in one fold") {
  std::vector<std::int64_t> labels;
  std::vector<std::uint32_t> groups;
  for (std::uint32_t i = 0; i < 103; ++i) {
    labels.push_back(i % 7 < 2 ? 1 : 0);
    groups.push_back(i / 4);
  }
  for (const std::uint64_t seed : {0U, 1U, 2U}) {
    const spec::SplitOptions options{.seed = seed, .stratify = true, .folds = 5};
    std::set<std::ptrdiff_t> counts;
    for (const auto& fold : folds_of(options, 103, labels))
      counts.insert(std::ranges::count_if(
          fold, [&](std::int64_t i) { return labels[static_cast<std::size_t>(i)] == 1; }));
    CHECK(*counts.rbegin() - *counts.begin() <= 1);
    std::set<std::uint32_t> seen;
    for (const auto& fold : folds_of({.seed = seed, .folds = 5}, 103, {}, groups)) {
      std::set<std::uint32_t> own;
      for (const std::int64_t i : fold) own.insert(groups[static_cast<std::size_t>(i)]);
      for (const std::uint32_t group : own) CHECK(seen.insert(group).second);
    }
  }
}

TEST_CASE("split: more folds than samples are an error") {
  CHECK(failure_of([] { (void)divide({.folds = 6}, 5, {}, {}, {}); }) ==
        "2: dataset.split: there must be at most as many folds as samples, got 6 folds and 5 "
        "samples\nhint: lower the number of folds (--folds, or dataset.split.folds)");
  CHECK_THAT(failure_of([] {
               (void)divide({.stratify = true, .folds = 3}, 5, {0, 0, 0, 1, 1}, {}, {"a", "b"});
             }),
             Contains("at least 3 samples, one for each part, but class 'b' has 2"));
}

TEST_CASE("split: one fold of a data set is val, with the facts that validate reports") {
  for (const int fold : {0, 2}) {
    const spec::Experiment e = split_experiment(
        "{train: {type: synthetic_digits, samples: 101}, split: {folds: 3, fold: " +
        std::to_string(fold) + "}}");
    const auto val = build_pipeline(*e.dataset.val).dataset;
    CHECK(val->size() == (fold == 0 ? 34 : 33));
    CHECK(check_dataset(*e.dataset.val).facts->samples == val->size());
    CHECK(check_dataset(e.dataset.train).facts->samples == 101 - val->size());
    const Json document = split_document(e.dataset.train);
    CHECK(document["folds"] == 3);
    CHECK(document["fold"] == fold);
    CHECK(document["samples"] ==
          Json({{"train", 101 - val->size()}, {"val", val->size()}, {"test", 0}}));
  }
}
