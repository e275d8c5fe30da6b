#include "study/tune/candidates.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "report/diagnosis/bottleneck_rules.hpp"
#include "study/tune/candidate_values.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

namespace trainctl::study {
namespace {

using namespace tune_keys;

constexpr double kWorthHeadroom = 1.03;  // below it waits are not worth a run

struct KeysOf {
  std::string_view verdict;
  std::array<const char*, 8> keys{};  // null: no further
};

/// The table: a verdict, and the keys that may help, the likeliest first.
constexpr std::array kVerdicts{
    KeysOf{"input_bound", {kWorkers, kCache, kPrefetch, kThreads}},
    KeysOf{"transfer_bound", {kPin, kCache, kPrefetch, kWorkers}},
    KeysOf{"communication_bound", {kBucket, kThreads, kBatch, kPrecision}},
    KeysOf{"checkpoint_bound", {kSaving}},
    KeysOf{"evaluation_bound", {kValidation, kWorkers, kThreads}},
    KeysOf{"compute_bound", {kThreads, kLayout, kPrecision, kGraphs, kBatch}},
    KeysOf{"optimizer_bound", {kThreads, kGraphs, kBatch}},
    KeysOf{"host_bound", {kGraphs, kThreads, kBatch, kWorkers}},
    KeysOf{"balanced", {kThreads, kWorkers, kLayout, kGraphs, kPrecision, kBucket, kBatch}}};

constexpr std::array kAllKeys{kWorkers, kCache,      kPrefetch,  kPin,     kThreads,
                              kLayout,  kGraphs,     kPrecision, kAnomaly, kBucket,
                              kBatch,   kValidation, kSaving};
constexpr std::array kWaitKeys{kWorkers, kCache, kPrefetch, kPin};

std::string last_word(std::string_view key) { return std::string(key.substr(key.rfind('.') + 1)); }

/// As the user writes it: the last word, but where that is the end of two keys.
std::string short_name(std::string_view key) {
  return key == kSaving ? std::string(key) : last_word(key);
}

bool wants_leave(std::string_view key) {
  return std::ranges::find(keys_to_allow(), key) != keys_to_allow().end();
}

/// "KEY=VALUE" of the verdict.
std::string proposed_key(const report::TuneVerdict& verdict) {
  return verdict.setting.substr(0, verdict.setting.find('='));
}

std::string proposed_value(const report::TuneVerdict& verdict) {
  const std::size_t sign = verdict.setting.find('=');
  return sign == std::string::npos ? "" : verdict.setting.substr(sign + 1);
}

/// What the rule of the verdict's cause changes, in its words; also keys that tune does not know.
std::vector<std::string> keys_of_cause(const std::string& cause) {
  const auto all = report::rules();
  const auto rule = std::ranges::find(all, cause, &report::Rule::cause);
  std::vector<std::string> keys;
  if (rule == all.end()) return keys;
  for (const std::string& key : split(rule->key, ','))
    keys.push_back(key.substr(std::min(key.find_first_not_of(' '), key.size())));
  return keys;
}

/// Those of the cause come before the other keys of the verdict, and the one that the verdict
/// proposes before them; debugging that was left on and too many threads before all, whatever the
/// verdict.
std::vector<std::string> keys_of(const TuneSituation& now) {
  if (is_slow_rank(now.verdict)) return {};
  const auto* row = std::ranges::find(kVerdicts, now.verdict.name, &KeysOf::verdict);
  if (row == kVerdicts.end())
    row = std::ranges::find(kVerdicts, std::string_view("balanced"), &KeysOf::verdict);
  std::vector<std::string> keys;
  for (const char* key : row->keys) {
    if (key != nullptr) keys.emplace_back(key);
  }
  const auto to_front = [&](const std::string& key) {
    if (!holds(kAllKeys, key)) return;
    std::erase(keys, key);
    keys.insert(keys.begin(), key);
  };
  std::vector<std::string> of_cause = keys_of_cause(now.verdict.cause);
  std::ranges::reverse(of_cause);
  for (const std::string& key : of_cause) to_front(key);
  to_front(proposed_key(now.verdict));
  const bool crowded = !now.facts.on_gpu && now.facts.num_threads > now.facts.cores;
  if (crowded && !now.experiment.trainer.num_threads.is_auto()) to_front(kThreads);
  if (now.experiment.trainer.detect_anomaly) to_front(kAnomaly);
  return keys;
}

/// The value that the verdict proposes comes first. A key that offers none keeps its reason.
void propose(Offer& offer, const std::string& value) {
  if (offer.values.empty() || value.empty() || value == offer.before) return;
  std::erase(offer.values, value);
  offer.values.insert(offer.values.begin(), value);
}

/// Why none of the key is tried, before its values are looked at.
std::string barred(const std::string& key, const TuneSituation& now) {
  if (wants_leave(key) && !now.allowed.contains(key))
    return fmt::format("it changes the training or what is kept of it: --allow {}",
                       short_name(key));
  if (holds(kWaitKeys, key) && now.verdict.headroom < kWorthHeadroom && !is_starved(now))
    return fmt::format("all waits and overhead gone would give {:.2f}x", now.verdict.headroom);
  return {};
}

void add_pack_advice(const TuneSituation& now, TuneCandidates& found) {
  constexpr std::array kFiles{"image_folder", "image_list", "webdataset"};
  const spec::Dataset& data = now.experiment.dataset;
  if (!is_starved(now) || !holds(kFiles, data.train.dataset.type)) return;
  found.advice.emplace_back(
      "not tried, since it writes a file: 'trainctl data pack CONFIG --out FILE --mode raw' keeps "
      "decoded images for all later runs");
}

void add_advice(const TuneSituation& now, TuneCandidates& found) {
  if (is_slow_rank(now.verdict))
    found.advice.push_back(
        fmt::format("one rank takes {:.0f} % longer than the median and the others wait for it: "
                    "look at its machine and at what it runs besides; no key of the file mends it",
                    100 * now.facts.behind));
  const std::string key = proposed_key(now.verdict);
  const bool is_cure = now.verdict.name == "checkpoint_bound" ||
                       now.verdict.name == "evaluation_bound" ||
                       (!key.empty() && !holds(kAllKeys, key));
  if (is_cure && !now.verdict.advice.empty()) found.advice.push_back(now.verdict.advice);
  if (!now.facts.environment.empty())
    found.advice.push_back(
        fmt::format("{} is set and slows every run down: unset it", now.facts.environment));
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
    ENSURE(config, key != keys_to_allow().end(),
           "--allow: '{}' is none of the keys that need it: {}", printable(word),
           fmt::join(keys_to_allow(), ", "));
    allowed.insert(*key);
  }
  return allowed;
}

LossRule loss_rule_of(std::string_view key) {
  constexpr std::array kNear{kThreads, kLayout, kGraphs, kPrecision, kBucket, kAnomaly};
  if (key == kBatch) return LossRule::other;
  return holds(kNear, key) ? LossRule::near : LossRule::same;
}

bool is_cadence(std::string_view key) { return key == kValidation || key == kSaving; }

bool is_slow_rank(const report::TuneVerdict& verdict) { return verdict.cause == "slow_rank"; }

TuneCandidates tune_candidates(const TuneSituation& situation) {
  TuneCandidates found;
  for (const std::string& key : keys_of(situation)) {
    Offer offer = offer_of(key, situation);
    if (key == proposed_key(situation.verdict)) propose(offer, proposed_value(situation.verdict));
    if (const std::string why = barred(key, situation); !why.empty()) offer = Offer{.none = why};
    if (offer.values.empty()) found.left_out.push_back({key, "", offer.none});
    for (const std::string& value : offer.values)
      found.tries.push_back({{key, offer.before, value}, offer.reason, loss_rule_of(key)});
  }
  add_advice(situation, found);
  return found;
}

namespace {

bool is_of_saving(std::string_view key) { return key.starts_with("checkpoint."); }

}  // namespace

std::optional<TuneCandidate> proposed(const TuneSituation& now, const TuneCandidates& found) {
  constexpr std::array kFurther{"checkpoint.async", "loader.read_ahead"};
  const std::string& setting = now.verdict.setting;
  const std::size_t equals = setting.find('=');
  if (equals == std::string::npos) return std::nullopt;
  TuneCandidate one{.change = {.key = setting.substr(0, equals),
                               .before = "unset",
                               .value = setting.substr(equals + 1)},
                    .reason = now.verdict.advice,
                    .rule = loss_rule_of(setting.substr(0, equals))};
  const auto same = [&](const TuneCandidate& each) { return each.change.key == one.change.key; };
  if (const auto known = std::ranges::find_if(found.tries, same); known != found.tries.end()) {
    one.change.before = known->change.before;
    return one;
  }
  // Saves weigh more in epochs that are shortened.
  if (is_of_saving(one.change.key) && !now.whole_epochs) return std::nullopt;
  if (std::ranges::find(kFurther, std::string_view(one.change.key)) == kFurther.end())
    return std::nullopt;
  one.change.before = is_of_saving(one.change.key) ? "false" : "0";
  return one;
}

}  // namespace trainctl::study
