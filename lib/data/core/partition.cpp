#include "data/core/partition.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "data/loader/sampling.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace trainctl::data {
namespace {

constexpr double kRounding = 1e-9;  // shares such as 0.1 are not exact in binary

std::int64_t used_parts(const PartitionRequest& request) {
  return std::count_if(request.shares.begin(), request.shares.end(),
                       [](double share) { return share > 0; });
}

std::int64_t whole_part(double exact) {
  return static_cast<std::int64_t>(std::floor(exact + kRounding));
}

/// Returns the numbers 0 ... count - 1 in stable order.
template <class Less>
std::vector<std::size_t> sorted_indices(std::size_t count, Less&& less) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), less);
  return order;
}

/// Returns the samples of each stratum.
std::vector<std::vector<std::int64_t>> members_of_strata(const PartitionRequest& request) {
  std::vector<std::vector<std::int64_t>> members(1);
  if (request.strata.empty()) {
    members[0].resize(static_cast<std::size_t>(request.samples));
    std::iota(members[0].begin(), members[0].end(), std::int64_t{0});
    return members;
  }
  for (std::size_t i = 0; i < request.strata.size(); ++i) {
    const auto stratum = static_cast<std::size_t>(request.strata[i]);
    if (stratum >= members.size()) members.resize(stratum + 1);
    members[stratum].push_back(static_cast<std::int64_t>(i));
  }
  return members;
}

/// Returns how many samples of a stratum each part gets: its share rounded down, plus 0 or 1. The
/// remaining samples go to the parts that lack the most, a greedy order that reaches the sizes of
/// all parts exactly whenever that is possible (Gale 1957).
std::vector<std::int64_t> counts_of_stratum(const std::vector<double>& shares, std::int64_t samples,
                                            std::vector<std::int64_t>& lacking) {
  std::vector<std::int64_t> counts;
  for (const double share : shares)
    counts.push_back(whole_part(share * static_cast<double>(samples)));
  std::int64_t left = samples - std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  const auto lacks_more = [&](std::size_t a, std::size_t b) {
    return lacking[a] != lacking[b] ? lacking[a] > lacking[b] : shares[a] > shares[b];
  };
  for (const std::size_t part : sorted_indices(shares.size(), lacks_more)) {
    if (left == 0) break;
    if (shares[part] == 0) continue;
    ++counts[part];
    --lacking[part];
    --left;
  }
  return counts;
}

void check_strata(const PartitionRequest& request,
                  const std::vector<std::vector<std::int64_t>>& members) {
  if (request.strata.empty()) return;
  const std::int64_t parts = used_parts(request);
  for (std::size_t stratum = 0; stratum < members.size(); ++stratum) {
    const std::int64_t count = std::ssize(members[stratum]);
    ENSURE(config, count == 0 || count >= parts,
           "with 'stratify' each class must have at least {} samples, one for each part, but {} "
           "has {}\nhint: add samples, or remove 'stratify'",
           parts, request.stratum_name(static_cast<std::int64_t>(stratum)), count);
  }
}

Parts partition_samples(const PartitionRequest& request) {
  auto members = members_of_strata(request);
  check_strata(request, members);
  std::vector<std::int64_t> lacking = part_sizes(request);
  for (const auto& stratum : members) {
    for (std::size_t part = 0; part < lacking.size(); ++part)
      lacking[part] -= whole_part(request.shares[part] * static_cast<double>(stratum.size()));
  }
  WordStream words(request.seed, 0, EpochStream::split);
  std::vector<std::size_t> order(members.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  shuffle_with(order, words);
  Parts parts(request.shares.size());
  for (const std::size_t stratum : order) {
    shuffle_with(members[stratum], words);
    auto next = members[stratum].begin();
    const auto counts = counts_of_stratum(request.shares, std::ssize(members[stratum]), lacking);
    for (std::size_t part = 0; part < parts.size(); ++part) {
      parts[part].insert(parts[part].end(), next, next + counts[part]);
      next += counts[part];
    }
  }
  for (auto& part : parts) std::sort(part.begin(), part.end());
  return parts;
}

/// Assigns whole groups so that each part comes close to its share of every stratum.
class GroupPartition {
 public:
  explicit GroupPartition(const PartitionRequest& request)
      : request_(request),
        sizes_(std::size_t{std::ranges::max(request.groups)} + 1),
        strata_(sizes_.size()) {
    for (std::size_t i = 0; i < request.groups.size(); ++i) {
      const std::uint32_t group = request.groups[i];
      ++sizes_[group];
      const std::int64_t stratum = request.strata.empty() ? 0 : request.strata[i];
      strata_[group].emplace_back(stratum, 1);
      if (static_cast<std::size_t>(stratum) >= totals_.size())
        totals_.resize(static_cast<std::size_t>(stratum) + 1);
      ++totals_[static_cast<std::size_t>(stratum)];
    }
    for (Counts& counts : strata_) add_up(counts);
  }

  Parts draw() {
    ENSURE(config, std::ssize(sizes_) >= used_parts(request_),
           "the split needs at least {1} groups, one for each part, got {0}\nhint: choose another "
           "'group_by'",
           sizes_.size(), used_parts(request_));
    WordStream words(request_.seed, 0, EpochStream::split);
    const std::int64_t attempts = std::clamp<std::int64_t>(kMostWork / std::ssize(sizes_), 1, 64);
    std::vector<std::uint32_t> best;
    double least = std::numeric_limits<double>::infinity();
    for (std::int64_t attempt = 0; attempt < attempts; ++attempt) {
      std::vector<std::uint32_t> parts = attempt_with(words);
      const double deviation = deviation_now();
      if (deviation < least) least = deviation, best = std::move(parts);
    }
    return parts_of(best);
  }

 private:
  using Counts = std::vector<std::pair<std::int64_t, std::int64_t>>;  // stratum, samples
  static constexpr std::int64_t kMostWork = 1 << 22;

  /// Merges the entries of each stratum.
  static void add_up(Counts& counts) {
    std::sort(counts.begin(), counts.end());
    std::size_t last = 0;
    for (std::size_t i = 1; i < counts.size(); ++i) {
      if (counts[i].first == counts[last].first)
        counts[last].second += counts[i].second;
      else
        counts[++last] = counts[i];
    }
    counts.resize(std::min(counts.size(), last + 1));
  }

  [[nodiscard]] double target(std::size_t part, std::size_t stratum) const {
    return request_.shares[part] * static_cast<double>(totals_[stratum]);
  }

  /// Returns how much further the part would be from its target with these samples.
  [[nodiscard]] double cost(std::size_t part, const Counts& counts) const {
    double cost = 0;
    for (const auto& [stratum, samples] : counts) {
      const auto at = static_cast<std::size_t>(stratum);
      const auto added = static_cast<double>(samples);
      const double excess = static_cast<double>(filled_[part][at]) - target(part, at);
      cost += added * (2 * excess + added) / static_cast<double>(totals_[at]);
    }
    return cost;
  }

  std::vector<std::uint32_t> attempt_with(WordStream& words) {
    filled_.assign(request_.shares.size(), std::vector<std::int64_t>(totals_.size()));
    std::vector<std::uint32_t> order(sizes_.size());
    std::iota(order.begin(), order.end(), std::uint32_t{0});
    shuffle_with(order, words);
    std::vector<std::uint32_t> parts(sizes_.size());
    std::vector<bool> used(request_.shares.size());
    std::int64_t unused = used_parts(request_);
    std::int64_t left = std::ssize(sizes_);
    for (const std::uint32_t group : order) {
      const bool must_fill = left-- == unused;  // every part must get a group
      double least = std::numeric_limits<double>::infinity();
      for (std::size_t part = 0; part < request_.shares.size(); ++part) {
        if (request_.shares[part] == 0 || (must_fill && used[part])) continue;
        const double here = cost(part, strata_[group]);
        if (here < least) least = here, parts[group] = static_cast<std::uint32_t>(part);
      }
      unused -= used[parts[group]] ? 0 : 1;
      used[parts[group]] = true;
      for (const auto& [stratum, samples] : strata_[group])
        filled_[parts[group]][static_cast<std::size_t>(stratum)] += samples;
    }
    return parts;
  }

  [[nodiscard]] double deviation_now() const {
    double sum = 0;
    for (std::size_t part = 0; part < filled_.size(); ++part) {
      for (std::size_t at = 0; at < totals_.size(); ++at) {
        if (totals_[at] == 0) continue;
        const double excess = static_cast<double>(filled_[part][at]) - target(part, at);
        sum += excess * excess / static_cast<double>(totals_[at]);
      }
    }
    return sum;
  }

  Parts parts_of(const std::vector<std::uint32_t>& part_of_group) const {
    Parts parts(request_.shares.size());
    for (std::size_t i = 0; i < request_.groups.size(); ++i)
      parts[part_of_group[request_.groups[i]]].push_back(static_cast<std::int64_t>(i));
    const double all = static_cast<double>(request_.samples);
    for (std::size_t part = 0; part < parts.size(); ++part) {
      const double wanted = request_.shares[part];
      const double found = static_cast<double>(parts[part].size()) / all;
      ENSURE(config, std::abs(found - wanted) <= wanted / 2,
             "{} groups of up to {} samples cannot be divided so that the share of {} is "
             "{:.4g}\nhint: set the nearest possible share, {:.4g}, or choose another 'group_by'",
             sizes_.size(), *std::max_element(sizes_.begin(), sizes_.end()),
             request_.part_names.at(part), wanted, found);
    }
    return parts;
  }

  const PartitionRequest& request_;
  std::vector<std::int64_t> sizes_;                // samples of each group
  std::vector<Counts> strata_;                     // of each group
  std::vector<std::int64_t> totals_;               // samples of each stratum
  std::vector<std::vector<std::int64_t>> filled_;  // samples of each part, by stratum
};

}  // namespace

std::vector<std::int64_t> part_sizes(const PartitionRequest& request) {
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> remainders;  // in millionths; closer values are ties
  for (const double share : request.shares) {
    const double exact = share * static_cast<double>(request.samples);
    sizes.push_back(whole_part(exact));
    remainders.push_back(std::llround((exact - static_cast<double>(sizes.back())) * 1e6));
  }
  std::int64_t left =
      request.samples - std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  const auto larger = [&](std::size_t a, std::size_t b) { return remainders[a] > remainders[b]; };
  for (const std::size_t part : sorted_indices(sizes.size(), larger)) {
    if (left-- <= 0) break;
    ++sizes[part];
  }
  for (std::size_t part = 0; part < sizes.size(); ++part)
    ENSURE(config, request.shares[part] == 0 || sizes[part] > 0,
           "{} would have no samples: {:.4g} of {} samples is less than one\nhint: raise the share",
           request.part_names.at(part), request.shares[part], request.samples);
  return sizes;
}

Parts partition(const PartitionRequest& request) {
  ASSERT(request.strata.empty() || std::ssize(request.strata) == request.samples);
  ASSERT(request.groups.empty() || std::ssize(request.groups) == request.samples);
  ENSURE(data, request.samples < std::numeric_limits<std::uint32_t>::max(),
         "the data set must have at most 4,294,967,294 samples to be divided, got {}",
         request.samples);
  return request.groups.empty() ? partition_samples(request) : GroupPartition(request).draw();
}

}  // namespace trainctl::data
