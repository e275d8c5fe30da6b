#include "data/loader/sampling.hpp"

#include "data/core/pipeline.hpp"
#include "data/fakes.hpp"
#include "data/loader/measurements.hpp"
#include "spec/options/sampler.hpp"
#include "support/catch.hpp"

#include <array>
#include <cmath>
#include <numeric>

using namespace trainctl;
using namespace trainctl::data;
using namespace trainctl::data::testing;

namespace {

/// Returns how often each class is drawn in one long epoch; sample i has the class min(i, 2).
std::array<int, 3> drawn(std::vector<double> weights) {
  constexpr std::int64_t kDraws = 30'000;
  const ClassedDataset dataset(
      10, [](std::int64_t index) { return std::min<std::int64_t>(index, 2); }, 3);
  std::array<int, 3> counts{};
  for (const std::uint32_t sample :
       ClassSampler(dataset, {std::move(weights), kDraws}).draw(1, 0)) {
    ++counts[std::min<std::uint32_t>(sample, 2)];
  }
  return counts;
}

bool near(int count, double expected) {
  return std::abs(count - expected) < 6 * std::sqrt(expected);
}

LoaderOptions balanced(int workers, int world_size) {
  LoaderOptions options;
  options.batch_size = 4;
  options.num_workers = workers;
  options.shard.world_size = world_size;
  options.sampling = ClassSampling{};
  return options;
}

}  // namespace

TEST_CASE("ClassSampler: draws classes equally often or samples by the weights of their classes") {
  const auto equal = drawn({});
  CHECK((near(equal[0], 10'000) && near(equal[1], 10'000) && near(equal[2], 10'000)));
  const auto plain = drawn({1, 1, 1});
  CHECK((near(plain[0], 3'000) && near(plain[1], 3'000) && near(plain[2], 24'000)));
  const auto some = drawn({0, 8, 1});
  CHECK((some[0] == 0 && near(some[1], 15'000) && near(some[2], 15'000)));
  const auto one = drawn({1, 0, 0});
  CHECK((one[0] == 30'000 && one[1] == 0 && one[2] == 0));
}

TEST_CASE("ClassSampler: draws depend only on seed and epoch, in all versions") {
  const ClassSampler sampler(ClassedDataset(
                                 10, [](std::int64_t i) { return i % 3; }, 3),
                             {});
  CHECK(sampler.draw(5, 6) == sampler.draw(5, 6));
  CHECK(sampler.draw(5, 6) != sampler.draw(5, 7));
  CHECK(sampler.draw(5, 6) != sampler.draw(6, 6));
  CHECK(sampler.draw(0, 0) == Permutation{0, 9, 9, 7, 1, 0, 1, 4, 7, 2});
}

TEST_CASE("Loader: a sampled epoch has num_samples samples, for any workers, ranks and limits") {
  const Pipeline pipeline = classed(61, 5);
  LoaderOptions options = balanced(0, 1);
  options.sampling->num_samples = 103;
  Loader loader(pipeline, options);
  CHECK(loader.samples() == 103);
  CHECK(loader.batches_per_epoch() == 26);
  const EpochDigests expected = digest_epochs(pipeline, options, 2);
  CHECK(expected.epochs[0] != expected.epochs[1]);
  for (const int ranks : {1, 2, 3}) {
    for (const int workers : {0, 1, 2, 8}) {
      LoaderOptions other = balanced(workers, ranks);
      other.sampling->num_samples = 103;
      CHECK(digest_epochs(pipeline, other, 2).epochs == expected.epochs);
    }
  }
  options.limit_batches = 3;
  Loader limited(pipeline, options);
  const std::vector<Copy> whole = read_epoch(loader, 1);
  CHECK(read_epoch(limited, 1) == std::vector<Copy>(whole.begin(), whole.begin() + 3));
}

TEST_CASE("ClassSampler: invalid options are rejected") {
  const auto error_of = [](const Dataset& dataset, const ClassSampling& options) {
    return failure_of([&] { ClassSampler(dataset, options); });
  };
  CHECK_THAT(error_of(CountingDataset(4), {}), Contains("2: loader.sampler needs class labels"));
  const ClassedDataset three(
      9, [](std::int64_t i) { return i % 2; }, 3);  // no sample of class 2
  CHECK_THAT(error_of(three, {{1, 1}, {}}),
             Contains("2: loader.sampler has 2 weights, but the data has 3 classes"));
  CHECK_THAT(error_of(three, {{0, 0, 1}, {}}), Contains("leave no sample to draw"));
  CHECK_THAT(error_of(ClassedDataset(
                          4, [](std::int64_t i) { return i; }, 3),
                      {}),
             Contains("9: a sample has the label 3"));
}

TEST_CASE("loader_options: the sampler is used in training, not in evaluation or an overfit run") {
  spec::Experiment experiment;
  spec::sampler::WeightedRandom weighted;
  weighted.weights = {1, 2};
  weighted.num_samples = 7;
  experiment.loader.sampler = config::make_stage("sampler", "weighted_random", weighted);
  const LoaderOptions train = loader_options(experiment, Role::train, {});
  REQUIRE(train.sampling);
  CHECK(train.sampling->weights == weighted.weights);
  CHECK(train.sampling->num_samples == 7);
  CHECK(!loader_options(experiment, Role::evaluate, {}).sampling);
  experiment.trainer.overfit_batches = 2;
  CHECK(!loader_options(experiment, Role::train, {}).sampling);
}

namespace {

/// Returns how often each sample is drawn in an epoch.
std::vector<int> times_drawn(const MixtureSampler& sampler, std::size_t samples,
                             std::int64_t epoch) {
  std::vector<int> times(samples);
  for (const std::uint32_t sample : sampler.draw(3, epoch)) ++times.at(sample);
  return times;
}

}  // namespace

TEST_CASE("MixtureSampler: each group gets its share, and its samples take turns") {
  Mixture mixture{{1, 3}, {}};
  for (std::uint32_t i = 0; i < 90; ++i) mixture.groups.push_back(i < 80 ? 0 : 1);
  const MixtureSampler sampler(mixture);
  for (const std::int64_t epoch : {0, 1, 2}) {
    const auto times = times_drawn(sampler, 90, epoch);
    CHECK(std::accumulate(times.begin(), times.begin() + 80, 0) == 23);  // a quarter of 90
    CHECK(std::accumulate(times.begin() + 80, times.end(), 0) == 67);
    CHECK(std::all_of(times.begin(), times.begin() + 80, [](int n) { return n <= 1; }));
    CHECK(std::all_of(times.begin() + 80, times.end(), [](int n) { return n == 6 || n == 7; }));
  }
  CHECK(sampler.draw(3, 0) == sampler.draw(3, 0));
  CHECK(sampler.draw(3, 0) != sampler.draw(3, 1));
  CHECK(sampler.draw(3, 0) != sampler.draw(4, 0));
}

TEST_CASE("MixtureSampler: proportions like the sizes draw every sample once") {
  Mixture mixture{{2, 1}, {}};
  for (std::uint32_t i = 0; i < 30; ++i) mixture.groups.push_back(i % 3 == 0 ? 1 : 0);
  const auto times = times_drawn(MixtureSampler(mixture), 30, 5);
  CHECK(std::ranges::all_of(times, [](int n) { return n == 1; }));
}

TEST_CASE("MixtureSampler: a share of no sample is an error, a group without samples is not") {
  CHECK(MixtureSampler({{1, 5}, {0, 0}}).draw(0, 0).size() == 2);
  CHECK_THAT(failure_of([] {
               (void)MixtureSampler({{1000, 1}, {0, 0, 1}});
             }),
             Contains("sources.1 would have no samples"));
  CHECK_THAT(failure_of([] {
               (void)MixtureSampler({{0, 5}, {0, 0}});
             }),
             Contains("only sources without samples"));
}
