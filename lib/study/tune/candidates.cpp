#include "study/tune/candidates.hpp"

#include "base/error.hpp"
#include "base/numbers.hpp"
#include "base/strings.hpp"
#include "report/diagnosis/bottleneck_rules.hpp"
#include "spec/compatibility.hpp"

#include <fmt/ranges.h>

namespace trainctl::study {
namespace {

constexpr double kIdleCpu = 40;          // percent of all cores; below it loading waits for files
constexpr double kWorthHeadroom = 1.03;  // below it, reducing waits is not worth a run

constexpr const char* kWorkers = "loader.num_workers";
constexpr const char* kCache = "dataset.cache.mode";
constexpr const char* kPrefetch = "loader.prefetch_factor";
constexpr const char* kPin = "loader.pin_memory";
constexpr const char* kThreads = "trainer.num_threads";
constexpr const char* kLayout = "trainer.channels_last";
constexpr const char* kGraphs = "trainer.cuda_graphs";
constexpr const char* kPrecision = "trainer.precision";
constexpr const char* kAnomaly = "trainer.detect_anomaly";
constexpr const char* kBucket = "distributed.bucket_cap_mb";
constexpr const char* kBatch = "loader.batch_size";
constexpr const char* kValidation = "trainer.check_val_every_n_epoch";
constexpr const char* kSaving = "checkpoint.every_n_epochs";

template <std::size_t N>
bool holds(const std::array<const char*, N>& names, std::string_view name) {
  return std::ranges::find(names, name, [](const char* each) { return std::string_view(each); }) !=
         names.end();
}

bool is_starved(const TuneSituation& now) {
  constexpr std::array kStarved{"input_bound", "transfer_bound"};
  return holds(kStarved, now.verdict.name);
}

/// The values of one key that may help, or the reason why there are none.
struct Offer {
  std::string before = {};
  std::vector<std::string> values = {};
  std::string reason = {};
  std::string none = {};
};

Offer no_values(std::string why) { return {.none = std::move(why)}; }

template <class T>
std::string text_of(const config::Auto<T>& value) {
  return value.is_auto() ? "auto" : fmt::format("{}", *value.value);
}

int most_workers(const TuneSituation& now) {
  constexpr int kMost = 64;
  const TuneFacts& facts = now.facts;
  // If another rank is the slow one, rank 0 does not know how busy that rank is.
  const bool waits_for_files =
      now.verdict.cause == "slow_loading_rank" ||
      (facts.cpu_percent > 0 && facts.cpu_percent < kIdleCpu * facts.cores);
  return waits_for_files ? std::min(4 * facts.cores, kMost) : facts.cores;
}

Offer workers(const TuneSituation& now) {
  const TuneFacts& facts = now.facts;
  const std::string before = text_of(now.experiment.loader.num_workers);
  const int most = most_workers(now);
  const bool starved = is_starved(now) || now.verdict.cause == "slow_loading_rank";
  if (!facts.on_gpu && facts.num_workers > facts.cores && !starved)
    return {before,
            {std::to_string(facts.cores)},
            fmt::format("{} loader workers share {} core{} with the training steps",
                        facts.num_workers, facts.cores, plural(facts.cores))};
  if (!starved) return no_values("steps do not wait for data");
  if (facts.num_workers >= most)
    return no_values(fmt::format("already {} loader worker{} on {} core{}", facts.num_workers,
                                 plural(facts.num_workers), facts.cores, plural(facts.cores)));
  const int next = facts.num_workers == 0 ? 1 : std::min(2 * facts.num_workers, most);
  std::vector<std::string> values{std::to_string(next)};
  if (next < most) values.push_back(std::to_string(std::min(2 * next, most)));
  return {before, values,
          fmt::format("steps wait for data from {} loader worker{}", facts.num_workers,
                      plural(facts.num_workers))};
}

Offer cache(const TuneSituation& now) {
  using spec::CacheMode;
  const CacheMode mode = now.experiment.dataset.cache.mode;
  if (mode == CacheMode::automatic)
    return no_values("auto already uses the fastest cache mode that fits in memory");
  std::vector<std::string> values;
  if (mode < CacheMode::device && now.facts.on_gpu) values.emplace_back("device");
  if (mode < CacheMode::decoded) values.emplace_back("decoded");
  if (mode < CacheMode::encoded) values.emplace_back("encoded");
  if (values.empty()) return no_values("this is already the fastest cache mode");
  return {enum_name(mode), values, "cached samples are not read and decoded again in every epoch"};
}

Offer prefetch(const TuneSituation& now) {
  constexpr int kMost = 64;
  const int factor = now.facts.prefetch_factor;
  if (now.facts.num_workers == 0) return no_values("without loader workers no batch is prefetched");
  if (factor >= kMost || factor < 1)
    return no_values(fmt::format("{} batches are already prefetched", factor));
  return {text_of(now.experiment.loader.prefetch_factor),
          {std::to_string(std::min(2 * factor, kMost))},
          "more prefetched batches hide slow samples"};
}

Offer pinning(const TuneSituation& now) {
  const auto& asked = now.experiment.loader.pin_memory;
  if (!now.facts.on_gpu) return no_values("no batch is copied to a GPU");
  if (asked.value_or(true)) return no_values("batches are already in pinned memory");
  return {text_of(asked), {"true"}, "copies from pinned memory overlap with the steps"};
}

Offer threads(const TuneSituation& now) {
  const TuneFacts& facts = now.facts;
  const auto& asked = now.experiment.trainer.num_threads;
  const std::string before = text_of(asked);
  if (facts.on_gpu) return no_values("steps run on a GPU");
  if (now.verdict.cause == "spinning_threads")
    return {
        before, {"1"}, "a single thread does not compete with threads that spin while they wait"};
  if (asked.is_auto()) return no_values("auto measures the best number at the start of every run");
  std::vector<std::string> values;
  if (facts.num_threads > facts.cores) {
    values.push_back(std::to_string(facts.cores));
    if (facts.cores > 1) values.push_back(std::to_string(facts.cores / 2));
    return {before, values,
            fmt::format("{} threads per process share {} core{}", facts.num_threads, facts.cores,
                        plural(facts.cores))};
  }
  const int up = std::min(2 * facts.num_threads, facts.cores);
  const int down = facts.num_threads / 2;
  if (up > facts.num_threads && !is_starved(now)) values.push_back(std::to_string(up));
  if (down >= 1) values.push_back(std::to_string(down));
  if (values.empty()) return no_values("there is already one thread on one core");
  return {before, values,
          is_starved(now) ? "fewer compute threads leave cores for data loading"
                          : "the best number of threads depends on the model and the batch size"};
}

Offer layout(const TuneSituation& now) {
  const auto& asked = now.experiment.trainer.channels_last;
  const bool last = asked.value_or(now.facts.channels_last);
  if (!spec::may_have_convolutions(now.experiment.model))
    return no_values(fmt::format("the model '{}' has no convolutions", now.experiment.model.type));
  return {text_of(asked),
          {last ? "false" : "true"},
          asked.is_auto() ? fmt::format("auto chose channels_{}", last ? "last" : "first")
                          : "convolutions may be faster in the other memory format"};
}

Offer graphs(const TuneSituation& now) {
  const auto& asked = now.experiment.trainer.cuda_graphs;
  const bool recorded = asked.is_auto() ? now.experiment.plugins.empty() : *asked.value;
  if (!now.no_capture.empty()) return no_values(now.no_capture);
  if (recorded) return no_values("steps are already recorded as CUDA graphs");
  return {text_of(asked), {"true"}, "a CUDA graph launches all kernels of a step at once"};
}

Offer precision(const TuneSituation& now) {
  const spec::Precision asked = now.experiment.trainer.precision;
  if (asked != spec::Precision::full) return no_values("the precision is already 16-bit");
  std::vector<std::string> values{"bf16-mixed"};
  if (now.facts.on_gpu) values.emplace_back("16-mixed");
  return {enum_name(asked), values, "16-bit matrix products take less time and memory"};
}

Offer bucket(const TuneSituation& now) {
  constexpr std::array<double, 7> kSizes{1, 5, 10, 25, 50, 100, 200};
  const double size = now.experiment.distributed.bucket_cap_mb;
  if (now.facts.ranks == 1) return no_values("a single rank exchanges no gradients");
  if (now.experiment.distributed.type == spec::Strategy::local_sgd)
    return no_values("local_sgd exchanges no gradients");
  std::vector<std::string> values;
  const auto* above = std::ranges::upper_bound(kSizes, size);
  const auto* at = std::ranges::lower_bound(kSizes, size);
  if (at != kSizes.begin()) values.push_back(fmt::format("{}", *std::prev(at)));
  if (above != kSizes.end()) values.push_back(fmt::format("{}", *above));
  return {fmt::format("{}", size), values,
          "smaller buckets start the all-reduce sooner, larger ones transfer faster"};
}

Offer anomaly(const TuneSituation& now) {
  if (!now.experiment.trainer.detect_anomaly) return no_values("anomaly detection is already off");
  return {
      "true", {"false"}, "anomaly detection checks every operation, which only debugging needs"};
}

Offer batch(const TuneSituation& now) {
  const std::int64_t size = now.experiment.loader.batch_size;
  const std::int64_t samples = now.facts.train_samples;
  if (samples > 0 && 2 * size * now.facts.ranks > samples)
    return no_values("the training data has too few samples for a larger batch");
  return {fmt::format("{}", size),
          {fmt::format("{}", 2 * size)},
          "half as many steps have half the fixed costs, but the training changes"};
}

Offer longer_interval(const TuneSituation& now, std::int64_t every, const char* what) {
  const std::int64_t most = now.experiment.trainer.epoch_limit().value_or(1 << 20);
  if (!now.whole_epochs)
    return no_values("the shortened epochs of the compared runs overstate the gain");
  // The epochs of short runs are too few for a longer interval.
  if (every > 1) return no_values(fmt::format("the interval is already {} epochs", every));
  if (2 * every > most) return no_values("the experiment has too few epochs");
  return {fmt::format("{}", every),
          {fmt::format("{}", 2 * every)},
          fmt::format("{} half as often", what)};
}

Offer validation(const TuneSituation& now) {
  return longer_interval(now, now.experiment.trainer.check_val_every_n_epoch, "run validation");
}

Offer saving(const TuneSituation& now) {
  return longer_interval(now, now.experiment.checkpoint.every_n_epochs, "save checkpoints");
}

struct KnownKey {
  std::string_view name;
  Offer (*offer)(const TuneSituation& now);
  LossRule rule = LossRule::same;
};

constexpr std::array kKeys{KnownKey{kWorkers, workers},
                           KnownKey{kCache, cache},
                           KnownKey{kPrefetch, prefetch},
                           KnownKey{kPin, pinning},
                           KnownKey{kThreads, threads, LossRule::near},
                           KnownKey{kLayout, layout, LossRule::near},
                           KnownKey{kGraphs, graphs, LossRule::near},
                           KnownKey{kPrecision, precision, LossRule::near},
                           KnownKey{kAnomaly, anomaly, LossRule::near},
                           KnownKey{kBucket, bucket, LossRule::near},
                           KnownKey{kBatch, batch, LossRule::other},
                           KnownKey{kValidation, validation},
                           KnownKey{kSaving, saving}};

const KnownKey* find_key(std::string_view name) {
  const auto* key = std::ranges::find(kKeys, name, &KnownKey::name);
  return key == kKeys.end() ? nullptr : key;
}

struct VerdictKeys {
  std::string_view verdict;
  std::array<const char*, 8> keys{};  // null: no further key
};

/// The table of rules: for each verdict the keys that may help, the most promising first.
constexpr std::array kVerdicts{
    VerdictKeys{"input_bound", {kWorkers, kCache, kPrefetch, kThreads}},
    VerdictKeys{"transfer_bound", {kPin, kCache, kPrefetch, kWorkers}},
    VerdictKeys{"communication_bound", {kBucket, kThreads, kBatch, kPrecision}},
    VerdictKeys{"checkpoint_bound", {kSaving}},
    VerdictKeys{"evaluation_bound", {kValidation, kWorkers, kThreads}},
    VerdictKeys{"compute_bound", {kThreads, kLayout, kPrecision, kGraphs, kBatch}},
    VerdictKeys{"optimizer_bound", {kThreads, kGraphs, kBatch}},
    VerdictKeys{"host_bound", {kGraphs, kThreads, kBatch, kWorkers}},
    VerdictKeys{"balanced", {kThreads, kWorkers, kLayout, kGraphs, kPrecision, kBucket, kBatch}}};

std::string last_word(std::string_view key) { return std::string(key.substr(key.rfind('.') + 1)); }

std::string suggested_key(const report::TuneVerdict& verdict) {
  return verdict.setting.substr(0, verdict.setting.find('='));
}

std::string suggested_value(const report::TuneVerdict& verdict) {
  const std::size_t sign = verdict.setting.find('=');
  return sign == std::string::npos ? "" : verdict.setting.substr(sign + 1);
}

/// Returns the keys that the rule of the verdict's cause changes, as the rule names them, including
/// keys that tune does not know.
std::vector<std::string> keys_of_cause(const std::string& cause) {
  const auto all = report::rules();
  const auto rule = std::ranges::find(all, cause, &report::Rule::cause);
  std::vector<std::string> keys;
  if (rule == all.end()) return keys;
  for (const std::string& key : split(rule->key, ','))
    keys.push_back(key.substr(std::min(key.find_first_not_of(' '), key.size())));
  return keys;
}

/// Returns the keys to try in order: debugging that was left on and too many threads first,
/// whatever the verdict; then the key that the verdict suggests, the keys of its cause, and its
/// other keys.
std::vector<std::string> keys_of(const TuneSituation& now) {
  if (is_slow_rank(now.verdict)) return {};
  const auto* row = std::ranges::find(kVerdicts, now.verdict.name, &VerdictKeys::verdict);
  if (row == kVerdicts.end())
    row = std::ranges::find(kVerdicts, std::string_view("balanced"), &VerdictKeys::verdict);
  std::vector<std::string> keys;
  for (const char* key : row->keys) {
    if (key != nullptr) keys.emplace_back(key);
  }
  const auto to_front = [&](const std::string& key) {
    if (find_key(key) == nullptr) return;
    std::erase(keys, key);
    keys.insert(keys.begin(), key);
  };
  std::vector<std::string> of_cause = keys_of_cause(now.verdict.cause);
  std::ranges::reverse(of_cause);
  for (const std::string& key : of_cause) to_front(key);
  to_front(suggested_key(now.verdict));
  const bool crowded = !now.facts.on_gpu && now.facts.num_threads > now.facts.cores;
  if (crowded && !now.experiment.trainer.num_threads.is_auto()) to_front(kThreads);
  if (now.experiment.trainer.detect_anomaly) to_front(kAnomaly);
  return keys;
}

/// Moves the value that the verdict suggests to the front. An offer without values keeps its
/// reason.
void try_first(Offer& offer, const std::string& value) {
  if (offer.values.empty() || value.empty() || value == offer.before) return;
  std::erase(offer.values, value);
  offer.values.insert(offer.values.begin(), value);
}

/// Returns why no value of the key may be tried; empty if values may be tried.
std::string reason_to_skip(const std::string& key, const TuneSituation& now) {
  constexpr std::array kWaitKeys{kWorkers, kCache, kPrefetch, kPin};
  const auto& restricted = keys_to_allow();
  const bool needs_permission = std::ranges::find(restricted, key) != restricted.end();
  if (needs_permission && !now.allowed.contains(key))  // two keys end in every_n_epochs
    return fmt::format("this changes the training or its checkpoints; try it with --allow {}",
                       key == kSaving ? key : last_word(key));
  if (holds(kWaitKeys, key) && now.verdict.headroom < kWorthHeadroom && !is_starved(now))
    return fmt::format("without any waits and overhead, the run would be only {:.2f}x as fast",
                       now.verdict.headroom);
  return {};
}

void add_pack_advice(const TuneSituation& now, TuneCandidates& found) {
  constexpr std::array kFiles{"image_folder", "image_list", "webdataset"};
  const spec::Dataset& data = now.experiment.dataset;
  if (!is_starved(now) || !holds(kFiles, data.train.dataset.type)) return;
  found.advice.emplace_back(
      "'trainctl data pack CONFIG --out FILE --mode raw' stores decoded images for all later runs; "
      "tune did not try this, because it writes a file");
}

void add_advice(const TuneSituation& now, TuneCandidates& found) {
  if (is_slow_rank(now.verdict))
    found.advice.push_back(fmt::format(
        "one rank takes {:.0f} % longer than the median rank, and all others wait for it: "
        "check its machine for slow hardware and other processes; no setting fixes this",
        100 * now.facts.slowest_delay));
  const std::string key = suggested_key(now.verdict);
  const bool is_remedy = now.verdict.name == "checkpoint_bound" ||
                         now.verdict.name == "evaluation_bound" ||
                         (!key.empty() && find_key(key) == nullptr);
  if (is_remedy && !now.verdict.advice.empty()) found.advice.push_back(now.verdict.advice);
  if (!now.facts.environment.empty())
    found.advice.push_back(
        fmt::format("{} is set and slows down every run: unset it", now.facts.environment));
  add_pack_advice(now, found);
}

}  // namespace

const std::vector<std::string>& keys_to_allow() {
  static const std::vector<std::string> keys{kBatch, kPrecision, kValidation, kSaving};
  return keys;
}

std::set<std::string> allowed_keys(std::string_view list) {
  std::set<std::string> allowed;
  if (list.empty()) return allowed;
  for (const std::string& word : split(list, ',')) {
    const auto key = std::ranges::find_if(keys_to_allow(), [&](const std::string& each) {
      return each == word || last_word(each) == word;
    });
    ENSURE(config, key != keys_to_allow().end(), "--allow must be one of {}, got '{}'",
           fmt::join(keys_to_allow(), ", "), printable(word));
    allowed.insert(*key);
  }
  return allowed;
}

LossRule loss_rule_of(std::string_view key) {
  const KnownKey* known = find_key(key);
  return known == nullptr ? LossRule::same : known->rule;
}

bool is_interval_key(std::string_view key) { return key == kValidation || key == kSaving; }

bool is_slow_rank(const report::TuneVerdict& verdict) { return verdict.cause == "slow_rank"; }

TuneCandidates tune_candidates(const TuneSituation& situation) {
  TuneCandidates found;
  for (const std::string& key : keys_of(situation)) {
    Offer offer = find_key(key)->offer(situation);
    if (key == suggested_key(situation.verdict))
      try_first(offer, suggested_value(situation.verdict));
    if (const std::string why = reason_to_skip(key, situation); !why.empty())
      offer = no_values(why);
    if (offer.values.empty()) found.untried.push_back({key, "", offer.none});
    for (const std::string& value : offer.values)
      found.tries.push_back({{key, offer.before, value}, offer.reason, loss_rule_of(key)});
  }
  add_advice(situation, found);
  return found;
}

std::optional<TuneCandidate> suggested_candidate(const TuneSituation& now,
                                                 const TuneCandidates& found) {
  constexpr std::array kFurther{"checkpoint.async", "loader.read_ahead"};
  const std::string key = suggested_key(now.verdict);
  if (key.size() == now.verdict.setting.size()) return std::nullopt;
  TuneCandidate one{
      .change = {.key = key, .before = "unset", .value = suggested_value(now.verdict)},
      .reason = now.verdict.advice,
      .rule = loss_rule_of(key)};
  const auto same = [&](const TuneCandidate& each) { return each.change.key == one.change.key; };
  if (const auto known = std::ranges::find_if(found.tries, same); known != found.tries.end()) {
    one.change.before = known->change.before;
    return one;
  }
  const bool is_of_saving = one.change.key.starts_with("checkpoint.");
  // Saves weigh more in shortened epochs.
  if (is_of_saving && !now.whole_epochs) return std::nullopt;
  if (!holds(kFurther, one.change.key)) return std::nullopt;
  one.change.before = is_of_saving ? "false" : "0";
  return one;
}

}  // namespace trainctl::study
