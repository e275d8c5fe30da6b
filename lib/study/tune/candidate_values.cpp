#include "study/tune/candidate_values.hpp"

#include "base/error.hpp"
#include "spec/compatibility.hpp"

#include <fmt/format.h>

#include <optional>
#include <span>
#include <utility>

namespace trainctl::study::tune_keys {
namespace {

constexpr double kIdleCpu = 40;  // percent of all cores: below it loading waits for files
constexpr std::array kStarved{"input_bound", "transfer_bound"};

template <class E>
std::string word_of(E value) {
  return enum_names(value).at(static_cast<std::size_t>(value));
}

template <class T>
std::string text_of(const config::Auto<T>& value) {
  return value.is_auto() ? "auto" : fmt::format("{}", *value.value);
}

/// Now, and the values on both sides of it.
template <class T>
std::pair<std::optional<T>, std::optional<T>> neighbours(std::span<const T> ladder, T now) {
  std::pair<std::optional<T>, std::optional<T>> found;
  for (const T& rung : ladder) {
    if (rung < now) found.first = rung;
    if (rung > now && !found.second) found.second = rung;
  }
  return found;
}

int most_workers(const TuneSituation& now) {
  constexpr int kMost = 64;
  const TuneFacts& facts = now.facts;
  // Of another rank than the slow one, the first does not know how busy it is.
  const bool waits_for_files =
      now.verdict.cause == "slow_loading_rank" ||
      (facts.cpu_percent > 0 && facts.cpu_percent < kIdleCpu * facts.cores);
  return waits_for_files ? std::min(4 * facts.cores, kMost) : facts.cores;
}

Offer workers(const TuneSituation& now) {
  const TuneFacts& facts = now.facts;
  Offer offer{.before = text_of(now.experiment.loader.num_workers)};
  const int most = most_workers(now);
  const bool starved = is_starved(now) || now.verdict.cause == "slow_loading_rank";
  const bool crowds = !facts.on_gpu && facts.num_workers > facts.cores && !starved;
  if (crowds) {
    offer.values = {std::to_string(facts.cores)};
    offer.reason = fmt::format("{} loader threads share {} core(s) with the steps",
                               facts.num_workers, facts.cores);
  } else if (!starved) {
    offer.none = "the steps do not wait for batches";
  } else if (facts.num_workers >= most) {
    offer.none =
        fmt::format("{} loader threads on {} core(s) already", facts.num_workers, facts.cores);
  } else {
    const int next = facts.num_workers == 0 ? 1 : std::min(2 * facts.num_workers, most);
    offer.values.push_back(std::to_string(next));
    if (next < most) offer.values.push_back(std::to_string(std::min(2 * next, most)));
    offer.reason =
        fmt::format("the steps wait for batches with {} loader thread(s)", facts.num_workers);
  }
  return offer;
}

Offer cache(const TuneSituation& now) {
  const spec::CacheMode mode = now.experiment.dataset.cache.mode;
  Offer offer{.before = word_of(mode)};
  if (mode == spec::CacheMode::automatic) {
    offer.none = "auto takes the highest tier that fits";
    return offer;
  }
  if (mode < spec::CacheMode::device && now.facts.on_gpu) offer.values.emplace_back("device");
  if (mode < spec::CacheMode::decoded) offer.values.emplace_back("decoded");
  if (mode < spec::CacheMode::encoded) offer.values.emplace_back("encoded");
  if (offer.values.empty()) offer.none = "it is the highest tier already";
  offer.reason = "samples that are kept are not read and decoded again in each epoch";
  return offer;
}

Offer prefetch(const TuneSituation& now) {
  constexpr int kMost = 64;
  Offer offer{.before = text_of(now.experiment.loader.prefetch_factor)};
  const int factor = now.facts.prefetch_factor;
  if (now.facts.num_workers == 0) {
    offer.none = "without loader threads no batch is made ahead";
  } else if (factor >= kMost || factor < 1) {
    offer.none = fmt::format("{} batches are made ahead already", factor);
  } else {
    offer.values = {std::to_string(std::min(2 * factor, kMost))};
    offer.reason = "more batches ahead cover samples that take longer than others";
  }
  return offer;
}

Offer threads(const TuneSituation& now) {
  const TuneFacts& facts = now.facts;
  const auto& asked = now.experiment.trainer.num_threads;
  Offer offer{.before = text_of(asked)};
  if (facts.on_gpu) {
    offer.none = "the steps run on a GPU";
  } else if (now.verdict.cause == "spinning_threads") {
    offer.values.emplace_back("1");
    offer.reason = "one thread has none that spins beside it";
  } else if (asked.is_auto()) {
    offer.none = "auto measures it at the start of every run";
  } else if (facts.num_threads > facts.cores) {
    offer.values.push_back(std::to_string(facts.cores));
    if (facts.cores > 1) offer.values.push_back(std::to_string(facts.cores / 2));
    offer.reason =
        fmt::format("{} threads of a process share {} core(s)", facts.num_threads, facts.cores);
  } else {
    const int up = std::min(2 * facts.num_threads, facts.cores);
    const int down = facts.num_threads / 2;
    if (up > facts.num_threads && !is_starved(now)) offer.values.push_back(std::to_string(up));
    if (down >= 1) offer.values.push_back(std::to_string(down));
    offer.reason = is_starved(now) ? "a core that does not compute can load"
                                   : "so many threads suit some sizes of work and not others";
    if (offer.values.empty()) offer.none = "one thread on one core";
  }
  return offer;
}

Offer layout(const TuneSituation& now) {
  const auto& asked = now.experiment.trainer.channels_last;
  const bool last = asked.value_or(now.facts.channels_last);
  Offer offer{.before = text_of(asked)};
  if (!spec::may_have_convolutions(now.experiment.model)) {
    offer.none = fmt::format("the model '{}' has no convolutions", now.experiment.model.type);
    return offer;
  }
  offer.values = {last ? "false" : "true"};
  offer.reason = asked.is_auto()
                     ? fmt::format("auto has chosen the channels {}", last ? "last" : "first")
                     : "kernels of convolutions may be faster in the other layout";
  return offer;
}

Offer graphs(const TuneSituation& now) {
  const auto& asked = now.experiment.trainer.cuda_graphs;
  Offer offer{.before = text_of(asked)};
  const bool recorded = asked.is_auto() ? now.facts.ranks == 1 : *asked.value;
  if (!now.no_capture.empty()) {
    offer.none = now.no_capture;
  } else if (recorded) {
    offer.none = "steps are recorded already";
  } else {
    offer.values = {"true"};
    offer.reason = "a recorded step is launched at once";
  }
  return offer;
}

Offer precision(const TuneSituation& now) {
  const spec::Precision asked = now.experiment.trainer.precision;
  Offer offer{.before = word_of(asked)};
  if (asked != spec::Precision::full) {
    offer.none = "it has 16 bits already";
    return offer;
  }
  offer.values = {"bf16-mixed"};
  if (now.facts.on_gpu) offer.values.emplace_back("16-mixed");
  offer.reason = "products of 16 bits take less time and memory";
  return offer;
}

Offer bucket(const TuneSituation& now) {
  constexpr std::array<double, 7> kLadder{1, 5, 10, 25, 50, 100, 200};
  const double size = now.experiment.distributed.bucket_cap_mb;
  Offer offer{.before = fmt::format("{}", size)};
  if (now.facts.ranks == 1) {
    offer.none = "one rank exchanges nothing";
  } else if (now.experiment.distributed.type == spec::Strategy::local_sgd) {
    offer.none = "local_sgd exchanges no gradients";
  } else {
    const auto [down, up] = neighbours<double>(kLadder, size);
    if (down) offer.values.push_back(fmt::format("{}", *down));
    if (up) offer.values.push_back(fmt::format("{}", *up));
    offer.reason = "smaller buckets start sooner, larger ones are sent faster";
  }
  return offer;
}

Offer batch(const TuneSituation& now) {
  const std::int64_t size = now.experiment.loader.batch_size;
  const std::int64_t twice = 2 * size;
  Offer offer{.before = fmt::format("{}", size)};
  const std::int64_t samples = now.facts.train_samples;
  if (samples > 0 && twice * now.facts.ranks > samples) {
    offer.none = "the training data has no more for one step";
    return offer;
  }
  offer.values = {fmt::format("{}", twice)};
  offer.reason = "fixed costs of a step are paid half as often; it is another training";
  return offer;
}

Offer pinning(const TuneSituation& now) {
  const auto& asked = now.experiment.loader.pin_memory;
  Offer offer{.before = text_of(asked)};
  if (!now.facts.on_gpu) {
    offer.none = "nothing is copied to a GPU";
  } else if (asked.value_or(true)) {
    offer.none = "batches are in page-locked memory already";
  } else {
    offer.values = {"true"};
    offer.reason = "page-locked memory lets copies run beside the steps";
  }
  return offer;
}

Offer anomaly(const TuneSituation& now) {
  Offer offer{.before = now.experiment.trainer.detect_anomaly ? "true" : "false"};
  if (!now.experiment.trainer.detect_anomaly) {
    offer.none = "it is off";
    return offer;
  }
  offer.values = {"false"};
  offer.reason = "it waits for every operation and looks at what it made: for debugging";
  return offer;
}

Offer cadence(const TuneSituation& now, std::int64_t every, const char* what) {
  Offer offer{.before = fmt::format("{}", every)};
  const std::int64_t most = now.experiment.trainer.epoch_limit().value_or(1 << 20);
  if (!now.whole_epochs) {
    offer.none = "the runs that are compared have shortened epochs, in which it weighs more";
  } else if (every > 1) {  // short runs have no epochs for more
    offer.none = fmt::format("it is every {} epochs already", every);
  } else if (2 * every > most) {
    offer.none = "the experiment has no more epochs";
  } else {
    offer.values = {fmt::format("{}", 2 * every)};
    offer.reason = fmt::format("{} half as often", what);
  }
  return offer;
}

}  // namespace

bool is_starved(const TuneSituation& now) { return holds(kStarved, now.verdict.name); }

Offer offer_of(std::string_view key, const TuneSituation& now) {
  if (key == kWorkers) return workers(now);
  if (key == kCache) return cache(now);
  if (key == kPrefetch) return prefetch(now);
  if (key == kPin) return pinning(now);
  if (key == kThreads) return threads(now);
  if (key == kLayout) return layout(now);
  if (key == kGraphs) return graphs(now);
  if (key == kPrecision) return precision(now);
  if (key == kBucket) return bucket(now);
  if (key == kAnomaly) return anomaly(now);
  if (key == kBatch) return batch(now);
  if (key == kValidation)
    return cadence(now, now.experiment.trainer.check_val_every_n_epoch, "validation");
  ASSERT(key == kSaving);
  return cadence(now, now.experiment.checkpoint.every_n_epochs, "saving");
}

}  // namespace trainctl::study::tune_keys
