#include "data/core/dataset_split.hpp"
#include "data/core/pipeline.hpp"
#include "data/formats/file_reader.hpp"
#include "data/sources.hpp"
#include "spec/load.hpp"
#include "spec/options/dataset.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <cstring>
#include <set>

// The data sets `subset` and `concat`, which are made of others.

using namespace trainctl;
using namespace trainctl::data;
using namespace trainctl::data::testing;

namespace {

/// Returns the data set of an experiment, after a check that the facts for `validate` agree with
/// it.
std::shared_ptr<const Dataset> opened(const std::string& yaml) {
  config::Diagnostics diagnostics;
  const spec::Experiment e =
      spec::load_experiment_text("derived.yaml",
                                 "dataset: {train: " + yaml +
                                     "}\nmodel: mlp\noptimizer: adam\ntrainer: {accelerator: "
                                     "cpu}\nloader: {batch_size: 1}\n",
                                 {}, diagnostics)
          .experiment;
  auto dataset = build_dataset(e.dataset.train, builtin_catalog());
  const SplitCheck check = check_dataset(e.dataset.train);
  REQUIRE(check.facts);
  CHECK(check.facts->samples == dataset->size());
  CHECK(check.facts->classes == dataset->classes());
  CHECK(check.facts->layout == dataset->layout());
  CHECK(check.facts->class_names == dataset->class_names());
  return dataset;
}

/// Returns the error, after a check that `validate` reports the same.
std::string error_of(const std::string& yaml) {
  config::Diagnostics diagnostics;
  const spec::Experiment e =
      spec::load_experiment_text(
          "derived.yaml",
          "dataset: {train: " + yaml +
              "}\nmodel: mlp\noptimizer: adam\ntrainer: {accelerator: cpu}\n",
          {}, diagnostics)
          .experiment;
  const std::string found =
      failure_of([&] { (void)build_dataset(e.dataset.train, builtin_catalog()); });
  const SplitCheck check = check_dataset(e.dataset.train);
  REQUIRE(check.problems.size() == 1);
  CHECK_THAT(found, EndsWith(check.problems[0].message));
  return found;
}

std::string digits(int samples, const std::string& more = "") {
  return "{type: synthetic_digits, samples: " + std::to_string(samples) + more + "}";
}

std::string subset_of(const std::string& source, const std::string& options) {
  return "{type: subset, source: " + source + ", " + options + "}";
}

std::string concat_of(const std::vector<std::string>& sources, const std::string& more = "") {
  std::string list;
  for (const std::string& source : sources) list += (list.empty() ? "" : ", ") + source;
  return "{type: concat, sources: [" + list + "]" + more + "}";
}

/// Checks that the samples of `part` are those samples of `whole`.
void check_samples(const Dataset& part, const Dataset& whole,
                   const std::vector<std::int64_t>& samples) {
  REQUIRE(part.size() == std::ssize(samples));
  const auto labels = labels_of(whole);
  const auto found = labels_of(part);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    CHECK(found[i] == labels[static_cast<std::size_t>(samples[i])]);
    CHECK(stored(part, static_cast<std::int64_t>(i)) == stored(whole, samples[i]));
  }
}

std::string put_folder(const TempFolder& folder, const std::string& name,
                       const std::vector<std::string>& classes, int count) {
  for (const std::string& one : classes) {
    for (int i = 0; i < count; ++i)
      put_text(folder / name / one / (std::to_string(i) + ".jpg"), name + one + std::to_string(i));
  }
  settle(folder.path());
  return "{type: image_folder, root: " + (folder / name).string() + "}";
}

}  // namespace

TEST_CASE("subset: takes listed samples in their order, a range, or those of a file") {
  const auto whole = opened(digits(40));
  check_samples(*opened(subset_of(digits(40), "indices: [7, 3, 39]")), *whole, {7, 3, 39});
  check_samples(*opened(subset_of(digits(40), "range: [5, 8]")), *whole, {5, 6, 7});
  const TempFolder folder;
  put_text(folder / "few.txt", "9\n\n 2 \r\n30");
  check_samples(*opened(subset_of(digits(40), "file: " + (folder / "few.txt").string())), *whole,
                {9, 2, 30});
  CHECK(opened(subset_of(digits(40), "range: [5, 8]"))->fingerprint() !=
        opened(subset_of(digits(40), "range: [5, 9]"))->fingerprint());
}

TEST_CASE("subset: classes are selected and numbered in the order of the option") {
  const CacheHome cache;
  const TempFolder folder;
  const std::string source = put_folder(folder, "birds", {"crow", "jay", "owl"}, 4);
  const auto birds = opened(subset_of(source, "classes: [owl, crow]"));
  CHECK(birds->class_names() == std::vector<std::string>{"owl", "crow"});
  CHECK(labels_of(*birds) == std::vector<std::int64_t>{1, 1, 1, 1, 0, 0, 0, 0});
  CHECK(stored(*birds, 0) == "birdscrow0");
  CHECK(stored(*birds, 7) == "birdsowl3");
  CHECK_THAT(birds->images()->name(7), EndsWith("owl/3.jpg"));
  // Classes without names are selected by their number.
  const auto sevens = opened(subset_of(digits(200), "classes: [\"7\", \"1\"], range: [0, 100]"));
  const auto whole = labels_of(*opened(digits(100)));
  CHECK(sevens->size() == std::ranges::count(whole, 7) + std::ranges::count(whole, 1));
  CHECK(sevens->classes() == 2);
}

TEST_CASE("subset: a fraction is drawn by its own seed, and with stratify from each class") {
  const std::string source = digits(1000);
  const auto tenth = opened(subset_of(source, "fraction: 0.1"));
  CHECK(tenth->size() == 100);
  CHECK(tenth->fingerprint() == opened(subset_of(source, "fraction: 0.1"))->fingerprint());
  CHECK(tenth->fingerprint() != opened(subset_of(source, "fraction: 0.1, seed: 1"))->fingerprint());
  CHECK(opened(subset_of(source, "fraction: 1"))->size() == 1000);
  const auto whole = labels_of(*opened(source));
  const auto part = labels_of(*opened(subset_of(source, "fraction: 0.25, stratify: true")));
  for (std::int64_t label = 0; label < 10; ++label) {
    const auto share = 0.25 * static_cast<double>(std::ranges::count(whole, label));
    CHECK(std::abs(static_cast<double>(std::ranges::count(part, label)) - share) < 1);
  }
}

TEST_CASE("subset: contradictions and samples that do not exist are errors") {
  const auto error = [](const std::string& options) {
    return error_of(subset_of(digits(40), options));
  };
  CHECK_THAT(error("seed: 1"), Contains("needs 'indices', 'range', 'file', 'classes' or"));
  CHECK_THAT(error("indices: [1], range: [0, 2]"), Contains("exclude each other"));
  CHECK_THAT(error("indices: [40]"),
             Contains("sample 40 does not exist: the source has 40 samples, numbered from 0"));
  CHECK_THAT(error("indices: [4, 4]"), Contains("sample 4 is listed twice"));
  CHECK_THAT(error("range: [30, 41]"), Contains("STOP at most 40") && Contains("got [30, 41]"));
  CHECK_THAT(error("classes: [cat]"), Contains("'cat' is not a class of the source, whose classes "
                                               "are 0 to 9"));
  CHECK_THAT(error("fraction: 0.001"), Contains("the subset would have no samples"));
  const TempFolder folder;
  put_text(folder / "bad.txt", "1\ntwo\n");
  CHECK_THAT(error("file: " + (folder / "bad.txt").string()),
             Contains("bad.txt:2: 'two' is not a whole number"));
}

TEST_CASE("concat: has the samples of all sources, one source after the other") {
  const std::vector<std::string> sources{digits(5), digits(7, ", split: test"), digits(3)};
  const auto all = opened(concat_of(sources));
  REQUIRE(all->size() == 15);
  CHECK(all->mixture().weights.empty());
  std::int64_t at = 0;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const auto source = opened(sources[i]);
    for (std::int64_t k = 0; k < source->size(); ++k, ++at) {
      CHECK(stored(*all, at) == stored(*source, k));
      CHECK(values<std::int64_t>(*all, at, 1) == values<std::int64_t>(*source, k, 1));
      CHECK(all->images()->name(at) == fmt::format("{}:{}", i, source->images()->name(k)));
    }
  }
  // One call with samples of all sources in any order gives the same rows as a call for each.
  const std::vector<std::int64_t> mixed{14, 0, 1, 5, 2, 6, 7, 13, 4, 4};
  std::vector<std::byte> images(mixed.size() * all->layout()[0].bytes());
  std::vector<std::int64_t> labels(mixed.size());
  const std::span<std::byte> rows[] = {images, std::as_writable_bytes(std::span(labels))};
  all->fill(mixed, rows);
  for (std::size_t i = 0; i < mixed.size(); ++i) {
    CHECK(labels[i] == values<std::int64_t>(*all, mixed[i], 1)[0]);
    CHECK(std::memcmp(images.data() + i * 784, stored(*all, mixed[i]).data(), 784) == 0);
  }
}

TEST_CASE("concat: classes with the same name are the same class") {
  const CacheHome cache;
  const TempFolder folder;
  const std::string first = put_folder(folder, "a", {"crow", "owl"}, 2);
  put_text(folder / "b/list.csv", "1.jpg,owl\n2.jpg,crow\n");
  for (const char* name : {"b/1.jpg", "b/2.jpg"}) put_text(folder / name, name);
  settle(folder.path());
  const std::string list =
      "{type: image_list, path: " + (folder / "b/list.csv").string() + ", classes: [owl, crow]}";
  const auto birds = opened(concat_of({first, list}));
  CHECK(birds->class_names() == std::vector<std::string>{"crow", "owl"});
  CHECK(labels_of(*birds) == std::vector<std::int64_t>{0, 0, 1, 1, 1, 0});
  CHECK(labels_of(*opened(list)) == std::vector<std::int64_t>{0, 1});
  CHECK(birds->images()->ranges() != nullptr);
}

TEST_CASE("concat: reads file ranges of each source through its own files") {
  const CacheHome cache;
  const TempFolder folder;
  const auto both = opened(concat_of(
      {put_folder(folder, "a", {"crow", "owl"}, 2), put_folder(folder, "b", {"crow", "owl"}, 3)}));
  const ImageRanges& ranges = *both->images()->ranges();
  std::set<std::size_t> files;
  std::uint64_t sum = 0;
  for (std::int64_t i = 0; i < both->size(); ++i) {
    const FileRange range = ranges.range(i);
    CHECK(files.insert(range.file).second);
    std::vector<std::byte> bytes(range.bytes);
    ranges.open(range.file).read(range.offset, bytes);
    const auto image = ranges.image(i, bytes).bytes;
    CHECK(std::string(reinterpret_cast<const char*>(image.data()), image.size()) ==
          stored(*both, i));
    sum += range.bytes;
  }
  CHECK(ranges.bytes() == sum);
}

TEST_CASE("concat: images of different sizes are combined, other differences are errors") {
  const std::string small =
      "{type: synthetic_images, height: 8, width: 8, channels: 1, classes: 10, samples: 4}";
  const auto both = opened(concat_of({digits(3), small}));
  CHECK(both->layout()[0] == Field{"image", Dtype::u8, {0, 0, 1}});
  CHECK(stored(*both, 6).size() == 64);
  const std::string color = "{type: synthetic_images, height: 28, width: 28, classes: 10}";
  CHECK_THAT(error_of(concat_of({digits(3), color})),
             Contains("sources.0 (synthetic_digits) has image uint8 [28, 28, 1]") &&
                 Contains("sources.1 (synthetic_images) has image uint8 [28, 28, 3]"));
  const std::string few =
      "{type: synthetic_images, height: 28, width: 28, channels: 1, classes: 4, samples: 4}";
  CHECK_THAT(error_of(concat_of({digits(3), few})),
             Contains("sources.0 (synthetic_digits) has 10 classes, and sources.1 "
                      "(synthetic_images) has 4 classes"));
  const CacheHome cache;
  const TempFolder folder;
  CHECK_THAT(error_of(concat_of({put_folder(folder, "a", {"crow", "owl"}, 1),
                                 put_folder(folder, "b", {"crow", "jay"}, 1)})),
             Contains("has crow, owl, and sources.1 (image_folder) has crow, jay"));
  CHECK_THAT(error_of(concat_of({digits(3), digits(3)}, ", weights: [1]")),
             Contains("one weight per source, got 1 weights for 2 sources"));
  CHECK_THAT(error_of(concat_of({digits(3)}, ", weights: [0]")), Contains("must be above 0"));
}

TEST_CASE("concat: weights reach the samples of a split and of a subset") {
  const std::string weighted = concat_of({digits(30), digits(10)}, ", weights: [1, 3]");
  const Mixture whole = opened(weighted)->mixture();
  CHECK(whole.weights == std::vector<double>{1, 3});
  CHECK(std::ranges::count(whole.groups, 1U) == 10);
  const Mixture part = opened(subset_of(weighted, "indices: [39, 0]"))->mixture();
  CHECK(part.weights == whole.weights);
  CHECK(part.groups == std::vector<std::uint32_t>{1, 0});
  CHECK_THAT(failure_of([&] {
               (void)opened(concat_of({weighted, digits(5)}));
             }),
             Contains("only the outer 'concat' may have weights"));
}

TEST_CASE("concat: dataset.split divides the samples of all sources") {
  config::Diagnostics diagnostics;
  const spec::Experiment e =
      spec::load_experiment_text(
          "derived.yaml",
          "dataset: {train: " + concat_of({digits(60), digits(40, ", split: test")}) +
              ", split: {val: 0.2, stratify: true}}\nmodel: mlp\noptimizer: adam\n",
          {}, diagnostics)
          .experiment;
  const auto train = build_pipeline(e.dataset.train).dataset;
  const auto val = build_pipeline(*e.dataset.val).dataset;
  CHECK(train->size() == 80);
  CHECK(val->size() == 20);
  std::set<std::string> names;
  for (const auto& part : {train, val}) {
    for (std::int64_t i = 0; i < part->size(); ++i)
      CHECK(names.insert(part->images()->name(i)).second);
  }
  CHECK(names.size() == 100);
}
