#include "sweep/settings.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "study/sweep/definition.hpp"

#include <charconv>
#include <set>
#include <system_error>

namespace trainctl::app {

SweepSpace space_of(const SweepFlags& flags) {
  SweepSpace space;
  for (const std::string& word : flags.config.overrides) {
    if (!study::is_dimension(word)) {
      space.fixed.push_back(word);
      continue;
    }
    space.words.push_back(word);
    space.dimensions.push_back(study::parse_dimension(word));
    ENSURE(config, study::bare_key(space.dimensions.back().axis.key) != "seed",
           "seed is not a key to vary: write --seeds {}, so that runs of one setting are compared "
           "seed by seed",
           printable(word.substr(word.find('=') + 1)));
  }
  return space;
}

std::string kind_of(const SweepFlags& flags) {
  const int ways = (flags.list.empty() ? 0 : 1) + (flags.samples > 0) + (flags.lhs > 0);
  ENSURE(config, ways <= 1, "--list, --samples and --lhs are three ways to choose runs: take one");
  if (!flags.list.empty()) return "list";
  if (flags.samples > 0) return "random";
  return flags.lhs > 0 ? "lhs" : "grid";
}

study::Settings settings_of(const SweepFlags& flags, const SweepSpace& space,
                            const std::string& kind) {
  if (kind == "list") {
    ENSURE(config, space.dimensions.empty(), "--list names the runs: leave {} out, or the list",
           printable(space.words.front()));
    return study::listed_settings(flags.list);
  }
  if (kind == "random")
    return study::random_settings(space.dimensions, static_cast<std::size_t>(flags.samples),
                                  flags.sample_seed);
  if (kind == "lhs")
    return study::latin_hypercube(space.dimensions, static_cast<std::size_t>(flags.lhs),
                                  flags.sample_seed);
  ENSURE(config, !space.dimensions.empty() || !flags.seeds.empty(),
         "nothing is varied: write keys with several values, as in optimizer.lr=0.1,0.01, or "
         "--list FILE, or --seeds 0,1,2");
  return study::grid_settings(space.dimensions);
}

std::vector<std::uint64_t> seeds_of(const SweepFlags& flags) {
  std::vector<std::uint64_t> seeds;
  if (flags.seeds.empty()) return seeds;
  for (const std::string& text : study::parse_axis("--seeds", flags.seeds).values) {
    std::uint64_t seed = 0;
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), seed);
    ENSURE(config, failure == std::errc() && end == text.data() + text.size(),
           "--seeds: '{}' is no whole number from 0 on", printable(text));
    seeds.push_back(seed);
  }
  const std::set<std::uint64_t> unique(seeds.begin(), seeds.end());
  ENSURE(config, unique.size() == seeds.size(), "--seeds {}: a seed is given twice",
         printable(flags.seeds));
  return seeds;
}

}  // namespace trainctl::app
