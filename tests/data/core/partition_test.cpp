#include "data/core/partition.hpp"

#include "data/fakes.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

using namespace trainctl;
using namespace trainctl::data;
using namespace trainctl::data::testing;

namespace {

PartitionRequest parts_request(std::int64_t samples, std::vector<double> shares,
                               std::uint64_t seed = 0) {
  return {.samples = samples,
          .shares = std::move(shares),
          .seed = seed,
          .part_names = {"train", "val", "test"},
          .stratum_name = [](std::int64_t i) { return "class " + std::to_string(i); }};
}

std::vector<std::int64_t> part_counts(const Parts& parts) {
  std::vector<std::int64_t> found;
  for (const auto& part : parts) found.push_back(std::ssize(part));
  return found;
}

/// Returns whether every sample is in exactly one part, in ascending order.
bool is_division(const Parts& parts, std::int64_t samples) {
  std::vector<std::int64_t> all;
  for (const auto& part : parts) {
    if (!std::is_sorted(part.begin(), part.end())) return false;
    all.insert(all.end(), part.begin(), part.end());
  }
  std::sort(all.begin(), all.end());
  std::vector<std::int64_t> expected(static_cast<std::size_t>(samples));
  std::iota(expected.begin(), expected.end(), std::int64_t{0});
  return all == expected;
}

using Counts = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("partition: sizes are the shares, rounded by the largest remainder") {
  CHECK(part_sizes(parts_request(100, {0.7, 0.2, 0.1})) == Counts{70, 20, 10});
  CHECK(part_sizes(parts_request(10, {0.75, 0.25, 0})) == Counts{8, 2, 0});
  CHECK(part_sizes(parts_request(7, {0.7, 0.2, 0.1})) == Counts{5, 1, 1});
  CHECK(part_sizes(parts_request(3, {1.0 / 3, 1.0 / 3, 1.0 / 3})) == Counts{1, 1, 1});
  for (std::int64_t samples = 30; samples < 400; ++samples) {
    const Counts found = part_sizes(parts_request(samples, {1 - 0.2 - 0.1, 0.2, 0.1}));
    REQUIRE(std::accumulate(found.begin(), found.end(), std::int64_t{0}) == samples);
    REQUIRE(std::abs(static_cast<double>(found[1]) - 0.2 * static_cast<double>(samples)) < 1);
  }
}

TEST_CASE("partition: every sample is in one part, and the seed decides which") {
  const Parts parts = partition(parts_request(1000, {0.7, 0.2, 0.1}));
  CHECK(part_counts(parts) == Counts{700, 200, 100});
  CHECK(is_division(parts, 1000));
  CHECK(partition(parts_request(1000, {0.7, 0.2, 0.1})) == parts);
  CHECK(partition(parts_request(1000, {0.7, 0.2, 0.1}, 1)) != parts);
  // The draw is random: val has about a fifth of each half.
  const auto half = std::count_if(parts[1].begin(), parts[1].end(),
                                  [](std::int64_t sample) { return sample < 500; });
  CHECK(half > 60);
  CHECK(half < 140);
}

TEST_CASE("partition: a share that is too small for one sample is an error") {
  CHECK(failure_of([] {
          (void)partition(parts_request(10, {0.99, 0.01, 0}));
        }) ==
        "2: val would have no samples: 0.01 of 10 samples is less than one\nhint: raise the share");
}

TEST_CASE("partition: strata have the same shares, to within one sample, and totals are exact") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    // Classes have 3 to 40 samples, in a scrambled order.
    std::vector<std::int64_t> strata;
    for (std::int64_t stratum = 0; stratum < 38; ++stratum)
      strata.insert(strata.end(), static_cast<std::size_t>(3 + stratum), stratum);
    for (std::size_t i = 0; i < strata.size(); ++i)
      std::swap(strata[i], strata[(i * 7919 + seed) % strata.size()]);
    auto wanted = parts_request(std::ssize(strata), {0.65, 0.25, 0.1}, seed);
    wanted.strata = strata;
    const Parts parts = partition(wanted);
    REQUIRE(is_division(parts, std::ssize(strata)));
    REQUIRE(part_counts(parts) == part_sizes(wanted));
    for (std::size_t part = 0; part < parts.size(); ++part) {
      std::vector<double> counts(38);
      for (const std::int64_t sample : parts[part])
        ++counts[static_cast<std::size_t>(strata[static_cast<std::size_t>(sample)])];
      for (std::size_t stratum = 0; stratum < 38; ++stratum) {
        const double exact = wanted.shares[part] * static_cast<double>(3 + stratum);
        REQUIRE(std::abs(counts[stratum] - exact) <= 1);
      }
    }
  }
}

TEST_CASE("partition: a stratum with fewer samples than parts is an error with its name") {
  const std::vector<std::int64_t> strata{0, 0, 0, 0, 1, 1, 0, 0, 0, 0};
  auto wanted = parts_request(10, {0.5, 0.3, 0.2});
  wanted.strata = strata;
  CHECK_THAT(failure_of([&] { (void)partition(wanted); }),
             StartsWith("2: with 'stratify' each class must have at least 3 samples, one for each "
                        "part, but class 1 has 2"));
}

TEST_CASE("partition: groups stay together and come close to the shares") {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    std::vector<std::uint32_t> groups;
    for (std::uint32_t group = 0; group < 60; ++group)
      groups.insert(groups.end(), 1 + group % 7, group);
    std::vector<std::int64_t> strata;
    for (const std::uint32_t group : groups) strata.push_back(group % 3);
    auto wanted = parts_request(std::ssize(groups), {0.7, 0.2, 0.1}, seed);
    wanted.groups = groups;
    if (seed % 2 == 1) wanted.strata = strata;
    const Parts parts = partition(wanted);
    REQUIRE(is_division(parts, std::ssize(groups)));
    std::set<std::uint32_t> seen;
    for (const auto& part : parts) {
      std::set<std::uint32_t> here;
      for (const std::int64_t sample : part) here.insert(groups[static_cast<std::size_t>(sample)]);
      for (const std::uint32_t group : here) REQUIRE(seen.insert(group).second);
    }
    const auto found = part_counts(parts);
    for (std::size_t part = 0; part < 3; ++part) {
      const double exact = wanted.shares[part] * static_cast<double>(groups.size());
      REQUIRE(std::abs(static_cast<double>(found[part]) - exact) <= 4);
    }
    REQUIRE(partition(wanted) == parts);
  }
}

TEST_CASE("partition: groups that cannot be divided are an error with the nearest share") {
  std::vector<std::uint32_t> groups(100, 0);
  auto wanted = parts_request(100, {0.8, 0.2, 0});
  wanted.groups = groups;
  CHECK_THAT(failure_of([&] { (void)partition(wanted); }),
             StartsWith("2: the split needs at least 2 groups, one for each part, got 1"));
  std::fill(groups.begin() + 50, groups.end(), 1);
  CHECK_THAT(failure_of([&] { (void)partition(wanted); }),
             Contains("2 groups of up to 50 samples cannot be divided so that the share of val is "
                      "0.2\nhint: set the nearest possible share, 0.5"));
}

TEST_CASE("partition: ten equal parts serve as folds of a cross-validation") {
  std::vector<std::int64_t> strata;
  for (std::int64_t i = 0; i < 1003; ++i) strata.push_back(i % 10);
  PartitionRequest wanted{.samples = 1003,
                          .shares = std::vector<double>(10, 0.1),
                          .strata = strata,
                          .seed = 3,
                          .part_names = std::vector<std::string>(10, "fold")};
  wanted.stratum_name = [](std::int64_t) { return "class"; };
  const Parts parts = partition(wanted);
  CHECK(is_division(parts, 1003));
  for (const auto& part : parts) {
    CHECK(part.size() >= 100);
    CHECK(part.size() <= 101);
  }
}
